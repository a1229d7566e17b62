//! The dataset that a user holds: a current view, and where the next iterator begins.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use arrow_array::RecordBatch;
use dataset_rt_sampler::{Flat, InOrder, LAST_POSITION};

use crate::active_table::{ActiveTable, RecordNumber};
use crate::caches::CacheSet;
use crate::error::ReaderError;
use crate::metadata_table::MetadataTable;
use crate::options::{DrawOptions, ReadOptions};
use crate::parallel::{PoolExecutor, StopFlag};
use crate::pool::Pool;
use crate::read_ahead::{BatchReadAhead, SampleReadAhead};
use crate::table_edit::{TableEdit, records_of_identities};
use crate::view::View;

/// Caches, an active table and a cursor in the stream of draws.
#[derive(Debug)]
pub struct Dataset {
    /// `None` once closed.
    view: RwLock<Option<Arc<View>>>,
    session: Mutex<Session>,
}

/// A change of the table or its weights that was checked, but that nobody sees yet.
///
/// Making it takes as long as the table is; applying it takes no time. So whoever makes it can be
/// interrupted at any moment, and the dataset is as it was.
#[derive(Debug)]
pub struct Edit {
    view: View,
    sets_epoch_len: bool,
}

/// Where the next iterator begins and how far it goes.
#[derive(Debug, Clone, Copy)]
struct Session {
    cursor: u64,
    epoch_len: u64,
}

impl Dataset {
    /// Opens caches; the active table is the whole of them.
    pub fn open<P: AsRef<Path>>(
        paths: &[P],
        pool: Arc<Pool>,
        draw: DrawOptions,
        read: ReadOptions,
    ) -> Result<Self, ReaderError> {
        let caches = CacheSet::open(paths, read.schema, read.backend)?;
        let rows = caches.len();
        Ok(Self::of_view(View {
            stream: View::stream_of(draw, rows, None, &InOrder)?,
            table: ActiveTable::Whole { records: rows },
            weights: None,
            edited: None,
            caches: Arc::new(caches),
            draw,
            read,
            pool,
            fingerprint: OnceLock::new(),
            latest_use: Arc::default(),
        }))
    }

    /// Opens an exported snapshot, to be drawn with its own seed or another; O(1) either way.
    pub fn open_snapshot(
        directory: &Path,
        pool: Arc<Pool>,
        seed: Option<u64>,
    ) -> Result<Self, ReaderError> {
        Ok(Self::of_view(View::open_snapshot(directory, pool, seed)?))
    }

    fn of_view(view: View) -> Self {
        let epoch_len = view.num_rows();
        Self {
            view: RwLock::new(Some(Arc::new(view))),
            session: Mutex::new(Session {
                cursor: 0,
                epoch_len,
            }),
        }
    }

