//! Many records at once: which they are, their payloads in one buffer, their metadata as columns.

use std::sync::{Arc, OnceLock};

use crate::active_table::RecordNumber;
use crate::buffers::Buffer;
use crate::error::ReaderError;
use crate::view::View;

/// Payloads back to back.
#[derive(Debug)]
pub struct Gathered {
    /// All payloads.
    pub buffer: Buffer,
    /// Where each payload begins, and one past the last: one more than there are records.
    pub offsets: Vec<i64>,
}

/// Some records of a dataset, in order.
#[derive(Debug)]
pub struct Batch {
    view: Arc<View>,
    rows: Vec<u64>,
    records: Vec<RecordNumber>,
    first_position: Option<u64>,
    padding_from: u64,
    gathered: OnceLock<Gathered>,
}

impl Batch {
    /// The records at these active rows.
    pub fn of_rows(view: Arc<View>, rows: Vec<u64>) -> Result<Self, ReaderError> {
        let records = view.records_of_rows(&rows)?;
        let gathered = OnceLock::new();
        Ok(Self {
            view,
            rows,
            records,
            first_position: None,
            padding_from: u64::MAX,
            gathered,
        })
    }

    /// The records drawn at these positions; those from `padding_from` on count as padding.
    pub fn of_window(
        view: Arc<View>,
        start: u64,
        stop: u64,
        padding_from: u64,
    ) -> Result<Self, ReaderError> {
        let rows = view.draws(start, stop)?;
        let batch = Self::of_rows(view, rows)?;
        Ok(Self {
            first_position: Some(start),
            padding_from,
            ..batch
        })
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Says whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The dataset that the batch was read from.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Active row of each record.
    #[must_use]
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Record numbers in the common numbering of the caches.
    #[must_use]
    pub fn records(&self) -> &[RecordNumber] {
        &self.records
    }

    /// Stream position of the first record, if the batch was drawn.
    #[must_use]
    pub fn first_position(&self) -> Option<u64> {
        self.first_position
    }

    /// Position from which on records are padding.
    #[must_use]
    pub fn padding_from(&self) -> u64 {
        self.padding_from
    }

    /// Says whether the payloads have been copied and not been taken out.
    #[must_use]
    pub fn is_gathered(&self) -> bool {
        self.gathered.get().is_some()
    }

    /// The payloads, copied and verified at the first call.
    pub fn gathered(&self) -> Result<&Gathered, ReaderError> {
        if let Some(gathered) = self.gathered.get() {
            return Ok(gathered);
        }
        let gathered = self.view.gather(&self.records)?;
        Ok(self.gathered.get_or_init(|| gathered))
    }

    /// Takes the payloads out, gathering them if that has not happened.
    pub fn take_gathered(&mut self) -> Result<Gathered, ReaderError> {
        match self.gathered.take() {
            Some(gathered) => Ok(gathered),
            None => self.view.gather(&self.records),
        }
    }

    /// Identities of the samples: cache ids and sample ids.
    #[must_use]
    pub fn identities(&self) -> (Vec<i64>, Vec<i64>) {
        self.records
            .iter()
            .map(|&record| {
                let placed = self.view.caches.place(record);
                // Both are below 2^63: ids by construction, samples as their index fits a file.
                (placed.cache.id() as i64, placed.sample as i64)
            })
            .unzip()
    }
}
