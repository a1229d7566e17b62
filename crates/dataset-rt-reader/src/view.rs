//! Everything that a read needs, frozen: caches, active table, weights, stream and options.

use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use dataset_rt_sampler::{
    AliasEntry, Executor, Flat, LAST_POSITION, OrderKind, Stream, WeightTable, eligible_rows,
};
use dataset_rt_store::Record;
use rayon::prelude::*;

use crate::active_table::{ActiveTable, RecordNumber};
use crate::batch::LatestUse;
use crate::caches::{CacheSet, Placed, SharedCaches};
use crate::error::ReaderError;
use crate::gather::Located;
use crate::huge::HugeArray;
use crate::options::{DrawOptions, ReadOptions};
use crate::parallel::StopFlag;
use crate::pool::Pool;

/// A payload of this length is verified and copied in the time that it takes to let others run.
const QUICK_BYTES: usize = 64 << 10;

/// Draws that one thread makes at a time.
const DRAWS_PER_TASK: usize = 1 << 16;

/// Bytes that are hashed between two looks at the stop flag.
const HASHED_BYTES: usize = 64 << 20;

/// A dataset at one moment. Iterators and batches share it.
#[derive(Debug)]
pub struct View {
    pub(crate) caches: SharedCaches,
    pub(crate) table: ActiveTable,
    /// `None` means that every row weighs the same.
    pub(crate) weights: Option<Flat<f64>>,
    /// The table as the user gave it, with the columns that only the table has.
    pub(crate) edited: Option<Arc<[RecordBatch]>>,
    pub(crate) stream: Stream,
    pub(crate) draw: DrawOptions,
    pub(crate) read: ReadOptions,
    pub(crate) pool: Arc<Pool>,
    pub(crate) fingerprint: OnceLock<String>,
    /// What batches of the latest iterator were asked for.
    pub(crate) latest_use: Arc<LatestUse>,
}

impl View {
    /// The stream of a table under these weights and draw options.
    pub(crate) fn stream_of(
        draw: DrawOptions,
        rows: u64,
        weights: Option<&[f64]>,
        executor: &dyn Executor,
    ) -> Result<Stream, ReaderError> {
        let order = draw.order();
        let (table, eligible) = match (order, weights) {
            (_, None) => (None, None),
            (OrderKind::Weighted, Some(weights)) => (weight_table(weights, executor)?, None),
            (_, Some(weights)) => (None, eligible_rows(weights, order)?),
        };
        Ok(Stream::new(
            order,
            draw.seed,
            rows,
            table.map(Arc::new),
            eligible.map(Flat::from),
        )?)
    }

    /// The caches.
    #[must_use]
    pub fn caches(&self) -> &CacheSet {
        &self.caches
    }

