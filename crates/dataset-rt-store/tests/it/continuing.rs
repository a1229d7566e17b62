//! Builds that were interrupted and go on, and those that begin anew.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataset_rt_store::{
    BuildLock, CacheWriter, LockAttempt, Reclaim, SourceName, StoreError, Value, WriterOptions,
    list_builds, reclaim_builds,
};

use crate::building::{compressions, drain, files_below, options, try_writer, writer};

const SAMPLES: u64 = 400;

fn resumable(compression: dataset_rt_store::Compression) -> WriterOptions {
    WriterOptions {
        is_resumable: true,
        compression,
        prefetch_size: 12,
        ..options(1_000)
    }
}

fn payload(sample: u64) -> Vec<u8> {
    format!("{{\"sample\": {sample}}}")
        .repeat(sample as usize % 7)
        .into()
}

/// Appends samples from where the build is, up to but not including `stop`.
fn append(writer: &mut CacheWriter, stop: u64) {
    for sample in writer.samples()..stop {
        // The first half of one column is null, so its type changes on the way.
        let label = if sample < SAMPLES / 2 {
            Value::Null
        } else {
            Value::Integer(sample as i64)
        };
        let name = format!("name {sample}");
        if writer
            .append(&payload(sample), &[label, Value::String(&name)])
            .unwrap()
        {
            drain(writer).unwrap();
        }
    }
}

fn begin(base: &Path, options: WriterOptions) -> CacheWriter {
    let mut writer = writer(base, "s", options);
    if writer.samples() == 0 {
        writer
            .set_columns(&["label".to_owned(), "name".to_owned()])
            .unwrap();
    }
    writer
}

fn complete(mut writer: CacheWriter) -> PathBuf {
    append(&mut writer, SAMPLES);
    writer.end_records().unwrap();
    drain(&mut writer).unwrap();
    writer.finish(&AtomicBool::new(false)).unwrap()
}

fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files_below(path)
        .into_iter()
        .map(|(file, bytes)| (file.strip_prefix(path).unwrap().to_owned(), bytes))
        .collect()
}

