//! Copying many records into one buffer, each verified as it is copied.

use std::ops::Range;

use dataset_rt_store::{Cache, Destination, Location, Record, StoreError};
use rayon::prelude::*;

use crate::active_table::RecordNumber;
use crate::batch::Gathered;
use crate::caches::{CacheSet, Placed};
use crate::error::ReaderError;
use crate::lookahead::Lookahead;
use crate::view::View;

/// Below this many bytes one thread is faster than waking others.
pub(crate) const PARALLEL_BYTES: usize = 1 << 20;
/// Bytes that one thread takes at a time.
pub(crate) const TASK_BYTES: usize = 256 << 10;
/// What is larger than this leaves the caches of the processor before anybody reads it.
const CACHED_BYTES: usize = 8 << 20;
/// So many records, or bytes, take a tenth of a second from memory.
const LONG_RECORDS: usize = 1 << 14;
const LONG_BYTES: u64 = 256 << 20;
/// Entries of an index that are loaded at once before they are read.
const PREFETCHED_ENTRIES: usize = 1 << 10;
/// While one record is copied, the one after the next is on its way from memory.
const RECORDS_AHEAD: usize = 2;

/// Where this many bytes end up.
pub(crate) fn destination_of(bytes: usize) -> Destination {
    if bytes <= CACHED_BYTES {
        Destination::Cached
    } else {
        Destination::Memory
    }
}

/// A record found in its cache: which cache, and where in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located {
    pub(crate) cache_index: usize,
    pub(crate) location: Location,
}

impl Located {
    #[inline]
    pub(crate) fn find(caches: &CacheSet, record: RecordNumber) -> Result<Self, StoreError> {
        Self::find_placed(&caches.place(record))
    }

    #[inline]
    pub(crate) fn find_placed(placed: &Placed<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            cache_index: placed.cache_index,
            location: placed.cache.locate(placed.sample)?,
        })
    }

    #[inline]
    pub(crate) fn cache<'a>(&self, caches: &'a CacheSet) -> &'a Cache {
        &caches.caches()[self.cache_index]
    }

    /// All of these records, found.
    pub(crate) fn find_all(
        caches: &CacheSet,
        records: &[RecordNumber],
    ) -> Result<Vec<Self>, StoreError> {
        Self::prefetch(caches, records);
        records
            .iter()
            .map(|&record| Self::find(caches, record))
            .collect()
    }

    /// Starts loading what `find` will read for each of these records.
    pub(crate) fn prefetch(caches: &CacheSet, records: &[RecordNumber]) {
        for &record in records.iter().take(PREFETCHED_ENTRIES) {
            let placed = caches.place(record);
            placed.cache.prefetch_location(placed.sample);
        }
    }

    /// Calls `visit` with each record and its number, while records behind it are being loaded.
    #[inline]
    pub(crate) fn visit_all<E>(
        caches: &CacheSet,
        located: &[Self],
        mut visit: impl FnMut(usize, &Self) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, record) in located.iter().enumerate() {
            let ahead = located.get(number + RECORDS_AHEAD);
            if let Some(ahead) = ahead.and_then(|ahead| ahead.in_place(caches)) {
                ahead.prefetch();
            }
            visit(number, record)?;
        }
        Ok(())
    }

    /// The payload in the map, if that is where it can be read.
    #[inline]
    pub(crate) fn in_place<'a>(&self, caches: &'a CacheSet) -> Option<Record<'a>> {
        self.cache(caches).in_place(&self.location)
    }
}

/// Where the payload of one record lies.
#[derive(Debug, Clone)]
pub struct PayloadPlace {
    /// Place of its cache among the caches of the dataset.
    pub cache_index: usize,
    /// Number of the shard in its cache.
    pub shard: usize,
    /// The bytes in the map of the shard.
    pub range: Range<usize>,
}

/// Records, each found in its cache.
#[derive(Debug)]
pub struct FoundRecords {
    pub(crate) records: Vec<RecordNumber>,
    pub(crate) located: Vec<Located>,
    payload_bytes: u64,
}

impl FoundRecords {
    /// Says whether reading them may take long enough for somebody to press Ctrl-C, from memory.
    #[must_use]
    pub fn take_long(&self) -> bool {
        self.payload_bytes >= LONG_BYTES
    }

    /// Bytes of all payloads.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Cuts them into stretches of no more than so many bytes, each of at least one record.
    #[must_use]
    pub fn stretches(&self, most_bytes: usize) -> Vec<Self> {
        let mut stretches = Vec::new();
        let mut first = 0;
        let mut bytes = 0_usize;
        for (number, located) in self.located.iter().enumerate() {
            let more = located.location.payload_bytes();
            if number > first && bytes.saturating_add(more) > most_bytes {
                stretches.push(self.stretch(first..number));
                (first, bytes) = (number, 0);
            }
            bytes = bytes.saturating_add(more);
        }
        if first < self.located.len() {
            stretches.push(self.stretch(first..self.located.len()));
        }
        stretches
    }

