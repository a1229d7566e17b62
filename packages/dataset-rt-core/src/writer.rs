//! Building caches from Python iterators.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataset_rt_store::{CacheWriter, Manifest, SourceName, StoreError, WriterOptions};
use pyo3::prelude::*;
use serde_json::value::RawValue;

use crate::error::{ConfigError, CoreError};
use crate::extract::RowReader;
use crate::gateway::{OnSignal, SIGNAL_INTERVAL, detached, interruptible};

/// How often the progress callback is called, at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What is known of a finished cache without opening it whole.
#[pyclass(frozen, get_all, name = "ExistingCache", module = "dataset_rt._core")]
pub(crate) struct PyExistingCache {
    path: PathBuf,
    cache_id: u64,
    name: String,
    samples: u64,
    fingerprint: Option<String>,
}

/// Checks that a source name can be a directory, and gives it in normal form C.
#[pyfunction]
pub(crate) fn normalize_source_name(name: &str) -> Result<String, CoreError> {
    Ok(SourceName::new(name)?.as_str().to_owned())
}

/// Finds a finished cache; `None` if there is none.
#[pyfunction]
pub(crate) fn existing_cache(
    py: Python<'_>,
    base_path: PathBuf,
    name: &str,
) -> PyResult<Option<PyExistingCache>> {
    let name = SourceName::new(name).map_err(CoreError::from)?;
    detached(py, || {
        let base = std::path::absolute(&base_path).map_err(|source| StoreError::Io {
            operation: "resolve",
            path: base_path,
            source,
        })?;
        let path = base.join(name.as_str());
        match Manifest::read(&path) {
            Ok(manifest) => Ok(Some(PyExistingCache {
                cache_id: manifest.cache_id,
                samples: manifest.samples,
                fingerprint: manifest.fingerprint.map(|value| value.get().to_owned()),
                name: manifest.name,
                path,
            })),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// Writes one cache from an iterator of records and gives the path of the published directory.
#[pyfunction]
#[pyo3(signature = (
    base_path, name, records, *, fingerprint, max_shard_bytes, prefetch_size, progress = None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of a writer configuration"
)]
pub(crate) fn build_cache(
    py: Python<'_>,
    base_path: PathBuf,
    name: &str,
    records: &Bound<'_, PyAny>,
    fingerprint: Option<String>,
    max_shard_bytes: u64,
    prefetch_size: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<PathBuf> {
    let name = SourceName::new(name).map_err(CoreError::from)?;
    let fingerprint = fingerprint
        .map(RawValue::from_string)
        .transpose()
        .map_err(|error| ConfigError::new_err(format!("fingerprint is no JSON value: {error}")))?;
    let options = WriterOptions {
        max_shard_bytes,
        prefetch_size,
        fingerprint,
    };
    let mut writer = detached(py, || CacheWriter::create(&base_path, name, options))?;
    let mut rows = None;
    let mut last_report = Instant::now();
    for record in records.try_iter()? {
        let record = record?;
        let reader = match &mut rows {
            Some(reader) => reader,
            none => none.insert(RowReader::of_first(&mut writer, &record)?),
        };
        if reader.append(&mut writer, &record)? {
            hand_over(py, &mut writer)?;
            if let Some(progress) = &progress
                && last_report.elapsed() >= PROGRESS_INTERVAL
            {
                last_report = Instant::now();
                progress.call1((writer.samples(), writer.total_bytes()))?;
            }
        }
    }
    writer.end_records().map_err(CoreError::from)?;
    hand_over(py, &mut writer)?;
    if let Some(progress) = &progress {
        progress.call1((writer.samples(), writer.total_bytes()))?;
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    let cancelled_in_thread = Arc::clone(&cancelled);
    interruptible(
        py,
        move || writer.finish(&cancelled_in_thread),
        &OnSignal::Cancel(&cancelled),
    )
}

/// Waits until the pipeline has taken what is full; Ctrl-C ends the wait.
fn hand_over(py: Python<'_>, writer: &mut CacheWriter) -> PyResult<()> {
    while !detached(py, || writer.send_waiting(SIGNAL_INTERVAL))? {
        py.check_signals()?;
    }
    Ok(())
}
