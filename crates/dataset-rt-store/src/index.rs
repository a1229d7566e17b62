//! The index: where each record lies and what its checksum is, mapped and verified block by block.

use std::path::Path;

use crate::blocks::VerifiedMap;
use crate::error::StoreError;
use crate::format::{ADDRESS_BYTES, CHECKSUM_BYTES};
use crate::mmap::Map;

/// Addresses and checksums of the records of one cache.
#[derive(Debug)]
pub(crate) struct Index {
    file: VerifiedMap,
    samples: u64,
}

/// Place and checksum of one record in the address space of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) start: u64,
    pub(crate) stop: u64,
    pub(crate) checksum: u32,
}

impl Index {
    /// Takes a map whose length fits `samples`; the caller has checked it.
    pub(crate) fn new(map: Map, checksums: Box<[u32]>, samples: u64) -> Self {
        Self {
            file: VerifiedMap::new(map, checksums),
            samples,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.map().path()
    }

    /// Reads the entry of a sample below `samples`.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the file is mapped, so its offsets fit"
    )]
    pub(crate) fn entry(&self, sample: u64) -> Result<IndexEntry, StoreError> {
        let address = (sample * ADDRESS_BYTES) as usize;
        let checksum = ((self.samples + 1) * ADDRESS_BYTES + sample * CHECKSUM_BYTES) as usize;
        let addresses = self
            .file
            .bytes(address..address + 2 * ADDRESS_BYTES as usize)?;
        let checksum = self
            .file
            .bytes(checksum..checksum + CHECKSUM_BYTES as usize)?;
        let entry = IndexEntry {
            start: read_u64(&addresses[..8]),
            stop: read_u64(&addresses[8..]),
            checksum: u32::from_le_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]),
        };
        self.file.map().check()?;
        Ok(entry)
    }
}

#[inline]
fn read_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
