//! Payload files: written by a build, mapped or read by a reader.

use std::ops::Range;
use std::path::Path;

use crate::cache::Backend;
use crate::error::StoreError;
use crate::format::shard_file;
use crate::manifest::ShardEntry;
use crate::mmap::Map;
use crate::payload_file::PayloadFile;

/// One payload file and its place in the address space of the cache.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) payloads: Payloads,
    pub(crate) first_sample: u64,
    pub(crate) first_address: u64,
    bytes: u64,
}

/// How the bytes of a payload file are reached.
#[derive(Debug)]
pub(crate) enum Payloads {
    Map(Map),
    File(PayloadFile),
}

impl Payloads {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Map(map) => map.path(),
            Self::File(file) => file.path(),
        }
    }
}

impl Shard {
    /// Opens all payload files of a cache.
    pub(crate) fn open_all(
        cache: &Path,
        entries: &[ShardEntry],
        backend: Backend,
    ) -> Result<Vec<Self>, StoreError> {
        let mut first_address = 0;
        let mut shards = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let path = cache.join(shard_file(number));
            let payloads = match backend {
                Backend::Map => Payloads::Map(Map::open(&path, entry.bytes)?),
                Backend::PositionedRead => Payloads::File(PayloadFile::new(&path, entry.bytes)?),
            };
            shards.push(Self {
                payloads,
                first_sample: entry.first_sample,
                first_address,
                bytes: entry.bytes,
            });
            first_address += entry.bytes;
        }
        Ok(shards)
    }

    /// One past the last address of the shard.
    pub(crate) fn last_address(&self) -> u64 {
        self.first_address + self.bytes
    }

    /// Where the bytes between two addresses of the cache lie in this shard, if both are in it.
    #[inline]
    pub(crate) fn range(&self, start: u64, stop: u64) -> Option<Range<usize>> {
        let start = start.checked_sub(self.first_address)?;
        let stop = stop.checked_sub(self.first_address)?;
        let is_inside = start <= stop && stop <= self.bytes;
        let range = usize::try_from(start).ok()?..usize::try_from(stop).ok()?;
        is_inside.then_some(range)
    }
}
