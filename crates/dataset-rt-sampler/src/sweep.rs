//! Fills the buckets of a weight table, in O(rows) and in order of memory.
//!
//! This is the "sweeping" alias construction (Hübschle-Schneider, Sanders: "Parallel Weighted
//! Random Sampling", 2019): one pointer walks the rows that do not fill their bucket, one those that
//! overflow it, both forwards, and the current heavy row fills up what the light ones leave empty.
//! The units of all rows are exactly those of all buckets, so every bucket is full at the end.

use std::hint::select_unpredictable;

use crate::AliasEntry;
use crate::quantize::{FULL, Quantizer};

/// Rows looked at together by one pointer; weights and picks of a block stay in the first cache.
const BLOCK: usize = 512;

/// Fills all entries, one per weight.
pub(crate) fn sweep(weights: &[f64], quantizer: &Quantizer, entries: &mut [AliasEntry]) {
    let mut lights = Picks::<false>::new(weights, quantizer);
    let mut heavies = Picks::<true>::new(weights, quantizer);

    // The current heavy row and what it still has beyond its own bucket. The excesses of all rows
    // whose buckets are not filled yet add up to 0.
    let (mut heavy, mut excess) = heavies
        .next()
        .expect("the heaviest row has at least the mean");
    while lights.is_ready() && heavies.is_ready() {
        // Which of two cases a step is, is as good as random: written without a branch, as a
        // processor that guesses wrong half of the time takes twice as long.
        while lights.has_picks() && heavies.has_picks() {
            let ((light, light_excess), (next, next_excess)) = (lights.peek(), heavies.peek());
            let gives = excess >= 0;
            // Either the heavy row fills up the light row's bucket, or what is left of the heavy row
            // goes into its own bucket and the next heavy row fills that up. An excess is the
            // threshold of its bucket modulo 2^64.
            let bucket = select_unpredictable(gives, light, heavy);
            let threshold = select_unpredictable(gives, light_excess as u64, excess as u64);
            let next_or_same = select_unpredictable(gives, heavy, next);
            entries[bucket] = AliasEntry {
                threshold,
                alias: next_or_same as u64,
            };
            excess += select_unpredictable(gives, light_excess, next_excess);
            heavy = next_or_same;
            lights.cursor += usize::from(gives);
            heavies.cursor += usize::from(!gives);
        }
    }
    // Only one of the two kinds is left: light rows, which the last heavy row fills up, or heavy
    // rows, where the first may need the second and the others fill their own buckets.
    while let Some((light, light_excess)) = lights.next() {
        entries[light] = AliasEntry {
            threshold: light_excess as u64,
            alias: heavy as u64,
        };
        excess += light_excess;
    }
    while let Some((next, next_excess)) = heavies.next() {
        let alias = if excess < 0 { next } else { heavy } as u64;
        entries[heavy] = AliasEntry {
            threshold: excess as u64,
            alias,
        };
        excess += next_excess;
        heavy = next;
    }
    debug_assert_eq!(excess, 0, "all units are in the buckets");
    entries[heavy] = AliasEntry {
        threshold: 0,
        alias: heavy as u64,
    };
}

/// The heavy or the light rows in order, with their excess over a full bucket, picked a block at a time.
struct Picks<'inputs, const HEAVY: bool> {
    weights: &'inputs [f64],
    quantizer: &'inputs Quantizer,
    next_block: usize,
    rows: [usize; BLOCK],
    excesses: [i128; BLOCK],
    len: usize,
    cursor: usize,
}

impl<'inputs, const HEAVY: bool> Picks<'inputs, HEAVY> {
    fn new(weights: &'inputs [f64], quantizer: &'inputs Quantizer) -> Self {
        let (rows, excesses) = ([0; BLOCK], [0; BLOCK]);
        Self {
            weights,
            quantizer,
            next_block: 0,
            rows,
            excesses,
            len: 0,
            cursor: 0,
        }
    }

    #[inline]
    fn has_picks(&self) -> bool {
        self.cursor < self.len
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
        while !self.has_picks() && self.next_block < self.weights.len() {
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
        self.has_picks()
    }

    fn next(&mut self) -> Option<(usize, i128)> {
        let pick = self.is_ready().then(|| self.peek());
        self.cursor += usize::from(pick.is_some());
        pick
    }
}
