//! The active rows: which record each row of the table is.

use dataset_rt_sampler::Flat;

use crate::error::ReaderError;

/// A record in the common numbering of all caches of a dataset.
pub type RecordNumber = u64;

/// Rows that are drawn from. One row is one record; records may repeat.
#[derive(Debug, Clone)]
pub enum ActiveTable {
    /// Every record of every cache, in order; takes no memory.
    Whole {
        /// Number of records.
        records: u64,
    },
    /// The record of each row.
    Listed(Flat<RecordNumber>),
}

impl ActiveTable {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Whole { records } => *records,
            Self::Listed(rows) => rows.len() as u64,
        }
    }

    /// Says whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces row numbers by their records, in place.
    ///
    /// Row numbers come from a stream, and records from a list, that may both be mapped from files
    /// of a snapshot: every number is checked against what it must be below.
    pub fn resolve(&self, rows: &mut [u64], records: u64) -> Result<(), ReaderError> {
        let out_of_range = |row: u64| ReaderError::RowOutOfRange {
            row: i64::try_from(row).unwrap_or(i64::MAX),
            rows: self.len(),
        };
        match self {
            Self::Whole { records } => match rows.iter().find(|row| *row >= records) {
                Some(&row) => Err(out_of_range(row)),
                None => Ok(()),
            },
            Self::Listed(list) => {
                let list = list.as_slice();
                for row in rows {
                    let record = usize::try_from(*row).ok().and_then(|row| list.get(row));
                    match record {
                        Some(&record) if record < records => *row = record,
                        _ => return Err(out_of_range(*row)),
                    }
                }
                Ok(())
            }
        }
    }
}
