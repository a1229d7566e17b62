//! What builds leave behind: which are running, which can be continued, which are only in the way.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build::clear_build_folder;
use crate::build_lock::{BuildLock, CACHE_FOLDER, Holder, LockAttempt, build_folders, holder_of};
use crate::error::StoreError;
use crate::journal::read_journal;
use crate::manifest::Manifest;

/// One build directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildStatus {
    /// The directory.
    pub path: PathBuf,
    /// Name of the source, if the directory says so.
    pub name: Option<String>,
    /// Who builds, or built, as far as the lock file says.
    pub holder: Option<Holder>,
    /// Whether the builder is alive.
    pub is_active: bool,
    /// Samples in sealed shards, from which a source with `iter_from` would continue.
    pub kept_samples: u64,
    /// Bytes of all files in the directory.
    pub bytes: u64,
}

/// Which abandoned builds to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// Those that no build can continue.
    Useless,
    /// All of them.
    All,
}

/// Lists the build directories among the caches in `base`.
pub fn list_builds(base: &Path) -> Result<Vec<BuildStatus>, StoreError> {
    let folders = build_folders(base)?;
    Ok(folders.iter().map(|folder| status_of(folder)).collect())
}

/// Removes abandoned builds from `base`, and says which.
///
/// A build whose process lives is left alone, and so is one that cannot be locked.
pub fn reclaim_builds(base: &Path, which: Reclaim) -> Result<Vec<BuildStatus>, StoreError> {
    let mut reclaimed = Vec::new();
    let mut failure = None;
    for folder in build_folders(base)? {
        let status = status_of(&folder);
        if status.is_active {
            continue;
        }
        match reclaim(&folder, which) {
            Ok(true) => reclaimed.push(status),
            Ok(false) => {}
            // The others are removed all the same.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(reclaimed), Err)
}

fn reclaim(folder: &Path, which: Reclaim) -> Result<bool, StoreError> {
    let LockAttempt::Acquired(_lock) = BuildLock::try_acquire_folder(folder)? else {
        return Ok(false);
    };
    // Looked at now that nobody else can begin with it.
    let goes = which == Reclaim::All || is_useless(folder)?;
    if goes {
        clear_build_folder(folder)?;
    }
    Ok(goes)
}

fn status_of(folder: &Path) -> BuildStatus {
    let (is_active, holder) = holder_of(folder);
    // A journal that cannot be read now says nothing here.
    let journal = read_journal(folder).ok().flatten();
    let name = holder.as_ref().map(|holder| holder.name.clone());
    BuildStatus {
        path: folder.to_owned(),
        name: name.or_else(|| {
            let contents = journal.as_ref()?;
            Some(contents.header.identity.name.clone())
        }),
        holder,
        is_active,
        kept_samples: journal
            .as_ref()
            .and_then(|contents| contents.sealed.last())
            .map_or(0, |(sealed, _)| sealed.samples()),
        bytes: tree_bytes(folder),
    }
}

/// Says whether nothing in a build directory is worth keeping: no shard is sealed, or the cache that
/// it was for is finished.
fn is_useless(folder: &Path) -> Result<bool, StoreError> {
    let cache = folder.join(CACHE_FOLDER);
    match cache.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(true),
        Err(error) => return Err(StoreError::io("examine", cache)(error)),
    }
    let journal = read_journal(folder)?;
    let Some(contents) = journal.filter(|contents| !contents.sealed.is_empty()) else {
        return Ok(true);
    };
    let identity = contents.header.identity;
    let finished = folder.parent().unwrap_or(folder).join(&identity.name);
    // A stale cache stays until its successor is complete, so only the fingerprint tells them apart.
    Ok(Manifest::read(&finished).is_ok_and(|manifest| {
        manifest.fingerprint.map(|text| text.get().to_owned()) == identity.fingerprint
    }))
}

/// Files that cannot be looked at, as they may be just going, count nothing.
fn tree_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => tree_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
