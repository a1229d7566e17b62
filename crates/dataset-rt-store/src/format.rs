//! Constants of format version 1; `docs/format.md` describes the format to the byte.

/// Value of `format` in every manifest.
pub const FORMAT_NAME: &str = "dataset-rt cache";
/// The only format version that this release reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// Name of the manifest, the file whose presence makes a directory a cache.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Record addresses and checksums.
pub const INDEX_FILE: &str = "index.bin";
/// The metadata table as an Arrow IPC file.
pub const METADATA_FILE: &str = "metadata.arrow";
/// Checksums of the blocks of the index and of the metadata.
pub const BLOCKS_FILE: &str = "blocks.bin";
/// The zstd dictionary of caches that have one.
pub const DICTIONARY_FILE: &str = "dictionary.bin";
/// Folder of the payload files.
pub const SHARDS_FOLDER: &str = "shards";
/// Name of the record and block checksum: the low 32 bits of XXH3-64 with a seed.
pub const CHECKSUM_NAME: &str = "xxh3-64-low32";
/// Bytes that one entry of the blocks file covers.
pub const BLOCK_BYTES: u64 = 64 * 1024;
/// Rows of every record batch of the metadata table but the last.
pub const METADATA_BATCH_ROWS: usize = 65_536;
/// Bytes of one address in the index.
pub const ADDRESS_BYTES: u64 = 8;
/// Bytes of one checksum in the index and in the blocks file.
pub const CHECKSUM_BYTES: u64 = 4;
/// Alignment of the buffers in the metadata file.
pub const METADATA_ALIGNMENT_BYTES: usize = 64;

/// Name of the payload file with this number, relative to the cache.
pub(crate) fn shard_file(shard: usize) -> String {
    format!("{SHARDS_FOLDER}/{shard:06}.bin")
}

/// Length of the index of a cache with this many records; `None` on overflow.
///
/// Compressed caches have a second list of addresses, those of the payloads.
pub(crate) fn index_bytes(samples: u64, is_compressed: bool) -> Option<u64> {
    let lists = if is_compressed { 2 } else { 1 };
    let addresses = samples.checked_add(1)?.checked_mul(lists * ADDRESS_BYTES)?;
    addresses.checked_add(samples.checked_mul(CHECKSUM_BYTES)?)
}

/// Number of checksum blocks of a file of this length.
pub(crate) fn block_count(file_bytes: u64) -> u64 {
    file_bytes.div_ceil(BLOCK_BYTES)
}
