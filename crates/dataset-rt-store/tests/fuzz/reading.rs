//! Reads all of a cache that may be hostile, each record and each row by itself.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use dataset_rt_store::format::METADATA_BATCH_ROWS;
use dataset_rt_store::{Backend, Cache, Destination, StoreError, Value};

/// Payloads that claim to be larger are not read, only judged.
pub(crate) const MAX_READ_BYTES: usize = 16 << 20;
/// No codec makes more than this of one stored byte.
pub(crate) const MAX_RATIO: usize = 1 << 15;

/// What a cache gave.
pub(crate) struct Found {
    /// `None` for payloads that are too large to read.
    pub(crate) records: Vec<Option<Result<Vec<u8>, StoreError>>>,
    pub(crate) rows: Vec<Result<Vec<String>, StoreError>>,
}

impl Found {
    pub(crate) fn is_whole(&self) -> bool {
        let is_read = |record: &Option<Result<_, _>>| matches!(record, Some(Ok(_)));
        self.records.iter().all(is_read) && self.rows.iter().all(Result::is_ok)
    }
}

/// Opens and reads a cache in every way, and requires that they agree.
pub(crate) fn read(path: &Path) -> Result<Found, StoreError> {
    let mapped = judged(Cache::open(path, Backend::Map));
    let positioned = judged(Cache::open(path, Backend::PositionedRead));
    let (mapped, positioned) = match (mapped, positioned) {
        (Ok(mapped), Ok(positioned)) => (mapped, positioned),
        (Err(error), Err(_)) => return Err(error),
        differing => panic!("the backends differ: {differing:?}"),
    };
    let records: Vec<_> = (0..mapped.len())
        .map(|sample| {
            let record = read_record(&mapped, sample)?;
            let other = read_record(&positioned, sample)?;
            assert_eq!(record.as_ref().ok(), other.as_ref().ok(), "sample {sample}");
            Some(record)
        })
        .collect();
    let rows: Vec<_> = (0..mapped.len())
        .map(|sample| judged(read_row(&mapped, sample)))
        .collect();
    check_tables(&mapped, &rows);
    for (sample, (record, row)) in records.iter().zip(&rows).enumerate() {
        if let Some(record) = record {
            let valid = judged(mapped.validate_sample(sample as u64, &mut Vec::new()));
            assert_eq!(
                valid.is_ok(),
                record.is_ok() && row.is_ok(),
                "sample {sample}"
            );
        }
    }
    for (file, _, digest) in mapped.digests() {
        // Digests of shards are not compared above, so either answer is right.
        let _ = judged(mapped.validate_file(&file, digest, |_| Ok::<_, StoreError>(())));
    }
    Ok(Found { records, rows })
}

fn read_record(cache: &Cache, sample: u64) -> Option<Result<Vec<u8>, StoreError>> {
    let location = match judged(cache.locate(sample)) {
        Ok(location) => location,
        Err(error) => return Some(Err(error)),
    };
    let bytes = location.payload_bytes();
    let most = location.stored_bytes().saturating_mul(MAX_RATIO);
    assert!(
        bytes <= most,
        "sample {sample} asks for {bytes} bytes, at most {most} can be right"
    );
    if bytes > MAX_READ_BYTES {
        return None;
    }
    // What the buffer holds before must not show.
    let mut payload = vec![0xa5; bytes];
    Some(
        judged(cache.read_into(&location, &mut payload, true, Destination::Cached))
            .map(|()| payload),
    )
}

fn read_row(cache: &Cache, sample: u64) -> Result<Vec<String>, StoreError> {
    let row = cache.metadata().row(sample)?;
    let values = (0..cache.metadata().columns().len())
        .map(|column| row.value(column).map(|value| shown(&value)))
        .collect();
    cache.metadata().check()?;
    values
}

/// Whole batches give what single rows give.
fn check_tables(cache: &Cache, rows: &[Result<Vec<String>, StoreError>]) {
    for (number, rows) in rows.chunks(METADATA_BATCH_ROWS).enumerate() {
        match judged(cache.metadata().copied_batch(number)) {
            Ok(batch) => {
                for (row, values) in rows.iter().enumerate() {
                    assert_eq!(values.as_ref().unwrap(), &row_of(&batch, row), "row {row}");
                }
            }
            Err(_) => assert!(rows.iter().any(Result::is_err)),
        }
    }
}

fn row_of(batch: &RecordBatch, row: usize) -> Vec<String> {
    let value = |array: &dyn Array| match array.data_type() {
        _ if array.is_null(row) || *array.data_type() == DataType::Null => shown(&Value::Null),
        DataType::Boolean => shown(&Value::Boolean(array.as_boolean().value(row))),
        DataType::Int64 => shown(&Value::Integer(
            array.as_primitive::<Int64Type>().value(row),
        )),
        DataType::Float64 => shown(&Value::Float(
            array.as_primitive::<Float64Type>().value(row),
        )),
        _ => shown(&Value::String(array.as_string::<i64>().value(row))),
    };
    batch.columns().iter().map(|array| value(array)).collect()
}

/// A value as text that tells all values apart.
pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        // Bits tell NaNs and zeros apart.
        Value::Float(value) => format!("float {:#x}", value.to_bits()),
        Value::String(text) => format!("text {text}"),
        value => value.to_string(),
    }
}

/// A hostile cache may only ever be called damaged, or one that another release reads.
fn judged<T>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(error) = &result {
        let is_expected = error.is_corruption() || matches!(error, StoreError::Unsupported { .. });
        assert!(is_expected, "{error}");
    }
    result
}
