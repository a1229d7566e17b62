use std::sync::atomic::Ordering;

use dataset_rt_reader::{ReaderError, StopFlag};
use dataset_rt_sampler::{Flat, SamplerError};
use dataset_rt_store::Value;

use crate::building::{draw, open, read, write};

#[test]
fn an_iterator_keeps_the_table_it_began_with() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let before = dataset
        .view()
        .unwrap()
        .fingerprint(&StopFlag::default())
        .unwrap()
        .to_owned();
    let iterator = dataset.samples().unwrap();
    let mut table = dataset
        .view()
        .unwrap()
        .metadata_table(&StopFlag::default())
        .unwrap();
    table.batches = table
        .batches
        .iter()
        .map(|batch| batch.slice(0, 4))
        .collect();
    dataset.update_metadata(&table).unwrap();
    assert_eq!(
        iterator.view().fingerprint(&StopFlag::default()).unwrap(),
        before
    );
    assert_eq!(iterator.remaining(), 40);
    assert_eq!((dataset.cursor(), dataset.epoch_len()), (0, 4));
    assert_ne!(
        dataset
            .view()
            .unwrap()
            .fingerprint(&StopFlag::default())
            .unwrap(),
        before
    );
}

#[test]
fn a_table_that_is_the_whole_again_is_the_table_of_the_caches() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let before = dataset.view().unwrap();
    let table = before.metadata_table(&StopFlag::default()).unwrap();
    dataset.update_metadata(&table).unwrap();
    let after = dataset.view().unwrap();
    assert_eq!(
        after.fingerprint(&StopFlag::default()).unwrap(),
        before.fingerprint(&StopFlag::default()).unwrap()
    );
    assert_eq!(after.draws(0, 100).unwrap(), before.draws(0, 100).unwrap());
}

#[test]
fn equal_weights_draw_as_no_weights_do() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let before = dataset.view().unwrap().draws(0, 1_000).unwrap();
    dataset.set_weights(vec![0.25; 40]).unwrap();
    assert_eq!(dataset.view().unwrap().draws(0, 1_000).unwrap(), before);
}

#[test]
fn refused_weights_change_nothing() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 3, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    dataset.set_weights(vec![1.0, 2.0, 3.0]).unwrap();
    dataset.set_cursor(7);
    let before = dataset
        .view()
        .unwrap()
        .fingerprint(&StopFlag::default())
        .unwrap()
        .to_owned();
    for weights in [vec![1.0], vec![1.0, -1.0, 1.0], vec![0.0; 3]] {
        dataset.set_weights(weights).unwrap_err();
    }
    assert_eq!(
        dataset
            .view()
            .unwrap()
            .fingerprint(&StopFlag::default())
            .unwrap(),
        before
    );
    assert_eq!(dataset.cursor(), 7);
}

#[test]
fn a_closed_dataset_says_so() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 3, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let view = dataset.view().unwrap();
    dataset.close();
    assert!(dataset.is_closed());
    assert!(matches!(dataset.view(), Err(ReaderError::Closed)));
    assert!(matches!(
        dataset.set_weights(vec![1.0; 3]),
        Err(ReaderError::Closed)
    ));
    assert_eq!(view.draws(0, 3).unwrap().len(), 3);
}

#[test]
fn whatever_takes_long_can_be_stopped_and_changes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let dataset = open(&[path], draw(1), read(8));
    let view = dataset.view().unwrap();
    let mut table = view.metadata_table(&StopFlag::default()).unwrap();
    table.batches[0] = table.batches[0].slice(0, 20);
    let stop = StopFlag::default();
    stop.as_atomic().store(true, Ordering::Relaxed);
    let weights = || (0..40).map(f64::from).collect::<Vec<_>>();

    let stopped = |error: ReaderError| {
        assert!(matches!(error, ReaderError::Sampler(SamplerError::Stopped)));
    };
    stopped(dataset.edit_metadata(&table, &stop).unwrap_err());
    stopped(
        dataset
            .edit_weights(Flat::from(weights()), &stop)
            .unwrap_err(),
    );
    stopped(view.draw_into(0, &mut [0; 3], &stop).unwrap_err());

    dataset.set_weights(weights()).unwrap();
    let view = dataset.view().unwrap();
    stopped(view.fingerprint(&stop).unwrap_err());
    let folder = base.path().join("snapshot");
    stopped(view.export_snapshot(&folder, draw(1), &stop).unwrap_err());
    assert!(!folder.join("snapshot.json").exists());

    let edit = dataset.edit_metadata(&table, &StopFlag::default()).unwrap();
    assert_eq!(dataset.view().unwrap().num_rows(), 40);
    dataset.apply(edit).unwrap();
    assert_eq!(
        (dataset.view().unwrap().num_rows(), dataset.epoch_len()),
        (20, 20)
    );
}

#[test]
fn many_draws_by_many_threads_are_the_draws() {
    let base = tempfile::tempdir().unwrap();
    let path = write(base.path(), "s", 40, ("x", Value::Integer(3)));
    let view = open(&[path], draw(5), read(8)).view().unwrap();
    let mut rows = vec![0; 200_000];
    view.draw_into(7, &mut rows, &StopFlag::default()).unwrap();
    assert_eq!(rows, view.draws(7, 200_007).unwrap());
}
