//! Checksums of records, of blocks and of whole files.
//!
//! XXH3-64 with a seed, low 32 bits. It is measured at twice the speed of CRC-32 with carry-less
//! multiplication (47 against 24 GB/s on 100 KiB in cache), and the seed ties a record to its
//! sample number, so that two records that changed places are noticed.
//! Source: the XXH3 specification in the xxHash repository, `doc/xxhash_spec.md`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use twox_hash::XxHash3_64;

use crate::error::StoreError;
use crate::format::BLOCK_BYTES;

/// Checksum of the payload of one record.
#[must_use]
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low 32 bits are the checksum"
)]
pub fn record_checksum(sample: u64, payload: &[u8]) -> u32 {
    XxHash3_64::oneshot_with_seed(sample, payload) as u32
}

/// Checksum of one block of a file.
pub(crate) fn block_checksum(block: u64, bytes: &[u8]) -> u32 {
    record_checksum(block, bytes)
}

/// Length, digest and block checksums of one finished file.
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
    pub(crate) blocks: Vec<u32>,
}

/// Reads a whole file once and computes all of its checksums.
pub(crate) fn digest_file(path: &Path) -> Result<FileDigest, StoreError> {
    let mut file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    let mut blocks = Vec::new();
    let mut bytes = 0;
    let mut block = Vec::new();
    loop {
        block.clear();
        let read = Read::by_ref(&mut file)
            .take(BLOCK_BYTES)
            .read_to_end(&mut block)
            .map_err(StoreError::io("read", path))?;
        if read == 0 {
            break;
        }
        hasher.update(&block);
        blocks.push(block_checksum(blocks.len() as u64, &block));
        bytes += read as u64;
    }
    Ok(FileDigest {
        bytes,
        blake3: hasher.finalize().to_hex().to_string(),
        blocks,
    })
}
