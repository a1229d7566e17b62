//! Checksums of 64 KiB blocks of a mapped file, each compared once at its first touch.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::block_checksum;
use crate::error::StoreError;
use crate::format::{BLOCK_BYTES, block_count};
use crate::mmap::Map;

/// A map whose bytes are handed out only after their blocks have been verified.
#[derive(Debug)]
pub(crate) struct VerifiedMap {
    map: Map,
    checksums: Box<[u32]>,
    verified: Box<[AtomicU64]>,
}

impl VerifiedMap {
    /// Takes one checksum a block; the caller has checked that the counts agree.
    pub(crate) fn new(map: Map, checksums: Box<[u32]>) -> Self {
        debug_assert_eq!(
            checksums.len() as u64,
            block_count(map.bytes().len() as u64)
        );
        let words = checksums.len().div_ceil(64);
        let verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            map,
            checksums,
            verified,
        }
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// The bytes of a range inside the file, verified.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> Result<&[u8], StoreError> {
        self.verify(range.clone())?;
        Ok(&self.map.bytes()[range])
    }

    /// Verifies the blocks that a range touches; the range lies inside the file.
    #[inline]
    pub(crate) fn verify(&self, range: Range<usize>) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        let first = range.start / BLOCK_BYTES as usize;
        let last = (range.end - 1) / BLOCK_BYTES as usize;
        for block in first..=last {
            let word = self.verified[block / 64].load(Ordering::Acquire);
            if word & (1 << (block % 64)) == 0 {
                self.verify_block(block)?;
            }
        }
        Ok(())
    }

    /// Two threads may verify one block at once; both come to the same result.
    #[cold]
    fn verify_block(&self, block: usize) -> Result<(), StoreError> {
        let file = self.map.bytes();
        let start = block * BLOCK_BYTES as usize;
        let stop = file.len().min(start + BLOCK_BYTES as usize);
        let found = block_checksum(block as u64, &file[start..stop]);
        self.map.check()?;
        let expected = self.checksums[block];
        if found != expected {
            return Err(StoreError::BlockChecksum {
                path: self.map.path().to_owned(),
                block: block as u64,
                expected,
                found,
            });
        }
        self.verified[block / 64].fetch_or(1 << (block % 64), Ordering::Release);
        Ok(())
    }
}
