//! Checksums of records, of blocks and of whole files.
//!
//! XXH3-64 with a seed, low 32 bits. It is measured at twice the speed of CRC-32 with carry-less
//! multiplication (47 against 24 GB/s on 100 KiB in cache), and the seed ties a record to its
//! sample number, so that two records that changed places are noticed.
//! Source: the XXH3 specification in the xxHash repository, `doc/xxhash_spec.md`.

use std::hash::Hasher as _;
use std::io::{self, Write};

use twox_hash::XxHash3_64;

use crate::format::BLOCK_BYTES;
use crate::manifest::FileEntry;

/// From this length on, inputs are hashed with the bytes behind them on their way from memory.
pub(crate) const LONG_BYTES: usize = 4 << 10;

/// Checksum of the stored bytes of one record.
#[must_use]
#[inline]
pub fn record_checksum(sample: u64, stored: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if stored.len() >= LONG_BYTES
        && let Some(avx2) = crate::mmap::Avx2::detect()
    {
        return low_half(avx2.hash(sample, stored));
    }
    low_half(XxHash3_64::oneshot_with_seed(sample, stored))
}

/// The checksum in a hash.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low 32 bits are the checksum"
)]
pub(crate) fn low_half(hash: u64) -> u32 {
    hash as u32
}

/// The checksum of one record, computed piece by piece.
pub(crate) struct RecordHasher(XxHash3_64);

impl RecordHasher {
    pub(crate) fn new(sample: u64) -> Self {
        Self(XxHash3_64::with_seed(sample))
    }

    #[inline]
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.write(piece);
    }

    pub(crate) fn finish(&self) -> u32 {
        low_half(self.0.finish())
    }
}

/// Checksum of one block of a file.
pub(crate) fn block_checksum(block: u64, bytes: &[u8]) -> u32 {
    record_checksum(block, bytes)
}

/// Length and digest of some bytes.
pub(crate) fn entry_of(bytes: &[u8]) -> FileEntry {
    FileEntry {
        bytes: bytes.len() as u64,
        blake3: blake3::hash(bytes).to_hex().to_string(),
    }
}

/// Writes to a file and computes its digest and its block checksums on the way.
pub(crate) struct DigestWriter<W> {
    inner: W,
    hasher: blake3::Hasher,
    bytes: u64,
    /// The block being filled.
    block: Vec<u8>,
    blocks: Vec<u32>,
}

impl<W: Write> DigestWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            block: Vec::with_capacity(BLOCK_BYTES as usize),
            blocks: Vec::new(),
        }
    }

    /// Flushes, and gives what was written to, its length and digest, and the checksums of its blocks.
    pub(crate) fn finish(mut self) -> io::Result<(W, FileEntry, Vec<u32>)> {
        self.inner.flush()?;
        self.close_block();
        let entry = FileEntry {
            bytes: self.bytes,
            blake3: self.hasher.finalize().to_hex().to_string(),
        };
        Ok((self.inner, entry, self.blocks))
    }

    fn close_block(&mut self) {
        if !self.block.is_empty() {
            let checksum = block_checksum(self.blocks.len() as u64, &self.block);
            self.hasher.update(&self.block);
            self.blocks.push(checksum);
            self.block.clear();
        }
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK_BYTES as usize - self.block.len();
        let written = self.inner.write(&bytes[..bytes.len().min(room)])?;
        self.block.extend_from_slice(&bytes[..written]);
        self.bytes += written as u64;
        if self.block.len() == BLOCK_BYTES as usize {
            self.close_block();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
