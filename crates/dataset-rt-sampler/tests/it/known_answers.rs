//! Pins every mapping from positions to rows: a change here is a new algorithm version.

use std::sync::Arc;

use dataset_rt_sampler::{
    ALGORITHM_VERSION, AliasEntry, Flat, OrderKind, Stream, WeightTable, philox4x32_10,
};

use crate::golden_vectors::{EVEN_WEIGHTED, PERMUTATION, TABLES, WEIGHTED};

fn assert_draws(stream: &Stream, start: u64, expected: &[u64]) {
    let context = format!(
        "{} order, seed {}, {} rows, from position {start}",
        stream.kind(),
        stream.seed(),
        stream.population()
    );
    let mut rows = vec![0; expected.len()];
    stream.fill(start, &mut rows);
    assert_eq!(rows, expected, "{context}");
    let one_by_one: Vec<u64> = (start..)
        .take(expected.len())
        .map(|at| stream.row(at))
        .collect();
    assert_eq!(one_by_one, expected, "{context}");
}

#[test]
fn golden_vectors_are_of_this_algorithm_version() {
    assert_eq!(ALGORITHM_VERSION, 1);
}

/// `kat_vectors` of the Random123 distribution, lines "philox4x32 10".
#[test]
fn philox_gives_the_published_answers() {
    let zeros = philox4x32_10([0; 4], [0; 2]);
    assert_eq!(zeros, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let ones = philox4x32_10([u32::MAX; 4], [u32::MAX; 2]);
    assert_eq!(ones, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = philox4x32_10(
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
    );
    assert_eq!(pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}

#[test]
fn sequential_draws_are_frozen() {
    let cases: &[(u64, u64, [u64; 4])] = &[
        (1, 0, [0, 0, 0, 0]),
        (3, 0, [0, 1, 2, 0]),
        (3, 7, [1, 2, 0, 1]),
        (1_000, 4_294_967_294, [294, 295, 296, 297]),
        (
            4_294_967_297,
            4_294_967_294,
            [4_294_967_294, 4_294_967_295, 4_294_967_296, 0],
        ),
        (1 << 63, (1 << 63) - 2, [(1 << 63) - 2, (1 << 63) - 1, 0, 1]),
    ];
    for &(population, start, expected) in cases {
        let stream = Stream::new(OrderKind::Sequential, 5, population, None, None).unwrap();
        assert_draws(&stream, start, &expected);
    }
}

#[test]
fn permutation_draws_are_frozen() {
    for &(seed, population, start, expected) in PERMUTATION {
        let stream = Stream::new(OrderKind::Permutation, seed, population, None, None).unwrap();
        assert_draws(&stream, start, &expected);
    }
}

#[test]
fn draws_by_equal_weights_are_frozen() {
    for &(seed, population, start, expected) in EVEN_WEIGHTED {
        let stream = Stream::new(OrderKind::Weighted, seed, population, None, None).unwrap();
        assert_draws(&stream, start, &expected);
    }
}

#[test]
fn draws_by_weight_are_frozen() {
    for &(weights, seed, start, expected) in WEIGHTED {
        let table = WeightTable::build(weights).unwrap().map(Arc::new);
        let population = weights.len() as u64;
        let stream = Stream::new(OrderKind::Weighted, seed, population, table, None).unwrap();
        assert_draws(&stream, start, &expected);
    }
}

#[test]
fn weight_tables_are_frozen() {
    for &(weights, expected) in TABLES {
        let table = WeightTable::build(weights).unwrap().unwrap();
        let entries: Vec<(u64, u64)> = table
            .entries()
            .iter()
            .map(|entry| (entry.threshold, entry.alias))
            .collect();
        assert_eq!(entries, expected, "weights {weights:?}");
    }
}

#[test]
fn weight_tables_are_written_as_little_endian_pairs() {
    let table = WeightTable::build(&[1.0, 3.0]).unwrap().unwrap();
    let mut expected = Vec::new();
    for word in [1_u64 << 63, 1, 0, 1] {
        expected.extend_from_slice(&word.to_le_bytes());
    }
    assert_eq!(table.as_bytes(), expected);
}

#[test]
fn filtered_draws_are_frozen() {
    let eligible = || Some(Flat::from(vec![2_u64, 3, 5, 7]));
    let stream = Stream::new(OrderKind::Sequential, 1, 9, None, eligible()).unwrap();
    assert_draws(&stream, 2, &[5, 7, 2, 3]);
    // The permutation of 4 rows with the same seed, looked up in the list.
    let stream = Stream::new(OrderKind::Permutation, 1, 9, None, eligible()).unwrap();
    let unfiltered = Stream::new(OrderKind::Permutation, 1, 4, None, None).unwrap();
    let expected = [0, 1, 2, 3, 4, 5].map(|at| [2, 3, 5, 7][unfiltered.row(at) as usize]);
    assert_draws(&stream, 0, &expected);
}

/// So a threshold of 0 never gives the bucket's own row, not even for a coin of 0.
#[test]
fn a_coin_equal_to_the_threshold_gives_the_alias() {
    let (seed, position) = (0x0123_4567_89ab_cdef_u64, (7_u64 << 32) + 5);
    let block = philox4x32_10(
        [position as u32, (position >> 32) as u32, 1, 0],
        [seed as u32, (seed >> 32) as u32],
    );
    let coin = u64::from(block[2]) | u64::from(block[3]) << 32;
    for (threshold, is_alias) in [(coin - 1, true), (coin, true), (coin + 1, false)] {
        let entry = |row: u64| AliasEntry {
            threshold,
            alias: 1 - row,
        };
        let table = WeightTable::from_entries(Flat::from(vec![entry(0), entry(1)])).unwrap();
        let plain = Stream::new(OrderKind::Weighted, seed, 2, None, None).unwrap();
        let stream = Stream::new(OrderKind::Weighted, seed, 2, Some(Arc::new(table)), None);
        let bucket = plain.row(position);
        let expected = if is_alias { 1 - bucket } else { bucket };
        assert_draws(&stream.unwrap(), position, &[expected]);
    }
}
