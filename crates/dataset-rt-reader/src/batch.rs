//! Many records at once: which they are, their payloads in one buffer, their metadata as columns.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::active_table::RecordNumber;
use crate::buffers::Buffer;
use crate::error::ReaderError;
use crate::gather::{FoundRecords, PayloadPlace};
use crate::stacking::StackedArray;
use crate::view::View;

/// Payloads back to back.
#[derive(Debug)]
pub struct Gathered {
    /// All payloads.
    pub buffer: Buffer,
    /// Where each payload begins, and one past the last: one more than there are records.
    pub offsets: Vec<i64>,
}

/// What a batch is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Its payloads, copied.
    Payloads,
    /// Stacked arrays, perhaps filled up along an axis.
    Arrays {
        /// The axis.
        pad_axis: Option<usize>,
    },
    /// Views into the maps.
    Views,
    /// Samples, which are read when they are asked for, or no payload.
    Other,
}

/// What the batches of an iterator were last asked for, and so what is worth doing ahead; payloads at
/// first.
#[derive(Debug, Default)]
pub(crate) struct LatestUse(AtomicUsize);

impl LatestUse {
    const PAYLOADS: usize = 0;
    const OTHER: usize = 1;
    const VIEWS: usize = 2;
    const ARRAYS: usize = 3;
    const PADDED_ARRAYS: usize = 4;

    pub(crate) fn new(latest: Use) -> Self {
        let new = Self(AtomicUsize::new(0));
        new.set(latest);
        new
    }

