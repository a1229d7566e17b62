//! The directory of a build: what an earlier one left in it, and how it becomes a cache.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::build_lock::{BuildLock, LOCK_FILE};
use crate::checksum::entry_of;
use crate::column::Column;
use crate::compression::{Algorithm, Compression};
use crate::error::StoreError;
use crate::files::{
    create_directories, exchange, remove_file, remove_tree, rename_to_free_name, sync_directory,
    sync_file,
};
use crate::format::{
    BLOCKS_FILE, DICTIONARY_FILE, INDEX_FILE, MANIFEST_FILE, METADATA_FILE, SHARDS_FOLDER,
    shard_file,
};
use crate::journal::{
    BuildIdentity, JOURNAL_FILE, Journal, JournalContents, JournalHeader, SealedShard, read_journal,
};
use crate::manifest::{FileEntry, Manifest};
use crate::metadata_assembly::MetadataParts;
use crate::name::SourceName;
use crate::shard_writer::Written;
use crate::streams::Streams;

/// Where an old cache stands for the moment in which a new one takes its name, on file systems that
/// cannot exchange directories.
const OLD_CACHE_FOLDER: &str = "old";

/// The folders of a build and how much of it is durable.
#[derive(Debug)]
pub(crate) struct BuildPlace {
    pub(crate) build_folder: PathBuf,
    pub(crate) cache_folder: PathBuf,
    /// Shards that the journal names.
    pub(crate) sealed_shards: Arc<AtomicU64>,
    journal: JournalStart,
}

/// How the journal begins.
#[derive(Debug)]
enum JournalStart {
    /// The source cannot continue, so nothing needs to be kept.
    None,
    New(JournalHeader),
    /// Up to this many bytes of it are good.
    Continued(u64),
}

impl BuildPlace {
    pub(crate) fn open_journal(&self) -> Result<Option<Journal>, StoreError> {
        match &self.journal {
            JournalStart::None => Ok(None),
            JournalStart::New(header) => Journal::create(&self.build_folder, header).map(Some),
            JournalStart::Continued(bytes) => Journal::reopen(&self.build_folder, *bytes).map(Some),
        }
    }
}

/// A build directory in use. Dropping it removes what cannot be continued, and gives up the lock.
#[derive(Debug)]
pub(crate) struct Build {
    lock: BuildLock,
    sealed_shards: Arc<AtomicU64>,
    is_published: bool,
    /// Digest of the cache that had the name when the build began; only that one is replaced.
    replaces: Option<String>,
}

/// What became of the cache that had the name before.
enum Replaced {
    /// There was none.
    Nothing,
    /// It is where the new one was.
    Exchanged,
    /// It is here.
    Aside(PathBuf),
}

/// What a build begins with.
pub(crate) struct Start {
    pub(crate) build: Build,
    /// What an earlier build left; `None` if this one begins at the first sample.
    pub(crate) continued: Option<Continued>,
}

/// The durable part of an earlier build.
pub(crate) struct Continued {
    pub(crate) columns: Vec<Column>,
    pub(crate) dictionary: Option<Vec<u8>>,
    pub(crate) written: Written,
    journal_bytes: u64,
}

impl Build {
    /// Takes over a build directory. With `identity`, the build can be continued, and goes on with
    /// what an earlier one of the same identity left; anything else is removed.
    pub(crate) fn start(
        lock: BuildLock,
        name: &SourceName,
        identity: Option<&BuildIdentity>,
        threads: usize,
        cancelled: &AtomicBool,
    ) -> Result<Start, StoreError> {
        let mut build = Self {
            lock,
            // If anything goes wrong on the way, what is there is kept for the next attempt.
            sealed_shards: Arc::new(AtomicU64::new(u64::MAX)),
            is_published: false,
            replaces: None,
        };
        let journal = read_journal(build.lock.folder())?;
        let sealed = journal.as_ref().map_or(0, |contents| contents.sealed.len());
        build.sealed_shards.store(sealed as u64, Ordering::Release);
        restore_old_cache(build.lock.folder())?;
        build.replaces = build.cache_with_the_name(name)?;
        let journal = journal.filter(|contents| Some(&contents.header.identity) == identity);
        let continued = match journal {
            Some(contents) => {
                let compression = contents.header.identity.compression;
                build.continue_from(contents, compression, threads, cancelled)?
            }
            None => None,
        };
        if continued.is_none() {
            build.sealed_shards.store(0, Ordering::Release);
            build.clear()?;
            create_directories(&build.cache_folder().join(SHARDS_FOLDER))?;
            if identity.is_some() {
                // What is sealed later can only be found again through these.
                sync_directory(&build.cache_folder())?;
                sync_directory(build.lock.folder())?;
                sync_directory(build.lock.base())?;
            }
        }
        Ok(Start { build, continued })
    }

