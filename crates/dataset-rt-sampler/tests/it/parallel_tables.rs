//! Weight tables built in parts, side by side: the same tables, bit by bit, as in one piece.

use std::sync::atomic::{AtomicUsize, Ordering};

use dataset_rt_sampler::{Executor, InOrder, SamplerError, WeightTable, philox4x32_10};

/// Enough for several parts of each kind of row.
const ROWS: usize = 300_007;

/// FNV-1a over the 64-bit words of a table.
fn digest(table: &WeightTable) -> u64 {
    let words = table
        .entries()
        .iter()
        .flat_map(|entry| [entry.threshold, entry.alias]);
    words.fold(0xCBF2_9CE4_8422_2325, |digest, word| {
        (digest ^ word).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

fn random_word(row: usize) -> u32 {
    let [word, ..] = philox4x32_10([row as u32, 0, 0, 7], [2026, 0]);
    word
}

/// Name, weight of each row, digest of the table.
type Pattern = (&'static str, fn(usize) -> f64, u64);

/// Weights of many shapes, each with the digest of its table. The digests are those of the first
/// implementation of algorithm version 1, which walked over all rows in one piece.
fn patterns() -> [Pattern; 11] {
    [
        (
            "random",
            |row| f64::from(random_word(row)),
            0x8B24_4693_16B9_26C5,
        ),
        (
            "random reals",
            |row| 1.0 / (f64::from(random_word(row)) + 0.1),
            0x4ECB_C7C1_3A09_E0F4,
        ),
        (
            "few heavy rows",
            |row| {
                f64::from(if row % 1_000 == 3 {
                    random_word(row)
                } else {
                    random_word(row) >> 31
                })
            },
            0x91EE_CF2E_010D_A629,
        ),
        (
            "light rows first",
            |row| {
                f64::from(if row < ROWS / 2 {
                    random_word(row) >> 20
                } else {
                    random_word(row)
                })
            },
            0x4211_1850_92D3_DC64,
        ),
        (
            "heavy rows first",
            |row| {
                f64::from(if row < ROWS / 2 {
                    random_word(row)
                } else {
                    random_word(row) >> 20
                })
            },
            0xF49F_343B_789C_3172,
        ),
        (
            "one light row, last",
            |row| f64::from(u8::from(row != ROWS - 1)),
            0x3B8D_1AF7_12AA_A117,
        ),
        (
            "one heavy row, first",
            |row| f64::from(u8::from(row == 0)),
            0x15AD_CF91_AFC0_BDDD,
        ),
        (
            "one heavy row, last",
            |row| f64::from(u8::from(row == ROWS - 1)),
            0xBB31_D0CA_C4D1_ECDB,
        ),
        (
            "one heavy row in the middle",
            |row| if row == ROWS / 2 { 1e9 } else { 0.3 },
            0x3DAD_3B75_88B9_FD9C,
        ),
        (
            "a long tail of mean rows",
            |row| [0.0, 2.0, 1.0][row.min(2)],
            0x3E8D_6325_F0C6_D5D3,
        ),
        (
            "wide range",
            |row| 2.0_f64.powi((random_word(row) % 900) as i32 - 450),
            0x4491_2121_F78F_EB4B,
        ),
    ]
}

/// Runs parts in threads, last parts first.
struct Threads;

impl Executor for Threads {
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for first in 0..3 {
                scope.spawn(move || (first..parts).step_by(3).rev().for_each(work));
            }
        });
    }
}

/// Runs some parts in all and leaves out the others.
struct Stopping {
    parts_left: AtomicUsize,
}

impl Executor for Stopping {
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        for part in 0..parts {
            let lower = |left: usize| left.checked_sub(1);
            let left = self
                .parts_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
            if left.is_ok() {
                work(part);
            }
        }
    }
}

#[test]
fn large_tables_are_those_of_the_first_implementation() {
    for (name, weight, expected) in patterns() {
        let weights: Vec<f64> = (0..ROWS).map(weight).collect();
        for executor in [&InOrder as &dyn Executor, &Threads] {
            let table = WeightTable::build_with(&weights, executor)
                .unwrap()
                .unwrap();
            assert_eq!(digest(&table), expected, "{name}");
        }
    }
}

#[test]
fn a_stopped_build_gives_no_table_wherever_it_stops() {
    let weights: Vec<f64> = (0..ROWS).map(|row| f64::from(random_word(row))).collect();
    let mut stopped = 0;
    for parts in (0..).step_by(7) {
        let parts_left = AtomicUsize::new(parts);
        match WeightTable::build_with(&weights, &Stopping { parts_left }) {
            Err(error) => assert_eq!(error, SamplerError::Stopped),
            Ok(table) => {
                assert!(table.is_some());
                break;
            }
        }
        stopped += 1;
    }
    assert!(stopped > 10, "it was stopped {stopped} times");
}
