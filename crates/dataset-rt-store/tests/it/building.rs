//! Small caches for the other tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dataset_rt_store::{
    Algorithm, Backend, BuildLock, Cache, CacheWriter, Compression, LockAttempt, SourceName,
    StoreError, Stretch, Value, WriterOptions,
};

pub(crate) type Row<'a> = (&'a [u8], Vec<Value<'a>>);
/// Payload and values, as text, of one record.
pub(crate) type FoundRow = (Vec<u8>, Vec<String>);

pub(crate) fn options(max_shard_bytes: u64) -> WriterOptions {
    WriterOptions {
        max_shard_bytes,
        prefetch_size: 64,
        fingerprint: None,
        compression: Compression::NONE,
        threads: 2,
        is_resumable: false,
    }
}

/// Every way to store records.
pub(crate) fn compressions() -> [Compression; 4] {
    let zstd = Compression {
        algorithm: Algorithm::Zstd,
        level: Some(3),
        dictionary: false,
    };
    let dictionary = Compression {
        dictionary: true,
        ..zstd
    };
    let lz4 = Compression {
        algorithm: Algorithm::Lz4,
        ..Compression::NONE
    };
    [Compression::NONE, lz4, zstd, dictionary]
}

pub(crate) fn lock(base: &Path, name: &SourceName) -> BuildLock {
    match BuildLock::try_acquire(base, name).unwrap() {
        LockAttempt::Acquired(lock) => lock,
        LockAttempt::Held(holder) => panic!("held by {holder:?}"),
    }
}

pub(crate) fn try_writer(
    base: &Path,
    name: &str,
    options: WriterOptions,
) -> Result<CacheWriter, StoreError> {
    let name = SourceName::new(name).unwrap();
    CacheWriter::start(lock(base, &name), name, options, &AtomicBool::new(false))
}

pub(crate) fn writer(base: &Path, name: &str, options: WriterOptions) -> CacheWriter {
    try_writer(base, name, options).unwrap()
}

/// Passes everything that waits down the pipeline.
pub(crate) fn drain(writer: &mut CacheWriter) -> Result<(), StoreError> {
    while !writer.send_waiting(Duration::from_secs(10))? {}
    Ok(())
}

pub(crate) fn finish(mut writer: CacheWriter) -> Result<PathBuf, StoreError> {
    writer.end_records()?;
    drain(&mut writer)?;
    writer.finish(&AtomicBool::new(false))
}

pub(crate) fn build(
    base: &Path,
    name: &str,
    options: WriterOptions,
    columns: &[&str],
    rows: &[Row<'_>],
) -> Result<PathBuf, StoreError> {
    let mut writer = try_writer(base, name, options)?;
    let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    writer.set_columns(&columns)?;
    for (payload, values) in rows {
        if writer.append(payload, values)? {
            drain(&mut writer)?;
        }
    }
    finish(writer)
}

/// Every file below a directory, with its bytes.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Reads every record and every value, verified.
pub(crate) fn read_all(path: &Path) -> Result<Vec<FoundRow>, StoreError> {
    let mapped = read_with(path, Backend::Map);
    let read = read_with(path, Backend::PositionedRead);
    match (&mapped, &read) {
        (Ok(mapped), Ok(read)) => assert_eq!(mapped, read),
        (Err(_), Err(_)) => {}
        differing => panic!("the backends differ: {differing:?}"),
    }
    mapped
}

pub(crate) fn open(path: &Path) -> Result<Cache, StoreError> {
    Cache::open(path, Backend::Map)
}

fn read_with(path: &Path, backend: Backend) -> Result<Vec<FoundRow>, StoreError> {
    let cache = Cache::open(path, backend)?;
    let columns = cache.metadata().columns().len();
    (0..cache.len())
        .map(|sample| {
            let location = cache.locate(sample)?;
            // Advice on what will be read changes nothing about what is found there.
            cache.advise(Stretch::of(&location));
            let mut payload = vec![0; location.payload_bytes()];
            cache.read_into(&location, &mut payload, true)?;
            let row = cache.metadata().row(sample)?;
            let values = (0..columns)
                .map(|column| {
                    Ok(match row.value(column)? {
                        // Bits tell NaNs and zeros apart.
                        Value::Float(value) => format!("float {:#x}", value.to_bits()),
                        value => value.to_string(),
                    })
                })
                .collect::<Result<_, StoreError>>()?;
            cache.metadata().check()?;
            Ok((payload, values))
        })
        .collect()
}
