//! Weights as whole numbers of units, such that all rows together have exactly `rows * 2^64` units.
//!
//! A bucket of the weight table holds 2^64 units, so that is what a row of mean weight gets. A
//! weight becomes `floor(weight * scale)` by one 64 x 64 -> 128 bit multiplication and a shift.
//! The scale is rounded down too, by less than 2^-62 of itself, so fewer than `5 * rows` units are
//! left over; these are shared out among the rows of positive weight, evenly, and what does not divide
//! goes to the heaviest row. So a row's share of the units is off its share of the weights by less
//! than 2^-61, and rows of equal weight get equal units (the one heaviest row aside).

use crate::SamplerError;
use crate::executor::{Executor, map_blocks};
use crate::weights::WeightSummary;

/// The units of one bucket.
pub(crate) const FULL: u128 = 1 << 64;

const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i32 = 1023;

/// From weights to units.
#[derive(Debug)]
pub(crate) struct Quantizer {
    scaler: Scaler,
    /// The units of each block of rows, before any bonus.
    pub(crate) blocks: Vec<BlockUnits>,
    /// What every row of positive weight gets of the units left over.
    pub(crate) bonus: u64,
    /// The first row of the largest weight.
    pub(crate) heaviest_row: usize,
    /// What that row gets on top, as it does not divide evenly.
    pub(crate) heaviest_bonus: u64,
    /// The weight from which on a row has at least `FULL` units.
    heavy_from: f64,
}

impl Quantizer {
    /// `plain_sum` is the [`RoundedSum`] of the weights as they are.
    pub(crate) fn new(
        weights: &[f64],
        summary: &WeightSummary,
        plain_sum: RoundedSum,
        executor: &dyn Executor,
    ) -> Result<Self, SamplerError> {
        let mut scaler = Scaler::new(weights, summary.largest, plain_sum);
        let target = weights.len() as u128 * FULL;
        let (mut blocks, left_over, heavy_without_bonus) = loop {
            let heavy_from = scaler.heavy_from(summary.largest, 0);
            let blocks = BlockUnits::of_blocks(weights, &scaler, heavy_from, executor)?;
            let assigned = blocks.iter().map(|block| block.all).sum();
            match target.checked_sub(assigned) {
                Some(left_over) => break (blocks, left_over, heavy_from),
                // The sum of the weights came out too low in its 100th bit or so; one step of the
                // scale is much more than that.
                None => scaler.multiplier -= 1,
            }
        };
        let positive_rows = u128::from(summary.positive_rows);
        let bonus = (left_over / positive_rows) as u64;
        let heaviest_bonus = (left_over % positive_rows) as u64;
        let heavy_from = scaler.heavy_from(summary.largest, bonus);
        if heavy_from.to_bits() != heavy_without_bonus.to_bits() {
            blocks = BlockUnits::of_blocks(weights, &scaler, heavy_from, executor)?;
        }
        let heaviest_row = summary.heaviest_row;
        Ok(Self {
            blocks,
            scaler,
            bonus,
            heaviest_row,
            heaviest_bonus,
            heavy_from,
        })
    }

    /// The units of a row of this weight, the heaviest row's extra aside.
    #[inline]
    pub(crate) fn units(&self, weight: f64) -> u128 {
        let bonus = if weight > 0.0 { self.bonus } else { 0 };
        self.scaler.units(weight) + u128::from(bonus)
    }

    /// Whether the units of a row fill at least one bucket; true of the largest weight in any case.
    #[inline]
    pub(crate) fn is_heavy(&self, weight: f64) -> bool {
        weight >= self.heavy_from
    }
}

/// The units of one block of rows together, before any bonus.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockUnits {
    pub(crate) all: u128,
    pub(crate) positive_rows: usize,
    /// The units of heavy rows, and how many there are.
    pub(crate) heavy: u128,
    pub(crate) heavy_rows: usize,
}

impl BlockUnits {
    fn of_blocks(
        weights: &[f64],
        scaler: &Scaler,
        heavy_from: f64,
        executor: &dyn Executor,
    ) -> Result<Vec<Self>, SamplerError> {
        map_blocks(executor, weights.len(), |rows| {
            let mut block = Self::default();
            for &weight in &weights[rows] {
                let units = scaler.units(weight);
                let is_heavy = weight >= heavy_from;
                block.all += units;
                block.positive_rows += usize::from(weight > 0.0);
                block.heavy += if is_heavy { units } else { 0 };
                block.heavy_rows += usize::from(is_heavy);
            }
            block
        })
    }
}

/// `weight * rows * 2^64 / sum(weights)`, rounded down.
#[derive(Debug)]
struct Scaler {
    /// A power of two that keeps all sums and exponents in range, whatever the largest weight is.
    prescale: f64,
    /// The 64 upper bits of the scale.
    multiplier: u64,
    /// Bits to drop from `mantissa * multiplier` for a weight of biased exponent 0.
    shift_at_exponent_zero: i32,
}

