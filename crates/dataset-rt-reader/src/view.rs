//! Everything that a read needs, frozen: caches, active table, weights, stream and options.

use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use dataset_rt_sampler::{Flat, LAST_POSITION, OrderKind, Stream, WeightTable, eligible_rows};

use crate::active_table::{ActiveTable, RecordNumber};
use crate::caches::{CacheSet, SharedCaches};
use crate::error::ReaderError;
use crate::options::{DrawOptions, ReadOptions};
use crate::pool::Pool;

/// A dataset at one moment. Iterators and batches share it.
#[derive(Debug)]
pub struct View {
    pub(crate) caches: SharedCaches,
    pub(crate) table: ActiveTable,
    /// `None` means that every row weighs the same.
    pub(crate) weights: Option<Arc<[f64]>>,
    /// The table as the user gave it, with the columns that only the table has.
    pub(crate) edited: Option<Arc<[RecordBatch]>>,
    pub(crate) stream: Stream,
    pub(crate) draw: DrawOptions,
    pub(crate) read: ReadOptions,
    pub(crate) pool: Arc<Pool>,
    pub(crate) fingerprint: OnceLock<String>,
}

impl View {
    /// The stream of a table under these weights and draw options.
    pub(crate) fn stream_of(
        draw: DrawOptions,
        rows: u64,
        weights: Option<&[f64]>,
    ) -> Result<Stream, ReaderError> {
        let order = draw.order();
        let (table, eligible) = match (order, weights) {
            (_, None) => (None, None),
            (OrderKind::Weighted, Some(weights)) => (WeightTable::build(weights)?, None),
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
        if start > stop || stop > LAST_POSITION + 1 {
            return Err(ReaderError::PositionRange { start, stop });
        }
        let length = usize::try_from(stop - start)
            .map_err(|_| ReaderError::PositionRange { start, stop })?;
        let mut rows = ReaderError::try_zeroed(length, "the drawn rows")?;
        self.stream.fill(start, &mut rows);
        Ok(rows)
    }

    /// Records of these active rows.
    pub fn records_of_rows(&self, rows: &[u64]) -> Result<Vec<RecordNumber>, ReaderError> {
        let mut records = rows.to_vec();
        self.table.resolve(&mut records, self.caches.len())?;
        Ok(records)
    }

    /// Hash of the caches, the active rows and their weights; computed once.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            for cache in self.caches.caches() {
                hasher.update(cache.manifest().digest.as_bytes());
            }
            match &self.table {
                ActiveTable::Whole { .. } => hasher.update(b"whole"),
                ActiveTable::Listed(rows) => {
                    hasher.update(b"rows");
                    hasher.update(rows.as_bytes())
                }
            };
            match &self.weights {
                None => hasher.update(b"equal"),
                Some(weights) => {
                    hasher.update(b"weights");
                    hasher.update(bytemuck::cast_slice(weights))
                }
            };
            hasher.finalize().to_hex().to_string()
        })
    }
}
