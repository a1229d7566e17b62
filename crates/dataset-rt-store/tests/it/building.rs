//! Small caches for the other tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dataset_rt_store::{CacheWriter, SourceName, StoreError, Value, WriterOptions};

pub(crate) type Row<'a> = (&'a [u8], Vec<Value<'a>>);
/// Payload and values, as text, of one record.
pub(crate) type FoundRow = (Vec<u8>, Vec<String>);

pub(crate) fn options(max_shard_bytes: u64) -> WriterOptions {
    WriterOptions {
        max_shard_bytes,
        prefetch_size: 64,
        fingerprint: None,
    }
}

pub(crate) fn writer(base: &Path, name: &str, options: WriterOptions) -> CacheWriter {
    CacheWriter::create(base, SourceName::new(name).unwrap(), options).unwrap()
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
    let mut writer = writer(base, name, options);
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
    let cache = dataset_rt_store::Cache::open(path)?;
    let columns = cache.metadata().columns().len();
    (0..cache.len())
        .map(|sample| {
            let record = cache.record(&cache.locate(sample)?);
            let payload = record.payload.to_vec();
            record.verify(&payload)?;
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
