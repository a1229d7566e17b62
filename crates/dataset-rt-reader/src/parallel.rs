//! Long computations in the threads of a pool, which can be stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dataset_rt_sampler::{Executor, InOrder, SamplerError};
use rayon::prelude::*;

use crate::error::ReaderError;
use crate::pool::Pool;

/// So few parts are done before other threads are awake.
const SEQUENTIAL_PARTS: usize = 4;

/// Tells a long computation that nobody waits for it any more; clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Says whether it was told.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    #[must_use]
    pub fn as_atomic(&self) -> &AtomicBool {
        &self.0
    }

    /// An error if it was told.
    pub(crate) fn check(&self) -> Result<(), ReaderError> {
        if self.is_set() {
            return Err(SamplerError::Stopped.into());
        }
        Ok(())
    }
}

/// The threads of a pool as long as nobody says stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolExecutor<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) stop: &'a StopFlag,
}

impl Executor for PoolExecutor<'_> {
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let unless_stopped = |part| {
            if !self.stop.is_set() {
                work(part);
            }
        };
        if parts > SEQUENTIAL_PARTS
            && self.pool.num_threads() > 1
            // Threads that cannot be had are no reason to fail: the one that calls can do it all.
            && let Ok(threads) = self.pool.threads()
        {
            threads.install(|| {
                // Parts differ in length, so each may go to another thread.
                let parts = (0..parts).into_par_iter().with_max_len(1);
                parts.for_each(unless_stopped);
            });
        } else {
            InOrder.run(parts, &unless_stopped);
        }
    }
}

/// The results of all parts.
pub(crate) fn map_parts<T: Send + Sync>(
    executor: &PoolExecutor<'_>,
    parts: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, ReaderError> {
    let results: Vec<OnceLock<T>> = (0..parts).map(|_| OnceLock::new()).collect();
    executor.run(parts, &|part| {
        results[part].get_or_init(|| work(part));
    });
    let results: Option<_> = results.into_iter().map(OnceLock::into_inner).collect();
    Ok(results.ok_or(SamplerError::Stopped)?)
}

/// Fills an array whose parts have these lengths.
pub(crate) fn fill_parts<T: Send>(
    executor: &PoolExecutor<'_>,
    values: &mut [T],
    lengths: impl Iterator<Item = usize>,
    work: impl Fn(usize, &mut [T]) + Sync,
) -> Result<(), ReaderError> {
    let parts = split_parts(values, lengths);
    executor.run(parts.len(), &|number| {
        let mut part = parts[number].lock().unwrap_or_else(PoisonError::into_inner);
        work(number, &mut part);
    });
    executor.stop.check()
}

/// The parts of an array, each of which is locked once, by whoever fills it: a lock is what hands
/// out one of many for writing.
pub(crate) fn split_parts<T>(
    values: &mut [T],
    lengths: impl Iterator<Item = usize>,
) -> Vec<Mutex<&mut [T]>> {
    let mut rest = values;
    lengths
        .map(|length| {
            let (part, later) = std::mem::take(&mut rest).split_at_mut(length);
            rest = later;
            Mutex::new(part)
        })
        .collect()
}
