//! What the weights of a table say before any order is built: refusals, and the filter that zero
//! weights put on orders that do not draw by weight.

use std::sync::OnceLock;

use crate::executor::{
    BLOCK_ROWS, Executor, InOrder, block_rows, map_blocks, map_parts, num_blocks,
};
use crate::quantize::RoundedSum;
use crate::{InvalidWeightsKind, OrderKind, SamplerError};

/// How many offending rows an error lists.
const LISTED_ROWS: usize = 5;

/// Facts about weights that passed the checks.
#[derive(Debug)]
pub(crate) struct WeightSummary {
    pub(crate) smallest: f64,
    pub(crate) largest: f64,
    pub(crate) positive_rows: u64,
    /// The first row of the largest weight.
    pub(crate) heaviest_row: usize,
}

impl WeightSummary {
    pub(crate) fn all_equal(&self) -> bool {
        self.smallest == self.largest
    }
}

/// What one pass over some of the weights finds.
struct Found {
    smallest: f64,
    largest: f64,
    positive_rows: u64,
    usable_rows: u64,
}

impl Found {
    fn of(weights: &[f64]) -> Self {
        const LANES: usize = 8;
        // Independent lanes, so that the compiler can use vector registers.
        let mut smallest = [f64::INFINITY; LANES];
        let mut largest = [0.0_f64; LANES];
        let mut positive = [0_u64; LANES];
        let mut usable = [0_u64; LANES];
        let mut examine = |lane: usize, weight: f64| {
            smallest[lane] = if weight < smallest[lane] {
                weight
            } else {
                smallest[lane]
            };
            largest[lane] = if weight > largest[lane] {
                weight
            } else {
                largest[lane]
            };
            positive[lane] += u64::from(weight > 0.0);
            usable[lane] += u64::from(is_usable(weight));
        };
        let chunks = weights.chunks_exact(LANES);
        for &weight in chunks.remainder() {
            examine(0, weight);
        }
        for chunk in chunks {
            for (lane, &weight) in chunk.iter().enumerate() {
                examine(lane, weight);
            }
        }
        Self {
            smallest: smallest.into_iter().fold(f64::INFINITY, f64::min),
            largest: largest.into_iter().fold(0.0, f64::max),
            positive_rows: positive.iter().sum(),
            usable_rows: usable.iter().sum(),
        }
    }
}

/// Checks the weights and sums them up in one pass.
pub(crate) fn summarize(
    weights: &[f64],
    executor: &dyn Executor,
) -> Result<WeightSummary, SamplerError> {
    let blocks = map_blocks(executor, weights.len(), |rows| Found::of(&weights[rows]))?;
    summary_of(weights, &blocks)
}

/// [`summarize`], and beside it the sum of the weights as they are.
pub(crate) fn summarize_and_sum(
    weights: &[f64],
    executor: &dyn Executor,
) -> Result<(WeightSummary, RoundedSum), SamplerError> {
    let rows = weights.len();
    // The sum is one long part: it begins first, while others take up the blocks.
    let sum = OnceLock::new();
    let blocks = map_parts(executor, num_blocks(rows) + 1, |part| {
        if part == 0 {
            sum.get_or_init(|| RoundedSum::new(weights, 1.0));
        }
        let block = part.checked_sub(1)?;
        Some(Found::of(&weights[block_rows(block, rows)]))
    })?;
    let blocks: Vec<Found> = blocks.into_iter().flatten().collect();
    let summary = summary_of(weights, &blocks)?;
    let sum = sum.into_inner().ok_or(SamplerError::Stopped)?;
    Ok((summary, sum))
}

