//! Weight tables against exact arithmetic: what every row gets, bucket by bucket.

use dataset_rt_sampler::{WeightTable, philox4x32_10};
use proptest::prelude::*;

const FULL: u128 = 1 << 64;

/// The units (2^-64 of a bucket) that the whole table gives to each row.
fn units_per_row(table: &WeightTable) -> Vec<u128> {
    let mut units = vec![0_u128; table.len()];
    for (row, entry) in table.entries().iter().enumerate() {
        units[row] += u128::from(entry.threshold);
        units[entry.alias as usize] += FULL - u128::from(entry.threshold);
    }
    units
}

/// Checks every row's exact share against its weight's, to within 2^-61 of all draws.
fn assert_shares(weights: &[u32]) {
    let as_floats: Vec<f64> = weights.iter().copied().map(f64::from).collect();
    let table = WeightTable::build_always(&as_floats).unwrap();
    let rows = weights.len() as u128;
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    // 2^-61 of rows * 2^64 units.
    let allowed = 8 * rows * total;
    for ((row, &weight), units) in weights.iter().enumerate().zip(units_per_row(&table)) {
        // Shares units / (rows * 2^64) and weight / total, both multiplied by the denominators.
        let (found, expected) = (units * total, u128::from(weight) * rows * FULL);
        assert!(
            found.abs_diff(expected) <= allowed,
            "row {row} of weight {weight} has {units} units among {rows} rows of weight {total}"
        );
        assert!(
            weight > 0 || units == 0,
            "row {row} of weight 0 has {units} units"
        );
    }
}

fn random_words(seed: u32) -> impl Iterator<Item = u32> {
    (0..).flat_map(move |block| philox4x32_10([block, 0, 0, 99], [seed, 0]))
}

#[test]
fn shares_are_exact_where_weights_are_simple() {
    let table = WeightTable::build_always(&[1.0, 2.0, 0.0, 5.0]).unwrap();
    assert_eq!(units_per_row(&table), [FULL / 2, FULL, 0, FULL / 2 * 5]);
}

#[test]
fn equal_weights_fill_every_bucket_with_its_own_row() {
    for weight in [1.0, 0.1, 1e-320, 1e300] {
        for rows in [1, 2, 3, 7, 511, 512, 513, 3_000] {
            let table = WeightTable::build_always(&vec![weight; rows]).unwrap();
            for (row, entry) in table.entries().iter().enumerate() {
                assert_eq!(entry.alias, row as u64, "{rows} rows of {weight}");
            }
        }
    }
}

#[test]
fn large_tables_give_every_row_its_share() {
    let patterns: [fn(usize, u32) -> u32; 7] = [
        |_, word| word >> 12,
        // A few rows with nearly all the weight.
        |row, word| {
            if row % 1_000 == 3 {
                word >> 8
            } else {
                word >> 31
            }
        },
        // Light rows first, heavy rows first.
        |row, word| if row < 3_000 { word >> 30 } else { word >> 12 },
        |row, word| if row < 3_000 { word >> 12 } else { word >> 30 },
        // One row with all of it: last, first.
        |row, _| u32::from(row == 4_999),
        |row, _| u32::from(row == 0),
        // All equal but one.
        |row, _| if row == 2_500 { (1 << 20) + 1 } else { 1 << 20 },
    ];
    for (seed, pattern) in (0..).zip(patterns) {
        let words = random_words(seed).take(5_000).enumerate();
        assert_shares(
            &words
                .map(|(row, word)| pattern(row, word))
                .collect::<Vec<_>>(),
        );
    }
}

#[test]
fn weights_that_differ_in_their_last_bit_build() {
    let next = f64::from_bits(1.0_f64.to_bits() + 1);
    for rows in [2, 3, 10, 1_000, 20_000] {
        for (common, odd) in [(1.0, next), (next, 1.0)] {
            for place in [0, rows / 2, rows - 1] {
                let mut weights = vec![common; rows];
                weights[place] = odd;
                let table = WeightTable::build(&weights).unwrap().unwrap();
                let units = units_per_row(&table);
                assert_eq!(units.iter().sum::<u128>(), rows as u128 * FULL);
                let allowed = 8 * rows as u128 + 4_096;
                assert!(units.iter().all(|&units| units.abs_diff(FULL) <= allowed));
            }
        }
    }
}

#[test]
fn shares_are_right_over_the_whole_range_of_numbers() {
    let weights = [1e-300, 1e300, 3e299, 0.0, 5e-324, 7e299, f64::MIN_POSITIVE];
    let table = WeightTable::build_always(&weights).unwrap();
    let shares: Vec<f64> = units_per_row(&table)
        .iter()
        .map(|&units| units as f64 / (7.0 * FULL as f64))
        .collect();
    for (share, expected) in shares.iter().zip([0.0, 0.5, 0.15, 0.0, 0.0, 0.35, 0.0]) {
        assert!((share - expected).abs() < 1e-15, "{shares:?}");
    }
    assert_eq!(shares[3], 0.0);
}

#[test]
fn sums_past_the_largest_number_do_not_overflow() {
    let mut weights = vec![f64::MAX; 1_000];
    weights[1] = f64::MAX / 2.0;
    let units = units_per_row(&WeightTable::build(&weights).unwrap().unwrap());
    let ratio = units[0] as f64 / units[1] as f64;
    assert!((ratio - 2.0).abs() < 1e-15, "{ratio}");
}

#[test]
fn subnormal_weights_keep_their_ratios() {
    let units = units_per_row(
        &WeightTable::build(&[5e-324, 1.5e-323, 2e-323])
            .unwrap()
            .unwrap(),
    );
    // 1, 3 and 4 times the smallest number.
    assert!(units[1].abs_diff(3 * units[0]) < 32 && units[2].abs_diff(4 * units[0]) < 32);
}

proptest! {
    #[test]
    fn every_row_gets_its_share(weights in prop::collection::vec(any::<u32>().prop_map(|w| w >> (w & 31)), 1..700)) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        assert_shares(&weights);
    }

    #[test]
    fn all_units_are_given_out_whatever_the_weights(
        bits in prop::collection::vec(0_u64..=f64::MAX.to_bits(), 1..700),
        zero_every in 1_usize..5,
    ) {
        let mut weights: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
        weights.iter_mut().skip(1).step_by(zero_every).for_each(|weight| *weight = 0.0);
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let units = units_per_row(&WeightTable::build_always(&weights).unwrap());
        prop_assert_eq!(units.iter().sum::<u128>(), weights.len() as u128 * FULL);
        for (&weight, &units) in weights.iter().zip(&units) {
            prop_assert!(weight > 0.0 || units == 0);
        }
        // Heavier rows never get less, but for the few units that are left over.
        let mut rows: Vec<usize> = (0..weights.len()).collect();
        rows.sort_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        for pair in rows.windows(2) {
            prop_assert!(units[pair[0]] <= units[pair[1]] + 8 * weights.len() as u128);
        }
    }
}
