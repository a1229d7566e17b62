//! Samples made ready, so that the one who hands them out has little left to do.

use std::ops::Range;
use std::sync::Arc;

use dataset_rt_store::{Destination, Unwritten, Value, Written};

use crate::active_table::RecordNumber;
use crate::caches::{CacheSet, value_at};
use crate::error::ReaderError;
use crate::gather::Located;
use crate::view::View;

/// Payloads up to this size are copied together. They come from anywhere in the map, and each costs
/// the thread that touches it first a walk through the page tables; out of a few neighbouring pages
/// they are copied faster once more. Larger ones are worth more than a second copy.
const COPIED_BYTES: usize = 8 << 10;
/// Payloads in the map up to this size are verified as they are handed out, in the pass that copies
/// them. Those that are larger take too long for that, as nobody else runs meanwhile.
pub(crate) const VERIFIED_LATE_BYTES: usize = 1 << 20;

/// Bytes of payloads in one chunk, if that is more than one sample.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// One sample, found and verified.
#[derive(Debug, Clone)]
pub struct Prepared {
    contents: Arc<Contents>,
    number: usize,
}

impl Prepared {
    /// Number of the sample in its cache.
    #[must_use]
    #[inline]
    pub fn sample(&self) -> u64 {
        self.entry().located.location.sample()
    }

    /// Place of its cache among the caches of the dataset.
    #[must_use]
    #[inline]
    pub fn cache_index(&self) -> usize {
        self.entry().located.cache_index
    }

    /// Stream position of the sample, if it was drawn.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.contents.first_position + self.number as u64
    }

    /// Length of the payload.
    #[must_use]
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.entry().located.location.payload_bytes()
    }

    /// Writes the payload, which has the length of the place. One that is still in the map is verified
    /// as it is copied.
    #[inline]
    pub fn copy_payload(&self, view: &View, place: Unwritten<'_>) -> Result<Written, ReaderError> {
        let verify = match &self.entry().payload {
            Payload::Copied(range) => {
                return Ok(place.fill(&self.contents.copies[range.clone()]));
            }
            Payload::Verified => false,
            Payload::InMap => view.read.verify_reads,
        };
        let caches = &*view.caches;
        // Without a copy the payload lies in the map: that is how it was prepared.
        let Some(record) = self.entry().located.in_place(caches) else {
            return Err(ReaderError::ReaderPanic);
        };
        let copy = || record.copy_into(place, verify, Destination::Cached);
        let written = caches.coldness().watch(1, copy)?;
        // The next one is on its way while Python has its turn.
        let next = self.contents.entries.get(self.number + 1);
        if let Some(record) = next.and_then(|next| next.located.in_place(caches)) {
            record.prefetch();
        }
        Ok(written)
    }

    /// The value in one metadata column of the dataset.
    #[must_use]
    #[inline]
    pub fn value(&self, column: usize) -> Value<'_> {
        match &self.contents.values[self.number * self.contents.columns + column] {
            Stored::Null => Value::Null,
            Stored::Boolean(value) => Value::Boolean(*value),
            Stored::Integer(value) => Value::Integer(*value),
            Stored::Float(value) => Value::Float(*value),
            Stored::String(range) => Value::String(&self.contents.text[range.clone()]),
        }
    }

    #[inline]
    fn entry(&self) -> &Entry {
        &self.contents.entries[self.number]
    }
}

/// Consecutive samples, up to the first that failed.
#[derive(Debug, Default)]
pub struct Chunk {
    contents: Arc<Contents>,
    next: usize,
    error: Option<ReaderError>,
    /// The positions that were asked for, if these are draws.
    positions: Range<u64>,
}

#[derive(Debug, Default)]
struct Contents {
    /// Stream position of the first, if these are draws.
    first_position: u64,
    entries: Vec<Entry>,
    copies: Vec<u8>,
    columns: usize,
    /// The values of one sample after those of another.
    values: Vec<Stored>,
    text: String,
}

#[derive(Debug)]
struct Entry {
    located: Located,
    payload: Payload,
}

/// When payloads that can be copied out of the map are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verifying {
    /// As samples are made ready.
    Early,
    /// As they are handed out.
    Late,
}

/// Where a payload is.
#[derive(Debug)]
enum Payload {
    /// Among the copies, verified.
    Copied(Range<usize>),
    /// In the map, verified.
    Verified,
    /// In the map, not looked at.
    InMap,
}

#[derive(Debug)]
enum Stored {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(Range<usize>),
}

impl Chunk {
    /// Finds and decodes the samples at these positions, as far as they fit a chunk; none if the first
    /// has more bytes than this.
    pub(crate) fn prepare(
        view: &View,
        start: u64,
        stop: u64,
        verifying: Verifying,
        most_bytes: u64,
    ) -> Self {
        let rows = view.draws(start, stop);
        let chunk = match rows.and_then(|rows| view.records_of_rows(&rows)) {
            Ok(records) => Self::of(view, &records, verifying, most_bytes, start),
            Err(error) => Self {
                error: Some(error),
                ..Self::default()
            },
        };
        Self {
            positions: start..stop,
            ..chunk
        }
    }

    /// The positions that were asked for and did not fit.
    pub(crate) fn rest(&self) -> Option<(u64, u64)> {
        let start = self.positions.start + self.len() as u64;
        (self.error.is_none() && start < self.positions.end).then_some((start, self.positions.end))
    }

