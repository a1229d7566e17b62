//! One open cache: its manifest, index, metadata and payloads.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::blocks::VerifiedMap;
use crate::checksum::record_checksum;
use crate::error::StoreError;
use crate::format::{BLOCKS_FILE, CHECKSUM_BYTES, INDEX_FILE, METADATA_FILE, block_count};
use crate::index::Index;
use crate::manifest::Manifest;
use crate::metadata::Metadata;
use crate::mmap::Map;
use crate::shard::Shard;

/// An immutable cache, open for reading. All files are mapped; none stays open.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    manifest: Manifest,
    index: Index,
    metadata: Metadata,
    shards: Vec<Shard>,
}

/// The stored bytes of one record and what they must hash to.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Number of the sample in its cache.
    pub sample: u64,
    /// The bytes, in the map.
    pub payload: &'a [u8],
    /// Their checksum in the index.
    pub checksum: u32,
    map: &'a Map,
}

impl Record<'_> {
    /// Compares the checksum of a copy of the payload, or of the payload itself.
    #[inline]
    pub fn verify(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let found = record_checksum(self.sample, bytes);
        self.map.check()?;
        if found == self.checksum {
            return Ok(());
        }
        Err(StoreError::RecordChecksum {
            path: self.map.path().to_owned(),
            sample: self.sample,
            expected: self.checksum,
            found,
        })
    }

    /// Says whether what was copied from the map came from the file; `verify` includes it.
    #[inline]
    pub fn check(&self) -> Result<(), StoreError> {
        self.map.check()
    }
}

impl Cache {
    /// Opens a cache directory. The cost depends on the number of shards, not of samples.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
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
        let shards = Shard::open_all(&path, &manifest.shards)?;
        let index = Index::new(index_map, index_blocks, manifest.samples);
        Ok(Self {
            path,
            manifest,
            index,
            metadata,
            shards,
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
                    shard_stop: shard.first_address + shard.map.bytes().len() as u64,
                })?;
        Ok(Location {
            sample,
            shard: number,
            start: range.start,
            stop: range.end,
            checksum: entry.checksum,
        })
    }

    /// The record at a location that this cache gave.
    #[inline]
    #[must_use]
    pub fn record(&self, location: &Location) -> Record<'_> {
        let map = &self.shards[location.shard].map;
        Record {
            sample: location.sample,
            payload: &map.bytes()[location.start..location.stop],
            checksum: location.checksum,
            map,
        }
    }

    /// The map of the shard that holds a location, and the byte range in it.
    #[must_use]
    pub fn shard_range(&self, location: &Location) -> (&Map, Range<usize>) {
        (
            &self.shards[location.shard].map,
            location.start..location.stop,
        )
    }
}

/// Where one record lies; cheap to keep, without a borrow of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    sample: u64,
    shard: usize,
    start: usize,
    stop: usize,
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
        self.stop - self.start
    }
}

/// One checksum a block, of the index and of the metadata.
type BlockChecksums = (Box<[u32]>, Box<[u32]>);

/// Block checksums of the index and of the metadata.
fn read_blocks(cache: &Path, manifest: &Manifest) -> Result<BlockChecksums, StoreError> {
    let path = cache.join(BLOCKS_FILE);
    let map = Map::open(&path, manifest.blocks.bytes)?;
    let bytes = map.bytes().to_vec();
    map.check()?;
    let found = blake3::hash(&bytes).to_hex();
    if found.as_str() != manifest.blocks.blake3 {
        return Err(StoreError::FileDigest {
            path,
            expected: manifest.blocks.blake3.clone(),
            found: found.to_string(),
        });
    }
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
