//! The index: where each record lies and what its checksum is, mapped and verified block by block.

use std::path::Path;

use crate::blocks::VerifiedMap;
use crate::error::StoreError;
use crate::format::{ADDRESS_BYTES, CHECKSUM_BYTES};
use crate::mmap::{Map, prefetch};

/// Addresses and checksums of the records of one cache.
#[derive(Debug)]
pub(crate) struct Index {
    file: VerifiedMap,
    samples: u64,
    is_compressed: bool,
}

/// Place and checksum of one record in the address space of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) start: u64,
    pub(crate) stop: u64,
    pub(crate) checksum: u32,
    /// Length of the payload; `None` if the payload addresses are not in order.
    pub(crate) payload_bytes: Option<u64>,
}

impl Index {
    /// Takes a map whose length fits `samples`; the caller has checked it.
    pub(crate) fn new(map: Map, checksums: Box<[u32]>, samples: u64, is_compressed: bool) -> Self {
        Self {
            file: VerifiedMap::new(map, checksums),
            samples,
            is_compressed,
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
        let list_bytes = (self.samples + 1) * ADDRESS_BYTES;
        let (start, stop) = self.two_addresses(sample * ADDRESS_BYTES)?;
        let (payload_start, payload_stop, checksums) = if self.is_compressed {
            let (start, stop) = self.two_addresses(list_bytes + sample * ADDRESS_BYTES)?;
            (start, stop, 2 * list_bytes)
        } else {
            (start, stop, list_bytes)
        };
        let checksum = (checksums + sample * CHECKSUM_BYTES) as usize;
        let checksum = self
            .file
            .bytes(checksum..checksum + CHECKSUM_BYTES as usize)?;
        let entry = IndexEntry {
            start,
            stop,
            checksum: u32::from_le_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]),
            payload_bytes: payload_stop.checked_sub(payload_start),
        };
        self.file.map().check()?;
        Ok(entry)
    }

    /// Starts loading the entry of a sample below `samples`, to be read a little later.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the file is mapped, so its offsets fit"
    )]
    pub(crate) fn prefetch(&self, sample: u64) {
        let list_bytes = (self.samples + 1) * ADDRESS_BYTES;
        let lists = if self.is_compressed { 2 } else { 1 };
        let address = (sample * ADDRESS_BYTES) as usize;
        let checksum = (lists * list_bytes + sample * CHECKSUM_BYTES) as usize;
        let file = self.file.map().bytes();
        prefetch(&file[address..address + 1]);
        prefetch(&file[checksum..checksum + 1]);
        if self.is_compressed {
            let payload_address = list_bytes as usize + address;
            prefetch(&file[payload_address..payload_address + 1]);
        }
    }

    /// The addresses at one place of the file and behind it.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the file is mapped, so its offsets fit"
    )]
    fn two_addresses(&self, place: u64) -> Result<(u64, u64), StoreError> {
        let place = place as usize;
        let addresses = self.file.bytes(place..place + 2 * ADDRESS_BYTES as usize)?;
        Ok((read_u64(&addresses[..8]), read_u64(&addresses[8..])))
    }
}

#[inline]
fn read_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
