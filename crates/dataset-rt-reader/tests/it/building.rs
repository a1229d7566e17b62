//! Small datasets for the other tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dataset_rt_reader::{Dataset, DrawOptions, Pool, ReadOptions, SchemaRule};
use dataset_rt_store::{
    Backend, BuildLock, CacheWriter, Compression, LockAttempt, SourceName, Value, WriterOptions,
};

/// Writes `samples` records whose payload is their number, as text, repeated a few or many times.
pub(crate) fn write(base: &Path, name: &str, samples: u32, column: (&str, Value<'_>)) -> PathBuf {
    write_with(base, name, samples, column, Compression::NONE)
}

pub(crate) fn write_with(
    base: &Path,
    name: &str,
    samples: u32,
    column: (&str, Value<'_>),
    compression: Compression,
) -> PathBuf {
    let options = WriterOptions {
        max_shard_bytes: 1_000,
        prefetch_size: 64,
        fingerprint: None,
        compression,
        threads: 2,
        is_resumable: false,
    };
    let source_name = SourceName::new(name).unwrap();
    let LockAttempt::Acquired(lock) = BuildLock::try_acquire(base, &source_name).unwrap() else {
        panic!("{name} is being built");
    };
    let go_on = AtomicBool::new(false);
    let mut writer = CacheWriter::start(lock, source_name, options, &go_on).unwrap();
    writer.set_columns(&[column.0.to_owned()]).unwrap();
    for sample in 0..samples {
        // Some payloads are copied ahead of the consumer, and some are too large for that.
        let repeats = if sample % 7 == 3 {
            2_000
        } else {
            1 + sample as usize % 3
        };
        let payload = format!("{name} {sample} ").repeat(repeats);
        if writer.append(payload.as_bytes(), &[column.1]).unwrap() {
            while !writer.send_waiting(Duration::from_secs(10)).unwrap() {}
        }
    }
    writer.end_records().unwrap();
    while !writer.send_waiting(Duration::from_secs(10)).unwrap() {}
    writer.finish(&go_on).unwrap()
}

pub(crate) fn draw(seed: u64) -> DrawOptions {
    DrawOptions {
        seed,
        shuffle: true,
        replacement: true,
    }
}

pub(crate) fn read(prefetch_size: usize) -> ReadOptions {
    ReadOptions {
        prefetch_size,
        verify_reads: true,
        schema: SchemaRule::Strict,
        backend: Backend::Map,
    }
}

pub(crate) fn open(paths: &[PathBuf], draw: DrawOptions, read: ReadOptions) -> Dataset {
    Dataset::open(paths, Arc::new(Pool::new(2)), draw, read).unwrap()
}
