//! The permutation order: each pass holds every row once, and passes look like chance.

use std::collections::HashMap;

use dataset_rt_sampler::{Flat, OrderKind, Stream};
use proptest::prelude::*;

use crate::statistics::{assert_chance, chi_square_even};

fn permutation(seed: u64, population: u64) -> Stream {
    Stream::new(OrderKind::Permutation, seed, population, None, None).unwrap()
}

fn pass(stream: &Stream, number: u64) -> Vec<u64> {
    let population = stream.population();
    let mut rows = vec![0; population as usize];
    stream.fill(number * population, &mut rows);
    rows
}

proptest! {
    #[test]
    fn every_pass_holds_every_row_once(
        seed: u64,
        population in 1_u64..1_500,
        number in any::<u64>(),
    ) {
        let number = number % (u64::MAX / population);
        let mut rows = pass(&permutation(seed, population), number);
        rows.sort_unstable();
        prop_assert!(rows.into_iter().eq(0..population));
    }

    #[test]
    fn a_huge_pass_repeats_no_row(
        seed: u64,
        shift in 0_u32..32,
        start in any::<u64>(),
    ) {
        let stream = permutation(seed, u64::MAX >> shift);
        let start = start % (stream.population() - 500);
        let mut rows = vec![0; 500];
        stream.fill(start, &mut rows);
        rows.sort_unstable();
        rows.dedup();
        prop_assert_eq!(rows.len(), 500);
    }

    #[test]
    fn a_filtered_pass_holds_every_eligible_row_once(
        seed: u64,
        eligible in prop::collection::btree_set(0_u64..500, 1..200),
        number in 0_u64..1_000,
    ) {
        let eligible: Vec<u64> = eligible.into_iter().collect();
        let list = Flat::from(eligible.clone());
        let stream = Stream::new(OrderKind::Permutation, seed, 500, None, Some(list)).unwrap();
        let mut rows = vec![0; eligible.len()];
        stream.fill(number * eligible.len() as u64, &mut rows);
        rows.sort_unstable();
        prop_assert_eq!(rows, eligible);
    }
}

#[test]
fn every_small_population_is_permuted() {
    for population in 1..=300 {
        for number in [0, 1, 77] {
            let mut rows = pass(&permutation(9, population), number);
            rows.sort_unstable();
            assert!(
                rows.into_iter().eq(0..population),
                "pass {number} of {population} rows"
            );
        }
    }
}

#[test]
fn passes_and_seeds_differ() {
    for population in [20, 64, 65, 1_000] {
        let first = pass(&permutation(1, population), 0);
        assert_ne!(first, pass(&permutation(1, population), 1));
        assert_ne!(first, pass(&permutation(2, population), 0));
        assert_ne!(first, pass(&permutation(1 << 32, population), 0));
        assert_ne!(first, pass(&permutation(1, population), 1 << 32));
    }
}

/// How often each permutation of a small population came, among all that could.
fn frequencies(population: u64, passes: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut counts: HashMap<Vec<u64>, u64> = HashMap::new();
    for rows in passes {
        *counts.entry(rows).or_default() += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.resize((1..=population as usize).product(), 0);
    counts
}

#[test]
fn all_permutations_of_few_rows_are_equally_likely_over_passes() {
    for population in 2..=5 {
        let stream = permutation(20_240_601, population);
        let counts = frequencies(population, (0..12_000).map(|number| pass(&stream, number)));
        assert_chance(chi_square_even(&counts), counts.len() - 1, "passes");
    }
}

#[test]
fn all_permutations_of_few_rows_are_equally_likely_over_seeds() {
    for population in 2..=5 {
        let passes = (0..12_000).map(|seed| pass(&permutation(seed, population), 0));
        let counts = frequencies(population, passes);
        assert_chance(chi_square_even(&counts), counts.len() - 1, "seeds");
    }
}

#[test]
fn pairs_of_neighbours_are_equally_likely() {
    // 64 is the largest population that is shuffled, 65 to 128 the narrowest network.
    for population in [64_u64, 65, 128] {
        let stream = permutation(5, population);
        let mut counts = vec![0; (population * population) as usize];
        for number in 0..40_000 {
            let mut pair = [0; 2];
            stream.fill(number * population + 10, &mut pair);
            counts[(pair[0] * population + pair[1]) as usize] += 1;
        }
        let distinct: Vec<u64> = (0..population * population)
            .filter(|cell| cell / population != cell % population)
            .map(|cell| counts[cell as usize])
            .collect();
        let context = format!("pairs of {population} rows");
        assert_chance(chi_square_even(&distinct), distinct.len() - 1, &context);
    }
}

#[test]
fn every_row_is_as_likely_at_every_index() {
    for population in [50_u64, 70, 129] {
        let stream = permutation(6, population);
        let mut counts = vec![0; (population * population) as usize];
        for number in 0..2_000 {
            for (index, row) in pass(&stream, number).into_iter().enumerate() {
                counts[index * population as usize + row as usize] += 1;
            }
        }
        // Each row and each column of the table of counts adds up to the number of passes.
        let freedom = ((population - 1) * (population - 1)) as usize;
        let context = format!("places of {population} rows");
        assert_chance(chi_square_even(&counts), freedom, &context);
    }
}

#[test]
fn fixed_points_are_as_frequent_as_chance_has_them() {
    for population in [65, 500, 1_024] {
        let stream = permutation(8, population);
        let passes = 400;
        let fixed: usize = (0..passes)
            .map(|number| {
                (0..)
                    .zip(pass(&stream, number))
                    .filter(|&(at, row)| at == row)
                    .count()
            })
            .sum();
        // One per pass on average, with variance one: 4.5 standard deviations are 90.
        assert!(
            fixed.abs_diff(400) < 90,
            "{fixed} fixed points in {passes} passes of {population}"
        );
    }
}

#[test]
fn steps_from_draw_to_draw_are_spread_evenly() {
    // A weak network shows in the differences of neighbours: 16 equal classes of them.
    for population in [1_000_u64, 1 << 20, (1 << 33) + 12_345, 1 << 62] {
        let stream = permutation(77, population);
        let mut rows = vec![0; 100_000.min(population as usize)];
        stream.fill(0, &mut rows);
        let mut counts = [0; 16];
        for pair in rows.windows(2) {
            let step = (pair[1] + (population - pair[0])) % population;
            counts[(u128::from(step) * 16 / u128::from(population)) as usize] += 1;
        }
        assert_chance(
            chi_square_even(&counts),
            15,
            &format!("steps of {population} rows"),
        );
    }
}
