//! The manifest: what a cache consists of, with a digest over itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::column::{Column, ColumnType};
use crate::compression::{Algorithm, Compression};
use crate::error::StoreError;
use crate::files::metadata_of_length;
use crate::format::{
    BLOCKS_FILE, CHECKSUM_BYTES, CHECKSUM_NAME, DICTIONARY_FILE, FORMAT_NAME, FORMAT_VERSION,
    INDEX_FILE, MANIFEST_FILE, METADATA_BATCH_ROWS, METADATA_FILE, block_count, index_bytes,
    shard_file,
};
use crate::name::{SourceName, cache_id_of_name};

/// Stands for the digest while it is computed.
const DIGEST_PLACEHOLDER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Everything that a reader must know before it touches another file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`FORMAT_NAME`].
    pub format: String,
    /// Always [`FORMAT_VERSION`] in what this release writes.
    pub version: u32,
    /// Stable positive 63-bit identity, derived from the name.
    pub cache_id: u64,
    /// Name of the source.
    pub name: String,
    /// What the source said of its inputs, as the JSON text it gave.
    pub fingerprint: Option<Box<RawValue>>,
    /// Number of records.
    pub samples: u64,
    /// Bytes of all payloads as the source gave them.
    pub payload_bytes: u64,
    /// Bytes of all payloads as they are stored.
    pub stored_bytes: u64,
    /// Codec of the records.
    pub compression: Algorithm,
    /// Level that the records were compressed at, for codecs that have levels.
    pub compression_level: Option<i32>,
    /// Name of the record and block checksum.
    pub checksum: String,
    /// Rows of every record batch of the metadata but the last.
    pub metadata_batch_rows: u64,
    /// Metadata columns in the order the source gave them.
    pub columns: Vec<Column>,
    /// Payload files in address order.
    pub shards: Vec<ShardEntry>,
    /// The index.
    pub index: FileEntry,
    /// The metadata table.
    pub metadata: FileEntry,
    /// Block checksums of the index, then of the metadata.
    pub blocks: FileEntry,
    /// The dictionary of the codec, if it has one.
    pub dictionary: Option<FileEntry>,
    /// BLAKE3 of the manifest with 64 zeros in place of this value.
    pub digest: String,
}

/// One payload file.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// Number of its first sample.
    pub first_sample: u64,
    /// How many samples it holds.
    pub samples: u64,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of the whole file, in hexadecimal.
    pub blake3: String,
}

/// One other file.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of the whole file, in hexadecimal.
    pub blake3: String,
}

/// Read before the rest, so that a newer version, or a codec that is not known, is told from damage.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
    compression: Option<String>,
}

/// What the writer knows when all other files are finished.
pub(crate) struct ManifestContents {
    pub(crate) name: SourceName,
    pub(crate) fingerprint: Option<Box<RawValue>>,
    pub(crate) samples: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) compression: Compression,
    pub(crate) columns: Vec<Column>,
    pub(crate) shards: Vec<ShardEntry>,
    pub(crate) index: FileEntry,
    pub(crate) metadata: FileEntry,
    pub(crate) blocks: FileEntry,
    pub(crate) dictionary: Option<FileEntry>,
}

impl Manifest {
    pub(crate) fn new(contents: ManifestContents) -> Self {
        Self {
            format: FORMAT_NAME.to_owned(),
            version: FORMAT_VERSION,
            cache_id: contents.name.cache_id(),
            name: contents.name.as_str().to_owned(),
            fingerprint: contents.fingerprint,
            samples: contents.samples,
            payload_bytes: contents.payload_bytes,
            stored_bytes: contents.shards.iter().map(|shard| shard.bytes).sum(),
            compression: contents.compression.algorithm,
            compression_level: contents.compression.level,
            checksum: CHECKSUM_NAME.to_owned(),
            metadata_batch_rows: METADATA_BATCH_ROWS as u64,
            columns: contents.columns,
            shards: contents.shards,
            index: contents.index,
            metadata: contents.metadata,
            blocks: contents.blocks,
            dictionary: contents.dictionary,
            digest: DIGEST_PLACEHOLDER.to_owned(),
        }
    }

    /// The text of the manifest file, with its digest filled in.
    pub(crate) fn to_text(&self) -> Result<String, serde_json::Error> {
        let sealed = Self {
            digest: DIGEST_PLACEHOLDER.to_owned(),
            ..self.clone()
        };
        let mut text = serde_json::to_string_pretty(&sealed)?;
        text.push('\n');
        let digest = blake3::hash(text.as_bytes()).to_hex();
        // The digest is the last field, so the last run of 64 zeros is the place for it.
        let place = text.rfind(DIGEST_PLACEHOLDER).unwrap_or(text.len());
        text.replace_range(place..place + DIGEST_PLACEHOLDER.len(), &digest);
        Ok(text)
    }

