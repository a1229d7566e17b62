//! Weighted draws look like chance: frequencies, neighbours, seeds. Seeds are fixed, so outcomes are.

use std::sync::Arc;

use dataset_rt_sampler::{OrderKind, Stream, WeightTable};

/// Pearson's statistic of counts against their expectations.
pub(crate) fn chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
    let terms = counts.iter().enumerate().map(|(cell, &count)| {
        let expected = expected(cell);
        (count as f64 - expected).powi(2) / expected
    });
    terms.sum()
}

/// Pearson's statistic of counts that should be equal.
pub(crate) fn chi_square_even(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    chi_square(counts, |_| mean)
}

/// Refuses a statistic in either 1-in-300,000 tail, by the normal approximation of Wilson and Hilferty.
pub(crate) fn assert_chance(statistic: f64, freedom: usize, context: &str) {
    let variance = 2.0 / (9.0 * freedom as f64);
    let deviation = ((statistic / freedom as f64).cbrt() - (1.0 - variance)) / variance.sqrt();
    assert!(
        deviation.abs() < 4.5,
        "{context}: chi-square {statistic} with {freedom} degrees of freedom is {deviation} \
         standard deviations off"
    );
}

fn by_weight(seed: u64, weights: &[f64]) -> Stream {
    let table = WeightTable::build(weights).unwrap().map(Arc::new);
    Stream::new(OrderKind::Weighted, seed, weights.len() as u64, table, None).unwrap()
}

fn evenly(seed: u64, population: u64) -> Stream {
    Stream::new(OrderKind::Weighted, seed, population, None, None).unwrap()
}

fn draws(stream: &Stream, start: u64, count: usize) -> Vec<u64> {
    let mut rows = vec![0; count];
    stream.fill(start, &mut rows);
    rows
}

fn count(rows: impl IntoIterator<Item = u64>, cells: usize) -> Vec<u64> {
    let mut counts = vec![0; cells];
    for row in rows {
        counts[row as usize] += 1;
    }
    counts
}

fn assert_weights(weights: &[f64], seed: u64, number: usize) {
    let counts = count(draws(&by_weight(seed, weights), 0, number), weights.len());
    let total: f64 = weights.iter().sum();
    let drawable: Vec<usize> = (0..weights.len())
        .filter(|&row| weights[row] > 0.0)
        .collect();
    let drawn: Vec<u64> = drawable.iter().map(|&row| counts[row]).collect();
    assert_eq!(
        drawn.iter().sum::<u64>(),
        number as u64,
        "rows of weight 0 were drawn"
    );
    let statistic = chi_square(&drawn, |cell| {
        weights[drawable[cell]] / total * number as f64
    });
    assert_chance(
        statistic,
        drawable.len() - 1,
        &format!("{} weights", weights.len()),
    );
}

#[test]
fn equal_weights_draw_rows_equally_often() {
    for population in [2, 3, 7, 100, 1_000] {
        let counts = count(
            draws(&evenly(11, population), 0, 200_000),
            population as usize,
        );
        let context = format!("{population} rows");
        assert_chance(chi_square_even(&counts), counts.len() - 1, &context);
    }
}

#[test]
fn rows_are_drawn_by_their_weights() {
    assert_weights(&[1.0, 2.0, 3.0, 4.0], 1, 100_000);
    assert_weights(&[0.5, 0.0, 0.25, 0.0, 0.0, 0.25], 2, 100_000);
    // Each row half as likely as the one before it.
    assert_weights(
        &(0..12).map(|row| 0.5_f64.powi(row)).collect::<Vec<_>>(),
        3,
        200_000,
    );
    // Long tails: 1 / rank, and two classes of which one is rare.
    assert_weights(
        &(1..=500)
            .map(|rank| 1.0 / f64::from(rank))
            .collect::<Vec<_>>(),
        4,
        300_000,
    );
    let rare = |row| if row % 10 == 0 { 0.02 } else { 1.0 };
    assert_weights(&(0..200).map(rare).collect::<Vec<_>>(), 5, 400_000);
    // The same weights at the ends of the range of numbers.
    assert_weights(&[1e300, 2e300, 3e300], 6, 100_000);
    assert_weights(&[1e-300, 2e-300, 3e-300], 7, 100_000);
}

