use dataset_rt_store::{Cache, ColumnType, Value};
use proptest::prelude::*;

use crate::building::{build, files_below, options, read_all};

#[test]
fn what_was_written_is_read_in_order_across_shards_and_metadata_batches() {
    let base = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = (0..70_000_u32)
        .map(|sample| sample.to_le_bytes()[..(sample % 5) as usize].to_vec())
        .collect();
    let names: Vec<String> = (0..payloads.len())
        .map(|sample| format!("näme {sample}"))
        .collect();
    let rows: Vec<_> = payloads
        .iter()
        .zip(&names)
        .zip(0_i64..)
        .map(|((payload, name), sample)| {
            let text = if sample % 3 == 0 {
                Value::Null
            } else {
                Value::String(name)
            };
            (payload.as_slice(), vec![Value::Integer(sample), text])
        })
        .collect();
    let path = build(
        base.path(),
        "many",
        options(10_000),
        &["label", "name"],
        &rows,
    )
    .unwrap();
    let cache = Cache::open(&path).unwrap();
    assert_eq!(cache.len(), 70_000);
    assert_eq!(cache.metadata().num_batches(), 2);
    assert!(cache.manifest().shards.len() > 10);
    assert!(
        cache
            .manifest()
            .shards
            .iter()
            .all(|shard| shard.bytes <= 10_000)
    );
    let found = read_all(&path).unwrap();
    for ((payload, values), (expected_payload, expected_values)) in found.iter().zip(&rows) {
        assert_eq!(payload, expected_payload);
        let expected: Vec<_> = expected_values.iter().map(ToString::to_string).collect();
        assert_eq!(values, &expected);
    }
}

#[test]
fn a_record_larger_than_a_shard_gets_a_shard_of_its_own() {
    let base = tempfile::tempdir().unwrap();
    let large = vec![1; 5_000];
    let rows = vec![
        (&b"ab"[..], vec![]),
        (&large[..], vec![]),
        (&b""[..], vec![]),
        (&b"c"[..], vec![]),
    ];
    let path = build(base.path(), "large", options(100), &[], &rows).unwrap();
    let shards = &Cache::open(&path).unwrap().manifest().shards.clone();
    let sizes: Vec<_> = shards
        .iter()
        .map(|shard| (shard.samples, shard.bytes))
        .collect();
    assert_eq!(sizes, [(1, 2), (1, 5_000), (2, 1)]);
    let found: Vec<_> = read_all(&path)
        .unwrap()
        .into_iter()
        .map(|(payload, _)| payload)
        .collect();
    assert_eq!(found, [b"ab".to_vec(), large, vec![], b"c".to_vec()]);
}

#[test]
fn files_do_not_depend_on_how_records_are_divided_among_chunks() {
    let payloads: Vec<Vec<u8>> = (0..500_u32)
        .map(|sample| vec![7; sample as usize])
        .collect();
    let rows: Vec<_> = payloads
        .iter()
        .map(|payload| (payload.as_slice(), vec![Value::Float(payload.len() as f64)]))
        .collect();
    let written: Vec<_> = [1, 7, 100_000]
        .into_iter()
        .map(|prefetch_size| {
            let base = tempfile::tempdir().unwrap();
            let options = dataset_rt_store::WriterOptions {
                prefetch_size,
                ..options(20_000)
            };
            let path = build(base.path(), "same", options, &["length"], &rows).unwrap();
            files_below(&path)
                .into_iter()
                .map(|(_, bytes)| bytes)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(written[0], written[1]);
    assert_eq!(written[0], written[2]);
}

#[test]
fn a_cache_can_be_moved_and_read_through_a_symbolic_link() {
    let base = tempfile::tempdir().unwrap();
    let path = build(
        base.path(),
        "one",
        options(100),
        &["x"],
        &[(b"data", vec![Value::Null])],
    )
    .unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("renamed");
    std::fs::rename(path, &moved).unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(&moved, &link).unwrap();
    assert_eq!(
        read_all(&link).unwrap(),
        [(b"data".to_vec(), vec!["None".to_owned()])]
    );
}

#[test]
fn a_column_gets_its_type_from_its_first_value_wherever_that_is() {
    let base = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (0..70_000_i64)
        .map(|sample| {
            let value = if sample < 66_000 {
                Value::Null
            } else {
                Value::Integer(sample)
            };
            (&b""[..], vec![value, Value::Null])
        })
        .collect();
    let path = build(base.path(), "late", options(100), &["late", "never"], &rows).unwrap();
    let cache = Cache::open(&path).unwrap();
    let types: Vec<_> = cache
        .metadata()
        .columns()
        .iter()
        .map(|column| column.column_type)
        .collect();
    assert_eq!(types, [ColumnType::Integer, ColumnType::Null]);
    assert_eq!(
        cache.metadata().row(65_999).unwrap().value(0).unwrap(),
        Value::Null
    );
    assert_eq!(
        cache.metadata().row(66_000).unwrap().value(0).unwrap(),
        Value::Integer(66_000)
    );
}

#[derive(Debug, Clone)]
enum Cell {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(u64),
    String(String),
}

impl Cell {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Self::String(value) => Value::String(value),
        }
    }
}

fn column(kind: u8, length: usize) -> BoxedStrategy<Vec<Cell>> {
    let value = match kind {
        0 => any::<bool>().prop_map(Cell::Boolean).boxed(),
        1 => any::<i64>().prop_map(Cell::Integer).boxed(),
        2 => any::<u64>().prop_map(Cell::Float).boxed(),
        _ => any::<String>().prop_map(Cell::String).boxed(),
    };
    let cell = prop_oneof![1 => Just(Cell::Null), 4 => value];
    prop::collection::vec(cell, length).boxed()
}

fn columns() -> impl Strategy<Value = Vec<Vec<Cell>>> {
    (1_usize..20, prop::collection::vec(0_u8..4, 0..4)).prop_flat_map(|(rows, kinds)| {
        kinds
            .into_iter()
            .map(|kind| column(kind, rows))
            .collect::<Vec<_>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn values_survive_bit_for_bit(columns in columns(), shard_bytes in 1_u64..64, seed in any::<u64>()) {
        let rows = columns.first().map_or(1, Vec::len);
        let payloads: Vec<Vec<u8>> =
            (0..rows).map(|row| vec![row as u8; (seed as usize >> row) % 40]).collect();
        let names: Vec<String> = (0..columns.len()).map(|number| format!("c{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let table: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(row, payload)| {
                (payload.as_slice(), columns.iter().map(|column| column[row].value()).collect())
            })
            .collect();
        let base = tempfile::tempdir().unwrap();
        let path = build(base.path(), "any", options(shard_bytes), &names, &table).unwrap();
        let found = read_all(&path).unwrap();
        for (row, (payload, values)) in found.iter().enumerate() {
            prop_assert_eq!(payload, &payloads[row]);
            for (column, value) in columns.iter().zip(values) {
                let expected = match &column[row] {
                    Cell::Float(bits) => format!("float {bits:#x}"),
                    cell => cell.value().to_string(),
                };
                prop_assert_eq!(value, &expected);
            }
        }
    }
}
