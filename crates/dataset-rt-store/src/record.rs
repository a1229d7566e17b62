//! One record in a map: verifying it, and copying it in the same pass.

use std::ops::Range;
use std::path::Path;

use crate::checksum::{RecordHasher, record_checksum};
use crate::error::StoreError;
use crate::mmap::{LINE_BYTES, Map, StreamingCopy, prefetch};

/// Bytes that are hashed and then copied: small enough to stay in the first cache in between, and
/// to let the copy of one piece overlap with the loading of the next.
const PIECE_BYTES: usize = 2 << 10;
/// Records from here on are worth copying in pieces.
const PIECEWISE_BYTES: usize = 16 << 10;
/// How much of a record is asked for ahead; the processor follows by itself from there.
const PREFETCHED_BYTES: usize = 2 << 10;

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
    pub place: &'a mut [u8],
}

impl Part<'_> {
    fn stop(&self) -> usize {
        self.start + self.place.len()
    }
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

    /// The map that the payload lies in.
    #[must_use]
    pub fn map(&self) -> &'a Map {
        self.map
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

    /// Copies the payload to `out`, which is as long, and verifies it if asked to.
    #[inline]
    pub fn copy_into(
        &self,
        out: &mut [u8],
        verify: bool,
        destination: Destination,
    ) -> Result<(), StoreError> {
        if destination == Destination::Memory && self.payload.len() >= PIECEWISE_BYTES {
            let part = Part {
                start: 0,
                place: out,
            };
            return self.copy_pieces(&mut [part], verify);
        }
        out.copy_from_slice(self.payload);
        // The copy is hashed while it is in the processor's cache.
        self.verify_if(out, verify)
    }

    /// Copies parts of the payload, which are given in their order and do not overlap, and verifies
    /// the whole of it if asked to.
    pub fn copy_parts(
        &self,
        parts: &mut [Part<'_>],
        verify: bool,
        destination: Destination,
    ) -> Result<(), StoreError> {
        if destination == Destination::Memory && self.payload.len() >= PIECEWISE_BYTES {
            return self.copy_pieces(parts, verify);
        }
        for part in parts {
            part.place
                .copy_from_slice(&self.payload[part.start..part.start + part.place.len()]);
        }
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

    /// Loads, hashes and copies piece by piece, so that each byte comes from memory once and the
    /// three overlap.
    fn copy_pieces(&self, parts: &mut [Part<'_>], verify: bool) -> Result<(), StoreError> {
        let copy = StreamingCopy::begin();
        let mut hasher = RecordHasher::new(self.sample);
        let mut next_part = 0;
        let mut start = 0;
        let mut stop = first_piece_bytes(parts);
        while start < self.payload.len() {
            stop = stop.min(self.payload.len());
            let piece = &self.payload[start..stop];
            let after = self.payload.len().min(stop + PIECE_BYTES);
            prefetch(&self.payload[stop..after]);
            if verify {
                hasher.update(piece);
            }
            while let Some(part) = parts.get_mut(next_part)
                && part.start < stop
            {
                let (from, to) = (start.max(part.start), stop.min(part.stop()));
                copy.copy(
                    &self.payload[from..to],
                    &mut part.place[from - part.start..to - part.start],
                );
                if part.stop() > stop {
                    break;
                }
                next_part += 1;
            }
            start = stop;
            stop += PIECE_BYTES;
        }
        drop(copy);
        self.map.check()?;
        let found = hasher.finish();
        if verify && found != self.checksum {
            return Err(self.damaged(found));
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, found: u32) -> StoreError {
        damaged_record(self.map.path(), self.sample, self.checksum, found)
    }
}

/// Length of the first piece, such that the pieces of the largest part begin at whole cache lines of
/// the place that they are copied to.
fn first_piece_bytes(parts: &[Part<'_>]) -> usize {
    let largest = parts.iter().max_by_key(|part| part.place.len());
    largest.map_or(PIECE_BYTES, |part| {
        let to_line = part.place.as_ptr().align_offset(LINE_BYTES);
        (part.start + to_line) % PIECE_BYTES
    })
}

pub(crate) fn damaged_record(path: &Path, sample: u64, expected: u32, found: u32) -> StoreError {
    StoreError::RecordChecksum {
        path: path.to_owned(),
        sample,
        expected,
        found,
    }
}