    /// Finds and decodes these samples, as far as they fit a chunk: at least the first.
    ///
    /// The one who hands them out can verify what is in memory, but should not wait for the disk.
    #[must_use]
    pub fn of_records(view: &View, records: &[RecordNumber]) -> Self {
        let verifying = if view.caches.coldness().is_cold() {
            Verifying::Early
        } else {
            Verifying::Late
        };
        Self::of(view, records, verifying, u64::MAX, 0)
    }

    fn of(
        view: &View,
        records: &[RecordNumber],
        verifying: Verifying,
        most_bytes: u64,
        first_position: u64,
    ) -> Self {
        let mut contents = Contents {
            first_position,
            columns: view.caches.columns().len(),
            ..Contents::default()
        };
        let error = contents.fill(view, records, verifying, most_bytes).err();
        Self {
            contents: Arc::new(contents),
            next: 0,
            error,
            positions: 0..0,
        }
    }

    /// Number of samples that were prepared.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.entries.len()
    }

    /// Says whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next sample.
    #[inline]
    pub fn next_sample(&mut self) -> Option<Prepared> {
        let number = self.next;
        (number < self.contents.entries.len()).then(|| {
            self.next += 1;
            Prepared {
                contents: Arc::clone(&self.contents),
                number,
            }
        })
    }

    /// What ended the chunk early, once.
    pub fn take_error(&mut self) -> Option<ReaderError> {
        self.error.take()
    }
}

impl Contents {
    fn fill(
        &mut self,
        view: &View,
        records: &[RecordNumber],
        verifying: Verifying,
        most_bytes: u64,
    ) -> Result<(), ReaderError> {
        let caches = &*view.caches;
        let mut located = Vec::with_capacity(records.len());
        let mut found = Ok(());
        let mut bytes = 0_u64;
        Located::prefetch(caches, records);
        for &record in records {
            match Located::find(caches, record) {
                Ok(record) => {
                    bytes = bytes.saturating_add(record.location.payload_bytes() as u64);
                    if bytes > most_bytes || (bytes > CHUNK_BYTES && !located.is_empty()) {
                        break;
                    }
                    located.push(record);
                }
                // The samples in front of it are good.
                Err(error) => {
                    found = Err(error.into());
                    break;
                }
            }
        }
        self.prefetch_metadata(caches, &located);
        self.entries.reserve_exact(located.len());
        self.values.reserve_exact(located.len() * self.columns);
        let small = located
            .iter()
            .map(|record| record.location.payload_bytes())
            .filter(|&bytes| bytes <= COPIED_BYTES);
        self.copies.reserve_exact(small.sum());
        let is_left = |located: &Located| {
            verifying == Verifying::Late && located.location.payload_bytes() > COPIED_BYTES
        };
        if located.iter().all(is_left) {
            for located in located {
                self.add(view, located, verifying)?;
            }
        } else {
            Located::visit_all(caches, &located, |_, located| {
                self.add(view, *located, verifying)
            })?;
        }
        found
    }

    /// Starts loading the metadata of all these samples, as far as its batches were read before.
    fn prefetch_metadata(&self, caches: &CacheSet, located: &[Located]) {
        if self.columns == 0 {
            return;
        }
        let known_rows = || {
            located.iter().filter_map(|located| {
                located
                    .cache(caches)
                    .metadata()
                    .known_row(located.location.sample())
            })
        };
        known_rows().for_each(|row| row.prefetch());
        known_rows().for_each(|row| row.prefetch_text());
    }

    fn add(
        &mut self,
        view: &View,
        located: Located,
        verifying: Verifying,
    ) -> Result<(), ReaderError> {
        let caches = &*view.caches;
        let payload_bytes = located.location.payload_bytes();
        let payload = match located.in_place(caches) {
            Some(record) if payload_bytes > COPIED_BYTES => {
                if payload_bytes <= VERIFIED_LATE_BYTES && verifying == Verifying::Late {
                    Payload::InMap
                } else {
                    record.verify_if(record.payload, view.read.verify_reads)?;
                    Payload::Verified
                }
            }
            Some(record) => {
                let start = self.copies.len();
                self.copies.extend_from_slice(record.payload);
                // The copy is hashed while it is in the processor's cache.
                record.verify_if(&self.copies[start..], view.read.verify_reads)?;
                Payload::Copied(start..self.copies.len())
            }
            None => {
                let start = self.copies.len();
                let stop = start.saturating_add(payload_bytes);
                self.copies
                    .try_reserve(payload_bytes)
                    .map_err(|_| ReaderError::no_memory(payload_bytes, "a payload"))?;
                self.copies.resize(stop, 0);
                located.cache(caches).read_into(
                    &located.location,
                    &mut self.copies[start..],
                    view.read.verify_reads,
                    Destination::Cached,
                )?;
                Payload::Copied(start..stop)
            }
        };
        if self.columns > 0 {
            let metadata = caches.caches()[located.cache_index].metadata();
            let row = metadata.row(located.location.sample())?;
            for place in caches.places(located.cache_index) {
                let value = match value_at(&row, *place)? {
                    Value::Null => Stored::Null,
                    Value::Boolean(value) => Stored::Boolean(value),
                    Value::Integer(value) => Stored::Integer(value),
                    Value::Float(value) => Stored::Float(value),
                    Value::String(value) => {
                        let start = self.text.len();
                        self.text.push_str(value);
                        Stored::String(start..self.text.len())
                    }
                };
                self.values.push(value);
            }
            metadata.check()?;
        }
        self.entries.push(Entry { located, payload });
        Ok(())
    }
}
