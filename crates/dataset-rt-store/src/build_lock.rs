//! Which process builds a cache: a directory with a lock that the system releases when its holder dies.
//!
//! The lock is a POSIX record lock (`fcntl`). It goes with its process, is not inherited by children
//! that the process forked, and works on network file systems where `flock` does not. The system
//! forgets it when any descriptor of the file is closed in the process, and does not tell the threads
//! of one process apart; hence the list of locks that this process holds, which is asked first.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::name::SourceName;

/// Build directories begin with this; source names never begin with a dot.
const FOLDER_PREFIX: &str = ".building-";
const LOCK_FILE: &str = "lock";
/// The cache being built, inside the build directory.
pub(crate) const CACHE_FOLDER: &str = "cache";
/// The lock file holds one short line; more is not read.
const MAX_HOLDER_BYTES: u64 = 4096;

/// Build directories that this process holds.
static HELD: LazyLock<Mutex<HeldLocks>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct HeldLocks {
    /// A forked child has another id, and holds none of them.
    process: u32,
    holders: HashMap<PathBuf, Option<Holder>>,
}

/// Who builds a cache, as far as the lock file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the source.
    pub name: String,
    /// Process id.
    pub process: u32,
    /// Name of its machine.
    pub host: String,
}

/// What came of asking for a lock.
#[derive(Debug)]
pub enum LockAttempt {
    /// This process builds.
    Acquired(BuildLock),
    /// Another process, or another thread of this one, builds.
    Held(Option<Holder>),
}

/// The right to build one cache, until it is dropped.
#[derive(Debug)]
pub struct BuildLock {
    folder: PathBuf,
    /// Holds the system's lock as long as it is open.
    _file: File,
    process: u32,
}

impl BuildLock {
    /// Tries to become the builder of `<base>/<name>`; the base directory exists.
    pub fn try_acquire(base: &Path, name: &SourceName) -> Result<LockAttempt, StoreError> {
        let folder = build_folder(base, name)?;
        let holder = Holder {
            name: name.as_str().to_owned(),
            process: std::process::id(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        };
        Self::try_lock(folder, Some(holder))
    }

    /// Tries to lock a build directory that exists, to see to what its builder left behind.
    pub(crate) fn try_acquire_folder(folder: &Path) -> Result<LockAttempt, StoreError> {
        Self::try_lock(folder.to_owned(), None)
    }

    fn try_lock(folder: PathBuf, holder: Option<Holder>) -> Result<LockAttempt, StoreError> {
        let lock_path = folder.join(LOCK_FILE);
        let mut held = lock_held();
        loop {
            if let Some(holder) = held.holders.get(&folder) {
                return Ok(LockAttempt::Held(holder.clone()));
            }
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::io("create", folder)(error));
                }
                _ => {}
            }
            let opened = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&lock_path);
            let mut file = match opened {
                Ok(file) => file,
                // Whoever held it has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("create", lock_path)(error)),
            };
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::ACCESS) => {
                    return Ok(LockAttempt::Held(read_holder(&mut file)));
                }
                Err(error) => {
                    return Err(StoreError::NoLocks {
                        path: folder,
                        source: error.into(),
                    });
                }
            }
            // The lock may be that of a file which its last holder removed before it let go.
            if !is_same_file(&file, &lock_path)? {
                continue;
            }
            if let Some(holder) = &holder {
                write_holder(&mut file, holder).map_err(StoreError::io("write", &lock_path))?;
            }
            held.holders.insert(folder.clone(), holder);
            return Ok(LockAttempt::Acquired(Self {
                folder,
                _file: file,
                process: std::process::id(),
            }));
        }
    }

    /// The build directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The cache being built.
    pub(crate) fn cache_folder(&self) -> PathBuf {
        self.folder.join(CACHE_FOLDER)
    }

    /// The directory of finished caches.
    pub(crate) fn base(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Says whether this is the process that holds the lock, not a child that it forked.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let mut held = lock_held();
        // The lock file goes while the lock is still held, and with it the directory if nothing was
        // kept in it. A process that opened the file in time finds that it is gone and begins anew.
        let _ = fs::remove_file(self.folder.join(LOCK_FILE));
        let _ = fs::remove_dir(&self.folder);
        held.holders.remove(&self.folder);
    }
}

/// The directory where the cache of this source is built.
fn build_folder(base: &Path, name: &SourceName) -> Result<PathBuf, StoreError> {
    let base = fs::canonicalize(base).map_err(StoreError::io("resolve", base))?;
    Ok(base.join(format!("{FOLDER_PREFIX}{:016x}", name.cache_id())))
}

/// All build directories in a directory of caches, in order of name.
pub(crate) fn build_folders(base: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let base = fs::canonicalize(base).map_err(StoreError::io("resolve", base))?;
    let entries = fs::read_dir(&base).map_err(StoreError::io("read", &base))?;
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", &base))?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(FOLDER_PREFIX))
        {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// Who holds the lock of a build directory now, and what the lock file says; takes no lock.
pub(crate) fn holder_of(folder: &Path) -> (bool, Option<Holder>) {
    // Opening and closing the file would give up a lock of this process.
    let held = lock_held();
    if let Some(holder) = held.holders.get(folder) {
        return (true, holder.clone());
    }
    let Ok(mut file) = File::open(folder.join(LOCK_FILE)) else {
        return (false, None);
    };
    let is_held =
        fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).is_ok_and(|holder| holder.is_some());
    (is_held, read_holder(&mut file))
}

fn lock_held() -> MutexGuard<'static, HeldLocks> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if held.process != process {
        *held = HeldLocks {
            process,
            holders: HashMap::new(),
        };
    }
    held
}

fn is_same_file(file: &File, path: &Path) -> Result<bool, StoreError> {
    let open = file.metadata().map_err(StoreError::io("examine", path))?;
    Ok(
        fs::metadata(path)
            .is_ok_and(|found| found.ino() == open.ino() && found.dev() == open.dev()),
    )
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_string(holder).map_err(io::Error::other)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

/// What the lock file says; the text may be on its way, or that of an earlier holder.
fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
