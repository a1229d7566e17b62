use std::path::Path;
use std::sync::Arc;

use dataset_rt_reader::{Batch, Dataset, DrawOptions, Pool, ReaderError, StopFlag};
use dataset_rt_store::Value;

use crate::building::{draw, open, read, write};

#[test]
fn a_snapshot_draws_what_the_dataset_draws_in_every_order() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let weights = (0..40).map(|row| f64::from(row % 2)).collect();
    dataset.set_weights(weights).unwrap();
    for (shuffle, replacement) in [(true, true), (true, false), (false, true)] {
        let draw = DrawOptions {
            seed: 9,
            shuffle,
            replacement,
        };
        let folder = base.path().join(format!("{shuffle}{replacement}"));
        dataset
            .view()
            .unwrap()
            .export_snapshot(&folder, draw, &StopFlag::default())
            .unwrap();
        let snapshot = Dataset::open_snapshot(&folder, Arc::new(Pool::new(1)), None).unwrap();
        let rows = snapshot.view().unwrap().draws(0, 200).unwrap();
        assert!(
            rows.iter().all(|row| row % 2 == 1),
            "rows of weight 0 were drawn"
        );
        assert_eq!(
            snapshot
                .view()
                .unwrap()
                .fingerprint(&StopFlag::default())
                .unwrap(),
            dataset
                .view()
                .unwrap()
                .fingerprint(&StopFlag::default())
                .unwrap()
        );
        let batch = Batch::of_rows(snapshot.view().unwrap(), rows).unwrap();
        assert_eq!(batch.gathered().unwrap().offsets.len(), 201);
    }
}

#[test]
fn a_snapshot_with_foreign_rows_gives_an_error() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let mut table = dataset
        .view()
        .unwrap()
        .metadata_table(&StopFlag::default())
        .unwrap();
    table.batches = table
        .batches
        .iter()
        .map(|batch| batch.slice(10, 20))
        .collect();
    dataset.update_metadata(&table).unwrap();
    let folder = base.path().join("snapshot");
    dataset
        .view()
        .unwrap()
        .export_snapshot(&folder, draw(2), &StopFlag::default())
        .unwrap();
    let rows = folder.join("rows.bin");
    let mut bytes = std::fs::read(&rows).unwrap();
    bytes.fill(0xff);
    std::fs::write(&rows, bytes).unwrap();
    let view = Dataset::open_snapshot(&folder, Arc::new(Pool::new(1)), None)
        .unwrap()
        .view()
        .unwrap();
    let drawn = view.draws(0, 5).unwrap();
    assert!(matches!(
        view.records_of_rows(&drawn),
        Err(ReaderError::RowOutOfRange { .. })
    ));
}

#[test]
fn a_cache_that_was_built_anew_is_noticed() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let folder = base.path().join("snapshot");
    let dataset = open(std::slice::from_ref(&path), draw(1), read(8));
    dataset
        .view()
        .unwrap()
        .export_snapshot(&folder, draw(1), &StopFlag::default())
        .unwrap();
    std::fs::remove_dir_all(path).unwrap();
    write(base.path(), "s", 40, ("x", Value::Integer(4)));
    let error = Dataset::open_snapshot(&folder, Arc::new(Pool::new(1)), None).unwrap_err();
    assert!(error.to_string().contains("built anew"), "{error}");
}

#[test]
fn a_snapshot_opens_with_another_seed() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    dataset
        .set_weights((0..40).map(|row| f64::from(row % 3)).collect())
        .unwrap();
    let view = dataset.view().unwrap();
    let export = |name: &str, seed| {
        let folder = base.path().join(name);
        view.export_snapshot(&folder, draw(seed), &StopFlag::default())
            .unwrap();
        folder
    };
    let draws = |folder: &Path, seed| {
        let pool = Arc::new(Pool::new(1));
        let snapshot = Dataset::open_snapshot(folder, pool, seed).unwrap();
        assert_eq!(
            snapshot.view().unwrap().draw_options().seed,
            seed.unwrap_or(1)
        );
        snapshot.view().unwrap().draws(0, 100).unwrap()
    };
    let (first, second) = (export("first", 1), export("second", 2));
    assert_eq!(draws(&first, Some(2)), draws(&second, Some(2)));
    assert_ne!(draws(&first, Some(2)), draws(&first, None));
}
