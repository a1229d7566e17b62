//! Cuts the sweep that builds a weight table into stretches that need nothing of each other.
//!
//! After some steps of the sweep, `i` light rows have their buckets filled and the heavy rows before
//! number `j` have used up their excess. Let `H(j)` be the excesses of the heavy rows up to number
//! `j` together and `L(i)`, which is negative, those of the first `i` light rows. The heavy row has
//! `H(j) + L(i)` to give; while that is not negative, `i` moves on, and else `j`. As `H` only
//! grows and `L` only falls, sums per block of rows tell where the sweep passes any row.

use std::iter::once;

use crate::SamplerError;
use crate::executor::{BLOCK_ROWS, Executor, block_rows, map_parts, num_blocks};
use crate::quantize::{FULL, Quantizer};
use crate::sweep::Picks;

/// Blocks from one place where the sweep is cut to the next, for either kind of row: few enough that
/// the parts keep many threads busy, and so many that finding the places takes no time to speak of.
const STRETCH_BLOCKS: usize = 8;

/// A part of the sweep: where it stands at its beginning, and how far it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// The light rows from this row on have no bucket yet.
    pub(crate) next_light: usize,
    /// The heavy row that gives.
    pub(crate) heavy: usize,
    /// What it has left beyond its own bucket.
    pub(crate) excess: i128,
    /// One step for each light row that is filled up and each heavy row that is used up.
    pub(crate) steps: usize,
    /// Whether the sweep ends here, with the last heavy row.
    pub(crate) is_last: bool,
}

/// The stretches of a whole sweep, in order.
pub(crate) fn stretches(
    weights: &[f64],
    quantizer: &Quantizer,
    executor: &dyn Executor,
) -> Result<Vec<Stretch>, SamplerError> {
    let (heavy, excess) = Picks::<true>::new(weights, quantizer, 0)
        .next()
        .expect("the heaviest row has at least the mean");
    let whole = Stretch {
        next_light: 0,
        heavy,
        excess,
        steps: usize::MAX,
        is_last: true,
    };
    let cuts = num_blocks(weights.len()).saturating_sub(1) / STRETCH_BLOCKS;
    if cuts == 0 {
        return Ok(vec![whole]);
    }
    let map = SweepMap::new(weights, quantizer);
    let places = map_parts(executor, 2 * cuts, |part| {
        let block = (part / 2 + 1) * STRETCH_BLOCKS;
        if part % 2 == 0 {
            map.at_light_block(block)
        } else {
            map.at_heavy_block(block)
        }
    })?;
    let start = Place {
        stretch: whole,
        step: 0,
    };
    let mut places: Vec<Place> = once(start).chain(places.into_iter().flatten()).collect();
    places.sort_by_key(|place| place.step);
    places.dedup_by_key(|place| place.step);
    let mut stretches: Vec<Stretch> = places.iter().map(|place| place.stretch).collect();
    for (stretch, pair) in stretches.iter_mut().zip(places.windows(2)) {
        stretch.steps = pair[1].step - pair[0].step;
        stretch.is_last = false;
    }
    Ok(stretches)
}

/// Where the sweep is after `step` steps.
struct Place {
    stretch: Stretch,
    step: usize,
}

/// Rows of either kind, and their excesses together.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    lights: usize,
    heavies: usize,
    light_excess: i128,
    heavy_excess: i128,
}

struct SweepMap<'inputs> {
    weights: &'inputs [f64],
    quantizer: &'inputs Quantizer,
    /// The sums of all rows before each block, and at the end those of all rows.
    before: Vec<Sums>,
}

impl<'inputs> SweepMap<'inputs> {
    fn new(weights: &'inputs [f64], quantizer: &'inputs Quantizer) -> Self {
        let mut before = vec![Sums::default()];
        let mut total = Sums::default();
        for (number, block) in quantizer.blocks.iter().enumerate() {
            let rows = block_rows(number, weights.len());
            let excess = |units: u128, positive_rows: usize, rows: usize| {
                let bonus = i128::from(quantizer.bonus) * positive_rows as i128;
                units as i128 + bonus - FULL as i128 * rows as i128
            };
            let heavies = block.heavy_rows;
            let lights = rows.len() - heavies;
            total.lights += lights;
            total.heavies += heavies;
            total.light_excess += excess(
                block.all - block.heavy,
                block.positive_rows - heavies,
                lights,
            );
            total.heavy_excess += excess(block.heavy, heavies, heavies);
            if rows.contains(&quantizer.heaviest_row) {
                total.heavy_excess += i128::from(quantizer.heaviest_bonus);
            }
            before.push(total);
        }
        Self {
            weights,
            quantizer,
            before,
        }
    }

    fn total(&self) -> &Sums {
        &self.before[self.before.len() - 1]
    }

    /// Just before the first light row from `block` on gets its bucket filled.
    fn at_light_block(&self, block: usize) -> Option<Place> {
        let Sums {
            lights,
            light_excess,
            ..
        } = self.before[block];
        if lights == self.total().lights {
            return None;
        }
        // The first heavy row that brings the sum to 0 or more.
        let holder =
            self.before[1..].partition_point(|after| after.heavy_excess + light_excess < 0);
        let mut heavy_excess = self.before.get(holder)?.heavy_excess;
        let mut picks = Picks::<true>::new(self.weights, self.quantizer, holder * BLOCK_ROWS);
        let mut heavies = self.before[holder].heavies;
        loop {
            let (heavy, excess) = picks.next()?;
            heavy_excess += excess;
            if heavy_excess + light_excess >= 0 {
                let stretch = Stretch {
                    next_light: block * BLOCK_ROWS,
                    heavy,
                    excess: heavy_excess + light_excess,
                    steps: usize::MAX,
                    is_last: true,
                };
                let step = lights + heavies;
                return Some(Place { stretch, step });
            }
            heavies += 1;
        }
    }

    /// Just after the first heavy row from `block` on has become the one that gives.
    fn at_heavy_block(&self, block: usize) -> Option<Place> {
        let Sums {
            heavies,
            heavy_excess,
            ..
        } = self.before[block];
        let first_row = block * BLOCK_ROWS;
        let (heavy, excess) = Picks::<true>::new(self.weights, self.quantizer, first_row).next()?;
        if heavies == 0 {
            return None;
        }
        // The first light row that brings the sum below 0, or else all light rows.
        let holder =
            self.before[1..].partition_point(|after| heavy_excess + after.light_excess >= 0);
        let (mut next_light, mut sums) = (self.weights.len(), *self.total());
        if holder + 1 < self.before.len() {
            sums = self.before[holder];
            let first_row = holder * BLOCK_ROWS;
            let mut picks = Picks::<false>::new(self.weights, self.quantizer, first_row);
            while heavy_excess + sums.light_excess >= 0 {
                let (light, light_excess) = picks.next()?;
                sums.light_excess += light_excess;
                sums.lights += 1;
                next_light = light + 1;
            }
        }
        let stretch = Stretch {
            next_light,
            heavy,
            excess: heavy_excess + excess + sums.light_excess,
            steps: usize::MAX,
            is_last: true,
        };
        let step = sums.lights + heavies;
        Some(Place { stretch, step })
    }
}