    pub(crate) fn cache_folder(&self) -> PathBuf {
        self.lock.cache_folder()
    }

    /// Refuses to go on in a child that the builder forked.
    pub(crate) fn require_own(&self, name: &SourceName) -> Result<(), StoreError> {
        if self.lock.is_own() {
            return Ok(());
        }
        Err(StoreError::ForkedBuild {
            name: name.as_str().to_owned(),
            process: self.lock.process(),
        })
    }

    /// The place for a pipeline; `header` begins a journal if there is to be one.
    pub(crate) fn place(
        &self,
        header: Option<JournalHeader>,
        continued: Option<&Continued>,
    ) -> BuildPlace {
        let journal = match (header, continued) {
            (None, _) => JournalStart::None,
            (Some(_), Some(continued)) => JournalStart::Continued(continued.journal_bytes),
            (Some(header), None) => JournalStart::New(header),
        };
        BuildPlace {
            build_folder: self.lock.folder().to_owned(),
            cache_folder: self.cache_folder(),
            sealed_shards: Arc::clone(&self.sealed_shards),
            journal,
        }
    }

    /// Nothing written yet.
    pub(crate) fn nothing_written(
        &self,
        compression: Compression,
        dictionary: Option<FileEntry>,
    ) -> Result<Written, StoreError> {
        let is_compressed = compression.algorithm != Algorithm::None;
        Ok(Written {
            shards: Vec::new(),
            payload_bytes: 0,
            metadata: MetadataParts::new(self.lock.folder(), Vec::new()),
            streams: Streams::create(self.lock.folder(), is_compressed)?,
            dictionary,
        })
    }

    /// Moves the finished directory to its name, where a stale cache may stand.
    pub(crate) fn publish(mut self, name: &SourceName) -> Result<PathBuf, StoreError> {
        let cache = self.cache_folder();
        let target = self.lock.base().join(name.as_str());
        sync_directory(&cache.join(SHARDS_FOLDER))?;
        sync_directory(&cache)?;
        self.lock.require_in_place()?;
        // Whatever has appeared under the name since the build began stays what it is.
        if self.cache_with_the_name(name)? != self.replaces {
            return Err(StoreError::NameTaken { path: target });
        }
        let replaced = self.take_name(&cache, &target)?;
        if let Err(error) = sync_directory(self.lock.base()) {
            // What may be gone after a power failure is not published: everything goes back.
            match replaced {
                Replaced::Nothing => fs::rename(&target, &cache),
                Replaced::Exchanged => exchange(&target, &cache).map(drop),
                Replaced::Aside(old) => {
                    fs::rename(&target, &cache).and_then(|()| fs::rename(old, &target))
                }
            }
            .map_err(StoreError::io("take back", &target))?;
            return Err(error);
        }
        self.is_published = true;
        Ok(target)
    }

