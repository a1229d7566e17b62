use dataset_rt_store::{Algorithm, ColumnType, Stretch, Value, WriterOptions};
use proptest::prelude::*;

use crate::building::{build, compressions, files_below, open, options, read_all};

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
    let cache = open(&path).unwrap();
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
    let shards = &open(&path).unwrap().manifest().shards.clone();
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
fn files_depend_neither_on_chunks_nor_on_threads() {
    let payloads: Vec<Vec<u8>> = (0..500_u32)
        .map(|sample| {
            format!("{{\"number\": {sample}}}")
                .repeat(sample as usize % 9)
                .into()
        })
        .collect();
    let rows: Vec<_> = payloads
        .iter()
        .map(|payload| (payload.as_slice(), vec![Value::Float(payload.len() as f64)]))
        .collect();
    for compression in compressions() {
        let written: Vec<_> = [
            (1, 1, false),
            (7, 3, false),
            (100_000, 2, false),
            (20, 4, true),
        ]
        .into_iter()
        .map(|(prefetch_size, threads, is_resumable)| {
            let base = tempfile::tempdir().unwrap();
            let options = WriterOptions {
                prefetch_size,
                compression,
                threads,
                is_resumable,
                ..options(2_000)
            };
            let path = build(base.path(), "same", options, &["length"], &rows).unwrap();
            files_below(&path)
                .into_iter()
                .map(|(_, bytes)| bytes)
                .collect::<Vec<_>>()
        })
        .collect();
        for others in &written[1..] {
            assert!(*others == written[0], "{compression:?}");
        }
    }
}

#[test]
fn records_are_stored_in_the_shorter_form_and_read_as_they_were() {
    let text: Vec<u8> = b"the same words again and again, ".repeat(300);
    let noise: Vec<u8> = (0..10_000_u64)
        .flat_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..2].to_vec())
        .collect();
    let rows = [
        (&text[..], vec![]),
        (&noise[..], vec![]),
        (&b""[..], vec![]),
        (&b"x"[..], vec![]),
    ];
    for compression in compressions() {
        let options = WriterOptions {
            compression,
            ..options(1 << 20)
        };
        let base = tempfile::tempdir().unwrap();
        let path = build(base.path(), "mixed", options, &[], &rows).unwrap();
        let payloads: Vec<_> = read_all(&path)
            .unwrap()
            .into_iter()
            .map(|(payload, _)| payload)
            .collect();
        assert_eq!(
            payloads,
            [text.clone(), noise.clone(), vec![], b"x".to_vec()]
        );
        let cache = open(&path).unwrap();
        let manifest = cache.manifest();
        assert_eq!(
            manifest.payload_bytes,
            (text.len() + noise.len() + 1) as u64
        );
        let stored = |sample| cache.locate(sample).unwrap().stored_bytes();
        assert_eq!(stored(1), noise.len(), "noise is stored as it is");
        assert_eq!(stored(3), 1);
        if compression.algorithm == Algorithm::None {
            assert_eq!(stored(0), text.len());
        } else {
            assert!(stored(0) < text.len() / 20);
        }
    }
}

