//! Payload files read with positioned reads, with few of them open at a time.
//!
//! Each file owns its descriptor, so it goes with the file. One list for the whole process says which
//! are open, so their number does not grow with shards, caches or datasets. A reader that finds the
//! list locked opens the file for itself: no thread waits, and a child forked while a thread held
//! the lock goes on.

use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use rustix::fs::{Advice, fadvise};

use crate::error::StoreError;
use crate::files::metadata_of_length;

/// Files that stay open, the least recently used making room.
const MAX_OPEN_FILES: usize = 32;

/// The descriptor of one payload file, while it is open.
type Descriptor = Mutex<Option<Arc<File>>>;

/// Files that were open when they were last used, the latest at the end.
static OPEN_FILES: Mutex<Vec<Weak<Descriptor>>> = Mutex::new(Vec::new());

/// One payload file that is opened when it is needed.
#[derive(Debug)]
pub(crate) struct PayloadFile {
    path: PathBuf,
    descriptor: Arc<Descriptor>,
    /// Device and inode: whether the file behind the path is still the one that was found first.
    place: (u64, u64),
}

impl PayloadFile {
    /// Checks that the file is there and has the expected length.
    pub(crate) fn new(path: &Path, expected_bytes: u64) -> Result<Self, StoreError> {
        let metadata = metadata_of_length(path, expected_bytes)?;
        Ok(Self {
            path: path.to_owned(),
            descriptor: Arc::default(),
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
        if let Some(file) = lock_if_free(&self.descriptor).and_then(|open| open.clone()) {
            if let Some(mut files) = lock_if_free(&OPEN_FILES)
                && let Some(place) = files.iter().position(|other| self.owns(other))
            {
                files[place..].rotate_left(1);
            }
            return Ok(file);
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
        // Another thread may have opened it meanwhile; then that one is kept.
        if let Some(mut open) = lock_if_free(&self.descriptor)
            && open.is_none()
            && let Some(mut files) = lock_if_free(&OPEN_FILES)
        {
            files.retain(|other| other.strong_count() > 0);
            if make_room(&mut files) {
                files.push(Arc::downgrade(&self.descriptor));
                *open = Some(Arc::clone(&file));
            }
        }
        Ok(file)
    }

    fn owns(&self, descriptor: &Weak<Descriptor>) -> bool {
        ptr::eq(descriptor.as_ptr(), Arc::as_ptr(&self.descriptor))
    }
}

/// Closes the file that was not used for longest, if there are too many; says whether there is room.
fn make_room(files: &mut Vec<Weak<Descriptor>>) -> bool {
    if files.len() < MAX_OPEN_FILES {
        return true;
    }
    // One that is locked is just being used.
    let closed = files.iter().position(|other| {
        other.upgrade().is_none_or(|descriptor| {
            lock_if_free(&descriptor)
                .map(|mut open| *open = None)
                .is_some()
        })
    });
    closed.map(|place| files.remove(place)).is_some()
}

fn place_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn lock_if_free<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