impl Scaler {
    fn new(weights: &[f64], largest: f64, plain_sum: RoundedSum) -> Self {
        let prescale = if largest < power_of_two(-400) {
            power_of_two(600)
        } else if largest > power_of_two(400) {
            power_of_two(-600)
        } else {
            1.0
        };
        let RoundedSum {
            significand: sum,
            exponent: sum_exponent,
        } = if prescale == 1.0 {
            plain_sum
        } else {
            RoundedSum::new(weights, prescale)
        };
        // rows / sum, the numerator moved up to bit 127 and the quotient down to 64 bits.
        let rows = weights.len() as u128;
        let rows_shift = rows.leading_zeros();
        let mut quotient = (rows << rows_shift) / u128::from(sum);
        let mut quotient_exponent = 64 - rows_shift as i32 - sum_exponent;
        while quotient >= FULL {
            quotient >>= 1;
            quotient_exponent += 1;
        }
        let shift_at_exponent_zero = EXPONENT_BIAS + MANTISSA_BITS as i32 - quotient_exponent;
        Self {
            prescale,
            multiplier: quotient as u64,
            shift_at_exponent_zero,
        }
    }

    /// The weight from which on a row has at least `FULL` units with the bonus.
    fn heavy_from(&self, largest: f64, bonus: u64) -> f64 {
        smallest_weight_where(largest, |weight| {
            self.units(weight) + u128::from(bonus) >= FULL
        })
    }

    #[inline]
    fn units(&self, weight: f64) -> u128 {
        // Adding 0.0 turns -0.0 into 0.0. What is subnormal after the prescaling is less than
        // 2^-500 of the largest weight, so shifted out below whatever its mantissa is.
        let bits = (weight * self.prescale + 0.0).to_bits();
        let mantissa = (bits & ((1 << MANTISSA_BITS) - 1)) | (1 << MANTISSA_BITS);
        let shift = self.shift_at_exponent_zero - (bits >> MANTISSA_BITS) as i32;
        let product = u128::from(mantissa) * u128::from(self.multiplier);
        // The shift is positive: units are at most rows * 2^64, for no weight exceeds the sum, while
        // the product has 115 bits or more. It has 117 at most, so 127 shifts all out.
        product >> shift.min(127)
    }
}

/// A sum of weights rounded up to 64 bits: `significand * 2^exponent`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundedSum {
    significand: u64,
    exponent: i32,
}

impl RoundedSum {
    /// The sum of `weights * prescale`; meaningless if it, or a weight, is out of range.
    ///
    /// It is one pass in a fixed order, and not in parts: another order would round otherwise, and
    /// the tables of a version of the algorithm are the same bit by bit.
    pub(crate) fn new(weights: &[f64], prescale: f64) -> Self {
        const LANES: usize = 8;
        // Each lane adds up in twice the precision of f64 (Knuth's exact sum of two), so its error is
        // about rows * 2^-106 of the sum.
        let mut sums = [0.0; LANES];
        let mut errors = [0.0; LANES];
        let chunks = weights.chunks_exact(LANES);
        for &weight in chunks.remainder() {
            (sums[0], errors[0]) = add(sums[0], errors[0], weight * prescale);
        }
        for chunk in chunks {
            for lane in 0..LANES {
                (sums[lane], errors[lane]) = add(sums[lane], errors[lane], chunk[lane] * prescale);
            }
        }
        let (mut sum, mut error) = (0.0, 0.0);
        for part in sums.into_iter().chain(errors) {
            (sum, error) = add(sum, error, part);
        }
        let (sum, error) = (sum + error, (sum - (sum + error)) + error);

        let bits = sum.to_bits();
        let mantissa = (bits & ((1 << MANTISSA_BITS) - 1)) | (1 << MANTISSA_BITS);
        // 11 more bits below the mantissa make 64; the error is at most half a unit of the mantissa.
        let exponent = (bits >> MANTISSA_BITS) as i32 - EXPONENT_BIAS - MANTISSA_BITS as i32 - 11;
        let error_units = (error * power_of_two(-exponent)).ceil() as i64;
        let significand = (mantissa << 11).wrapping_add_signed(error_units);
        Self {
            significand,
            exponent,
        }
    }
}

#[inline]
fn add(sum: f64, error: f64, term: f64) -> (f64, f64) {
    let total = sum + term;
    let term_part = total - sum;
    let rounding = (sum - (total - term_part)) + (term - term_part);
    (total, error + rounding)
}

/// The smallest non-negative number for which the monotone `condition` holds, but at most `largest`.
///
/// The condition may miss `largest` by a few units where weights differ in their last bits only.
/// The sweep needs one heavy row, and takes rows a few units short of one.
fn smallest_weight_where(largest: f64, condition: impl Fn(f64) -> bool) -> f64 {
    // Bit patterns of non-negative numbers are in the order of the numbers.
    let (mut below, mut from) = (0, largest.to_bits());
    while below < from {
        let middle = below + (from - below) / 2;
        if condition(f64::from_bits(middle)) {
            from = middle;
        } else {
            below = middle + 1;
        }
    }
    f64::from_bits(from)
}

/// 2 to a power within the range of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((EXPONENT_BIAS + exponent) as u64) << MANTISSA_BITS)
}
