use std::path::Path;
use std::sync::Arc;

use arrow_array::Array;
use arrow_schema::DataType;
use dataset_rt_reader::{Dataset, Pool, ReadOptions, ReaderError, SchemaRule, StopFlag};
use dataset_rt_store::{ColumnType, Value};

use crate::building::{draw, open, read, write};

#[test]
fn records_are_numbered_through_all_caches_in_the_given_order() {
    let base = tempfile::tempdir().unwrap();
    let first = write(base.path(), "first", 5, ("x", Value::Integer(1)));
    let second = write(base.path(), "second", 3, ("x", Value::Integer(2)));
    let view = open(&[second, first], draw(0), read(8)).view().unwrap();
    let placed: Vec<_> = (0..8)
        .map(|record| {
            let placed = view.caches().place(record);
            (placed.cache.name(), placed.sample)
        })
        .collect();
    let expected: Vec<_> = [("second", 3), ("first", 5)]
        .into_iter()
        .flat_map(|(name, samples)| (0..samples).map(move |sample| (name, sample)))
        .collect();
    assert_eq!(placed, expected);
    for (record, (cache, sample)) in (0..8).zip(placed) {
        let id = dataset_rt_store::cache_id_of_name(cache) as i64;
        assert_eq!(
            view.caches().record_number(id, sample as i64).unwrap(),
            record
        );
    }
}

#[test]
fn one_identity_twice_is_refused_with_both_paths() {
    let first = tempfile::tempdir().unwrap();
    let second = tempfile::tempdir().unwrap();
    let paths = [first.path(), second.path()].map(|base| write(base, "s", 1, ("x", Value::Null)));
    let pool = Arc::new(Pool::new(1));
    let error = Dataset::open(&paths, pool, draw(0), read(8)).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, ReaderError::DuplicateCache { .. }),
        "{message}"
    );
    assert!(
        paths
            .iter()
            .all(|path| message.contains(path.to_str().unwrap())),
        "{message}"
    );
}

#[test]
fn other_columns_need_the_union_and_other_types_are_refused_always() {
    let base = tempfile::tempdir().unwrap();
    let number = write(base.path(), "number", 2, ("x", Value::Integer(1)));
    let text = write(base.path(), "text", 2, ("x", Value::String("a")));
    let other = write(base.path(), "other", 2, ("y", Value::Float(1.0)));
    let empty = write(base.path(), "empty", 2, ("x", Value::Null));
    let open = |paths: &[_], schema| {
        let read = ReadOptions { schema, ..read(8) };
        Dataset::open(paths, Arc::new(Pool::new(1)), draw(0), read)
    };
    let different = [number.clone(), other];
    let message = open(&different, SchemaRule::Strict)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("\"y\"") && message.contains("union"),
        "{message}"
    );
    let union = open(&different, SchemaRule::Union).unwrap().view().unwrap();
    let names: Vec<_> = union
        .caches()
        .columns()
        .iter()
        .map(|column| &column.name)
        .collect();
    assert_eq!(names, ["x", "y"]);
    let table = union.caches().gather_metadata(&[0, 2]).unwrap();
    assert!(table.column(0).is_valid(0) && table.column(0).is_null(1));
    assert!(table.column(1).is_null(0) && table.column(1).is_valid(1));
    for schema in [SchemaRule::Strict, SchemaRule::Union] {
        let error = open(&[number.clone(), text.clone()], schema).unwrap_err();
        assert!(
            matches!(error, ReaderError::SchemasDiffer { .. }),
            "{error}"
        );
        // A column that never had a value takes the type of the others, in either order.
        for paths in [
            [number.clone(), empty.clone()],
            [empty.clone(), number.clone()],
        ] {
            let view = open(&paths, schema).unwrap().view().unwrap();
            assert_eq!(view.caches().columns()[0].column_type, ColumnType::Integer);
        }
    }
}

#[test]
fn caches_with_text_offsets_of_either_width_make_one_table() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/v1");
    let paths = ["none", "wide"].map(|name| golden.join(name));
    let dataset = open(&paths, draw(0), read(8));
    let view = dataset.view().unwrap();
    let table = view.metadata_table(&StopFlag::default()).unwrap();
    let [batch] = table.batches.as_slice() else {
        panic!("{} batches", table.batches.len());
    };
    assert_eq!(batch.num_rows(), 20);
    // The records of both caches are the same; the first column is the identity of the cache.
    let (narrow, wide) = (batch.slice(0, 10), batch.slice(10, 10));
    assert_eq!(narrow.columns()[1..], wide.columns()[1..]);
    let text = table.schema.index_of("名前").unwrap();
    assert_eq!(table.schema.field(text).data_type(), &DataType::LargeUtf8);
    let records = [7, 17, 2, 12, 8, 18];
    let gathered = view.caches().gather_metadata(&records).unwrap();
    for (row, record) in records.into_iter().enumerate() {
        let stored = narrow.slice(record as usize % 10, 1);
        let stored = &stored.columns()[2..stored.num_columns() - 1];
        assert_eq!(gathered.slice(row, 1).columns(), stored, "record {record}");
    }
    dataset.update_metadata(&table).unwrap();
}