/// Builds up to a sample, then drops the build as a failing source would; after the last sample
/// it is called off before it is published.
fn interrupt(base: &Path, options: WriterOptions, stop: u64) {
    let has_dictionary = options.compression.dictionary;
    let mut interrupted = begin(base, options);
    append(&mut interrupted, stop);
    if stop == SAMPLES {
        interrupted.end_records().unwrap();
        drain(&mut interrupted).unwrap();
        let finished = interrupted.finish(&AtomicBool::new(true));
        assert!(matches!(finished, Err(StoreError::Cancelled { .. })));
    } else if stop >= SAMPLES / 2 && !has_dictionary {
        // The threads of the pipeline come to the first shard at some time.
        let deadline = Instant::now() + Duration::from_secs(30);
        while list_builds(base).unwrap()[0].kept_samples == 0 {
            assert!(Instant::now() < deadline, "no shard was sealed");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_continued_build_is_the_same_to_the_byte_and_repeats_less_than_a_shard() {
    for compression in compressions() {
        let reference = tempfile::tempdir().unwrap();
        let expected = contents(&complete(begin(reference.path(), resumable(compression))));
        for stop in [1, 10, 200, 250, 399, 400] {
            let base = tempfile::tempdir().unwrap();
            interrupt(base.path(), resumable(compression), stop);
            let continued = begin(base.path(), resumable(compression));
            let start = continued.samples();
            assert!(start <= stop);
            let waits_for_samples = compression.dictionary && stop < SAMPLES;
            assert_eq!(start > 0, stop >= SAMPLES / 2 && !waits_for_samples);
            let path = complete(continued);
            assert!(
                contents(&path) == expected,
                "{compression:?} stopped at {stop}"
            );
            let names: Vec<_> = std::fs::read_dir(base.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, ["s"]);
        }
    }
}

#[test]
fn what_the_source_claims_decides_whether_a_build_continues() {
    let [none, lz4, _, _] = compressions();
    let started = resumable(none);
    let fingerprint =
        |text: &str| Some(serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
    let others = [
        WriterOptions {
            fingerprint: fingerprint("1"),
            ..started.clone()
        },
        WriterOptions {
            max_shard_bytes: 2_000,
            ..started.clone()
        },
        resumable(lz4),
        WriterOptions {
            is_resumable: false,
            ..started.clone()
        },
    ];
    for other in others {
        let base = tempfile::tempdir().unwrap();
        interrupt(base.path(), started.clone(), 300);
        assert_eq!(begin(base.path(), other).samples(), 0);
    }
    let base = tempfile::tempdir().unwrap();
    interrupt(base.path(), started.clone(), 300);
    assert!(begin(base.path(), started).samples() > 0);
}

#[test]
fn a_damaged_leftover_is_continued_from_what_is_good() {
    let [_, _, _, dictionary] = compressions();
    let reference = tempfile::tempdir().unwrap();
    let expected = contents(&complete(begin(reference.path(), resumable(dictionary))));
    let untouched = tempfile::tempdir().unwrap();
    interrupt(untouched.path(), resumable(dictionary), 400);
    let leftovers = files_below(untouched.path());
    assert!(leftovers.len() > 8);
    for (damaged, _) in &leftovers {
        for damage in ["flip", "cut", "remove"] {
            let base = tempfile::tempdir().unwrap();
            for (file, bytes) in &leftovers {
                let copy = base
                    .path()
                    .join(file.strip_prefix(untouched.path()).unwrap());
                std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
                let mut bytes = bytes.clone();
                if file == damaged {
                    let middle = bytes.len() / 2;
                    match damage {
                        "flip" if !bytes.is_empty() => bytes[middle] ^= 0x55,
                        "cut" => bytes.truncate(middle),
                        "remove" => continue,
                        _ => {}
                    }
                }
                std::fs::write(copy, bytes).unwrap();
            }
            let path = complete(begin(base.path(), resumable(dictionary)));
            assert!(
                contents(&path) == expected,
                "{damage} {}",
                damaged.display()
            );
        }
    }
}

#[test]
fn only_one_builds_and_the_lock_goes_with_its_holder() {
    let base = tempfile::tempdir().unwrap();
    let name = SourceName::new("s").unwrap();
    let building = begin(base.path(), options(1_000));
    let LockAttempt::Held(Some(holder)) = BuildLock::try_acquire(base.path(), &name).unwrap()
    else {
        panic!("two builders at once");
    };
    assert_eq!(
        (holder.name.as_str(), holder.process),
        ("s", std::process::id())
    );
    assert!(list_builds(base.path()).unwrap()[0].is_active);
    let other = SourceName::new("another").unwrap();
    assert!(matches!(
        BuildLock::try_acquire(base.path(), &other).unwrap(),
        LockAttempt::Acquired(_)
    ));
    drop(building);
    assert!(matches!(
        BuildLock::try_acquire(base.path(), &name).unwrap(),
        LockAttempt::Acquired(_)
    ));
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn leftovers_go_unless_they_can_be_continued() {
    let [none, ..] = compressions();
    let base = tempfile::tempdir().unwrap();
    interrupt(base.path(), resumable(none), 300);
    // What a killed build leaves that keeps no journal.
    let useless = base.path().join(".building-00000000000000ff");
    std::fs::create_dir_all(useless.join("cache/shards")).unwrap();
    std::fs::write(useless.join("cache/shards/000000.bin"), b"half").unwrap();
    std::fs::write(useless.join("lock"), b"").unwrap();
    let found = list_builds(base.path()).unwrap();
    assert_eq!(
        found.iter().filter(|build| build.kept_samples > 0).count(),
        1
    );

    let removed = reclaim_builds(base.path(), Reclaim::Useless).unwrap();
    assert_eq!(removed.len(), 1);
    assert!(!useless.exists());
    let kept = list_builds(base.path()).unwrap();
    assert_eq!(kept.len(), 1);
    assert!(!kept[0].is_active && kept[0].kept_samples > 200);

    let removed = reclaim_builds(base.path(), Reclaim::All).unwrap();
    assert_eq!(removed, kept);
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn a_running_build_is_not_reclaimed() {
    let base = tempfile::tempdir().unwrap();
    let building = begin(base.path(), options(1_000));
    assert_eq!(reclaim_builds(base.path(), Reclaim::All).unwrap(), []);
    complete(building);
}

#[test]
fn a_leftover_whose_cache_is_finished_is_useless() {
    let [none, ..] = compressions();
    let base = tempfile::tempdir().unwrap();
    interrupt(base.path(), resumable(none), 300);
    let leftover = list_builds(base.path()).unwrap()[0].path.clone();
    let kept = base.path().join("kept");
    std::fs::rename(&leftover, &kept).unwrap();
    complete(begin(base.path(), resumable(none)));
    std::fs::rename(&kept, &leftover).unwrap();
    assert_eq!(
        reclaim_builds(base.path(), Reclaim::Useless).unwrap().len(),
        1
    );
}

#[test]
fn a_cache_left_aside_between_two_renames_gets_its_name_back() {
    let base = tempfile::tempdir().unwrap();
    let path = complete(begin(base.path(), options(1_000)));
    let expected = contents(&path);
    let name = SourceName::new("s").unwrap();
    let folder = base
        .path()
        .join(format!(".building-{:016x}", name.cache_id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(&path, folder.join("old")).unwrap();
    reclaim_builds(base.path(), Reclaim::Useless).unwrap();
    assert!(contents(&path) == expected);
    assert_eq!(list_builds(base.path()).unwrap(), []);
}

#[test]
fn reading_every_file_of_a_build_does_not_give_its_lock_up() {
    let base = tempfile::tempdir().unwrap();
    let name = SourceName::new("s").unwrap();
    let building = begin(base.path(), options(1_000));
    // Older record locks are lost when any descriptor of the file is closed.
    drop(files_below(base.path()));
    assert!(matches!(
        BuildLock::try_acquire(base.path(), &name).unwrap(),
        LockAttempt::Held(Some(_))
    ));
    complete(building);
}

#[test]
fn what_appears_under_the_name_meanwhile_is_not_replaced() {
    let base = tempfile::tempdir().unwrap();
    let target = base.path().join("s");
    let publish = |writer: CacheWriter| {
        let mut writer = writer;
        append(&mut writer, SAMPLES);
        writer.end_records().unwrap();
        drain(&mut writer).unwrap();
        writer.finish(&AtomicBool::new(false))
    };
    let building = begin(base.path(), options(1_000));
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("thesis.txt"), "mine").unwrap();
    let error = publish(building).unwrap_err();
    assert!(matches!(error, StoreError::NameTaken { .. }), "{error}");
    assert_eq!(std::fs::read(target.join("thesis.txt")).unwrap(), b"mine");
    std::fs::remove_dir_all(&target).unwrap();

    // The same for another cache than the one that is being rebuilt.
    complete(begin(base.path(), options(1_000)));
    let rebuilding = begin(base.path(), options(1_000));
    std::fs::remove_dir_all(&target).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = complete(begin(elsewhere.path(), options(2_000)));
    std::fs::rename(&other, &target).unwrap();
    let expected = contents(&target);
    let error = publish(rebuilding).unwrap_err();
    assert!(matches!(error, StoreError::NameTaken { .. }), "{error}");
    assert!(contents(&target) == expected);
}

#[test]
fn only_build_directories_are_reclaimed() {
    let base = tempfile::tempdir().unwrap();
    let precious = tempfile::tempdir().unwrap();
    std::fs::write(precious.path().join("data"), "mine").unwrap();
    let names = [
        ".building-notes",
        ".building-00000000000000zz",
        ".building-",
    ];
    for name in names {
        std::fs::create_dir(base.path().join(name)).unwrap();
    }
    std::fs::write(base.path().join(".building-0000000000000001"), "a file").unwrap();
    std::os::unix::fs::symlink(
        precious.path(),
        base.path().join(".building-0000000000000002"),
    )
    .unwrap();
    std::os::unix::fs::symlink(
        "/nonexistent",
        base.path().join(".building-0000000000000003"),
    )
    .unwrap();
    assert_eq!(list_builds(base.path()).unwrap(), []);
    assert_eq!(reclaim_builds(base.path(), Reclaim::All).unwrap(), []);
    assert_eq!(
        std::fs::read(precious.path().join("data")).unwrap(),
        b"mine"
    );
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 6);
}

#[test]
fn a_build_directory_that_cannot_be_locked_is_an_error_not_a_hang() {
    let base = tempfile::tempdir().unwrap();
    let name = SourceName::new("s").unwrap();
    let folder = base
        .path()
        .join(format!(".building-{:016x}", name.cache_id()));
    std::os::unix::fs::symlink("/nonexistent", folder).unwrap();
    assert!(BuildLock::try_acquire(base.path(), &name).is_err());
}

#[test]
fn a_leftover_that_cannot_be_read_now_is_kept_whole() {
    let [none, ..] = compressions();
    let base = tempfile::tempdir().unwrap();
    interrupt(base.path(), resumable(none), 400);
    let leftover = list_builds(base.path()).unwrap()[0].path.clone();
    let expected = files_below(&leftover.join("cache"));
    for file in ["journal.jsonl", "cache/shards/000000.bin", "addresses.part"] {
        // A directory in place of a file gives another error than that it is missing.
        let (path, aside) = (leftover.join(file), base.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(
            try_writer(base.path(), "s", resumable(none)).is_err(),
            "{file}"
        );
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        assert!(files_below(&leftover.join("cache")) == expected, "{file}");
    }
    assert_eq!(begin(base.path(), resumable(none)).samples(), SAMPLES);
}

#[test]
fn giving_up_makes_complete_shards_durable_first() {
    for compression in compressions() {
        let base = tempfile::tempdir().unwrap();
        let mut failing = begin(base.path(), resumable(compression));
        append(&mut failing, 350);
        failing.give_up();
        let kept = list_builds(base.path())
            .unwrap()
            .first()
            .map_or(0, |build| build.kept_samples);
        // A shard has a thousand stored bytes.
        let payload_bytes: usize = (kept..350).map(|sample| payload(sample).len()).sum();
        let is_compressed = compression.algorithm != compressions()[0].algorithm;
        assert!(is_compressed || payload_bytes <= 1_000 + 200, "{kept}");
        // Until there is a dictionary nothing can be written.
        assert_eq!(kept > 0, !compression.dictionary, "{compression:?}");
    }
}
