//! Building caches from Python iterators.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dataset_rt_store::{
    Algorithm, BuildLock, CacheWriter, Compression, LockAttempt, Manifest, SourceName, StoreError,
    WriterOptions,
};
use pyo3::prelude::*;
use serde_json::value::RawValue;

use crate::error::{ConfigError, CoreError};
use crate::extract::RowReader;
use crate::gateway::{OnSignal, SIGNAL_INTERVAL, detached, interruptible};

/// How often the progress callback is called, at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How long a build that ends early is waited for, and how often it is looked at.
const GIVE_UP_GRACE: Duration = Duration::from_millis(700);
const GIVE_UP_INTERVAL: Duration = Duration::from_millis(2);

/// What is known of a finished cache without opening it whole.
#[pyclass(frozen, get_all, name = "ExistingCache", module = "dataset_rt._core")]
pub(crate) struct PyExistingCache {
    path: PathBuf,
    cache_id: u64,
    name: String,
    samples: u64,
    payload_bytes: u64,
    stored_bytes: u64,
    compression: &'static str,
    fingerprint: Option<String>,
}

/// The right to build one cache; released when it is dropped, or used up by a build.
#[pyclass(frozen, name = "BuildLock", module = "dataset_rt._core")]
pub(crate) struct PyBuildLock {
    lock: Mutex<Option<BuildLock>>,
}

#[pymethods]
impl PyBuildLock {
    /// Gives the right up, if no build has taken it.
    fn release(&self) {
        drop(self.take());
    }
}

impl PyBuildLock {
    fn take(&self) -> Option<BuildLock> {
        self.lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// Who builds a cache now, as far as that is known.
#[pyclass(frozen, get_all, name = "BuildHolder", module = "dataset_rt._core")]
pub(crate) struct PyBuildHolder {
    process: Option<u32>,
    host: Option<String>,
}

/// What comes of asking for the right to build.
#[derive(IntoPyObject)]
pub(crate) enum PyLockAttempt {
    Acquired(PyBuildLock),
    Held(PyBuildHolder),
}

/// How long the parts of a build took, in seconds.
#[pyclass(frozen, get_all, name = "BuildReport", module = "dataset_rt._core")]
pub(crate) struct PyBuildReport {
    path: PathBuf,
    samples: u64,
    /// Samples that an earlier build had written.
    continued_samples: u64,
    payload_bytes: u64,
    source_seconds: f64,
    extract_seconds: f64,
    wait_seconds: f64,
    encode_seconds: f64,
    digest_seconds: f64,
    write_seconds: f64,
    sync_seconds: f64,
    finish_seconds: f64,
    total_seconds: f64,
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
    detached(py, || read_existing(&base_path.join(name.as_str())))
}

/// Finds a finished cache in a directory of any name; `None` if there is none.
#[pyfunction]
pub(crate) fn cache_at(py: Python<'_>, path: PathBuf) -> PyResult<Option<PyExistingCache>> {
    detached(py, || read_existing(&path))
}

fn read_existing(path: &Path) -> Result<Option<PyExistingCache>, StoreError> {
    let path = std::path::absolute(path).map_err(|source| StoreError::Io {
        operation: "resolve",
        path: path.to_owned(),
        source,
    })?;
    let manifest = match Manifest::read(&path) {
        Ok(manifest) => manifest,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    manifest.check_lengths(&path)?;
    Ok(Some(PyExistingCache {
        cache_id: manifest.cache_id,
        samples: manifest.samples,
        payload_bytes: manifest.payload_bytes,
        stored_bytes: manifest.stored_bytes,
        compression: manifest.compression.name(),
        fingerprint: manifest.fingerprint.map(|value| value.get().to_owned()),
        name: manifest.name,
        path,
    }))
}

/// Asks for the right to build a cache, without waiting.
#[pyfunction]
pub(crate) fn try_lock_build(
    py: Python<'_>,
    base_path: PathBuf,
    name: &str,
) -> PyResult<PyLockAttempt> {
    let name = SourceName::new(name).map_err(CoreError::from)?;
    let attempt = detached(py, || BuildLock::try_acquire(&base_path, &name))?;
    Ok(match attempt {
        LockAttempt::Acquired(lock) => PyLockAttempt::Acquired(PyBuildLock {
            lock: Mutex::new(Some(lock)),
        }),
        LockAttempt::Held(holder) => PyLockAttempt::Held(PyBuildHolder {
            process: holder.as_ref().map(|holder| holder.process),
            host: holder.map(|holder| holder.host),
        }),
    })
}

/// Writes one cache and publishes it. `records(start)` gives an iterator of the records from `start`
/// on, which is 0 unless an earlier build is continued.
#[pyfunction]
#[pyo3(signature = (
    lock, name, records, *, fingerprint, max_shard_bytes, prefetch_size, compression, level,
    dictionary, threads, is_resumable, is_profiled = false, progress = None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of a writer configuration"
)]
pub(crate) fn build_cache(
    py: Python<'_>,
    lock: &PyBuildLock,
    name: &str,
    records: &Bound<'_, PyAny>,
    fingerprint: Option<String>,
    max_shard_bytes: u64,
    prefetch_size: usize,
    compression: &str,
    level: Option<i32>,
    dictionary: bool,
    threads: usize,
    is_resumable: bool,
    is_profiled: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<PyBuildReport> {
    let name = SourceName::new(name).map_err(CoreError::from)?;
    let fingerprint = fingerprint
        .map(RawValue::from_string)
        .transpose()
        .map_err(|error| ConfigError::new_err(format!("fingerprint is no JSON value: {error}")))?;
    let options = WriterOptions {
        max_shard_bytes,
        prefetch_size,
        fingerprint,
        compression: Compression {
            algorithm: algorithm(compression)?,
            level,
            dictionary,
        },
        threads,
        is_resumable,
    };
    let lock = lock
        .take()
        .ok_or_else(|| ConfigError::new_err("the lock of this build was released before"))?;
    let started = Instant::now();
    let cancelled = Arc::new(AtomicBool::new(false));
    let cancelled_in_thread = Arc::clone(&cancelled);
    let writer = interruptible(
        py,
        move || CacheWriter::start(lock, name, options, &cancelled_in_thread),
        &OnSignal::Cancel(&cancelled),
    )?;
    let continued_samples = writer.samples();
    let mut intake = Intake {
        writer,
        times: is_profiled.then(IntakeTimes::default),
        progress,
        last_report: Instant::now(),
    };
    let taken = records
        .call1((continued_samples,))
        .and_then(|records| intake.take_all(py, &records));
    let Intake { writer, times, .. } = intake;
    if let Err(error) = taken {
        give_up(py, writer);
        return Err(error);
    }
    let (samples, payload_bytes) = (writer.samples(), writer.payload_bytes());
    let stages = writer.times();
    let finish_started = Instant::now();
    let cancelled_in_thread = Arc::clone(&cancelled);
    let path = interruptible(
        py,
        move || writer.finish(&cancelled_in_thread),
        &OnSignal::Cancel(&cancelled),
    )?;
    let times = times.unwrap_or_default();
    Ok(PyBuildReport {
        path,
        samples,
        continued_samples,
        payload_bytes,
        source_seconds: times.source.as_secs_f64(),
        extract_seconds: times.extract.as_secs_f64(),
        wait_seconds: times.wait.as_secs_f64(),
        encode_seconds: seconds(&stages.encode),
        digest_seconds: seconds(&stages.digest),
        write_seconds: seconds(&stages.write),
        sync_seconds: seconds(&stages.sync),
        finish_seconds: finish_started.elapsed().as_secs_f64(),
        total_seconds: started.elapsed().as_secs_f64(),
    })
}

/// Ends a build whose source failed, or that was interrupted. What is kept of it is made durable by
/// a thread of its own, which is waited for a moment.
fn give_up(py: Python<'_>, writer: CacheWriter) {
    let started = std::thread::Builder::new()
        .name("dataset-rt-give-up".to_owned())
        .spawn(move || writer.give_up());
    // Without a thread the writer was dropped, which keeps what is sealed already.
    if let Ok(thread) = started {
        py.detach(|| {
            let deadline = Instant::now() + GIVE_UP_GRACE;
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(GIVE_UP_INTERVAL);
            }
        });
    }
}

/// From the records of a source to the chunks of a build.
struct Intake<'py> {
    writer: CacheWriter,
    times: Option<IntakeTimes>,
    progress: Option<Bound<'py, PyAny>>,
    last_report: Instant,
}

