//! Which process builds a cache: a directory with a lock that the system releases when its holder dies.
//!
//! The lock is a record lock of an open file (`F_OFD_SETLK`). It works on network file systems where
//! `flock` does not, and it lasts until its file is closed: unlike older record locks it does not
//! depend on what else the process does with the file. Children that the process forks share it, so
//! a cache waits for those that outlive a killed builder.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::name::SourceName;

/// Build directories begin with this, and sixteen hexadecimal digits follow; source names never
/// begin with a dot.
const FOLDER_PREFIX: &str = ".building-";
const FOLDER_DIGITS: usize = 16;
pub(crate) const LOCK_FILE: &str = "lock";
/// The cache being built, inside the build directory.
pub(crate) const CACHE_FOLDER: &str = "cache";
/// The lock file holds one short line; more is not read.
const MAX_HOLDER_BYTES: u64 = 4096;
/// A directory that comes and goes this often while it is being locked is none of ours.
const MAX_ATTEMPTS: usize = 1000;

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
    /// Holds the system's lock.
    file: File,
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
        Self::try_lock(folder, Some(&holder))
    }

    /// Tries to lock a build directory that exists, to see to what its builder left behind.
    pub(crate) fn try_acquire_folder(folder: &Path) -> Result<LockAttempt, StoreError> {
        Self::try_lock(folder.to_owned(), None)
    }

    fn try_lock(folder: PathBuf, holder: Option<&Holder>) -> Result<LockAttempt, StoreError> {
        let lock_path = folder.join(LOCK_FILE);
        for _ in 0..MAX_ATTEMPTS {
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
            let is_locked =
                set_lock(&file, LockKind::Exclusive).map_err(|source| StoreError::NoLocks {
                    path: folder.clone(),
                    source,
                })?;
            if !is_locked {
                return Ok(LockAttempt::Held(read_holder(&mut file)));
            }
            // The lock may be that of a file which its last holder removed before it let go.
            if !is_same_file(&file, &lock_path)? {
                continue;
            }
            if let Some(holder) = holder {
                write_holder(&mut file, holder).map_err(StoreError::io("write", &lock_path))?;
            }
            return Ok(LockAttempt::Acquired(Self {
                folder,
                file,
                process: std::process::id(),
            }));
        }
        Err(StoreError::io("lock", folder)(io::Error::other(
            "it comes and goes, or is no directory",
        )))
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

    /// Says whether this is the process that took the lock, not a child that it forked.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// The process that took the lock.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Makes sure that nobody has removed the build directory, and perhaps made another one.
    pub(crate) fn require_in_place(&self) -> Result<(), StoreError> {
        if is_same_file(&self.file, &self.folder.join(LOCK_FILE))? {
            return Ok(());
        }
        Err(StoreError::BuildRemoved {
            path: self.folder.clone(),
        })
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        // If nothing was kept, the lock file goes while the lock is still held, and the directory
        // with it. A process that opened the file in time finds that it is gone and begins anew.
        let is_in_place = self.require_in_place().is_ok();
        let is_empty = fs::read_dir(&self.folder).is_ok_and(|entries| {
            entries
                .flatten()
                .all(|entry| entry.file_name() == LOCK_FILE)
        });
        if is_in_place && is_empty {
            let _ = fs::remove_file(self.folder.join(LOCK_FILE));
            let _ = fs::remove_dir(&self.folder);
        }
        // Closing the file would not do while a forked child has it open.
        let _ = set_lock(&self.file, LockKind::None);
    }
}

/// The directory where the cache of this source is built.
fn build_folder(base: &Path, name: &SourceName) -> Result<PathBuf, StoreError> {
    let base = fs::canonicalize(base).map_err(StoreError::io("resolve", base))?;
    Ok(base.join(format!("{FOLDER_PREFIX}{:016x}", name.cache_id())))
}

/// All build directories in a directory of caches, in order of name. What only looks like one, by
/// its name or as a link, is none.
pub(crate) fn build_folders(base: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let base = fs::canonicalize(base).map_err(StoreError::io("resolve", base))?;
    let entries = fs::read_dir(&base).map_err(StoreError::io("read", &base))?;
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", &base))?;
        let is_name = entry.file_name().to_str().is_some_and(|name| {
            name.strip_prefix(FOLDER_PREFIX).is_some_and(|digits| {
                digits.len() == FOLDER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        });
        if is_name && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// Says whether the lock of a build directory is held now, and what its file says; takes no lock.
pub(crate) fn holder_of(folder: &Path) -> (bool, Option<Holder>) {
    let Ok(mut file) = File::open(folder.join(LOCK_FILE)) else {
        return (false, None);
    };
    let mut lock = whole_file(LockKind::Exclusive);
    let is_held = fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok()
        && i32::from(lock.l_type) != libc::F_UNLCK;
    (is_held, read_holder(&mut file))
}

/// What to do with a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockKind {
    Exclusive,
    None,
}

/// Takes or releases the lock of an open file; says `false` if another has it.
fn set_lock(file: &File, kind: LockKind) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(kind))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn whole_file(kind: LockKind) -> libc::flock {
    let lock_type = match kind {
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::None => libc::F_UNLCK,
    };
    libc::flock {
        l_type: lock_type as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
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
