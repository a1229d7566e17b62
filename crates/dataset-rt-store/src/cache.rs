//! One open cache: its manifest, index, metadata and payloads.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::blocks::VerifiedMap;
use crate::checksum::record_checksum;
use crate::compression::{Algorithm, Decoder};
use crate::error::StoreError;
use crate::format::{
    BLOCKS_FILE, CHECKSUM_BYTES, DICTIONARY_FILE, INDEX_FILE, METADATA_FILE, block_count,
};
use crate::index::Index;
use crate::manifest::{FileEntry, Manifest};
use crate::metadata::Metadata;
use crate::mmap::{Map, Unwritten};
use crate::record::{Destination, Record, damaged_record};
use crate::shard::{Payloads, Shard};

/// How payloads are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Shards are mapped.
    #[default]
    Map,
    /// Shards are read with positioned reads.
    PositionedRead,
}

/// An immutable cache, open for reading.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    manifest: Manifest,
    index: Index,
    metadata: Metadata,
    shards: Vec<Shard>,
    decoder: Decoder,
}

impl Cache {
    /// Opens a cache directory. The cost depends on the number of shards, not of samples.
    pub fn open(path: &Path, backend: Backend) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(StoreError::io("resolve", path))?;
        let manifest = Manifest::read(&path)?;
        let index_map = Map::open(&path.join(INDEX_FILE), manifest.index.bytes)?;
        let metadata_map = Map::open(&path.join(METADATA_FILE), manifest.metadata.bytes)?;
        let (index_blocks, metadata_blocks) = read_blocks(&path, &manifest)?;
        let metadata = Metadata::new(
            VerifiedMap::new(metadata_map, metadata_blocks),
            manifest.columns.clone(),
            manifest.samples,
        )?;
        let shards = Shard::open_all(&path, &manifest.shards, backend)?;
        let index = Index::new(
            index_map,
            index_blocks,
            manifest.samples,
            manifest.is_compressed(),
        );
        let decoder = open_decoder(&path, &manifest)?;
        Ok(Self {
            path,
            manifest,
            index,
            metadata,
            shards,
            decoder,
        })
    }

    /// Number of records; never zero.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a cache is never empty")]
    pub fn len(&self) -> u64 {
        self.manifest.samples
    }

    /// Stable identity.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.manifest.cache_id
    }

    /// Name of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Absolute path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The metadata table.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Starts loading what `locate` will read for a sample; one that does not exist is ignored.
    #[inline]
    pub fn prefetch_location(&self, sample: u64) {
        if sample < self.len() {
            self.index.prefetch(sample);
        }
    }

    /// Finds a record without reading its payload.
    #[inline]
    pub fn locate(&self, sample: u64) -> Result<Location, StoreError> {
        if sample >= self.len() {
            return Err(StoreError::SampleOutOfRange {
                cache: self.name().to_owned(),
                sample,
                samples: self.len(),
            });
        }
        let entry = self.index.entry(sample)?;
        let number = match self.shards.as_slice() {
            [_] => 0,
            shards => shards.partition_point(|shard| shard.first_sample <= sample) - 1,
        };
        let shard = &self.shards[number];
        let range =
            shard
                .range(entry.start, entry.stop)
                .ok_or_else(|| StoreError::RecordAddress {
                    path: self.index.path().to_owned(),
                    sample,
                    start: entry.start,
                    stop: entry.stop,
                    shard_start: shard.first_address,
                    shard_stop: shard.last_address(),
                })?;
        let payload_bytes = entry
            .payload_bytes
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| self.decoder.is_possible(range.len(), bytes))
            .ok_or_else(|| StoreError::RecordLength {
                path: self.index.path().to_owned(),
                sample,
                stored_bytes: range.len(),
            })?;
        Ok(Location {
            sample,
            shard: number,
            start: range.start,
            stop: range.end,
            payload_bytes,
            checksum: entry.checksum,
        })
    }

    /// The map of a shard, if it is mapped.
    #[must_use]
    pub fn map(&self, shard: usize) -> Option<&Map> {
        match &self.shards[shard].payloads {
            Payloads::Map(map) => Some(map),
            Payloads::File(_) => None,
        }
    }

    /// Says whether payloads are in maps, and not compressed.
    #[must_use]
    pub fn is_mapped_as_it_is(&self) -> bool {
        let is_map = |shard: &Shard| matches!(shard.payloads, Payloads::Map(_));
        self.manifest.compression == Algorithm::None && self.shards.iter().all(is_map)
    }

    /// The record at a location that this cache gave, if its payload can be read in the map.
    ///
    /// `None` for a record that must be decompressed, or read from the file.
    #[inline]
    #[must_use]
    pub fn in_place(&self, location: &Location) -> Option<Record<'_>> {
        match &self.shards[location.shard].payloads {
            Payloads::Map(map) if location.is_stored_as_is() => Some(Record {
                sample: location.sample,
                shard: location.shard,
                payload: &map.bytes()[location.stored()],
                checksum: location.checksum,
                map,
            }),
            _ => None,
        }
    }

    /// Fills `out`, as long as the payload, from the map or the file.
    ///
    /// What is verified is what is returned: the bytes that are copied, or the stored bytes that
    /// `out` was decompressed from.
    #[inline]
    pub fn read_into(
        &self,
        location: &Location,
        out: &mut [u8],
        verify: bool,
        destination: Destination,
    ) -> Result<(), StoreError> {
        match self.in_place(location) {
            Some(record) => {
                record.copy_into(Unwritten::from(out), verify, destination)?;
                Ok(())
            }
            None => self.read_slowly(location, out, verify),
        }
    }

    fn read_slowly(
        &self,
        location: &Location,
        out: &mut [u8],
        verify: bool,
    ) -> Result<(), StoreError> {
        let verified = |path: &Path, stored: &[u8]| {
            let found = record_checksum(location.sample, stored);
            if !verify || found == location.checksum {
                return Ok(());
            }
            Err(damaged_record(
                path,
                location.sample,
                location.checksum,
                found,
            ))
        };
        match &self.shards[location.shard].payloads {
            Payloads::Map(map) => {
                let stored = &map.bytes()[location.stored()];
                let decoded = verified(map.path(), stored)
                    .and_then(|()| self.decode(location, map.path(), stored, out));
                // A lost page explains whatever else went wrong.
                map.check()?;
                decoded
            }
            Payloads::File(file) => {
                if location.is_stored_as_is() {
                    file.read(location.start as u64, out)?;
                    return verified(file.path(), out);
                }
                STORED.with_borrow_mut(|stored| {
                    stored.resize(location.stored().len(), 0);
                    let decoded = file
                        .read(location.start as u64, stored)
                        .and_then(|()| verified(file.path(), stored))
                        .and_then(|()| self.decode(location, file.path(), stored, out));
                    if stored.capacity() > MAX_KEPT_BYTES {
                        *stored = Vec::new();
                    }
                    decoded
                })
            }
        }
    }

    fn decode(
        &self,
        location: &Location,
        path: &Path,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        self.decoder
            .decode(stored, out)
            .map_err(|reason| StoreError::RecordCodec {
                path: path.to_owned(),
                sample: location.sample,
                algorithm: self.manifest.compression,
                reason,
            })
    }

    pub(crate) fn payloads(&self, shard: usize) -> &Payloads {
        &self.shards[shard].payloads
    }

    /// The file that holds the record at a location.
    #[must_use]
    pub fn shard_path(&self, location: &Location) -> &Path {
        self.shards[location.shard].payloads.path()
    }
}