/// Where the thread that iterates the source spent its time.
#[derive(Debug, Default)]
struct IntakeTimes {
    source: Duration,
    extract: Duration,
    wait: Duration,
}

impl Intake<'_> {
    fn take_all(&mut self, py: Python<'_>, records: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut records = records.try_iter()?;
        let mut rows = (self.writer.samples() > 0).then(|| {
            let columns = self.writer.columns();
            RowReader::of_columns(py, columns.into_iter().map(|column| column.name).collect())
        });
        self.report()?;
        loop {
            let asked = self.clock();
            let Some(record) = records.next() else { break };
            let record = record?;
            let received = self.clock();
            let reader = match &mut rows {
                Some(reader) => reader,
                none => none.insert(RowReader::of_first(&mut self.writer, &record)?),
            };
            let is_full = reader.append(&mut self.writer, &record)?;
            let extracted = self.clock();
            if let (Some(times), Some(asked), Some(received), Some(extracted)) =
                (&mut self.times, asked, received, extracted)
            {
                times.source += received - asked;
                times.extract += extracted - received;
            }
            if is_full {
                self.hand_over(py)?;
            }
            if self.progress.is_some() && self.last_report.elapsed() >= PROGRESS_INTERVAL {
                self.report()?;
            }
        }
        self.writer.end_records().map_err(CoreError::from)?;
        self.hand_over(py)?;
        self.report()
    }

    /// Waits until the pipeline has taken what is full; Ctrl-C ends the wait.
    fn hand_over(&mut self, py: Python<'_>) -> PyResult<()> {
        let started = self.clock();
        while !detached(py, || self.writer.send_waiting(SIGNAL_INTERVAL))? {
            py.check_signals()?;
        }
        if let (Some(times), Some(started)) = (&mut self.times, started) {
            times.wait += started.elapsed();
        }
        Ok(())
    }

    /// Reading the clock three times a record is only worth it for a profile.
    fn clock(&self) -> Option<Instant> {
        self.times.as_ref().map(|_| Instant::now())
    }

    fn report(&mut self) -> PyResult<()> {
        if let Some(progress) = &self.progress {
            self.last_report = Instant::now();
            progress.call1((self.writer.samples(), self.writer.payload_bytes()))?;
        }
        Ok(())
    }
}

fn algorithm(name: &str) -> PyResult<Algorithm> {
    match name {
        "none" => Ok(Algorithm::None),
        "lz4" => Ok(Algorithm::Lz4),
        "zstd" => Ok(Algorithm::Zstd),
        other => Err(ConfigError::new_err(format!(
            "compression is {other:?}, expected \"none\", \"lz4\" or \"zstd\""
        ))),
    }
}

fn seconds(stage: &AtomicU64) -> f64 {
    Duration::from_nanos(stage.load(Ordering::Relaxed)).as_secs_f64()
}
