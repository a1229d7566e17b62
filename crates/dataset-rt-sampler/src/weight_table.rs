//! The alias table: one entry per row, so that a weighted draw is one look-up whatever the weights.

use bytemuck::{Pod, Zeroable};

use crate::executor::{Executor, InOrder};
use crate::quantize::{Quantizer, RoundedSum};
use crate::sweep::sweep;
use crate::weights::{WeightSummary, summarize_and_sum};
use crate::{Flat, SamplerError};

/// One bucket: the coins below `threshold` give the bucket's own row, the others give `alias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AliasEntry {
    /// Own share of the bucket, in units of 2^-64 (so 0 where that is all of it, modulo 2^64).
    pub threshold: u64,
    /// The row that has the rest; the bucket's own row if that has all of it.
    pub alias: u64,
}

/// Row weights in the form that draws need, 16 bytes per row.
///
/// The table gives every row its weight's share to within 2^-60 of all draws, and choosing the bucket
/// by 64 bits adds at most `rows / 2^64` of that share. A weight of 0 is never drawn. A positive
/// weight below about 2^-64 of the mean weight may never be drawn either, or once in over 2^61 draws.
///
/// ```
/// use dataset_rt_sampler::WeightTable;
///
/// let table = WeightTable::build(&[1.0, 3.0])?.expect("the weights differ");
/// let half = 1 << 63;
/// assert_eq!((table.entries()[0].threshold, table.entries()[0].alias), (half, 1));
/// assert!(WeightTable::build(&[5.0, 5.0])?.is_none());
/// # Ok::<(), dataset_rt_sampler::SamplerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct WeightTable {
    entries: Flat<AliasEntry>,
}

impl WeightTable {
    /// Builds the table, or gives `None` if all weights are equal, as draws need no table then.
    ///
    /// Takes O(rows) time and no memory to speak of but the table.
    ///
    /// # Errors
    /// [`SamplerError::InvalidWeights`] for weights that are negative, NaN, infinite, all 0, or none.
    pub fn build(weights: &[f64]) -> Result<Option<Self>, SamplerError> {
        Self::build_with(weights, &InOrder)
    }

    /// Builds the table as [`WeightTable::build`] does, by an executor of the caller's.
    ///
    /// # Errors
    /// As [`WeightTable::build`], and [`SamplerError::Stopped`] if the executor stopped.
    pub fn build_with(
        weights: &[f64],
        executor: &dyn Executor,
    ) -> Result<Option<Self>, SamplerError> {
        let (summary, sum) = summarize_and_sum(weights, executor)?;
        if summary.all_equal() {
            return Ok(None);
        }
        Self::of_summary(weights, &summary, sum, executor).map(Some)
    }

    /// Builds the table even if all weights are equal; the draws are the same as without it.
    ///
    /// # Errors
    /// As [`WeightTable::build`].
    pub fn build_always(weights: &[f64]) -> Result<Self, SamplerError> {
        let (summary, sum) = summarize_and_sum(weights, &InOrder)?;
        Self::of_summary(weights, &summary, sum, &InOrder)
    }

    /// Builds the table into memory of the caller's, such as a map of a new file or huge pages. Gives
    /// `false`, and leaves the memory as it is, if all weights are equal.
    ///
    /// # Errors
    /// As [`WeightTable::build_with`], and [`SamplerError::WeightTableLength`] unless there is one
    /// entry per weight. The entries are of no use then.
    pub fn build_into(
        weights: &[f64],
        entries: &mut [AliasEntry],
        executor: &dyn Executor,
    ) -> Result<bool, SamplerError> {
        if entries.len() != weights.len() {
            return Err(SamplerError::WeightTableLength {
                table_rows: entries.len() as u64,
                population: weights.len() as u64,
            });
        }
        let (summary, sum) = summarize_and_sum(weights, executor)?;
        if summary.all_equal() {
            return Ok(false);
        }
        let quantizer = Quantizer::new(weights, &summary, sum, executor)?;
        sweep(weights, &quantizer, entries, executor)?;
        Ok(true)
    }

    fn of_summary(
        weights: &[f64],
        summary: &WeightSummary,
        sum: RoundedSum,
        executor: &dyn Executor,
    ) -> Result<Self, SamplerError> {
        let mut entries = bytemuck::zeroed_vec(weights.len());
        let quantizer = Quantizer::new(weights, summary, sum, executor)?;
        sweep(weights, &quantizer, &mut entries, executor)?;
        Ok(Self {
            entries: Flat::from(entries),
        })
    }

    /// A table that was written by [`WeightTable::as_bytes`]; its values are not checked.
    ///
    /// # Errors
    /// [`SamplerError::EmptyPopulation`] for a table without rows.
    pub fn from_entries(entries: Flat<AliasEntry>) -> Result<Self, SamplerError> {
        if entries.is_empty() {
            return Err(SamplerError::EmptyPopulation);
        }
        Ok(Self { entries })
    }

    /// Checks that every alias is a row of the table; O(rows).
    ///
    /// # Errors
    /// [`SamplerError::DamagedTable`] for the first entry that is not.
    pub fn verify(&self) -> Result<(), SamplerError> {
        let entries = self.entries();
        let population = entries.len() as u64;
        match entries.iter().position(|entry| entry.alias >= population) {
            Some(entry) => Err(SamplerError::DamagedTable {
                table: "weight table",
                entry: entry as u64,
                found: entries[entry].alias,
                population,
            }),
            None => Ok(()),
        }
    }

    /// The entries, one per row.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> &[AliasEntry] {
        self.entries.as_slice()
    }

    /// The table as the bytes to write to a file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.entries.as_bytes()
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Always false: a table has at least one row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The row that a bucket and a coin give.
#[inline]
pub(crate) fn pick(entries: &[AliasEntry], bucket: u64, coin: u64) -> u64 {
    // There is an entry for every bucket, unless a map changed its length after it was checked.
    let missing = AliasEntry {
        threshold: 0,
        alias: u64::MAX,
    };
    let entry = entries.get(bucket as usize).copied().unwrap_or(missing);
    if coin < entry.threshold {
        bucket
    } else {
        entry.alias
    }
}
