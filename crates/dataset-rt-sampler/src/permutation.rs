//! The permutation order: every row exactly once per pass, each pass in another order, no memory.
//!
//! A pass is a keyed bijection of `[0, population)`, computed for one index at a time:
//!
//! - up to [`SHUFFLE_LIMIT`] rows by a Fisher-Yates shuffle on the stack, which makes all
//!   permutations of a small population equally likely (a Feistel network over so few bits would
//!   not: over 4 bits, for one, it reaches even permutations only);
//! - above that by a Feistel network over the smallest number of bits that holds the population, so
//!   less than twice as many values; results outside are sent through again ("cycle walking").
//!
//! Keys come from the Philox blocks of (seed, pass).

use crate::philox::{LANES, Purpose, counter, key, pair, philox4x32_10, scale_to};
use crate::philox::{join, philox4x32_10_lanes};
use crate::{Order, SamplerError};

/// Largest population that is shuffled outright.
const SHUFFLE_LIMIT: usize = 64;

/// Rounds of the Feistel network. The narrowest one has halves of 3 and 4 bits; what pairs of rows
/// deviate from chance falls by the narrower half with every two rounds, so to about 2^-15 there.
const ROUNDS: usize = 12;

/// Indices whose walks go on together.
const CHUNK: usize = 64;

/// Indices sent through the network side by side; 4 are 2.4 times as fast as 1, 8 no faster.
const WIDTH: usize = 4;

/// Rows `[0, population)` in a new random order for every `population` positions.
#[derive(Debug, Clone)]
pub struct Permutation {
    key: [u32; 2],
    population: u64,
}

impl Permutation {
    /// The order over `population` rows.
    ///
    /// # Errors
    /// [`SamplerError::EmptyPopulation`] for 0 rows.
    pub fn new(seed: u64, population: u64) -> Result<Self, SamplerError> {
        if population == 0 {
            return Err(SamplerError::EmptyPopulation);
        }
        Ok(Self {
            key: key(seed),
            population,
        })
    }

    fn is_shuffled(&self) -> bool {
        self.population <= SHUFFLE_LIMIT as u64
    }

    /// All rows of one pass over a small population.
    fn shuffle(&self, pass: u64) -> [u8; SHUFFLE_LIMIT] {
        let mut rows: [u8; SHUFFLE_LIMIT] = std::array::from_fn(|row| row as u8);
        let mut bits = [0; 2 * LANES];
        // Step `last` exchanges row `last` with one at or before it, by the number `last` of the pass.
        for last in (1..self.population as usize).rev() {
            let (group, lane) = (last / bits.len(), last % bits.len());
            if lane == bits.len() - 1 || last == self.population as usize - 1 {
                bits = self.shuffle_bits(pass, group);
            }
            let other = scale_to(bits[lane], last as u64 + 1) as usize;
            rows.swap(last, other);
        }
        rows
    }

    /// Numbers `32 * group ..` of a pass: two per block, so from block `16 * group` on.
    fn shuffle_bits(&self, pass: u64, group: usize) -> [u64; 2 * LANES] {
        let mut counters = [[0; LANES]; 4];
        for lane in 0..LANES {
            let block = (group * LANES + lane) as u32;
            let words = counter(pass, Purpose::PermutationShuffle, block);
            for (word, lanes) in words.into_iter().zip(&mut counters) {
                lanes[lane] = word;
            }
        }
        let words = philox4x32_10_lanes(counters, self.key);
        std::array::from_fn(|number| {
            let (lane, half) = (number / 2, number % 2);
            join(words[2 * half][lane], words[2 * half + 1][lane])
        })
    }
}

impl Order for Permutation {
    fn population(&self) -> u64 {
        self.population
    }

    fn row(&self, position: u64) -> u64 {
        let (pass, index) = (position / self.population, position % self.population);
        if self.is_shuffled() {
            return u64::from(self.shuffle(pass)[index as usize]);
        }
        let network = Network::new(self.key, self.population, pass);
        let mut row = network.permute(index);
        while row >= self.population {
            row = network.permute(row);
        }
        row
    }

