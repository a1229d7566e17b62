//! The weighted order: every position draws one row by weight, with replacement, on its own.

use std::sync::Arc;

use crate::philox::philox4x32_10_lanes;
use crate::philox::{LANES, Purpose, counter, join, key, pair, philox4x32_10, scale_to};
use crate::weight_table::{AliasEntry, WeightTable, pick};
use crate::{Order, SamplerError};

/// Positions whose random bits are ready before the first table look-up, so that many cache misses
/// are under way at once. At 20 million rows 64 takes three quarters of the time that 16 does; 256
/// gains next to nothing more.
const CHUNK: usize = 4 * LANES;

/// Draws by a [`WeightTable`], or evenly where there is none.
///
/// The Philox block of a position gives a bucket (first number, by multiplication with the
/// population) and a coin (second number) that decides between the bucket's own row and its alias.
/// Equal weights give the same draws with a table and without.
#[derive(Debug, Clone)]
pub struct Weighted {
    key: [u32; 2],
    population: u64,
    table: Option<Arc<WeightTable>>,
}

impl Weighted {
    /// The order over `population` rows; `table` is `None` when all weights are equal.
    ///
    /// # Errors
    /// [`SamplerError::EmptyPopulation`], or [`SamplerError::WeightTableLength`] for a table of
    /// another population.
    pub fn new(
        seed: u64,
        population: u64,
        table: Option<Arc<WeightTable>>,
    ) -> Result<Self, SamplerError> {
        if population == 0 {
            return Err(SamplerError::EmptyPopulation);
        }
        if let Some(table) = &table {
            let table_rows = table.len() as u64;
            if table_rows != population {
                return Err(SamplerError::WeightTableLength {
                    table_rows,
                    population,
                });
            }
        }
        Ok(Self {
            key: key(seed),
            population,
            table,
        })
    }

    /// Buckets and coins of `LANES` positions from `start` on.
    #[inline]
    fn draw_lanes(&self, start: u64, buckets: &mut [u64], coins: &mut [u64]) {
        let mut counters = [[0; LANES]; 4];
        for lane in 0..LANES {
            let words = counter(start.wrapping_add(lane as u64), Purpose::WeightedDraw, 0);
            for (word, lanes) in words.into_iter().zip(&mut counters) {
                lanes[lane] = word;
            }
        }
        let [word_0, word_1, word_2, word_3] = philox4x32_10_lanes(counters, self.key);
        for lane in 0..LANES {
            buckets[lane] = scale_to(join(word_0[lane], word_1[lane]), self.population);
            coins[lane] = join(word_2[lane], word_3[lane]);
        }
    }
}

impl Order for Weighted {
    fn population(&self) -> u64 {
        self.population
    }

    fn row(&self, position: u64) -> u64 {
        let block = philox4x32_10(counter(position, Purpose::WeightedDraw, 0), self.key);
        let [bits, coin] = pair(block);
        let bucket = scale_to(bits, self.population);
        match &self.table {
            Some(table) => pick(table.entries(), bucket, coin),
            None => bucket,
        }
    }

    fn fill(&self, start: u64, rows: &mut [u64]) {
        let entries: Option<&[AliasEntry]> = self.table.as_deref().map(WeightTable::entries);
        let mut buckets = [0; CHUNK];
        let mut coins = [0; CHUNK];
        let mut position = start;
        for chunk in rows.chunks_mut(CHUNK) {
            let lanes = buckets
                .chunks_exact_mut(LANES)
                .zip(coins.chunks_exact_mut(LANES));
            for (buckets, coins) in lanes.take(chunk.len().div_ceil(LANES)) {
                self.draw_lanes(position, buckets, coins);
                position = position.wrapping_add(LANES as u64);
            }
            match entries {
                Some(entries) => {
                    for ((row, &bucket), &coin) in chunk.iter_mut().zip(&buckets).zip(&coins) {
                        *row = pick(entries, bucket, coin);
                    }
                }
                None => chunk.copy_from_slice(&buckets[..chunk.len()]),
            }
        }
    }
}