/// Memory for stored bytes that a thread keeps between two records.
const MAX_KEPT_BYTES: usize = 4 << 20;

thread_local! {
    /// Stored bytes on their way from a file to the codec.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Where one record lies; cheap to keep, without a borrow of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    sample: u64,
    shard: usize,
    start: usize,
    stop: usize,
    payload_bytes: usize,
    checksum: u32,
}

impl Location {
    /// Number of the sample in its cache.
    #[must_use]
    pub fn sample(&self) -> u64 {
        self.sample
    }

    /// Length of the payload.
    #[must_use]
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Bytes of the record in its shard.
    #[must_use]
    #[inline]
    pub fn stored_bytes(&self) -> usize {
        self.stop - self.start
    }

    /// Number of the shard that holds the record.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    #[inline]
    pub(crate) fn stored(&self) -> Range<usize> {
        self.start..self.stop
    }

    #[inline]
    fn is_stored_as_is(&self) -> bool {
        self.stored_bytes() == self.payload_bytes
    }
}

/// One checksum a block, of the index and of the metadata.
type BlockChecksums = (Box<[u32]>, Box<[u32]>);

/// Block checksums of the index and of the metadata.
fn read_blocks(cache: &Path, manifest: &Manifest) -> Result<BlockChecksums, StoreError> {
    let bytes = read_small_file(&cache.join(BLOCKS_FILE), &manifest.blocks)?;
    let checksums = |blocks: &[u8]| {
        blocks
            .chunks_exact(CHECKSUM_BYTES as usize)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    };
    let index_bytes = (block_count(manifest.index.bytes) * CHECKSUM_BYTES) as usize;
    let (index, metadata) = bytes.split_at(index_bytes);
    Ok((checksums(index), checksums(metadata)))
}

/// The codec of the records, with its dictionary.
fn open_decoder(cache: &Path, manifest: &Manifest) -> Result<Decoder, StoreError> {
    let path = cache.join(DICTIONARY_FILE);
    let dictionary = manifest
        .dictionary
        .as_ref()
        .map(|entry| read_small_file(&path, entry))
        .transpose()?;
    Decoder::new(manifest.compression, dictionary.as_deref())
        .map_err(|reason| StoreError::DamagedDictionary { path, reason })
}

/// Reads a file whole and compares its digest.
fn read_small_file(path: &Path, entry: &FileEntry) -> Result<Vec<u8>, StoreError> {
    let map = Map::open(path, entry.bytes)?;
    let bytes = map.bytes().to_vec();
    map.check()?;
    let found = blake3::hash(&bytes).to_hex();
    if found.as_str() == entry.blake3 {
        return Ok(bytes);
    }
    Err(StoreError::FileDigest {
        path: path.to_owned(),
        expected: entry.blake3.clone(),
        found: found.to_string(),
    })
}