    /// Gives the finished directory its name, and says what became of the cache that had it.
    fn take_name(&self, cache: &Path, target: &Path) -> Result<Replaced, StoreError> {
        let failed = || StoreError::io("publish", target);
        if self.replaces.is_none() {
            rename_to_free_name(cache, target).map_err(failed())?;
            return Ok(Replaced::Nothing);
        }
        if exchange(cache, target).map_err(failed())? {
            return Ok(Replaced::Exchanged);
        }
        let old = self.lock.folder().join(OLD_CACHE_FOLDER);
        fs::rename(target, &old).map_err(failed())?;
        if let Err(error) = fs::rename(cache, target) {
            fs::rename(&old, target).map_err(StoreError::io("restore", target))?;
            return Err(failed()(error));
        }
        Ok(Replaced::Aside(old))
    }

    /// The digest of the cache that has the name; refuses a name that something else has.
    fn cache_with_the_name(&self, name: &SourceName) -> Result<Option<String>, StoreError> {
        let target = self.lock.base().join(name.as_str());
        match fs::symlink_metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("examine", target)(error)),
            Ok(_) => {}
        }
        match Manifest::read(&target) {
            Ok(manifest) => Ok(Some(manifest.digest)),
            Err(StoreError::NotFound { .. }) => Err(StoreError::NameTaken { path: target }),
            Err(error) => Err(error),
        }
    }

    /// Removes everything but the lock.
    fn clear(&self) -> Result<(), StoreError> {
        clear_build_folder(self.lock.folder())
    }

    /// Checks what the journal names, and cuts off all that lies behind its last good line.
    fn continue_from(
        &self,
        contents: JournalContents,
        compression: Compression,
        threads: usize,
        cancelled: &AtomicBool,
    ) -> Result<Option<Continued>, StoreError> {
        let folder = self.lock.folder();
        let cache = self.cache_folder();
        let is_compressed = compression.algorithm != Algorithm::None;
        let dictionary = match &contents.header.dictionary {
            None => None,
            Some(entry) => match read_whole(&cache.join(DICTIONARY_FILE), entry)? {
                Some(bytes) => Some(bytes),
                None => return Ok(None),
            },
        };
        let Some(mut streams) = Streams::reopen(folder, is_compressed)? else {
            return Ok(None);
        };
        let intact = count_intact_shards(folder, &cache, &contents.sealed, threads, cancelled)?;
        if cancelled.load(Ordering::Acquire) {
            return Err(StoreError::Cancelled {
                name: contents.header.identity.name,
            });
        }
        let mut good = Vec::new();
        let mut journal_bytes = contents.header_bytes;
        for (sealed, bytes) in contents.sealed.into_iter().take(intact) {
            if !streams.advance(sealed.samples(), &sealed.streams)? {
                break;
            }
            journal_bytes = bytes;
            good.push(sealed);
        }
        let Some(last) = good.last().cloned() else {
            return Ok(None);
        };
        streams.truncate()?;
        let parts: Vec<_> = good
            .iter()
            .flat_map(|sealed| sealed.metadata_parts.clone())
            .collect();
        remove_all_but(folder, |name| {
            !name.starts_with("metadata-") || parts.iter().any(|part| part.file == name)
        })?;
        self.remove_shards_from(good.len() as u64)?;
        for name in [MANIFEST_FILE, BLOCKS_FILE, METADATA_FILE, INDEX_FILE] {
            remove_file(&cache.join(name))?;
        }
        self.sealed_shards
            .store(good.len() as u64, Ordering::Release);
        Ok(Some(Continued {
            columns: last.columns,
            dictionary,
            written: Written {
                shards: good.into_iter().map(|sealed| sealed.shard).collect(),
                payload_bytes: last.payload_bytes,
                metadata: MetadataParts::new(folder, parts),
                streams,
                dictionary: contents.header.dictionary,
            },
            journal_bytes,
        }))
    }

    /// Removes payload files from this number on.
    fn remove_shards_from(&self, first: u64) -> Result<(), StoreError> {
        let shards = self.cache_folder().join(SHARDS_FOLDER);
        remove_all_but(&shards, |name| {
            let number = name.strip_suffix(".bin").and_then(|text| text.parse().ok());
            number.is_some_and(|number: u64| number < first)
        })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        if !self.lock.is_own() {
            return;
        }
        if self.lock.require_in_place().is_err() {
            // What is there now belongs to another build.
            return;
        }
        let sealed = self.sealed_shards.load(Ordering::Acquire);
        // Nothing can be done about a failure here. What is left stands in nobody's way, and the
        // next build of this cache, or of any other, removes it.
        if self.is_published || sealed == 0 {
            let _ = self.clear();
        } else {
            let _ = self.remove_shards_from(sealed);
        }
    }
}

