//! File operations of the writer, each with an error that names the path.

use std::fs::{self, File};
use std::path::Path;

use crate::error::StoreError;

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

/// Removes one file.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(StoreError::io("remove", path))
}
