//! What of an unfinished build is safely on disk: one line a sealed shard, each with its own digest.
//!
//! A line is written when everything that it names is durable. A build that continues reads the
//! journal up to the first line that is torn or does not fit what it finds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::compression::Compression;
use crate::error::StoreError;
use crate::files::create_new;
use crate::format::FORMAT_VERSION;
use crate::manifest::{FileEntry, ShardEntry};

pub(crate) const JOURNAL_FILE: &str = "journal.jsonl";
const JOURNAL_VERSION: u32 = 1;
/// Hexadecimal digits of a digest, then a space.
const DIGEST_COLUMNS: usize = 65;

/// What a build must agree in to be continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildIdentity {
    pub(crate) journal_version: u32,
    pub(crate) format_version: u32,
    pub(crate) name: String,
    pub(crate) fingerprint: Option<String>,
    pub(crate) compression: Compression,
    pub(crate) max_shard_bytes: u64,
}

impl BuildIdentity {
    pub(crate) fn new(
        name: &str,
        fingerprint: Option<&str>,
        compression: Compression,
        max_shard_bytes: u64,
    ) -> Self {
        Self {
            journal_version: JOURNAL_VERSION,
            format_version: FORMAT_VERSION,
            name: name.to_owned(),
            fingerprint: fingerprint.map(str::to_owned),
            compression,
            max_shard_bytes,
        }
    }
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalHeader {
    pub(crate) identity: BuildIdentity,
    /// The dictionary that all records are compressed with.
    pub(crate) dictionary: Option<FileEntry>,
}

/// A later line: one shard and all that belongs to its samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SealedShard {
    pub(crate) shard: ShardEntry,
    /// Payload bytes of all samples so far.
    pub(crate) payload_bytes: u64,
    pub(crate) columns: Vec<Column>,
    /// Metadata of the samples of this shard.
    pub(crate) metadata_parts: Vec<MetadataPart>,
    /// The streams up to the end of this shard, in their order.
    pub(crate) streams: Vec<FileEntry>,
}

impl SealedShard {
    /// Samples up to the end of this shard.
    pub(crate) fn samples(&self) -> u64 {
        self.shard.first_sample.saturating_add(self.shard.samples)
    }
}

/// A file of metadata rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetadataPart {
    pub(crate) file: String,
    pub(crate) entry: FileEntry,
}

/// A journal open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins a journal with its first line.
    pub(crate) fn create(folder: &Path, header: &JournalHeader) -> Result<Self, StoreError> {
        let path = folder.join(JOURNAL_FILE);
        let mut journal = Self {
            file: create_new(&path)?,
            path,
        };
        journal.append(&line_of(header, &journal.path)?)?;
        Ok(journal)
    }

    /// Goes on after the lines that were found to be good.
    pub(crate) fn reopen(folder: &Path, good_bytes: u64) -> Result<Self, StoreError> {
        let path = folder.join(JOURNAL_FILE);
        let file = File::options()
            .append(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        file.set_len(good_bytes)
            .map_err(StoreError::io("shorten", &path))?;
        Ok(Self { file, path })
    }

    /// The text of a line about a sealed shard.
    pub(crate) fn line(&self, sealed: &SealedShard) -> Result<String, StoreError> {
        line_of(sealed, &self.path)
    }

    /// Adds whole lines.
    pub(crate) fn append(&mut self, lines: &str) -> Result<(), StoreError> {
        self.file
            .write_all(lines.as_bytes())
            .map_err(StoreError::io("write", &self.path))
    }

    /// Makes the lines durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file
            .sync_all()
            .map_err(StoreError::io("sync", &self.path))
    }
}

fn line_of(value: &impl Serialize, path: &Path) -> Result<String, StoreError> {
    let json = serde_json::to_string(value)
        .map_err(|error| StoreError::io("encode a line for", path)(error.into()))?;
    Ok(format!(
        "{} {json}\n",
        blake3::hash(json.as_bytes()).to_hex()
    ))
}

/// What a journal says, up to its first torn line.
#[derive(Debug)]
pub(crate) struct JournalContents {
    pub(crate) header: JournalHeader,
    /// Each with the length of the journal up to the end of its line.
    pub(crate) sealed: Vec<(SealedShard, u64)>,
    /// Length of the first line.
    pub(crate) header_bytes: u64,
}

/// Reads the journal of a build directory; `None` if there is none that says anything.
///
/// That it cannot be read now is an error: it may say much.
pub(crate) fn read_journal(folder: &Path) -> Result<Option<JournalContents>, StoreError> {
    let path = folder.join(JOURNAL_FILE);
    match fs::read(&path) {
        Ok(text) => Ok(parse_journal(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

fn parse_journal(text: &[u8]) -> Option<JournalContents> {
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next()?;
    let header: JournalHeader = parse_line(first)?;
    if header.identity.journal_version != JOURNAL_VERSION {
        return None;
    }
    let header_bytes = first.len() as u64;
    let mut bytes = header_bytes;
    let mut samples = 0;
    let mut sealed = Vec::new();
    for line in lines {
        let Some(entry) = parse_line::<SealedShard>(line) else {
            break;
        };
        if entry.shard.first_sample != samples || entry.shard.samples == 0 {
            break;
        }
        samples = entry.samples();
        bytes += line.len() as u64;
        sealed.push((entry, bytes));
    }
    Some(JournalContents {
        header,
        sealed,
        header_bytes,
    })
}

fn parse_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let json = line.get(DIGEST_COLUMNS..)?.strip_suffix(b"\n")?;
    let digest = line.get(..DIGEST_COLUMNS - 1)?;
    if digest != blake3::hash(json).to_hex().as_bytes() {
        return None;
    }
    serde_json::from_slice(json).ok()
}