#[test]
fn weights_far_below_the_others_are_not_drawn_too_often() {
    let counts = count(
        draws(&by_weight(3, &[1e-300, 1.0, 1e-30, 1e300]), 0, 100_000),
        4,
    );
    assert_eq!(counts, [0, 0, 0, 100_000]);
}

#[test]
fn neighbouring_positions_draw_independently() {
    for distance in [1, 2, 16, 64, 1 << 32] {
        let stream = evenly(21, 16);
        let (first, second) = (
            draws(&stream, 0, 100_000),
            draws(&stream, distance, 100_000),
        );
        let pairs = first
            .iter()
            .zip(&second)
            .map(|(first, second)| first * 16 + second);
        let context = format!("pairs at distance {distance}");
        assert_chance(chi_square_even(&count(pairs, 256)), 255, &context);
    }
}

#[test]
fn serial_correlation_is_that_of_chance() {
    let number = 200_000;
    for (name, stream) in [
        ("even", evenly(31, 1_000_003)),
        (
            "by weight",
            by_weight(31, &(0..1_000).map(f64::from).collect::<Vec<_>>()),
        ),
    ] {
        let rows: Vec<f64> = draws(&stream, 1 << 40, number)
            .into_iter()
            .map(|row| row as f64)
            .collect();
        let mean = rows.iter().sum::<f64>() / number as f64;
        let variance: f64 = rows.iter().map(|row| (row - mean).powi(2)).sum();
        for lag in [1, 2, 3, 10, 100] {
            let products = rows
                .iter()
                .zip(&rows[lag..])
                .map(|(a, b)| (a - mean) * (b - mean));
            let correlation = products.sum::<f64>() / variance;
            // Its standard deviation is 1 / sqrt(number).
            let deviation = correlation * (number as f64).sqrt();
            assert!(
                deviation.abs() < 4.5,
                "{name}, lag {lag}: {deviation} standard deviations"
            );
        }
    }
}

#[test]
fn neighbouring_seeds_draw_independently() {
    for (seed, other) in [(1, 2), (1, 1 + (1 << 32)), (0, u64::MAX)] {
        let (first, second) = (
            draws(&evenly(seed, 16), 0, 100_000),
            draws(&evenly(other, 16), 0, 100_000),
        );
        let pairs = first
            .iter()
            .zip(&second)
            .map(|(first, second)| first * 16 + second);
        let context = format!("seeds {seed} and {other}");
        assert_chance(chi_square_even(&count(pairs, 256)), 255, &context);
    }
}

#[test]
fn bucket_and_coin_are_independent() {
    // Half of each light bucket goes to the heavy row, whatever the bucket.
    let mut weights = vec![0.5; 64];
    weights.push(33.0);
    assert_weights(&weights, 8, 400_000);
}

#[test]
fn populations_past_32_bits_are_drawn_from_evenly() {
    for population in [(1_u64 << 33) + 7, 1 << 48, (1 << 63) + 12_345] {
        let rows = draws(
            &evenly(41, population),
            u64::from(u32::MAX) - 50_000,
            100_000,
        );
        // High bits: 64 equal ranges. Low bits: 64 residues.
        let ranges = rows
            .iter()
            .map(|&row| (u128::from(row) * 64 / u128::from(population)) as u64);
        assert_chance(
            chi_square_even(&count(ranges, 64)),
            63,
            &format!("ranges of {population}"),
        );
        let residues = rows.iter().map(|row| row % 64);
        assert_chance(
            chi_square_even(&count(residues, 64)),
            63,
            &format!("bits of {population}"),
        );
    }
}
