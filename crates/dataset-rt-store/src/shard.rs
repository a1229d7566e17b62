//! Payload files: written by a build, mapped by a reader.

use std::ops::Range;
use std::path::Path;

use crate::error::StoreError;
use crate::format::shard_file;
use crate::manifest::ShardEntry;
use crate::mmap::Map;

/// One mapped payload file and its place in the address space of the cache.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) map: Map,
    pub(crate) first_sample: u64,
    pub(crate) first_address: u64,
}

impl Shard {
    /// Maps all payload files of a cache.
    pub(crate) fn open_all(cache: &Path, entries: &[ShardEntry]) -> Result<Vec<Self>, StoreError> {
        let mut first_address = 0;
        let mut shards = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let map = Map::open(&cache.join(shard_file(number)), entry.bytes)?;
            shards.push(Self {
                map,
                first_sample: entry.first_sample,
                first_address,
            });
            first_address += entry.bytes;
        }
        Ok(shards)
    }

    /// Where the bytes between two addresses of the cache lie in this shard, if both are in it.
    #[inline]
    pub(crate) fn range(&self, start: u64, stop: u64) -> Option<Range<usize>> {
        let start = usize::try_from(start.checked_sub(self.first_address)?).ok()?;
        let stop = usize::try_from(stop.checked_sub(self.first_address)?).ok()?;
        (start <= stop && stop <= self.map.bytes().len()).then_some(start..stop)
    }
}