    /// Number of active rows.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.table.len()
    }

    /// The read options.
    #[must_use]
    pub fn read_options(&self) -> &ReadOptions {
        &self.read
    }

    /// The draw options.
    #[must_use]
    pub fn draw_options(&self) -> &DrawOptions {
        &self.draw
    }

    /// Says whether the active table differs from the caches: other rows, weights or columns.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.edited.is_some() || self.weights.is_some()
    }

    /// Active rows that the stream draws at these positions.
    pub fn draws(&self, start: u64, stop: u64) -> Result<Vec<u64>, ReaderError> {
        let length = Self::num_draws(start, stop)?;
        let mut rows = ReaderError::try_zeroed(length, "the drawn rows")?;
        self.stream.fill(start, &mut rows);
        Ok(rows)
    }

    /// How many draws there are from one position to another, if that is a range of the stream.
    pub fn num_draws(start: u64, stop: u64) -> Result<usize, ReaderError> {
        let range = ReaderError::PositionRange { start, stop };
        if start > stop || stop > LAST_POSITION + 1 {
            return Err(range);
        }
        usize::try_from(stop - start).map_err(|_| range)
    }

    /// Writes the active rows that the stream draws from `start` on, many of them by all threads.
    pub fn draw_into(
        &self,
        start: u64,
        rows: &mut [u64],
        stop: &StopFlag,
    ) -> Result<(), ReaderError> {
        let population = self.num_rows();
        let draw = |(task, rows): (usize, &mut [u64])| {
            stop.check()?;
            self.stream
                .fill(start + (task * DRAWS_PER_TASK) as u64, rows);
            // A damaged table of a snapshot may name any row.
            match rows.iter().find(|&&row| row >= population) {
                Some(&row) => Err(ReaderError::RowOutOfRange {
                    row: i64::try_from(row).unwrap_or(i64::MAX),
                    rows: population,
                }),
                None => Ok(()),
            }
        };
        if rows.len() <= DRAWS_PER_TASK || self.pool.num_threads() == 1 {
            return rows
                .chunks_mut(DRAWS_PER_TASK)
                .enumerate()
                .try_for_each(draw);
        }
        let tasks = rows.par_chunks_mut(DRAWS_PER_TASK).enumerate();
        self.pool.threads()?.install(|| tasks.try_for_each(draw))
    }

    /// Records of these active rows.
    pub fn records_of_rows(&self, rows: &[u64]) -> Result<Vec<RecordNumber>, ReaderError> {
        let mut records = rows.to_vec();
        self.table.resolve(&mut records, self.caches.len())?;
        Ok(records)
    }

    /// The record in the map, if it is read in no time: in memory, as it is, and not long.
    #[must_use]
    pub fn quick_record(&self, placed: &Placed<'_>) -> Option<Record<'_>> {
        if self.caches.coldness().is_cold() {
            return None;
        }
        // What cannot be found is refused by the read.
        let located = Located::find_placed(placed).ok()?;
        let is_short = located.location.payload_bytes() <= QUICK_BYTES;
        is_short.then(|| located.in_place(&self.caches)).flatten()
    }

    /// Record of one active row.
    pub fn record_of_row(&self, row: u64) -> Result<RecordNumber, ReaderError> {
        let mut record = [row];
        self.table.resolve(&mut record, self.caches.len())?;
        Ok(record[0])
    }

    /// Hash of the caches, the active rows and their weights; computed once.
    pub fn fingerprint(&self, stop: &StopFlag) -> Result<&str, ReaderError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known);
        }
        let mut hasher = blake3::Hasher::new();
        for cache in self.caches.caches() {
            hasher.update(cache.manifest().digest.as_bytes());
        }
        match &self.table {
            ActiveTable::Whole { .. } => {
                hasher.update(b"whole");
            }
            ActiveTable::Listed(rows) => {
                hasher.update(b"rows");
                self.hash(&mut hasher, rows.as_bytes(), stop)?;
            }
        }
        match &self.weights {
            None => {
                hasher.update(b"equal");
            }
            Some(weights) => {
                hasher.update(b"weights");
                self.hash(&mut hasher, weights.as_bytes(), stop)?;
            }
        }
        let found = hasher.finalize().to_hex().to_string();
        Ok(self.fingerprint.get_or_init(|| found))
    }

    /// Hashes bytes as one thread would, but by all.
    fn hash(
        &self,
        hasher: &mut blake3::Hasher,
        bytes: &[u8],
        stop: &StopFlag,
    ) -> Result<(), ReaderError> {
        if bytes.len() < HASHED_BYTES || self.pool.num_threads() == 1 {
            for part in bytes.chunks(HASHED_BYTES) {
                stop.check()?;
                hasher.update(part);
            }
            return Ok(());
        }
        let threads = self.pool.threads()?;
        for part in bytes.chunks(HASHED_BYTES) {
            stop.check()?;
            threads.install(|| hasher.update_rayon(part));
        }
        Ok(())
    }
}

/// The table of weights that differ, in huge pages.
fn weight_table(
    weights: &[f64],
    executor: &dyn Executor,
) -> Result<Option<WeightTable>, ReaderError> {
    let mut entries = HugeArray::<AliasEntry>::zeroed(weights.len(), "the weight table")?;
    if WeightTable::build_into(weights, entries.as_mut_slice(), executor)? {
        return Ok(Some(WeightTable::from_entries(entries.into_flat()?)?));
    }
    Ok(None)
}