    /// Parses and checks a manifest; `path` is for messages.
    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let damaged = |reason: String| StoreError::DamagedManifest {
            path: path.to_owned(),
            reason,
        };
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let header: Header =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let unsupported = |what, found, supported: &str| StoreError::Unsupported {
            path: path.to_owned(),
            what,
            found,
            supported: supported.to_owned(),
        };
        if header.format != FORMAT_NAME {
            return Err(unsupported("format", header.format, FORMAT_NAME));
        }
        if header.version != FORMAT_VERSION {
            let supported = FORMAT_VERSION.to_string();
            return Err(unsupported(
                "version",
                header.version.to_string(),
                &supported,
            ));
        }
        if let Some(found) = header.compression
            && serde_json::from_value::<Algorithm>(found.clone().into()).is_err()
        {
            return Err(unsupported("compression", found, "none, lz4, zstd"));
        }
        let manifest: Self =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let place = text
            .rfind(&manifest.digest)
            .filter(|_| manifest.digest.len() == DIGEST_PLACEHOLDER.len())
            .ok_or_else(|| damaged("its digest is not 64 hexadecimal digits".to_owned()))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes[..place]);
        hasher.update(DIGEST_PLACEHOLDER.as_bytes());
        hasher.update(&bytes[place + DIGEST_PLACEHOLDER.len()..]);
        let found = hasher.finalize().to_hex();
        if found.as_str() != manifest.digest {
            return Err(damaged(format!(
                "digest {found}, expected {}",
                manifest.digest
            )));
        }
        if manifest.checksum != CHECKSUM_NAME {
            return Err(unsupported("checksum", manifest.checksum, CHECKSUM_NAME));
        }
        manifest.check_consistency().map_err(damaged)?;
        Ok(manifest)
    }

    /// Reads the manifest of a cache directory.
    pub fn read(cache: &Path) -> Result<Self, StoreError> {
        let path = cache.join(MANIFEST_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let reason = if cache.exists() {
                    "it has no manifest.json"
                } else {
                    "no such directory"
                };
                return Err(StoreError::NotFound {
                    path: cache.to_owned(),
                    reason,
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                let reason = "it is not a directory";
                return Err(StoreError::NotFound {
                    path: cache.to_owned(),
                    reason,
                });
            }
            Err(error) => return Err(StoreError::io("read", path)(error)),
        };
        Self::parse(&bytes, &path)
    }

    /// Checks every number against every other, so that later arithmetic cannot go wrong.
    fn check_consistency(&self) -> Result<(), String> {
        if self.cache_id != cache_id_of_name(&self.name) {
            return Err("cache_id does not belong to the name".to_owned());
        }
        if self.samples == 0 {
            return Err("a cache of no samples".to_owned());
        }
        let mut samples = 0_u64;
        let mut bytes = 0_u64;
        for (number, shard) in self.shards.iter().enumerate() {
            if shard.first_sample != samples || shard.samples == 0 {
                return Err(format!("{} has a gap in its samples", shard_file(number)));
            }
            samples = samples
                .checked_add(shard.samples)
                .ok_or("sample count overflows")?;
            bytes = bytes
                .checked_add(shard.bytes)
                .ok_or("byte count overflows")?;
        }
        if samples != self.samples || bytes != self.stored_bytes || bytes > i64::MAX as u64 {
            return Err("its shards do not add up to its totals".to_owned());
        }
        if self.payload_bytes > i64::MAX as u64
            || (!self.is_compressed() && self.payload_bytes != self.stored_bytes)
        {
            return Err("payload_bytes does not fit stored_bytes".to_owned());
        }
        if self.dictionary.is_some() && self.compression != Algorithm::Zstd {
            return Err(format!("{} has no dictionary", self.compression));
        }
        if Some(self.index.bytes) != index_bytes(self.samples, self.is_compressed()) {
            return Err(format!(
                "{INDEX_FILE} has a length that does not fit the samples"
            ));
        }
        let blocks = block_count(self.index.bytes) + block_count(self.metadata.bytes);
        if Some(self.blocks.bytes) != blocks.checked_mul(CHECKSUM_BYTES) {
            return Err(format!(
                "{BLOCKS_FILE} has a length that does not fit {INDEX_FILE} and {METADATA_FILE}"
            ));
        }
        if self.metadata_batch_rows != METADATA_BATCH_ROWS as u64 {
            return Err(format!("metadata_batch_rows is not {METADATA_BATCH_ROWS}"));
        }
        for (number, column) in self.columns.iter().enumerate() {
            let earlier = &self.columns[..number];
            if column.name.is_empty() || earlier.iter().any(|other| other.name == column.name) {
                return Err(format!(
                    "column name {:?} is empty or repeated",
                    column.name
                ));
            }
        }
        Ok(())
    }

    /// Checks that every file of a cache is there and has its length; reads none of them.
    pub fn check_lengths(&self, cache: &Path) -> Result<(), StoreError> {
        let others = [
            (INDEX_FILE, &self.index),
            (METADATA_FILE, &self.metadata),
            (BLOCKS_FILE, &self.blocks),
        ];
        let dictionary = self.dictionary.iter().map(|entry| (DICTIONARY_FILE, entry));
        for (file, entry) in others.into_iter().chain(dictionary) {
            metadata_of_length(&cache.join(file), entry.bytes)?;
        }
        for (number, shard) in self.shards.iter().enumerate() {
            metadata_of_length(&cache.join(shard_file(number)), shard.bytes)?;
        }
        Ok(())
    }

    /// Says whether records are compressed, so that payloads do not lie in the shards as they are.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.compression != Algorithm::None
    }

    /// Columns whose every value is null have no type yet.
    #[must_use]
    pub fn column_type(&self, name: &str) -> Option<ColumnType> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(column.column_type)
    }
}
