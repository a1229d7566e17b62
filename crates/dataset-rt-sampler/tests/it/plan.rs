//! The window plan: golden windows, the contract on a grid, invariance of the world size, refusals.

use std::collections::BTreeMap;

use dataset_rt_sampler::{LAST_POSITION, Window, WindowPlan};
use proptest::prelude::*;

fn plan(budget: u64, batch_size: u64, rank: u64, world_size: u64, drop_last: bool) -> WindowPlan {
    WindowPlan::new(budget, batch_size, rank, world_size, drop_last).unwrap()
}

fn windows(plan: &WindowPlan, epoch: u64) -> Vec<Window> {
    (0..plan.num_batches())
        .map(|batch| plan.window(epoch, batch).unwrap())
        .collect()
}

/// Start, stop and first padding position of each window.
type Expected = &'static [(u64, u64, u64)];

#[test]
fn windows_are_frozen() {
    // (budget, batch size, rank, world size, drop last, epoch) and the windows.
    let cases: &[(u64, u64, u64, u64, bool, u64, Expected)] = &[
        (
            32,
            8,
            0,
            1,
            false,
            0,
            &[(0, 8, 8), (8, 16, 16), (16, 24, 24), (24, 32, 32)],
        ),
        (
            10,
            4,
            0,
            1,
            false,
            2,
            &[(20, 24, 24), (24, 28, 28), (28, 30, 30)],
        ),
        (10, 4, 0, 1, true, 2, &[(20, 24, 24), (24, 28, 28)]),
        (
            11,
            2,
            0,
            2,
            false,
            1,
            &[(11, 13, 13), (15, 17, 17), (19, 21, 21)],
        ),
        (
            11,
            2,
            1,
            2,
            false,
            1,
            &[(13, 15, 15), (17, 19, 19), (21, 23, 22)],
        ),
        (11, 2, 1, 2, true, 1, &[(13, 15, 15), (17, 19, 19)]),
        (7, 3, 0, 3, false, 0, &[(0, 3, 3)]),
        (7, 3, 1, 3, false, 0, &[(3, 6, 6)]),
        (7, 3, 2, 3, false, 0, &[(6, 9, 7)]),
        (1, 64, 0, 3, false, 5, &[(5, 6, 6)]),
        (1, 64, 2, 3, false, 5, &[(7, 8, 7)]),
        (1, 64, 2, 3, true, 5, &[]),
        (
            3_000_000_000,
            1_000_000_000,
            1,
            2,
            false,
            3_000_000_000,
            &[
                (
                    9_000_000_001_000_000_000,
                    9_000_000_002_000_000_000,
                    9_000_000_002_000_000_000,
                ),
                (
                    9_000_000_002_500_000_000,
                    9_000_000_003_000_000_000,
                    9_000_000_003_000_000_000,
                ),
            ],
        ),
    ];
    for &(budget, batch_size, rank, world_size, drop_last, epoch, expected) in cases {
        let found = windows(
            &plan(budget, batch_size, rank, world_size, drop_last),
            epoch,
        );
        let found: Vec<_> = found
            .iter()
            .map(|window| (window.start, window.stop, window.padding_from))
            .collect();
        assert_eq!(
            found, expected,
            "budget {budget}, batch {batch_size}, rank {rank} of {world_size}"
        );
    }
}

/// Checks one configuration against the contract's own words.
fn assert_contract(budget: u64, batch_size: u64, world_size: u64, drop_last: bool, epoch: u64) {
    let context = format!("{budget} samples, batch {batch_size}, {world_size} ranks, {drop_last}");
    let ranks: Vec<WindowPlan> = (0..world_size)
        .map(|rank| plan(budget, batch_size, rank, world_size, drop_last))
        .collect();
    let expected_samples = if drop_last {
        batch_size * (budget / (world_size * batch_size))
    } else {
        budget.div_ceil(world_size)
    };
    let mut times_drawn = BTreeMap::new();
    let mut padding = 0;
    for rank in &ranks {
        let windows = windows(rank, epoch);
        assert_eq!(rank.num_batches(), ranks[0].num_batches(), "{context}");
        assert_eq!(rank.samples_per_rank(), expected_samples, "{context}");
        let samples: u64 = windows
            .iter()
            .map(|window| window.stop - window.start)
            .sum();
        assert_eq!(samples, expected_samples, "{context}");
        for (batch, window) in windows.iter().enumerate() {
            let of_rank_0 = ranks[0].window(epoch, batch as u64).unwrap();
            let size = window.stop - window.start;
            assert_eq!(size, of_rank_0.stop - of_rank_0.start, "{context}");
            assert!(size > 0 && size <= batch_size, "{context}");
            assert!(
                (window.start..=window.stop).contains(&window.padding_from),
                "{context}"
            );
            padding += window.stop - window.padding_from;
            for position in window.start..window.stop {
                *times_drawn.entry(position).or_insert(0) += 1;
                let is_padding = position >= window.padding_from;
                assert_eq!(is_padding, position >= (epoch + 1) * budget, "{context}");
            }
        }
    }
    // All positions follow each other without gap or repetition: the epoch, then the padding.
    let drawn = expected_samples * world_size;
    let positions = epoch * budget..epoch * budget + drawn;
    assert!(times_drawn.keys().copied().eq(positions), "{context}");
    assert!(times_drawn.values().all(|&times| times == 1), "{context}");
    assert_eq!(ranks[0].padded_samples(), padding, "{context}");
    assert_eq!(
        drawn + ranks[0].dropped_samples(),
        budget + padding,
        "{context}"
    );
    assert!(
        if drop_last {
            padding == 0
        } else {
            ranks[0].dropped_samples() == 0
        },
        "{context}"
    );
}

