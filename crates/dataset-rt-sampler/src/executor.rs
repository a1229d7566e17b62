//! How long computations are cut into parts that may run side by side.

use std::ops::Range;
use std::sync::OnceLock;

use crate::SamplerError;

/// Rows that are looked at as one part: 64 KiB of weights, which stay in the second cache.
pub(crate) const BLOCK_ROWS: usize = 8_192;

/// Runs the parts of a long computation; a caller that has threads implements it with them.
///
/// What is computed does not depend on the order of the parts, on threads, or on their number.
///
/// ```
/// use dataset_rt_sampler::{Executor, InOrder, WeightTable};
///
/// /// Runs part after part until somebody has enough of it.
/// struct Impatient;
///
/// impl Executor for Impatient {
///     fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
///         InOrder.run(parts.min(1), work);
///     }
/// }
///
/// let weights: Vec<f64> = (1..=100_000).map(f64::from).collect();
/// assert!(WeightTable::build_with(&weights, &InOrder).is_ok());
/// assert!(WeightTable::build_with(&weights, &Impatient).is_err());
/// ```
pub trait Executor: Sync {
    /// Calls `work` once with every number below `parts`, in any order and on any threads.
    ///
    /// Leaving parts out stops the computation: it ends with [`SamplerError::Stopped`].
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync));
}

/// One part after the other, on the thread that calls.
#[derive(Debug, Clone, Copy)]
pub struct InOrder;

impl Executor for InOrder {
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..parts).for_each(work);
    }
}

/// The results of all parts.
pub(crate) fn map_parts<T: Send + Sync>(
    executor: &dyn Executor,
    parts: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, SamplerError> {
    let results: Vec<OnceLock<T>> = (0..parts).map(|_| OnceLock::new()).collect();
    executor.run(parts, &|part| {
        results[part].get_or_init(|| work(part));
    });
    let results: Option<_> = results.into_iter().map(OnceLock::into_inner).collect();
    results.ok_or(SamplerError::Stopped)
}

/// How many blocks there are in so many rows.
pub(crate) fn num_blocks(rows: usize) -> usize {
    rows.div_ceil(BLOCK_ROWS)
}

/// The rows of one block.
pub(crate) fn block_rows(block: usize, rows: usize) -> Range<usize> {
    let start = block * BLOCK_ROWS;
    start..rows.min(start + BLOCK_ROWS)
}

/// The results for all blocks of so many rows.
pub(crate) fn map_blocks<T: Send + Sync>(
    executor: &dyn Executor,
    rows: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Result<Vec<T>, SamplerError> {
    map_parts(executor, num_blocks(rows), |block| {
        work(block_rows(block, rows))
    })
}