    fn stretch(&self, range: Range<usize>) -> Self {
        Self::of(
            self.records[range.clone()].to_vec(),
            self.located[range].to_vec(),
        )
    }

    fn of(records: Vec<RecordNumber>, located: Vec<Located>) -> Self {
        let payload_bytes = located.iter().fold(0, |bytes: u64, located| {
            bytes.saturating_add(located.location.payload_bytes() as u64)
        });
        Self {
            records,
            located,
            payload_bytes,
        }
    }
}

impl View {
    /// Says whether reading so many records may take long enough for somebody to press Ctrl-C, even
    /// if they are small.
    #[must_use]
    pub fn may_take_long(&self, num_records: usize) -> bool {
        num_records >= LONG_RECORDS || self.caches.coldness().is_cold()
    }

    /// Finds records in their caches.
    pub fn find(&self, records: Vec<RecordNumber>) -> Result<FoundRecords, ReaderError> {
        let located = Located::find_all(&self.caches, &records)?;
        Ok(FoundRecords::of(records, located))
    }

    /// Copies the payloads of these records back to back.
    pub fn gather(&self, found: &FoundRecords) -> Result<Gathered, ReaderError> {
        let caches = &*self.caches;
        let (records, located) = (&found.records, &found.located);
        let mut offsets = Vec::with_capacity(located.len() + 1);
        let mut total = 0_usize;
        offsets.push(0);
        for record in located {
            // The lengths of compressed records are only what their index says.
            total = total
                .checked_add(record.location.payload_bytes())
                .filter(|&total| i64::try_from(total).is_ok())
                .ok_or_else(|| ReaderError::no_memory(usize::MAX, "the payloads of a batch"))?;
            offsets.push(total as i64);
        }
        let mut buffer = self.pool.buffers().take(total)?;
        let verify = self.read.verify_reads;
        let destination = destination_of(total);
        let copy = |(records, place): Task<'_>| {
            let read = || copy_all(caches, records, place, verify, destination);
            caches.coldness().watch(records.len() as u64, read)
        };
        let is_parallel = total >= PARALLEL_BYTES && self.pool.num_threads() > 1;
        let threads = is_parallel.then(|| self.pool.threads()).transpose()?;
        let place = buffer.bytes_mut();
        match (Lookahead::if_cold(self, records), threads) {
            (None, None) => copy((located, place))?,
            (None, Some(threads)) => {
                let tasks = split(located, place);
                threads.install(|| tasks.into_par_iter().try_for_each(copy))?;
            }
            (Some(lookahead), threads) => {
                let tasks = split(located, place);
                lookahead.run(threads.as_deref(), tasks, |task| task.0.len(), copy)?;
            }
        }
        Ok(Gathered { buffer, offsets })
    }

    /// Where these records lie in the maps, once they are verified there.
    pub fn places(&self, found: &FoundRecords) -> Result<Vec<PayloadPlace>, ReaderError> {
        let caches = &*self.caches;
        let (records, located) = (&found.records, &found.located);
        let verify = self.read.verify_reads;
        let bytes = found.payload_bytes;
        let is_parallel = verify && bytes >= PARALLEL_BYTES as u64 && self.pool.num_threads() > 1;
        let per_task = if is_parallel {
            let tasks = usize::try_from(bytes.div_ceil(TASK_BYTES as u64)).unwrap_or(usize::MAX);
            located.len().div_ceil(tasks).max(1)
        } else {
            located.len().max(1)
        };
        let lookahead = Lookahead::new(self, records);
        let find = |(number, part): (usize, &[Located])| {
            let mut places = Vec::with_capacity(part.len());
            Located::visit_all(caches, part, |place, located| {
                lookahead.reach(number * per_task + place);
                let Some(found) = located.in_place(caches) else {
                    let cache = located.cache(caches);
                    return Err(ReaderError::NoViews {
                        cache: cache.name().to_owned(),
                        algorithm: cache.manifest().compression,
                    });
                };
                if verify {
                    found.verify(found.payload)?;
                }
                places.push(PayloadPlace {
                    cache_index: located.cache_index,
                    shard: found.shard,
                    range: found.range(),
                });
                Ok(())
            })?;
            Ok::<_, ReaderError>(places)
        };
        if !is_parallel {
            return find((0, located));
        }
        let parts = self.pool.threads()?.install(|| {
            located
                .par_chunks(per_task)
                .enumerate()
                .map(find)
                .collect::<Result<Vec<_>, _>>()
        })?;
        Ok(parts.concat())
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
    buffer: &mut [u8],
    verify: bool,
    destination: Destination,
) -> Result<(), StoreError> {
    let mut rest = buffer;
    Located::visit_all(caches, records, |_, located| {
        let (place, behind) =
            std::mem::take(&mut rest).split_at_mut(located.location.payload_bytes());
        rest = behind;
        let cache = located.cache(caches);
        cache.read_into(&located.location, place, verify, destination)
    })
}