#[test]
fn every_plan_of_the_grid_keeps_the_contract() {
    for budget in [1, 2, 3, 7, 64, 1_000] {
        for batch_size in [1, 3, 8, 64] {
            for world_size in [1, 2, 3] {
                for drop_last in [false, true] {
                    for epoch in [0, 1, 5] {
                        assert_contract(budget, batch_size, world_size, drop_last, epoch);
                    }
                }
            }
        }
    }
}

/// True samples of each global batch, in order.
fn global_batches(budget: u64, batch_size: u64, world_size: u64, epoch: u64) -> Vec<Vec<u64>> {
    let ranks: Vec<Vec<Window>> = (0..world_size)
        .map(|rank| windows(&plan(budget, batch_size, rank, world_size, false), epoch))
        .collect();
    (0..ranks[0].len())
        .map(|batch| {
            let parts = ranks.iter().map(|windows| windows[batch]);
            parts
                .flat_map(|window| window.start..window.padding_from)
                .collect()
        })
        .collect()
}

#[test]
fn global_batches_do_not_depend_on_the_world_size() {
    for budget in [1, 11, 12, 13, 30, 100] {
        let expected = global_batches(budget, 12, 1, 3);
        for (world_size, batch_size) in [(2, 6), (3, 4), (4, 3), (6, 2), (12, 1)] {
            assert_eq!(global_batches(budget, batch_size, world_size, 3), expected);
        }
    }
}

proptest! {
    #[test]
    fn any_plan_keeps_the_contract(
        budget in 1_u64..400,
        batch_size in 1_u64..50,
        world_size in 1_u64..12,
        drop_last: bool,
        epoch in 0_u64..1_000_000,
    ) {
        assert_contract(budget, batch_size, world_size, drop_last, epoch);
    }

    #[test]
    fn any_global_batch_is_the_same_for_any_world_size(
        budget in 1_u64..400,
        batch_size in 1_u64..9,
        world_size in 1_u64..9,
        epoch in 0_u64..1_000_000,
    ) {
        let alone = global_batches(budget, batch_size * world_size, 1, epoch);
        prop_assert_eq!(global_batches(budget, batch_size, world_size, epoch), alone);
    }

    #[test]
    fn no_numbers_make_a_plan_panic(
        numbers: [u64; 6],
        shifts in [0_u32..64, 0..64, 0..64, 0..64, 0..64, 0..64],
        drop_last: bool,
    ) {
        let [budget, batch_size, rank, world_size, epoch, batch] =
            std::array::from_fn(|index| numbers[index] >> shifts[index]);
        if let Ok(plan) = WindowPlan::new(budget, batch_size, rank, world_size, drop_last) {
            prop_assert!(plan.samples_per_rank() <= budget);
            prop_assert!(plan.dropped_samples() <= budget);
            prop_assert!(plan.padded_samples() < world_size);
            if let Ok(window) = plan.window(epoch, batch) {
                prop_assert!(window.start < window.stop && window.stop <= LAST_POSITION + 1);
            }
        }
    }
}

#[test]
fn impossible_plans_are_refused() {
    let error = |budget, batch_size, rank, world_size| {
        WindowPlan::new(budget, batch_size, rank, world_size, false)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error(0, 1, 0, 1), "budget is 0; expected at least 1");
    assert_eq!(error(1, 0, 0, 1), "batch size is 0; expected at least 1");
    assert_eq!(error(1, 1, 0, 0), "world size is 0; expected at least 1");
    assert_eq!(
        error(1, 1, 2, 2),
        "rank is 2; expected a rank below the world size of 2"
    );
    assert_eq!(
        error(1 << 63, 1, 0, 1),
        "budget is 9223372036854775808; expected at most 2^63 - 1"
    );
}

#[test]
fn batches_past_the_epoch_are_refused() {
    let plan = plan(10, 4, 0, 1, false);
    assert_eq!(
        plan.window(0, 3).unwrap_err().to_string(),
        "batch 3 was asked for; expected a batch below 3, the batches of an epoch"
    );
}

#[test]
fn the_end_of_the_stream_is_reached_but_not_passed() {
    let whole = plan(LAST_POSITION + 1, LAST_POSITION, 0, 1, false);
    assert_eq!(whole.window(0, 1).unwrap().stop, LAST_POSITION + 1);
    assert_eq!(
        whole.window(1, 0).unwrap_err().to_string(),
        "batch 0 of epoch 1 with a budget of 9223372036854775807 ends past position 2^63 - 2, the last \
         of the stream"
    );
    // Two epochs of 2^62 - 1 samples fit; of the second, the 2 padding samples go too far.
    let padded = |rank| plan((1 << 62) - 1, 1 << 62, rank, 5, false);
    assert!(padded(4).window(0, 0).is_ok());
    assert!(padded(3).window(1, 0).is_ok());
    assert!(padded(4).window(1, 0).is_err());
    assert!(plan(1, 1, 0, 1, false).window(u64::MAX, 0).is_err());
}
