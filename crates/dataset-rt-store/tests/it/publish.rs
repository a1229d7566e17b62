use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dataset_rt_store::StoreError;

use crate::building::{build, drain, finish, open, options, read_all, writer};

fn entries(base: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(base)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_abandoned_build_leaves_nothing_behind() {
    let base = tempfile::tempdir().unwrap();
    let mut abandoned = writer(base.path(), "s", options(100));
    abandoned.append(b"data", &[]).unwrap();
    drop(abandoned);
    assert_eq!(entries(base.path()), Vec::<String>::new());
}

#[test]
fn a_build_that_is_called_off_publishes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let mut cancelled = writer(base.path(), "s", options(100));
    cancelled.append(b"data", &[]).unwrap();
    cancelled.end_records().unwrap();
    drain(&mut cancelled).unwrap();
    let finished = cancelled.finish(&AtomicBool::new(true));
    assert!(matches!(finished, Err(StoreError::Cancelled { .. })));
    assert_eq!(entries(base.path()), Vec::<String>::new());
}

#[test]
fn a_source_without_samples_gives_an_error_and_no_cache() {
    let base = tempfile::tempdir().unwrap();
    let finished = finish(writer(base.path(), "s", options(100)));
    assert!(matches!(finished, Err(StoreError::EmptySource { .. })));
    assert_eq!(entries(base.path()), Vec::<String>::new());
}

#[test]
fn a_second_build_takes_the_place_of_the_first_when_it_is_complete() {
    let base = tempfile::tempdir().unwrap();
    let old = build(base.path(), "s", options(100), &[], &[(b"old", vec![])]).unwrap();
    let mut new = writer(base.path(), "s", options(100));
    new.append(b"new", &[]).unwrap();
    let open_before = open(&old).unwrap();
    assert_eq!(read_all(&old).unwrap()[0].0, b"old");
    assert_eq!(finish(new).unwrap(), old);
    assert_eq!(read_all(&old).unwrap()[0].0, b"new");
    // Who has the old cache open goes on reading it.
    let location = open_before.locate(0).unwrap();
    assert_eq!(open_before.in_place(&location).unwrap().payload, b"old");
    assert_eq!(entries(base.path()), ["s"]);
}

#[test]
fn a_directory_that_is_no_cache_is_not_replaced() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("s")).unwrap();
    std::fs::write(base.path().join("s/notes.txt"), "mine").unwrap();
    let built = build(base.path(), "s", options(100), &[], &[(b"data", vec![])]);
    assert!(matches!(built, Err(StoreError::NameTaken { .. })));
    assert_eq!(
        std::fs::read(base.path().join("s/notes.txt")).unwrap(),
        b"mine"
    );
    assert_eq!(entries(base.path()), ["s"]);
}

#[test]
fn published_modes_follow_the_umask() {
    let base = tempfile::tempdir().unwrap();
    let reference = base.path().join("reference");
    std::fs::write(&reference, []).unwrap();
    let path = build(base.path(), "s", options(100), &[], &[(b"data", vec![])]).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path.join("manifest.json")), mode(&reference));
    assert_eq!(mode(&path.join("shards/000000.bin")), mode(&reference));
}

#[test]
fn a_path_without_a_manifest_is_no_cache() {
    let base = tempfile::tempdir().unwrap();
    for path in [base.path().to_owned(), base.path().join("missing")] {
        assert!(matches!(open(&path), Err(StoreError::NotFound { .. })));
    }
}
