//! Payload files read with positioned reads, with few of them open at a time.
//!
//! One list of open files serves the whole process, so the number of descriptors does not grow with
//! shards, caches or datasets. A reader that finds the list locked opens the file for itself: no
//! thread waits, and a child forked while a thread held the lock goes on.

use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use rustix::fs::{Advice, fadvise};

use crate::error::StoreError;
use crate::files::metadata_of_length;

/// Files that stay open, the least recently used making room.
const MAX_OPEN_FILES: usize = 32;

/// Open files with the identities of what they were opened for, the last used at the end.
type OpenFiles = Vec<(u64, Arc<File>)>;

static OPEN_FILES: Mutex<OpenFiles> = Mutex::new(Vec::new());

/// One payload file that is opened when it is needed.
#[derive(Debug)]
pub(crate) struct PayloadFile {
    path: PathBuf,
    /// Tells the files of this process apart, also after a path was replaced.
    identity: u64,
    /// Device and inode: whether the file behind the path is still the one that was found first.
    place: (u64, u64),
}

impl PayloadFile {
    /// Checks that the file is there and has the expected length.
    pub(crate) fn new(path: &Path, expected_bytes: u64) -> Result<Self, StoreError> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        let metadata = metadata_of_length(path, expected_bytes)?;
        Ok(Self {
            path: path.to_owned(),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            place: place_of(&metadata),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let file = self.file()?;
        match file.read_exact_at(out, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(StoreError::FileShrank {
                    path: self.path.clone(),
                })
            }
            Err(error) => Err(StoreError::io("read", &self.path)(error)),
        }
    }

    /// Asks the system to begin reading these bytes of the file; it may refuse.
    pub(crate) fn advise(&self, offset: u64, bytes: u64) {
        if let Ok(file) = self.file() {
            // A refusal costs nothing but time.
            let _ = fadvise(&file, offset, NonZeroU64::new(bytes), Advice::WillNeed);
        }
    }

    fn file(&self) -> Result<Arc<File>, StoreError> {
        if let Some(mut files) = lock_if_free()
            && let Some(place) = files.iter().position(|(other, _)| *other == self.identity)
        {
            let last = files.len() - 1;
            files[place..].rotate_left(1);
            return Ok(Arc::clone(&files[last].1));
        }
        let file = Arc::new(File::open(&self.path).map_err(StoreError::io("open", &self.path))?);
        let metadata = file
            .metadata()
            .map_err(StoreError::io("examine", &self.path))?;
        if place_of(&metadata) != self.place {
            return Err(StoreError::FileReplaced {
                path: self.path.clone(),
            });
        }
        if let Some(mut files) = lock_if_free() {
            if files.len() >= MAX_OPEN_FILES {
                files.remove(0);
            }
            files.push((self.identity, Arc::clone(&file)));
        }
        Ok(file)
    }
}

fn place_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Drop for PayloadFile {
    fn drop(&mut self) {
        if let Some(mut files) = lock_if_free() {
            files.retain(|(identity, _)| *identity != self.identity);
        }
    }
}

fn lock_if_free() -> Option<MutexGuard<'static, OpenFiles>> {
    match OPEN_FILES.try_lock() {
        Ok(files) => Some(files),
        Err(TryLockError::Poisoned(files)) => Some(files.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
