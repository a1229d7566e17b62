//! The alias table: one entry per row, so that a weighted draw is one look-up whatever the weights.
//!
//! Building it is the "sweeping" alias construction (Huebschle-Schneider, Sanders: "Parallel
//! Weighted Random Sampling"): one pointer walks the light rows, one the heavy rows, both forwards,
//! and every bucket that a light row does not fill is filled up by the current heavy row. All of it
//! is exact arithmetic on integers, so every bucket is full at the end.

use bytemuck::{Pod, Zeroable};

use crate::quantize::{FULL, Quantizer};
use crate::weights::{WeightSummary, summarize};
use crate::{Flat, SamplerError};

/// One bucket: the coins below `threshold` give the bucket's own row, the others give `alias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AliasEntry {
    /// Own share of the bucket, in units of 2^-64.
    pub threshold: u64,
    /// The row that has the rest; the bucket's own row if that has all of it.
    pub alias: u64,
}

/// Row weights in the form that draws need, 16 bytes per row.
///
/// Every row is drawn with the probability that its weight says, to within 2^-60; a weight of 0
/// is never drawn. Only a positive weight below about 2^-64 of the mean can come out as never drawn.
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
    /// Takes O(rows) time and no memory but the table.
    ///
    /// # Errors
    /// [`SamplerError::InvalidWeights`] for weights that are negative, NaN, infinite, all 0, or none.
    pub fn build(weights: &[f64]) -> Result<Option<Self>, SamplerError> {
        let summary = summarize(weights)?;
        Ok((!summary.all_equal()).then(|| Self::from_summary(weights, &summary)))
    }

    /// Builds the table even if all weights are equal; the draws are the same as without it.
    ///
    /// # Errors
    /// As [`WeightTable::build`].
    pub fn build_always(weights: &[f64]) -> Result<Self, SamplerError> {
        Ok(Self::from_summary(weights, &summarize(weights)?))
    }

    fn from_summary(weights: &[f64], summary: &WeightSummary) -> Self {
        let quantizer = Quantizer::new(weights, summary);
        Self {
            entries: Flat::from(sweep(weights, &quantizer)),
        }
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

fn sweep(weights: &[f64], quantizer: &Quantizer) -> Vec<AliasEntry> {
    let mut entries: Vec<AliasEntry> = bytemuck::zeroed_vec(weights.len());
    let mut light_rows = Rows::new(weights, |row, weight| !quantizer.is_heavy(row, weight));
    let mut heavy_rows = Rows::new(weights, |row, weight| quantizer.is_heavy(row, weight));

    // The current heavy row and what it has left to give. The units of the buckets not yet filled
    // always add up to their number times FULL, hence the two expectations.
    let mut heavy = heavy_rows
        .next()
        .expect("some row has at least the mean weight");
    let mut units = quantizer.units(heavy, weights[heavy]);
    loop {
        if units > FULL {
            let light = light_rows
                .next()
                .expect("a surplus of one row is a deficit of others");
            let light_units = quantizer.units(light, weights[light]);
            entries[light] = AliasEntry {
                threshold: light_units as u64,
                alias: heavy as u64,
            };
            units -= FULL - light_units;
        } else {
            let own = AliasEntry {
                threshold: u64::MAX,
                alias: heavy as u64,
            };
            let Some(next) = heavy_rows.next() else {
                entries[heavy] = own;
                break;
            };
            let missing = FULL - units;
            let shared = AliasEntry {
                threshold: units as u64,
                alias: next as u64,
            };
            entries[heavy] = if missing == 0 { own } else { shared };
            heavy = next;
            units = quantizer.units(heavy, weights[heavy]) - missing;
        }
    }
    debug_assert!(
        units == FULL && light_rows.next().is_none(),
        "every bucket is full"
    );
    entries
}

/// The rows that a condition picks, in order. They are picked a block at a time without a branch
/// per row: light and heavy rows follow each other at random, and a processor that guesses wrong
/// half of the time makes the sweep twice as slow.
struct Rows<'weights, Condition> {
    weights: &'weights [f64],
    condition: Condition,
    next_block: usize,
    picked: [usize; BLOCK],
    picked_len: usize,
    cursor: usize,
}

const BLOCK: usize = 512;

impl<'weights, Condition: Fn(usize, f64) -> bool> Rows<'weights, Condition> {
    fn new(weights: &'weights [f64], condition: Condition) -> Self {
        Self {
            weights,
            condition,
            next_block: 0,
            picked: [0; BLOCK],
            picked_len: 0,
            cursor: 0,
        }
    }

    #[cold]
    fn refill(&mut self) {
        while self.cursor == self.picked_len && self.next_block < self.weights.len() {
            let start = self.next_block;
            let stop = self.weights.len().min(start + BLOCK);
            let mut picked_len = 0;
            for (row, &weight) in (start..stop).zip(&self.weights[start..stop]) {
                self.picked[picked_len] = row;
                picked_len += usize::from((self.condition)(row, weight));
            }
            (self.next_block, self.picked_len, self.cursor) = (stop, picked_len, 0);
        }
    }
}

impl<Condition: Fn(usize, f64) -> bool> Iterator for Rows<'_, Condition> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.cursor == self.picked_len {
            self.refill();
            if self.cursor == self.picked_len {
                return None;
            }
        }
        let row = self.picked[self.cursor];
        self.cursor += 1;
        Some(row)
    }
}
