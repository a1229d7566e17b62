//! What holds for every order, whatever the seed, the population and the positions.

use std::sync::Arc;

use dataset_rt_sampler::{Flat, OrderKind, Stream, WeightTable};
use proptest::prelude::*;

/// Numbers of every size: as many below 2^8 as above 2^56.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
}

/// Starts of every size, among them the last positions there are.
fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![any_size(), any_size().prop_map(|number| u64::MAX - number)]
}

fn any_stream() -> impl Strategy<Value = Stream> {
    let population = any_size().prop_map(|number| number.max(1));
    let kind = prop_oneof![
        Just(OrderKind::Sequential),
        Just(OrderKind::Weighted),
        Just(OrderKind::Permutation)
    ];
    let plain = (kind, any::<u64>(), population)
        .prop_map(|(kind, seed, population)| Stream::new(kind, seed, population, None, None));
    let weights = prop::collection::vec(prop_oneof![Just(0.0), 0.0..9.0, 1e-300..1e300], 1..200);
    let kind = prop_oneof![Just(OrderKind::Sequential), Just(OrderKind::Permutation)];
    let tabled = (any::<u64>(), weights).prop_map(|(seed, mut weights)| {
        weights[0] = 1.0;
        let table = WeightTable::build_always(&weights).map(Arc::new);
        Stream::new(
            OrderKind::Weighted,
            seed,
            weights.len() as u64,
            table.ok(),
            None,
        )
    });
    let filtered = (
        kind,
        any::<u64>(),
        prop::collection::vec(any::<bool>(), 1..200),
    )
        .prop_map(|(kind, seed, mut is_eligible)| {
            is_eligible[0] = true;
            let rows = (0_u64..)
                .zip(&is_eligible)
                .filter(|&(_, &eligible)| eligible);
            let eligible: Vec<u64> = rows.map(|(row, _)| row).collect();
            let population = is_eligible.len() as u64;
            Stream::new(kind, seed, population, None, Some(Flat::from(eligible)))
        });
    prop_oneof![plain, tabled, filtered].prop_map(Result::unwrap)
}

fn fill(stream: &Stream, start: u64, count: usize) -> Vec<u64> {
    let mut rows = vec![0; count];
    stream.fill(start, &mut rows);
    rows
}

proptest! {
    #[test]
    fn filling_equals_drawing_one_by_one(
        stream in any_stream(),
        start in any_start(),
        count in 0_usize..300,
    ) {
        let one_by_one: Vec<u64> =
            (0..count as u64).map(|step| stream.row(start.wrapping_add(step))).collect();
        prop_assert_eq!(fill(&stream, start, count), one_by_one);
    }

    #[test]
    fn a_stream_resumes_at_any_position(
        stream in any_stream(),
        start in any_start(),
        cuts in prop::collection::vec(0_usize..100, 0..8),
    ) {
        let whole = fill(&stream, start, cuts.iter().sum());
        let mut position = start;
        let mut resumed = Vec::new();
        for count in cuts {
            // A stream made anew has no memory of what was drawn before.
            let again = Stream::new(
                stream.kind(),
                stream.seed(),
                stream.population(),
                stream.weight_table().cloned(),
                stream.eligible_rows().cloned(),
            );
            resumed.extend(fill(&again.unwrap(), position, count));
            position = position.wrapping_add(count as u64);
        }
        prop_assert_eq!(resumed, whole);
    }

    #[test]
    fn rows_lie_in_the_population(stream in any_stream(), start in any_start()) {
        let rows = fill(&stream, start, 200);
        prop_assert!(rows.iter().all(|&row| row < stream.population()));
    }

    #[test]
    fn draws_come_from_eligible_rows_only(stream in any_stream(), start in any_start()) {
        if let Some(eligible) = stream.eligible_rows() {
            let rows = fill(&stream, start, 200);
            prop_assert!(rows.iter().all(|row| eligible.as_slice().contains(row)));
        }
    }

    #[test]
    fn sequential_draws_follow_the_list(
        population in any_size().prop_map(|number| number.max(1)),
        start in any_size(),
    ) {
        let stream = Stream::new(OrderKind::Sequential, 0, population, None, None).unwrap();
        for step in 0..100 {
            let position = start.saturating_add(step);
            prop_assert_eq!(stream.row(position), position % population);
        }
    }

    #[test]
    fn rows_of_weight_zero_are_never_drawn(
        weights in prop::collection::vec(prop_oneof![Just(0.0), Just(-0.0), 0.0..1.0], 2..50),
        seed: u64,
        start in any_start(),
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let table = WeightTable::build(&weights).unwrap().map(Arc::new);
        let population = weights.len() as u64;
        let stream = Stream::new(OrderKind::Weighted, seed, population, table, None).unwrap();
        for row in fill(&stream, start, 1_000) {
            prop_assert!(weights[row as usize] > 0.0, "row {} was drawn", row);
        }
    }

    #[test]
    fn equal_weights_draw_the_same_with_a_table(
        weight in prop_oneof![1e-320..1e-300, 0.1..10.0, 1e300..f64::MAX],
        population in 1_usize..2_000,
        seed: u64,
        start in any_start(),
    ) {
        let table = Arc::new(WeightTable::build_always(&vec![weight; population]).unwrap());
        let rows = population as u64;
        let with = Stream::new(OrderKind::Weighted, seed, rows, Some(table), None).unwrap();
        let without = Stream::new(OrderKind::Weighted, seed, rows, None, None).unwrap();
        prop_assert_eq!(fill(&with, start, 500), fill(&without, start, 500));
    }

    #[test]
    fn scaling_all_weights_by_a_power_of_two_changes_no_draw(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 0.5..1.0], 1..50),
        power in -900..900,
        seed: u64,
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let factor = 2_f64.powi(power);
        let scaled: Vec<f64> = weights.iter().map(|weight| weight * factor).collect();
        let [plain, scaled] = [weights, scaled].map(|weights| {
            let table = Arc::new(WeightTable::build_always(&weights).unwrap());
            let rows = weights.len() as u64;
            let stream = Stream::new(OrderKind::Weighted, seed, rows, Some(table), None);
            fill(&stream.unwrap(), 0, 500)
        });
        prop_assert_eq!(plain, scaled);
    }
}