    pub(crate) fn set(&self, latest: Use) {
        let code = match latest {
            Use::Payloads => Self::PAYLOADS,
            Use::Other => Self::OTHER,
            Use::Views => Self::VIEWS,
            Use::Arrays { pad_axis: None } => Self::ARRAYS,
            Use::Arrays {
                pad_axis: Some(axis),
            } => axis.saturating_add(Self::PADDED_ARRAYS),
        };
        self.0.store(code, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Use {
        match self.0.load(Ordering::Relaxed) {
            Self::PAYLOADS => Use::Payloads,
            Self::OTHER => Use::Other,
            Self::VIEWS => Use::Views,
            Self::ARRAYS => Use::Arrays { pad_axis: None },
            padded => Use::Arrays {
                pad_axis: Some(padded - Self::PADDED_ARRAYS),
            },
        }
    }
}

/// How it is known what a batch is going to be asked for.
#[derive(Debug, Clone)]
pub(crate) enum Preparation {
    /// It is what those before it were asked for.
    Latest(Arc<LatestUse>),
    /// It was begun for that.
    For(Use),
}

impl Preparation {
    /// At first what an earlier iterator was used for.
    pub(crate) fn as_latest(view: &View) -> Self {
        Self::Latest(Arc::new(LatestUse::new(view.latest_use.get())))
    }

    fn wanted(&self) -> Use {
        match self {
            Self::Latest(latest) => latest.get(),
            Self::For(wanted) => *wanted,
        }
    }

    fn usage(&self, view: &View) -> Option<Usage> {
        match self {
            Self::Latest(latest) => Some(Usage {
                of_iterator: Arc::clone(latest),
                of_dataset: Arc::clone(&view.latest_use),
                is_noted: AtomicBool::new(false),
                is_handed_out: AtomicBool::new(false),
            }),
            Self::For(_) => None,
        }
    }
}

/// What becomes of one batch, and who learns of it.
#[derive(Debug)]
struct Usage {
    of_iterator: Arc<LatestUse>,
    of_dataset: Arc<LatestUse>,
    is_noted: AtomicBool,
    is_handed_out: AtomicBool,
}

impl Usage {
    fn note(&self, latest: Use) {
        self.is_noted.store(true, Ordering::Relaxed);
        self.of_iterator.set(latest);
        self.of_dataset.set(latest);
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // Somebody looked at metadata alone, or at nothing.
        if self.is_handed_out.load(Ordering::Relaxed) && !self.is_noted.load(Ordering::Relaxed) {
            self.note(Use::Other);
        }
    }
}

/// What was done ahead, apart from copying payloads.
#[derive(Debug)]
enum Ahead {
    Arrays {
        pad_axis: Option<usize>,
        arrays: Vec<StackedArray>,
    },
    Places(Vec<PayloadPlace>),
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
    ahead: Option<Ahead>,
    /// Of a batch that an iterator gave.
    usage: Option<Usage>,
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
            ahead: None,
            usage: None,
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

    /// The payloads, copied and verified at the first call.
    pub fn gathered(&self) -> Result<&Gathered, ReaderError> {
        if let Some(gathered) = self.gathered.get() {
            return Ok(gathered);
        }
        let gathered = self.gather()?;
        Ok(self.gathered.get_or_init(|| gathered))
    }

    fn gather(&self) -> Result<Gathered, ReaderError> {
        self.view.gather(&self.view.find(self.records.clone())?)
    }

    /// Takes the payloads out, if they have been copied.
    pub fn take_gathered(&mut self) -> Option<Gathered> {
        self.gathered.take()
    }

    /// Gives payloads back that were taken out and not changed.
    pub fn put_gathered(&mut self, gathered: Gathered) {
        // If they were read anew meanwhile, these are the same.
        let _ = self.gathered.set(gathered);
    }

    /// Takes the stacked arrays out, if they were made ahead in this way.
    pub fn take_stacked(&mut self, pad_axis: Option<usize>) -> Option<Vec<StackedArray>> {
        match self.ahead.take()? {
            Ahead::Arrays {
                pad_axis: axis,
                arrays,
            } if axis == pad_axis => Some(arrays),
            other => {
                self.ahead = Some(other);
                None
            }
        }
    }

    /// Takes the places of the payloads out, if they were found and verified ahead.
    pub fn take_places(&mut self) -> Option<Vec<PayloadPlace>> {
        match self.ahead.take()? {
            Ahead::Places(places) => Some(places),
            other => {
                self.ahead = Some(other);
                None
            }
        }
    }

    /// Notes what the batch is asked for, so that the next ones of its iterator are prepared for it.
    pub fn note_use(&self, latest: Use) {
        if let Some(usage) = &self.usage {
            usage.note(latest);
        }
    }

    /// From now on it counts if the batch is dropped without having been asked for payloads.
    pub(crate) fn hand_out(&self) {
        if let Some(usage) = &self.usage {
            usage.is_handed_out.store(true, Ordering::Relaxed);
        }
    }

    /// Does what is going to be asked for, or nothing at all if that means reading more bytes.
    ///
    /// Damage that is found ends the iterator, whatever the batch is asked for.
    pub(crate) fn prepared(
        mut self,
        preparation: &Preparation,
        most_bytes: u64,
    ) -> Result<Option<Self>, ReaderError> {
        let wanted = preparation.wanted();
        if wanted != Use::Other {
            let found = self.view.find(self.records.clone())?;
            if found.payload_bytes() > most_bytes {
                return Ok(None);
            }
            match self.read_ahead(&found, wanted) {
                // It comes again if the batch is asked for the same, which is not known.
                Err(ReaderError::NoViews { .. } | ReaderError::NotStackable { .. })
                    if matches!(preparation, Preparation::Latest(_)) => {}
                read => read?,
            }
        }
        self.usage = preparation.usage(&self.view);
        Ok(Some(self))
    }

    fn read_ahead(&mut self, found: &FoundRecords, wanted: Use) -> Result<(), ReaderError> {
        match wanted {
            Use::Payloads => self.put_gathered(self.view.gather(found)?),
            Use::Arrays { pad_axis } => {
                let arrays = self.view.stack_arrays(found, pad_axis)?;
                self.ahead = Some(Ahead::Arrays { pad_axis, arrays });
            }
            Use::Views => self.ahead = Some(Ahead::Places(self.view.places(found)?)),
            Use::Other => {}
        }
        Ok(())
    }

    /// Bytes that were prepared.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        let gathered = self.gathered.get().map(|gathered| &gathered.buffer);
        let arrays = match &self.ahead {
            Some(Ahead::Arrays { arrays, .. }) => arrays.as_slice(),
            _ => &[],
        };
        let stacked = arrays.iter().map(|array| &array.buffer);
        let buffers = gathered.into_iter().chain(stacked);
        buffers.map(|buffer| buffer.bytes().len() as u64).sum()
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