    /// The dataset as it is now.
    pub fn view(&self) -> Result<Arc<View>, ReaderError> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone().ok_or(ReaderError::Closed)
    }

    /// Lets go of all caches; iterators and batches keep theirs until they are dropped.
    pub fn close(&self) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Says whether `close` was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.view
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }

    /// Compares the digest of every file of every cache.
    pub fn validate(&self) -> Result<(), ReaderError> {
        let view = self.view()?;
        view.caches.validate(&view.pool)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Position at which the next iterator begins.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.session().cursor
    }

    /// Moves the position at which the next iterator begins.
    pub fn set_cursor(&self, position: u64) {
        self.session().cursor = position;
    }

    /// Samples of one iterator.
    #[must_use]
    pub fn epoch_len(&self) -> u64 {
        self.session().epoch_len
    }

    /// Changes the number of samples of later iterators; the cursor stays.
    pub fn set_epoch_len(&self, epoch_len: u64) {
        self.session().epoch_len = epoch_len;
    }

    /// Takes the next window of the stream and moves the cursor behind it.
    fn next_window(&self) -> Result<(u64, u64), ReaderError> {
        let mut session = self.session();
        let start = session.cursor;
        let stop = start
            .checked_add(session.epoch_len)
            .filter(|&stop| stop <= LAST_POSITION)
            .ok_or(ReaderError::PositionRange {
                start,
                stop: u64::MAX,
            })?;
        session.cursor = stop;
        Ok((start, stop))
    }

    /// The samples of the next window.
    pub fn samples(&self) -> Result<SampleReadAhead, ReaderError> {
        let view = self.view()?;
        let (start, stop) = self.next_window()?;
        Ok(SampleReadAhead::new(view, start, stop))
    }

    /// The samples at these positions, whatever the cursor.
    pub fn samples_at(&self, start: u64, stop: u64) -> Result<SampleReadAhead, ReaderError> {
        if start > stop || stop > LAST_POSITION + 1 {
            return Err(ReaderError::PositionRange { start, stop });
        }
        Ok(SampleReadAhead::new(self.view()?, start, stop))
    }

    /// The batches of the next window.
    pub fn batches(&self, batch_size: u64) -> Result<BatchReadAhead, ReaderError> {
        let view = self.view()?;
        let (start, stop) = self.next_window()?;
        Ok(BatchReadAhead::new(view, start, stop, batch_size))
    }

    /// Record numbers of samples named by identity.
    pub fn records_of_identities(
        &self,
        cache_ids: &[i64],
        sample_ids: &[i64],
    ) -> Result<Vec<RecordNumber>, ReaderError> {
        records_of_identities(&self.view()?.caches, cache_ids, sample_ids)
    }

    /// Checks a new active table whole. Applying it restarts the stream and sets the epoch to the
    /// new row count.
    pub fn edit_metadata(
        &self,
        table: &MetadataTable,
        stop: &StopFlag,
    ) -> Result<Edit, ReaderError> {
        let view = self.view()?;
        let pool = &view.pool;
        let executor = PoolExecutor { pool, stop };
        let TableEdit {
            table,
            weights,
            batches,
        } = TableEdit::check(&view.caches, table, &executor)?;
        Ok(Edit {
            view: edited(&view, table, weights, Some(Arc::from(batches)), &executor)?,
            sets_epoch_len: true,
        })
    }

    /// Checks a weight for every active row. Applying them restarts the stream.
    pub fn edit_weights(&self, weights: Flat<f64>, stop: &StopFlag) -> Result<Edit, ReaderError> {
        let view = self.view()?;
        if weights.len() as u64 != view.num_rows() {
            let (expected, found) = (view.num_rows(), weights.len() as u64);
            return Err(ReaderError::WeightCount { expected, found });
        }
        let weights = (!are_ones(weights.as_slice())).then_some(weights);
        let pool = &view.pool;
        let executor = PoolExecutor { pool, stop };
        let (table, batches) = (view.table.clone(), view.edited.clone());
        Ok(Edit {
            view: edited(&view, table, weights, batches, &executor)?,
            sets_epoch_len: false,
        })
    }

    /// Makes an edit the present state of the dataset; of several, the last one applied stays.
    pub fn apply(&self, edit: Edit) -> Result<(), ReaderError> {
        let rows = edit.view.num_rows();
        let mut current = self.view.write().unwrap_or_else(PoisonError::into_inner);
        if current.is_none() {
            return Err(ReaderError::Closed);
        }
        *current = Some(Arc::new(edit.view));
        drop(current);
        let mut session = self.session();
        session.cursor = 0;
        if edit.sets_epoch_len {
            session.epoch_len = rows;
        }
        Ok(())
    }

    /// [`Dataset::edit_metadata`], applied at once.
    pub fn update_metadata(&self, table: &MetadataTable) -> Result<(), ReaderError> {
        self.apply(self.edit_metadata(table, &StopFlag::default())?)
    }

    /// [`Dataset::edit_weights`], applied at once.
    pub fn set_weights(&self, weights: Vec<f64>) -> Result<(), ReaderError> {
        self.apply(self.edit_weights(Flat::from(weights), &StopFlag::default())?)
    }
}

/// A view with another table or other weights.
fn edited(
    view: &View,
    table: ActiveTable,
    weights: Option<Flat<f64>>,
    edited: Option<Arc<[RecordBatch]>>,
    executor: &PoolExecutor<'_>,
) -> Result<View, ReaderError> {
    let values = weights.as_ref().map(Flat::as_slice);
    let stream = View::stream_of(view.draw, table.len(), values, executor)?;
    Ok(View {
        caches: Arc::clone(&view.caches),
        table,
        weights,
        edited,
        stream,
        draw: view.draw,
        read: view.read,
        pool: Arc::clone(&view.pool),
        fingerprint: OnceLock::new(),
        latest_use: Arc::clone(&view.latest_use),
    })
}

/// Whether these weights say what a table without weights says, which takes no memory.
#[expect(
    clippy::float_cmp,
    reason = "exactly 1 is what a table without weights says"
)]
pub(crate) fn are_ones(weights: &[f64]) -> bool {
    weights.iter().all(|&weight| weight == 1.0)
}