#[test]
fn a_dictionary_is_kept_where_it_saves_bytes_and_only_there() {
    let similar: Vec<String> = (0..2_000_u32)
        .map(|number| {
            format!(
                "{{\"identifier\": {number}, \"category\": \"kind {}\", \"description\": \"entry {}\"}}",
                number % 7,
                number.wrapping_mul(2_654_435_761)
            )
        })
        .collect();
    let large: Vec<String> = (0..100)
        .map(|number| format!("{number} ").repeat(20_000))
        .collect();
    for (payloads, expected) in [(&similar, true), (&large, false)] {
        let rows: Vec<_> = payloads
            .iter()
            .map(|payload| (payload.as_bytes(), vec![]))
            .collect();
        let sizes = [false, true].map(|dictionary| {
            let [_, _, zstd, _] = compressions();
            let options = WriterOptions {
                compression: dataset_rt_store::Compression { dictionary, ..zstd },
                ..options(1 << 20)
            };
            let base = tempfile::tempdir().unwrap();
            let path = build(base.path(), "json", options, &[], &rows).unwrap();
            let found: Vec<_> = read_all(&path)
                .unwrap()
                .into_iter()
                .map(|(payload, _)| payload)
                .collect();
            assert!(
                found
                    .iter()
                    .zip(payloads)
                    .all(|(found, payload)| found == payload.as_bytes())
            );
            let cache = open(&path).unwrap();
            let manifest = cache.manifest();
            assert_eq!(manifest.dictionary.is_some(), dictionary && expected);
            manifest.stored_bytes
        });
        if expected {
            assert!(sizes[1] < sizes[0] / 2, "{sizes:?}");
        }
    }
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
    let cache = open(&path).unwrap();
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

#[test]
fn what_is_kept_beside_payloads_of_one_kibibyte_is_at_most_3_5_percent_of_them() {
    let base = tempfile::tempdir().unwrap();
    let payload = vec![7; 1 << 10];
    let rows: Vec<_> = (0..20_000_i64)
        .map(|sample| {
            let label = ["cat", "dog", "owl"][sample as usize % 3];
            let values = vec![
                Value::Integer(sample),
                Value::Float(sample as f64 / 3.0),
                Value::String(label),
            ];
            (&payload[..], values)
        })
        .collect();
    let columns = ["number", "score", "label"];
    let path = build(base.path(), "small", options(1 << 30), &columns, &rows).unwrap();
    let stored: usize = files_below(&path).iter().map(|(_, file)| file.len()).sum();
    let payloads = rows.len() * payload.len();
    // 12 bytes of index, and 8, 8 and 4 + 3 bytes of metadata: 35 a record.
    let overhead = (stored - payloads) as f64 / payloads as f64;
    assert!(overhead <= 0.035, "{overhead}");
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

#[test]
fn a_dictionary_depends_neither_on_chunks_nor_on_whether_the_build_can_be_continued() {
    let payloads: Vec<String> = (0..6_000_u32)
        .map(|number| {
            format!(
                "{{\"identifier\": {number}, \"kind\": \"{}\", \"text\": \"words\"}}",
                number % 7
            )
        })
        .collect();
    let rows: Vec<_> = payloads
        .iter()
        .map(|payload| (payload.as_bytes(), vec![]))
        .collect();
    let [_, _, _, compression] = compressions();
    let written: Vec<_> = [(10, 1, false), (3_000, 2, false), (100, 2, true)]
        .into_iter()
        .map(|(prefetch_size, threads, is_resumable)| {
            let base = tempfile::tempdir().unwrap();
            let options = WriterOptions {
                prefetch_size,
                compression,
                threads,
                is_resumable,
                ..options(50_000)
            };
            let path = build(base.path(), "same", options, &[], &rows).unwrap();
            assert!(path.join("dictionary.bin").exists());
            files_below(&path)
                .into_iter()
                .map(|(_, bytes)| bytes)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(written[0] == written[1]);
    assert!(written[0] == written[2]);
}

#[test]
fn only_a_record_that_follows_in_the_same_shard_joins_a_stretch() {
    let base = tempfile::tempdir().unwrap();
    // Two records fill a shard.
    let rows = vec![(&b"12345"[..], vec![]); 4];
    let path = build(base.path(), "s", options(10), &[], &rows).unwrap();
    let cache = open(&path).unwrap();
    let location = |sample| cache.locate(sample).unwrap();
    let joins = |first, second| {
        Stretch::of(&location(first))
            .joined(&location(second))
            .is_some()
    };
    assert!(joins(0, 1));
    assert!(joins(2, 3));
    assert!(!joins(0, 0) && !joins(1, 0), "not what follows");
    assert!(
        !joins(1, 2) && !joins(0, 2) && !joins(0, 3),
        "another shard"
    );
}
