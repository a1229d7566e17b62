//! Copying many records into one buffer, each verified as it is copied.

use std::ops::Range;

use dataset_rt_store::{Cache, Location, Map, Record, StoreError};
use rayon::prelude::*;

use crate::active_table::RecordNumber;
use crate::batch::Gathered;
use crate::caches::{CacheSet, Placed};
use crate::error::ReaderError;
use crate::lookahead::Lookahead;
use crate::view::View;

/// Below this many bytes one thread is faster than waking others.
const PARALLEL_BYTES: usize = 256 << 10;
/// Bytes that one thread takes at a time.
const TASK_BYTES: usize = 128 << 10;

/// A record found in its cache: which cache, and where in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located {
    pub(crate) cache_index: usize,
    pub(crate) location: Location,
}

impl Located {
    #[inline]
    pub(crate) fn find(caches: &CacheSet, record: RecordNumber) -> Result<Self, StoreError> {
        let Placed {
            cache,
            cache_index,
            sample,
        } = caches.place(record);
        Ok(Self {
            cache_index,
            location: cache.locate(sample)?,
        })
    }

    #[inline]
    pub(crate) fn cache<'a>(&self, caches: &'a CacheSet) -> &'a Cache {
        &caches.caches()[self.cache_index]
    }

    /// The payload in the map, if that is where it can be read.
    #[inline]
    pub(crate) fn in_place<'a>(&self, caches: &'a CacheSet) -> Option<Record<'a>> {
        self.cache(caches).in_place(&self.location)
    }
}

impl View {
    /// Copies the payloads of these records back to back.
    pub fn gather(&self, records: &[RecordNumber]) -> Result<Gathered, ReaderError> {
        let caches = &*self.caches;
        let located = records
            .iter()
            .map(|&record| Located::find(caches, record))
            .collect::<Result<Vec<_>, _>>()?;
        let mut offsets = Vec::with_capacity(located.len() + 1);
        let mut total = 0_usize;
        offsets.push(0);
        for record in &located {
            // The lengths of compressed records are only what their index says.
            total = total
                .checked_add(record.location.payload_bytes())
                .filter(|&total| i64::try_from(total).is_ok())
                .ok_or_else(|| ReaderError::no_memory(usize::MAX, "the payloads of a batch"))?;
            offsets.push(total as i64);
        }
        let mut buffer = self.pool.buffers().take(total)?;
        let verify = self.read.verify_reads;
        let copy = |(records, place): Task<'_>| {
            let read = || copy_all(caches, records, place, verify);
            caches.coldness().watch(records.len() as u64, read)
        };
        let is_parallel = total >= PARALLEL_BYTES && self.pool.num_threads() > 1;
        let threads = is_parallel.then(|| self.pool.threads()).transpose()?;
        let place = buffer.bytes_mut();
        match (Lookahead::if_cold(self, records), threads) {
            (None, None) => copy((&located, place))?,
            (None, Some(threads)) => {
                let tasks = split(&located, place);
                threads.install(|| tasks.into_par_iter().try_for_each(copy))?;
            }
            (Some(lookahead), threads) => {
                let tasks = split(&located, place);
                lookahead.run(threads.as_deref(), tasks, |task| task.0.len(), copy)?;
            }
        }
        Ok(Gathered { buffer, offsets })
    }

    /// Calls `visit` with the place of each record in its map, once it is verified there.
    pub fn for_each_payload<E: From<ReaderError>>(
        &self,
        records: &[RecordNumber],
        mut visit: impl FnMut(&Map, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let lookahead = Lookahead::new(self, records);
        for (place, &record) in records.iter().enumerate() {
            lookahead.reach(place);
            let located = Located::find(&self.caches, record).map_err(ReaderError::from)?;
            let Some(found) = located.in_place(&self.caches) else {
                let cache = located.cache(&self.caches);
                return Err(E::from(ReaderError::NoViews {
                    cache: cache.name().to_owned(),
                    algorithm: cache.manifest().compression,
                }));
            };
            if self.read.verify_reads {
                found.verify(found.payload).map_err(ReaderError::from)?;
            }
            visit(found.map(), found.range())?;
        }
        Ok(())
    }
}

/// Records, and the place that their payloads are copied to.
type Task<'a> = (&'a [Located], &'a mut [u8]);

/// Cuts a copy into what one thread takes at a time.
fn split<'a>(records: &'a [Located], buffer: &'a mut [u8]) -> Vec<Task<'a>> {
    let mut tasks = Vec::with_capacity(buffer.len() / TASK_BYTES + 1);
    let mut rest_records = records;
    let mut rest_buffer = buffer;
    while !rest_records.is_empty() {
        let mut bytes = 0;
        let mut count = 0;
        while count < rest_records.len() && bytes < TASK_BYTES {
            bytes += rest_records[count].location.payload_bytes();
            count += 1;
        }
        let (task_records, later_records) = rest_records.split_at(count);
        let (task_buffer, later_buffer) = rest_buffer.split_at_mut(bytes);
        tasks.push((task_records, task_buffer));
        rest_records = later_records;
        rest_buffer = later_buffer;
    }
    tasks
}

/// Copies record after record; `buffer` has exactly their length.
fn copy_all(
    caches: &CacheSet,
    records: &[Located],
    mut buffer: &mut [u8],
    verify: bool,
) -> Result<(), StoreError> {
    for located in records {
        let (place, rest) = buffer.split_at_mut(located.location.payload_bytes());
        located
            .cache(caches)
            .read_into(&located.location, place, verify)?;
        buffer = rest;
    }
    Ok(())
}
