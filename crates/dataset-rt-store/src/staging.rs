//! The staging directory of a build: made beside the finished caches, published by a rename.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::StoreError;
use crate::files::{create_directories, sync_directory};
use crate::format::{MANIFEST_FILE, SHARDS_FOLDER};
use crate::name::SourceName;

/// A directory that disappears unless it is published.
#[derive(Debug)]
pub(crate) struct Staging {
    base: PathBuf,
    path: PathBuf,
    published: bool,
    /// A forked child must leave its parent's build alone.
    process: u32,
}

impl Staging {
    /// Makes the base directory if need be, and a fresh directory inside it.
    pub(crate) fn create(base: &Path, name: &SourceName) -> Result<Self, StoreError> {
        let base = std::path::absolute(base).map_err(StoreError::io("resolve", base))?;
        create_directories(&base)?;
        // The time tells builds of one process apart; a clock before 1970 gives the same zero twice
        // at worst, and then create_dir refuses.
        let nanoseconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        let process = std::process::id();
        let path = base.join(format!(
            ".staging-{:016x}-{process}-{nanoseconds}",
            name.cache_id()
        ));
        fs::create_dir(&path).map_err(StoreError::io("create", &path))?;
        let staging = Self {
            base,
            path,
            published: false,
            process,
        };
        create_directories(&staging.path.join(SHARDS_FOLDER))?;
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the finished directory to its name. If another build published the same name first,
    /// its cache stands and this one is dropped.
    pub(crate) fn publish(mut self, name: &SourceName) -> Result<PathBuf, StoreError> {
        sync_directory(&self.path.join(SHARDS_FOLDER))?;
        sync_directory(&self.path)?;
        let target = self.base.join(name.as_str());
        // Renaming a directory never replaces a directory that has entries.
        match fs::rename(&self.path, &target) {
            Ok(()) => {
                self.published = true;
                sync_directory(&self.base)?;
                Ok(target)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists
                        | io::ErrorKind::DirectoryNotEmpty
                        | io::ErrorKind::NotADirectory
                ) =>
            {
                if target.join(MANIFEST_FILE).exists() {
                    Ok(target)
                } else {
                    Err(StoreError::NameTaken { path: target })
                }
            }
            Err(error) => Err(StoreError::io("publish", target)(error)),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published && self.process == std::process::id() {
            // Nothing can be done about a failure here; what is left has a name of its own and
            // stands in nobody's way.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
