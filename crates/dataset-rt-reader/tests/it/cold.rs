use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use dataset_rt_reader::{Batch, Dataset, Lookahead, ReadOptions, RecordNumber};
use dataset_rt_store::{Algorithm, Backend, Compression, Value};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::resource::{Usage, UsageWho, getrusage};

use crate::building::{draw, open, read, write, write_with};

const SAMPLES: u32 = 60;
/// More reads than are advised on when nothing comes from the disk.
const ENOUGH_READS: usize = 3_000;

fn open_with(path: &Path, backend: Backend) -> Dataset {
    let read = ReadOptions {
        backend,
        ..read(16)
    };
    open(&[path.to_owned()], draw(0), read)
}

fn payload(sample: u64) -> Vec<u8> {
    let repeats = if sample % 7 == 3 {
        2_000
    } else {
        1 + sample as usize % 3
    };
    format!("s {sample} ").repeat(repeats).into_bytes()
}

/// Reads samples so often that advice ends, if they are in memory.
fn read_often(dataset: &Dataset, samples: &[RecordNumber]) {
    for _ in 0..ENOUGH_READS / samples.len() {
        let view = dataset.view().unwrap();
        Batch::of_rows(view, samples.to_vec())
            .unwrap()
            .gathered()
            .unwrap();
    }
}

#[test]
fn the_first_reads_and_later_ones_give_the_same_payloads() {
    let zstd = Compression {
        algorithm: Algorithm::Zstd,
        ..Compression::NONE
    };
    for compression in [Compression::NONE, zstd] {
        for backend in [Backend::Map, Backend::PositionedRead] {
            let base = tempfile::tempdir().unwrap();
            let path = write_with(base.path(), "s", SAMPLES, ("x", Value::Null), compression);
            let dataset = open_with(&path, backend);
            // Many records, some of them again and again, in no order: more than one task.
            let rows: Vec<u64> = (0..400)
                .map(|number| number * 37 % u64::from(SAMPLES))
                .collect();
            let expected: Vec<u8> = rows.iter().flat_map(|&row| payload(row)).collect();
            for _ in 0..2 {
                let batch = Batch::of_rows(dataset.view().unwrap(), rows.clone()).unwrap();
                let gathered = batch.gathered().unwrap();
                assert!(
                    gathered.buffer.bytes() == expected,
                    "{backend:?} {compression:?}"
                );
                read_often(&dataset, &rows);
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_short_gives_the_same_error_to_first_reads_and_later_ones() {
    for backend in [Backend::Map, Backend::PositionedRead] {
        let base = tempfile::tempdir().unwrap();
        let path = write(base.path(), "s", SAMPLES, ("x", Value::Null));
        let lost = 3;
        let shard = shard_of(&path, lost);
        let whole = fs::read(&shard).unwrap();
        let error_after = |prepare: &dyn Fn(&Dataset)| {
            let dataset = open_with(&path, backend);
            prepare(&dataset);
            File::options()
                .write(true)
                .open(&shard)
                .unwrap()
                .set_len(0)
                .unwrap();
            let batch = Batch::of_rows(dataset.view().unwrap(), vec![0, lost]).unwrap();
            let error = batch.gathered().unwrap_err().to_string();
            fs::write(&shard, &whole).unwrap();
            error
        };
        let first = error_after(&|_| {});
        let later = error_after(&|dataset| read_often(dataset, &[0, 1, 2, lost]));
        assert_eq!(first, later);
        assert!(first.contains("shards/"), "{first}");
    }
}

#[test]
fn what_is_advised_is_read_from_the_disk_before_it_is_asked_for() {
    for backend in [Backend::Map, Backend::PositionedRead] {
        let base = tempfile::tempdir().unwrap();
        let path = write(base.path(), "s", SAMPLES, ("x", Value::Null));
        let large: Vec<u64> = (0..u64::from(SAMPLES))
            .filter(|sample| sample % 7 == 3)
            .collect();
        forget(&path);
        let before = usage();
        fs::read(shard_of(&path, large[0])).unwrap();
        if usage().block_reads() == before.block_reads() {
            // A file system in memory has no disk to read from.
            return;
        }
        forget(&path);
        let dataset = open_with(&path, backend);
        let view = dataset.view().unwrap();
        let before = usage();
        Lookahead::new(&view, &large).reach(0);
        let advised = usage();
        assert!(advised.block_reads() > before.block_reads(), "{backend:?}");
        // So few bytes are copied in this thread, whose counters are looked at.
        Batch::of_rows(view.clone(), large)
            .unwrap()
            .gathered()
            .unwrap();
        let read = usage();
        assert_eq!(read.block_reads(), advised.block_reads(), "{backend:?}");
        assert_eq!(
            read.major_page_faults(),
            advised.major_page_faults(),
            "{backend:?}"
        );
    }
}

fn usage() -> Usage {
    getrusage(UsageWho::RUSAGE_THREAD).unwrap()
}

fn shards(cache: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(cache.join("shards"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

/// The file that begins with the payload of a sample, which has a shard of its own.
fn shard_of(cache: &Path, sample: u64) -> PathBuf {
    shards(cache)
        .into_iter()
        .find(|path| fs::read(path).unwrap() == payload(sample))
        .unwrap()
}

/// Has the system forget what it keeps of the payloads in memory.
fn forget(cache: &Path) {
    for path in shards(cache) {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        posix_fadvise(file.as_fd(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    }
}
