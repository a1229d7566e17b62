//! One record in a map: verifying it, and copying it in the same pass.

use std::ops::Range;
use std::path::Path;

use crate::checksum::{LONG_BYTES, record_checksum};
use crate::error::StoreError;
use crate::long_copy::copy_long;
use crate::mmap::{Map, Unwritten, Written, prefetch};

/// How much of a record is asked for ahead; the processor follows by itself from there.
const PREFETCHED_BYTES: usize = 1 << 10;

/// What becomes of copied bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// They are read soon, and all of them fit the caches of the processor.
    Cached,
    /// They are part of more than that.
    Memory,
}

/// Part of a payload and the place that it is copied to, of the same length.
#[derive(Debug)]
pub struct Part<'a> {
    /// First byte in the payload.
    pub start: usize,
    /// Where it goes.
    pub place: Unwritten<'a>,
}

/// A payload as it lies in a map, and what it must hash to.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Number of the sample in its cache.
    pub sample: u64,
    /// The bytes, in the map.
    pub payload: &'a [u8],
    /// Their checksum in the index.
    pub checksum: u32,
    /// Number of the shard in its cache.
    pub shard: usize,
    pub(crate) map: &'a Map,
}

impl<'a> Record<'a> {
    /// Compares the checksum of a copy of the payload, or of the payload itself.
    #[inline]
    pub fn verify(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let found = record_checksum(self.sample, bytes);
        self.map.check()?;
        if found == self.checksum {
            return Ok(());
        }
        Err(self.damaged(found))
    }

    /// Where it lies in the map.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let start = self.payload.as_ptr().addr() - self.map.bytes().as_ptr().addr();
        start..start + self.payload.len()
    }

    /// Says whether what was copied from the map came from the file; `verify` includes it.
    #[inline]
    pub fn check(&self) -> Result<(), StoreError> {
        self.map.check()
    }

    /// Starts loading the payload from memory, to be read a little later.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.payload[..self.payload.len().min(PREFETCHED_BYTES)]);
    }

    /// Copies the payload to a place of its length, and verifies it if asked to.
    #[inline]
    pub fn copy_into(
        &self,
        place: Unwritten<'_>,
        verify: bool,
        destination: Destination,
    ) -> Result<Written, StoreError> {
        assert_eq!(place.len(), self.payload.len(), "both sides of a copy");
        self.copy_parts(&mut [Part { start: 0, place }], verify, destination)?;
        Ok(Written::completely())
    }

    /// Copies parts of the payload, which are given in their order and do not overlap, and verifies
    /// the whole of it if asked to.
    #[inline]
    pub fn copy_parts(
        &self,
        parts: &mut [Part<'_>],
        verify: bool,
        destination: Destination,
    ) -> Result<(), StoreError> {
        for part in parts.iter() {
            let fits = part.place.len() <= self.payload.len().saturating_sub(part.start);
            assert!(fits, "a part of the payload");
        }
        if self.payload.len() >= LONG_BYTES {
            let seed = verify.then_some(self.sample);
            let found = copy_long(seed, self.payload, parts, destination);
            self.map.check()?;
            return match found {
                Some(found) if found != self.checksum => Err(self.damaged(found)),
                _ => Ok(()),
            };
        }
        for part in parts {
            let length = part.place.len();
            part.place
                .write(0, &self.payload[part.start..part.start + length]);
        }
        // It is in the processor's cache now.
        self.verify_if(self.payload, verify)
    }

    /// Verifies a copy of the payload, or only says whether it came from the file.
    #[inline]
    pub fn verify_if(&self, bytes: &[u8], verify: bool) -> Result<(), StoreError> {
        if verify {
            self.verify(bytes)
        } else {
            self.check()
        }
    }

    #[cold]
    fn damaged(&self, found: u32) -> StoreError {
        damaged_record(self.map.path(), self.sample, self.checksum, found)
    }
}

pub(crate) fn damaged_record(path: &Path, sample: u64, expected: u32, found: u32) -> StoreError {
    StoreError::RecordChecksum {
        path: path.to_owned(),
        sample,
        expected,
        found,
    }
}
