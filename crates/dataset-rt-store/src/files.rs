//! File operations of the writer, each with an error that names the path.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::StoreError;

/// What the system says of a file of a cache, which is there and has the length in its manifest.
pub(crate) fn metadata_of_length(path: &Path, expected: u64) -> Result<Metadata, StoreError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::FileMissing {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(StoreError::io("read the length of", path)(error)),
    };
    if metadata.len() == expected {
        return Ok(metadata);
    }
    Err(StoreError::FileLength {
        path: path.to_owned(),
        expected,
        found: metadata.len(),
    })
}

/// Creates a file that must not exist yet.
pub(crate) fn create_new(path: &Path) -> Result<File, StoreError> {
    File::options()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(StoreError::io("create", path))
}

/// Makes the contents of a file durable.
pub(crate) fn sync_file(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("sync", path))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(StoreError::io("sync", path))
}

/// Creates a directory and its parents.
pub(crate) fn create_directories(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(StoreError::io("create", path))
}

/// Removes one file, if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    ignore_missing(fs::remove_file(path)).map_err(StoreError::io("remove", path))
}

/// Removes a directory and all that is in it, if it is there.
pub(crate) fn remove_tree(path: &Path) -> Result<(), StoreError> {
    ignore_missing(fs::remove_dir_all(path)).map_err(StoreError::io("remove", path))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Renames, and never replaces anything; where the file system cannot promise that, a look must do.
pub(crate) fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

/// Lets two directories change places in one step; says `false` if the file system cannot.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
