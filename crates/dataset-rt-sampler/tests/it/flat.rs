//! Flat arrays over borrowed bytes, and what damaged ones do to draws.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataset_rt_sampler::{
    AliasEntry, Flat, OrderKind, SamplerError, SharedBytes, Stream, WeightTable,
};

/// Bytes that start at a multiple of 16, as a map does.
struct Aligned(Vec<u128>);

impl Aligned {
    fn shared(bytes: &[u8]) -> SharedBytes {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(16), 0);
        let words = padded.chunks_exact(16);
        Arc::new(Self(
            words
                .map(|word| u128::from_le_bytes(word.try_into().unwrap()))
                .collect(),
        ))
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn mapped(values: &[u64]) -> Flat<u64> {
    let bytes = Aligned::shared(bytemuck::cast_slice(values));
    Flat::from_shared_range(bytes, 0..size_of_val(values)).unwrap()
}

#[test]
fn borrowed_values_are_those_written() {
    let owned = Flat::from(vec![1_u64, u64::MAX, 3]);
    let borrowed = Flat::<u64>::from_shared_range(Aligned::shared(owned.as_bytes()), 0..24);
    assert_eq!(borrowed.unwrap().as_slice(), owned.as_slice());
}

#[test]
fn a_part_of_the_bytes_can_be_borrowed() {
    let bytes = Aligned::shared(bytemuck::cast_slice(&[1_u64, 2, 3, 4]));
    assert_eq!(
        Flat::<u64>::from_shared_range(bytes.clone(), 8..24)
            .unwrap()
            .as_slice(),
        [2, 3]
    );
    assert!(
        Flat::<u64>::from_shared_range(bytes, 16..16)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn borrowed_values_are_not_copied() {
    let bytes = Aligned::shared(&[0; 64]);
    let address = (*bytes).as_ref().as_ptr();
    let flat = Flat::<u64>::from_shared(bytes).unwrap();
    assert_eq!(flat.clone().as_bytes().as_ptr(), address);
    assert_eq!(flat.as_bytes().as_ptr(), address);
}

#[test]
fn bytes_that_are_no_array_are_refused() {
    let bytes = Aligned::shared(&[0; 32]);
    let error = |range| Flat::<u64>::from_shared_range(bytes.clone(), range).unwrap_err();
    assert_eq!(
        error(0..20).to_string(),
        "a flat array has 20 bytes; expected a multiple of its 8-byte element"
    );
    assert_eq!(
        error(4..12).to_string(),
        "a flat array begins 4 bytes past a multiple of 8; expected an aligned start"
    );
    assert_eq!(
        error(24..40).to_string(),
        "a flat array at bytes 24..40 lies outside its file of 32 bytes"
    );
    #[expect(clippy::reversed_empty_ranges)]
    let reversed = 16..8;
    assert!(matches!(error(reversed), SamplerError::FlatRange { .. }));
}

#[test]
fn a_mapped_weight_table_draws_like_the_one_written() {
    let table = WeightTable::build(&[1.0, 0.5, 0.0, 7.0]).unwrap().unwrap();
    let entries = Flat::<AliasEntry>::from_shared(Aligned::shared(table.as_bytes())).unwrap();
    let mapped = WeightTable::from_entries(entries).unwrap();
    let draws = |table| {
        let stream = Stream::new(OrderKind::Weighted, 3, 4, Some(Arc::new(table)), None).unwrap();
        let mut rows = vec![0; 500];
        stream.fill(0, &mut rows);
        rows
    };
    assert_eq!(draws(mapped), draws(table));
}

#[test]
fn a_damaged_alias_gives_rows_outside_the_population_and_is_named() {
    for found in [3, 1 << 40, u64::MAX] {
        let entry = |alias| AliasEntry {
            threshold: 0,
            alias,
        };
        let damaged = Flat::from(vec![entry(1), entry(found), entry(0)]);
        let table = Arc::new(WeightTable::from_entries(damaged).unwrap());
        let stream = Stream::new(OrderKind::Weighted, 0, 3, Some(table), None).unwrap();
        let mut rows = vec![0; 300];
        stream.fill(0, &mut rows);
        assert!(rows.iter().all(|&row| row <= 1 || row == found));
        assert!(rows.contains(&found));
        assert!((0..300).all(|position| stream.row(position) == rows[position as usize]));
        let (table, entry, population) = ("weight table", 1, 3);
        let error = SamplerError::DamagedTable {
            table,
            entry,
            found,
            population,
        };
        assert_eq!(stream.verify(), Err(error));
    }
}

#[test]
fn a_damaged_eligible_row_stays_outside_the_population_and_is_named() {
    for kind in [OrderKind::Sequential, OrderKind::Permutation] {
        let stream = Stream::new(kind, 0, 10, None, Some(mapped(&[4, u64::MAX, 10]))).unwrap();
        let mut rows = vec![0; 3];
        stream.fill(0, &mut rows);
        rows.sort_unstable();
        assert_eq!(rows, [4, 10, u64::MAX]);
        assert_eq!(
            stream.verify().unwrap_err().to_string(),
            format!(
                "the list of eligible rows names row {} at entry 1; expected a row below 10, so \
                 the table is damaged",
                u64::MAX
            )
        );
    }
}

#[test]
fn sound_tables_pass_verification() {
    let table = WeightTable::build(&[1.0, 2.0]).unwrap().map(Arc::new);
    Stream::new(OrderKind::Weighted, 0, 2, table, None)
        .unwrap()
        .verify()
        .unwrap();
    let eligible = Some(mapped(&[0, 9]));
    Stream::new(OrderKind::Sequential, 0, 10, None, eligible)
        .unwrap()
        .verify()
        .unwrap();
    Stream::new(OrderKind::Permutation, 0, 10, None, None)
        .unwrap()
        .verify()
        .unwrap();
}

/// Shared bytes that shrink behind the array's back, against the rules of `AsRef`.
struct Shrinking {
    bytes: Vec<u128>,
    shrunk: AtomicBool,
}

impl AsRef<[u8]> for Shrinking {
    fn as_ref(&self) -> &[u8] {
        let words = if self.shrunk.load(Ordering::Relaxed) {
            1
        } else {
            self.bytes.len()
        };
        bytemuck::cast_slice(&self.bytes[..words])
    }
}

#[test]
fn bytes_that_shrink_give_no_valid_row_and_no_panic() {
    let bytes = Arc::new(Shrinking {
        bytes: vec![0; 8],
        shrunk: AtomicBool::new(false),
    });
    let table = WeightTable::from_entries(Flat::from_shared(bytes.clone()).unwrap()).unwrap();
    let weighted = Stream::new(OrderKind::Weighted, 0, 8, Some(Arc::new(table)), None).unwrap();
    let eligible = Flat::from_shared(bytes.clone()).unwrap();
    let filtered = Stream::new(OrderKind::Permutation, 0, 16, None, Some(eligible)).unwrap();
    assert_eq!((weighted.row(3), filtered.row(3)), (0, 0));
    bytes.shrunk.store(true, Ordering::Relaxed);
    for stream in [weighted, filtered] {
        let mut rows = [0; 20];
        stream.fill(0, &mut rows);
        assert_eq!(rows, [u64::MAX; 20]);
        assert_eq!(stream.row(5), u64::MAX);
    }
}