fn summary_of(weights: &[f64], blocks: &[Found]) -> Result<WeightSummary, SamplerError> {
    if weights.is_empty() {
        return Err(SamplerError::InvalidWeights {
            kind: InvalidWeightsKind::Empty,
            rows: Vec::new(),
            values: Vec::new(),
            total_offending: 0,
        });
    }
    let total = weights.len() as u64;
    let usable: u64 = blocks.iter().map(|block| block.usable_rows).sum();
    if usable < total {
        return Err(refuse_unusable(weights, total - usable));
    }
    let smallest = blocks.iter().map(|block| block.smallest);
    let largest = blocks.iter().map(|block| block.largest).fold(0.0, f64::max);
    let heaviest_block = blocks.iter().position(|block| block.largest == largest);
    let first_row = heaviest_block.unwrap_or_default() * BLOCK_ROWS;
    let heaviest = weights[first_row..]
        .iter()
        .position(|&weight| weight == largest);
    let summary = WeightSummary {
        smallest: smallest.fold(f64::INFINITY, f64::min),
        largest,
        positive_rows: blocks.iter().map(|block| block.positive_rows).sum(),
        heaviest_row: first_row + heaviest.unwrap_or_default(),
    };
    if summary.positive_rows == 0 {
        let listed = weights.len().min(LISTED_ROWS);
        return Err(SamplerError::InvalidWeights {
            kind: InvalidWeightsKind::AllZero,
            rows: (0..listed as u64).collect(),
            values: weights[..listed].to_vec(),
            total_offending: total,
        });
    }
    Ok(summary)
}

/// The active rows that an order without weights draws from, in table order: those of positive
/// weight, or `None` when these are all rows.
///
/// The weighted order draws by its table, so it needs no list either. The sequential order ignores
/// how large positive weights are; the permutation order refuses to.
///
/// ```
/// use dataset_rt_sampler::{OrderKind, eligible_rows};
///
/// let rows = eligible_rows(&[2.0, 0.0, 2.0], OrderKind::Permutation)?;
/// assert_eq!(rows, Some(vec![0, 2]));
/// # Ok::<(), dataset_rt_sampler::SamplerError>(())
/// ```
///
/// # Errors
/// [`SamplerError::InvalidWeights`] for weights that nothing can be drawn by, and
/// [`SamplerError::UnequalWeights`] where a permutation would ignore weights that differ.
pub fn eligible_rows(weights: &[f64], kind: OrderKind) -> Result<Option<Vec<u64>>, SamplerError> {
    let summary = summarize(weights, &InOrder)?;
    if kind == OrderKind::Weighted || summary.all_equal() {
        return Ok(None);
    }
    if kind == OrderKind::Permutation {
        refuse_unequal(weights)?;
    }
    if summary.positive_rows == weights.len() as u64 {
        return Ok(None);
    }
    let mut rows = Vec::with_capacity(summary.positive_rows as usize);
    rows.extend(
        (0_u64..)
            .zip(weights)
            .filter(|&(_, &weight)| weight > 0.0)
            .map(|(row, _)| row),
    );
    Ok(Some(rows))
}

fn is_usable(weight: f64) -> bool {
    (0.0..=f64::MAX).contains(&weight)
}

fn refuse_unusable(weights: &[f64], total_offending: u64) -> SamplerError {
    let offending = (0_u64..)
        .zip(weights)
        .filter(|&(_, &weight)| !is_usable(weight));
    let (rows, values) = offending.take(LISTED_ROWS).unzip();
    let kind = InvalidWeightsKind::NotFiniteNonNegative;
    SamplerError::InvalidWeights {
        kind,
        rows,
        values,
        total_offending,
    }
}

fn refuse_unequal(weights: &[f64]) -> Result<(), SamplerError> {
    let mut positive = (0_u64..).zip(weights).filter(|&(_, &weight)| weight > 0.0);
    let Some((first_row, &first_weight)) = positive.next() else {
        return Ok(());
    };
    match positive.find(|&(_, &weight)| weight != first_weight) {
        Some((other_row, &other_weight)) => Err(SamplerError::UnequalWeights {
            first_row,
            first_weight,
            other_row,
            other_weight,
        }),
        None => Ok(()),
    }
}
