//! Fills the buckets of a weight table, in O(rows) and in order of memory.
//!
//! This is the "sweeping" alias construction (Hübschle-Schneider, Sanders: "Parallel Weighted
//! Random Sampling", 2019): one pointer walks the rows that do not fill their bucket, one those that
//! overflow it, both forwards, and the current heavy row fills up what the light ones leave empty.
//! The units of all rows are exactly those of all buckets, so every bucket is full at the end.
//!
//! Stretches of the sweep run side by side: [`crate::stretches`] finds where each begins. Every entry
//! is written by one of them, and is the same for any number of stretches.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromBytes;

use crate::executor::{Executor, map_parts};
use crate::quantize::{FULL, Quantizer};
use crate::stretches::{Stretch, stretches};
use crate::{AliasEntry, SamplerError};

/// Rows looked at together by one pointer; weights and picks of a block stay in the first cache.
const BLOCK: usize = 512;

/// Threshold and alias of one entry. Stretches share all entries, as the rows that two of them
/// write lie among each other; plain stores are what relaxed ones compile to.
type EntryCells = [AtomicU64; 2];

/// Fills all entries, one per weight.
pub(crate) fn sweep(
    weights: &[f64],
    quantizer: &Quantizer,
    entries: &mut [AliasEntry],
    executor: &dyn Executor,
) -> Result<(), SamplerError> {
    let cells = <[EntryCells]>::mut_from_bytes(bytemuck::cast_slice_mut(entries));
    let cells: &[EntryCells] = cells.expect("an entry is two aligned words");
    let stretches = stretches(weights, quantizer, executor)?;
    map_parts(executor, stretches.len(), |number| {
        sweep_stretch(weights, quantizer, &stretches[number], cells);
    })?;
    Ok(())
}

fn sweep_stretch(
    weights: &[f64],
    quantizer: &Quantizer,
    stretch: &Stretch,
    entries: &[EntryCells],
) {
    let mut lights = Picks::<false>::new(weights, quantizer, stretch.next_light);
    let mut heavies = Picks::<true>::new(weights, quantizer, stretch.heavy + 1);

    // The current heavy row and what it still has beyond its own bucket. The excesses of all rows
    // whose buckets are not filled yet add up to 0.
    let (mut heavy, mut excess) = (stretch.heavy, stretch.excess);
    let mut steps_left = stretch.steps;
    while steps_left > 0 && lights.is_ready() && heavies.is_ready() {
        let steps = steps_left.min(lights.left()).min(heavies.left());
        steps_left -= steps;
        // Which of two cases a step is, is as good as random: written without a branch, as a
        // processor that guesses wrong half of the time takes twice as long.
        for _ in 0..steps {
            let ((light, light_excess), (next, next_excess)) = (lights.peek(), heavies.peek());
            let gives = excess >= 0;
            // Either the heavy row fills up the light row's bucket, or what is left of the heavy row
            // goes into its own bucket and the next heavy row fills that up. An excess is the
            // threshold of its bucket modulo 2^64.
            let bucket = select_unpredictable(gives, light, heavy);
            let threshold = select_unpredictable(gives, light_excess as u64, excess as u64);
            let next_or_same = select_unpredictable(gives, heavy, next);
            store(&entries[bucket], threshold, next_or_same);
            excess += select_unpredictable(gives, light_excess, next_excess);
            heavy = next_or_same;
            lights.cursor += usize::from(gives);
            heavies.cursor += usize::from(!gives);
        }
    }
    // Only one of the two kinds is left: light rows, which the last heavy row fills up, or heavy
    // rows, where the first may need the second and the others fill their own buckets.
    while steps_left > 0
        && let Some((light, light_excess)) = lights.next()
    {
        store(&entries[light], light_excess as u64, heavy);
        excess += light_excess;
        steps_left -= 1;
    }
    while steps_left > 0
        && let Some((next, next_excess)) = heavies.next()
    {
        let alias = if excess < 0 { next } else { heavy };
        store(&entries[heavy], excess as u64, alias);
        excess += next_excess;
        heavy = next;
        steps_left -= 1;
    }
    if stretch.is_last {
        debug_assert_eq!(excess, 0, "all units are in the buckets");
        store(&entries[heavy], 0, heavy);
    }
}

#[inline]
fn store([threshold_cell, alias_cell]: &EntryCells, threshold: u64, alias: usize) {
    threshold_cell.store(threshold, Ordering::Relaxed);
    alias_cell.store(alias as u64, Ordering::Relaxed);
}

/// The heavy or the light rows from one row on, with their excess over a full bucket, picked a block
/// at a time.
pub(crate) struct Picks<'inputs, const HEAVY: bool> {
    weights: &'inputs [f64],
    quantizer: &'inputs Quantizer,
    next_block: usize,
    rows: [usize; BLOCK],
    excesses: [i128; BLOCK],
    len: usize,
    cursor: usize,
}

impl<'inputs, const HEAVY: bool> Picks<'inputs, HEAVY> {
    pub(crate) fn new(
        weights: &'inputs [f64],
        quantizer: &'inputs Quantizer,
        first_row: usize,
    ) -> Self {
        let (rows, excesses) = ([0; BLOCK], [0; BLOCK]);
        Self {
            weights,
            quantizer,
            next_block: first_row,
            rows,
            excesses,
            len: 0,
            cursor: 0,
        }
    }

    #[inline]
    fn left(&self) -> usize {
        self.len - self.cursor
    }

    #[inline]
    fn peek(&self) -> (usize, i128) {
        (
            self.rows[self.cursor % BLOCK],
            self.excesses[self.cursor % BLOCK],
        )
    }

    /// Whether any row is left; picks from further blocks until there is one.
    fn is_ready(&mut self) -> bool {
        while self.left() == 0 && self.next_block < self.weights.len() {
            let start = self.next_block;
            self.next_block = self.weights.len().min(start + BLOCK);
            let mut len = 0;
            for (row, &weight) in (start..).zip(&self.weights[start..self.next_block]) {
                self.rows[len % BLOCK] = row;
                len += usize::from(self.quantizer.is_heavy(weight) == HEAVY);
            }
            for (&row, excess) in self.rows[..len].iter().zip(&mut self.excesses) {
                *excess = self.quantizer.units(self.weights[row]) as i128 - FULL as i128;
            }
            if HEAVY && let Ok(pick) = self.rows[..len].binary_search(&self.quantizer.heaviest_row)
            {
                self.excesses[pick] += i128::from(self.quantizer.heaviest_bonus);
            }
            (self.len, self.cursor) = (len, 0);
        }
        self.left() > 0
    }

    /// The next row and its excess.
    pub(crate) fn next(&mut self) -> Option<(usize, i128)> {
        let pick = self.is_ready().then(|| self.peek());
        self.cursor += usize::from(pick.is_some());
        pick
    }
}
