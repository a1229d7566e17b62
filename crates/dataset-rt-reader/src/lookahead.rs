//! Advice on the records that are read next, ahead of the threads that read them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dataset_rt_store::Stretch;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::active_table::RecordNumber;
use crate::caches::CacheSet;
use crate::coldness::DiskUse;
use crate::gather::Located;
use crate::view::View;

/// Advice goes no further than this beyond the records that are being read.
const AHEAD_BYTES: u64 = 8 << 20;
/// Nor further than this many records: no disk works on more at once.
const AHEAD_RECORDS: u64 = 1024;

/// Records that one call reads in this order.
#[derive(Debug)]
pub struct Lookahead<'a> {
    caches: &'a CacheSet,
    records: &'a [RecordNumber],
    /// Records from the front that have been advised on, while that is needed.
    advised: Mutex<usize>,
    /// The counters of this thread, if its reads are being watched.
    look: Option<DiskUse>,
}

impl<'a> Lookahead<'a> {
    /// Looks ahead in these records, which are about to be read in the calling thread.
    #[must_use]
    pub fn new(view: &'a View, records: &'a [RecordNumber]) -> Self {
        let look = view.caches.coldness().look(records.len() as u64);
        Self::unwatched(view, records, look)
    }

    /// Looks ahead in records that other threads may read, if they seem to come from the disk.
    pub(crate) fn if_cold(view: &'a View, records: &'a [RecordNumber]) -> Option<Self> {
        let is_cold = view.caches.coldness().is_cold();
        is_cold.then(|| Self::unwatched(view, records, None))
    }

    fn unwatched(view: &'a View, records: &'a [RecordNumber], look: Option<DiskUse>) -> Self {
        Self {
            caches: &view.caches,
            records,
            advised: Mutex::new(0),
            look,
        }
    }

    /// Gives advice for the record at this place and those that follow it; call it before reading.
    #[inline]
    pub fn reach(&self, place: usize) {
        if self.caches.coldness().is_cold() {
            self.advise(place);
        }
    }

    #[cold]
    fn advise(&self, place: usize) {
        let ahead = AHEAD_BYTES / self.caches.coldness().mean_record_bytes();
        let ahead = ahead.clamp(1, AHEAD_RECORDS) as usize;
        // A thread whose own records were not advised on waits here until they are.
        let mut advised = self.advised.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(due) = due(place, *advised, self.records.len(), ahead) {
            *advised = due.end;
            self.caches.advise(&self.records[due]);
        }
    }

    /// Does tasks in order, in these threads or in the calling one, each task after the advice that
    /// it needs. `records_of` says how many of the records a task reads.
    pub(crate) fn run<T: Send, E: Send>(
        &self,
        threads: Option<&ThreadPool>,
        tasks: Vec<T>,
        records_of: impl Fn(&T) -> usize + Sync,
        work: impl Fn(T) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        // What is read first is asked for first, before two threads can get ahead of it.
        self.reach(0);
        let rest = Mutex::new((0, tasks.into_iter()));
        let has_failed = AtomicBool::new(false);
        let take = || {
            if has_failed.load(Ordering::Relaxed) {
                return None;
            }
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            let task = rest.1.next()?;
            let place = rest.0;
            rest.0 += records_of(&task);
            Some((place, task))
        };
        let work_on = |_| {
            while let Some((place, task)) = take() {
                self.reach(place);
                work(task).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        let Some(threads) = threads else {
            return work_on(0);
        };
        let numbers = 0..threads.current_num_threads();
        threads.install(|| numbers.into_par_iter().try_for_each(work_on))
    }
}

impl Drop for Lookahead<'_> {
    fn drop(&mut self) {
        if let Some(look) = self.look {
            self.caches.coldness().compare(look);
        }
    }
}

/// Which of `records` to advise on before the one at `place` is read, when those before `advised`
/// have been: it comes in stretches, so that most reads have nothing to do.
fn due(place: usize, advised: usize, records: usize, ahead: usize) -> Option<Range<usize>> {
    let start = place.max(advised);
    let stop = (place + ahead).min(records);
    let can_wait = place < advised && stop < records && stop - start < ahead.div_ceil(8);
    (start < stop && !can_wait).then_some(start..stop)
}

/// How far a window of the stream has been asked for, and advised on.
#[derive(Debug)]
pub(crate) struct WindowLookahead {
    asked: AtomicU64,
    advised: Mutex<u64>,
}

impl WindowLookahead {
    pub(crate) fn new(start: u64) -> Self {
        Self {
            asked: AtomicU64::new(start),
            advised: Mutex::new(start),
        }
    }

    /// Notes that positions up to this one will be read.
    pub(crate) fn ask(&self, stop: u64) {
        self.asked.store(stop, Ordering::Release);
    }

    /// Gives advice for all that was asked for, if need be; call it before reading from `start` on.
    pub(crate) fn reach(&self, view: &View, start: u64) {
        let caches = &view.caches;
        if !caches.coldness().is_cold() {
            return;
        }
        let mut advised = self.advised.lock().unwrap_or_else(PoisonError::into_inner);
        let start = start.max(*advised);
        let stop = self.asked.load(Ordering::Acquire);
        if start >= stop {
            return;
        }
        *advised = stop;
        // If these cannot be found, the read says why.
        if let Ok(rows) = view.draws(start, stop)
            && let Ok(records) = view.records_of_rows(&rows)
        {
            caches.advise(&records);
        }
    }
}

impl CacheSet {
    /// Tells the system that these records are read soon.
    fn advise(&self, records: &[RecordNumber]) {
        self.coldness().advise(records.len() as u64, || {
            let mut pending: Option<(usize, Stretch)> = None;
            for &record in records {
                // If it cannot be found, the read says why.
                let Ok(located) = Located::find(self, record) else {
                    continue;
                };
                let (number, location) = (located.cache_index, &located.location);
                let joined = pending
                    .filter(|&(pending_number, _)| pending_number == number)
                    .and_then(|(_, stretch)| stretch.joined(location));
                if joined.is_none()
                    && let Some((pending_number, stretch)) = pending
                {
                    self.caches()[pending_number].advise(stretch);
                }
                pending = Some((number, joined.unwrap_or_else(|| Stretch::of(location))));
            }
            if let Some((number, stretch)) = pending {
                self.caches()[number].advise(stretch);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_advised_on_once_before_it_is_read_and_not_too_early() {
        for (records, ahead) in [(1, 1), (7, 1), (100, 8), (100, 81), (100, 1024)] {
            let mut advised = 0;
            let mut calls = 0;
            for place in 0..records {
                if let Some(due) = due(place, advised, records, ahead) {
                    assert_eq!(due.start, advised);
                    assert!(due.end <= place + ahead);
                    advised = due.end;
                    calls += 1;
                }
                assert!(place < advised);
            }
            assert_eq!(advised, records);
            assert!(calls <= 1 + records.div_ceil(ahead.div_ceil(8)), "{calls}");
        }
    }

    #[test]
    fn records_that_were_passed_over_need_no_advice() {
        assert_eq!(due(50, 8, 100, 8), Some(50..58));
        assert_eq!(due(99, 100, 100, 8), None);
    }
}
