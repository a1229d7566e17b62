use dataset_rt_reader::{ReaderError, StopFlag};
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
    let mut table = dataset.view().unwrap().metadata_table().unwrap();
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
    let table = before.metadata_table().unwrap();
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