/// Gives an old cache its name back that a build left aside when it died between two renames.
fn restore_old_cache(folder: &Path) -> Result<(), StoreError> {
    let old = folder.join(OLD_CACHE_FOLDER);
    if let Some(base) = folder.parent()
        && let Ok(manifest) = Manifest::read(&old)
    {
        let target = base.join(&manifest.name);
        if fs::symlink_metadata(&target).is_err() {
            fs::rename(&old, &target).map_err(StoreError::io("restore", &target))?;
        }
    }
    Ok(())
}

/// Removes everything in a build directory but the lock; the journal first, so that nobody goes by
/// it when the rest is half gone.
pub(crate) fn clear_build_folder(folder: &Path) -> Result<(), StoreError> {
    restore_old_cache(folder)?;
    remove_file(&folder.join(JOURNAL_FILE))?;
    remove_all_but(folder, |name| name == LOCK_FILE)
}

fn remove_all_but(folder: &Path, keep: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(StoreError::io("read", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", folder))?;
        if entry.file_name().to_str().is_some_and(&keep) {
            continue;
        }
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&path)?;
        } else {
            remove_file(&path)?;
        }
    }
    Ok(())
}

/// How many shards, from the first on, are what the journal says, with their metadata.
fn count_intact_shards(
    folder: &Path,
    cache: &Path,
    sealed: &[(SealedShard, u64)],
    threads: usize,
    cancelled: &AtomicBool,
) -> Result<usize, StoreError> {
    let next = AtomicUsize::new(0);
    let first_damaged = AtomicUsize::new(sealed.len());
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, sealed.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first_damaged.load(Ordering::Acquire) {
                        return;
                    }
                    let (entry, _) = &sealed[number];
                    let shard = FileEntry {
                        bytes: entry.shard.bytes,
                        blake3: entry.shard.blake3.clone(),
                    };
                    let is_intact = || {
                        if !has_digest(&cache.join(shard_file(number)), &shard, cancelled)? {
                            return Ok(false);
                        }
                        for part in &entry.metadata_parts {
                            if !has_digest(&folder.join(&part.file), &part.entry, cancelled)? {
                                return Ok(false);
                            }
                        }
                        Ok(true)
                    };
                    match is_intact() {
                        Ok(true) => {}
                        Ok(false) => {
                            first_damaged.fetch_min(number, Ordering::AcqRel);
                        }
                        Err(error) => {
                            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(first_damaged.into_inner()),
    }
}

/// Says whether a file is there and is what it was; a file that cannot be read now is an error.
fn has_digest(
    path: &Path,
    expected: &FileEntry,
    cancelled: &AtomicBool,
) -> Result<bool, StoreError> {
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    while !cancelled.load(Ordering::Acquire) {
        match file.read(&mut buffer) {
            Ok(0) => {
                return Ok(bytes == expected.bytes
                    && hasher.finalize().to_hex().as_str() == expected.blake3);
            }
            Ok(count) => {
                bytes += count as u64;
                hasher.update(&buffer[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io("read", path)(error)),
        }
    }
    Ok(false)
}

fn read_whole(path: &Path, expected: &FileEntry) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok((entry_of(&bytes) == *expected).then_some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Writes the dictionary of a build and makes it durable.
pub(crate) fn write_dictionary(cache_folder: &Path, dictionary: &[u8]) -> Result<(), StoreError> {
    let path = cache_folder.join(DICTIONARY_FILE);
    fs::write(&path, dictionary).map_err(StoreError::io("write", &path))?;
    sync_file(&path)
}