    fn fill(&self, start: u64, rows: &mut [u64]) {
        let mut position = start;
        let mut rest = rows;
        while !rest.is_empty() {
            let (pass, index) = (position / self.population, position % self.population);
            // The last pass of the 64-bit positions may be cut short; position 0 follows it.
            let until_wrap = u64::MAX - position;
            let in_pass = (self.population - index).min(until_wrap.saturating_add(1));
            let take = usize::try_from(in_pass)
                .unwrap_or(usize::MAX)
                .min(rest.len());
            let (part, after) = rest.split_at_mut(take);
            if self.is_shuffled() {
                let shuffled = self.shuffle(pass);
                for (row, &value) in part.iter_mut().zip(&shuffled[index as usize..]) {
                    *row = u64::from(value);
                }
            } else {
                Network::new(self.key, self.population, pass).fill(index, part);
            }
            position = position.wrapping_add(take as u64);
            rest = after;
        }
    }
}

/// The Feistel network of one pass: a bijection of `[0, 2^(left_bits + right_bits))`.
struct Network {
    round_keys: [u64; ROUNDS],
    left_bits: u32,
    right_bits: u32,
    population: u64,
}

impl Network {
    fn new(key: [u32; 2], population: u64, pass: u64) -> Self {
        let bits = u64::BITS - (population - 1).leading_zeros();
        let mut round_keys = [0; ROUNDS];
        for (block, keys) in round_keys.chunks_exact_mut(2).enumerate() {
            let words = counter(pass, Purpose::PermutationRoundKeys, block as u32);
            keys.copy_from_slice(&pair(philox4x32_10(words, key)));
        }
        Self {
            round_keys,
            left_bits: bits / 2,
            right_bits: bits - bits / 2,
            population,
        }
    }

    #[inline]
    fn permute(&self, value: u64) -> u64 {
        let [row] = self.permute_together([value]);
        row
    }

    /// Permutes several values at once, as one alone leaves the processor waiting for its products.
    #[inline]
    fn permute_together<const WIDTH: usize>(&self, values: [u64; WIDTH]) -> [u64; WIDTH] {
        let mut left = values.map(|value| value >> self.right_bits);
        let mut right = values.map(|value| value & ((1 << self.right_bits) - 1));
        for keys in self.round_keys.chunks_exact(2) {
            for (left, &right) in left.iter_mut().zip(&right) {
                *left ^= mix(right, keys[0]) >> (u64::BITS - self.left_bits);
            }
            for (right, &left) in right.iter_mut().zip(&left) {
                *right ^= mix(left, keys[1]) >> (u64::BITS - self.right_bits);
            }
        }
        std::array::from_fn(|lane| (left[lane] << self.right_bits) | right[lane])
    }

    /// The rows at the indices from `index` on, all of this pass.
    fn fill(&self, index: u64, rows: &mut [u64]) {
        for (nth, chunk) in rows.chunks_mut(CHUNK).enumerate() {
            let first = index + (nth * CHUNK) as u64;
            // Past the end of a short chunk these are no indices; their results are not used.
            let mut values: [u64; CHUNK] =
                std::array::from_fn(|slot| first.wrapping_add(slot as u64));
            let mut slots: [usize; CHUNK] = std::array::from_fn(|slot| slot);
            let mut pending = chunk.len();
            // Values outside the population gather at the front and walk on together; doing so
            // without a branch per value keeps random outcomes from stalling the processor.
            while pending > 0 {
                let (groups, _) = values.as_chunks_mut::<WIDTH>();
                for group in &mut groups[..pending.div_ceil(WIDTH)] {
                    *group = self.permute_together(*group);
                }
                let mut outside = 0;
                for nth in 0..pending {
                    let (row, slot) = (values[nth], slots[nth]);
                    chunk[slot] = row;
                    values[outside] = row;
                    slots[outside] = slot;
                    outside += usize::from(row >= self.population);
                }
                pending = outside;
            }
        }
    }
}

/// The round function: the upper bits of the result depend on every bit of both arguments. The two
/// constants are those of MurmurHash3's 64-bit finaliser.
#[inline]
fn mix(half: u64, round_key: u64) -> u64 {
    let product = (half ^ round_key).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (product ^ (product >> 32)).wrapping_mul(0xC4CE_B9FE_1A85_EC53)
}
