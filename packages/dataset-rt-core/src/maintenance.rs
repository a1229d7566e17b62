//! Looking after caches on disk: what is there, what is damaged, what can go.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataset_rt_reader::{VerifyProgress, verify_cache as verify};
use dataset_rt_store::{Backend, BuildStatus, Cache, PayloadSizes, Reclaim};
use pyo3::prelude::*;

use crate::gateway::{OnSignal, detached, interruptible, interruptible_with};
use crate::pool::PyThreadPool;

/// A build directory among finished caches.
#[pyclass(frozen, get_all, name = "BuildStatus", module = "dataset_rt._core")]
pub(crate) struct PyBuildStatus {
    path: PathBuf,
    name: Option<String>,
    is_active: bool,
    process: Option<u32>,
    host: Option<String>,
    kept_samples: u64,
    bytes: u64,
}

impl From<BuildStatus> for PyBuildStatus {
    fn from(status: BuildStatus) -> Self {
        Self {
            path: status.path,
            name: status.name,
            is_active: status.is_active,
            process: status.holder.as_ref().map(|holder| holder.process),
            host: status.holder.map(|holder| holder.host),
            kept_samples: status.kept_samples,
            bytes: status.bytes,
        }
    }
}

/// Lists the build directories in a directory of caches.
#[pyfunction]
pub(crate) fn list_builds(py: Python<'_>, base_path: PathBuf) -> PyResult<Vec<PyBuildStatus>> {
    let builds = detached(py, || dataset_rt_store::list_builds(&base_path))?;
    Ok(builds.into_iter().map(PyBuildStatus::from).collect())
}

/// Removes abandoned builds: those that nothing can continue, or all of them.
#[pyfunction]
pub(crate) fn reclaim_builds(
    py: Python<'_>,
    base_path: PathBuf,
    continuable_too: bool,
) -> PyResult<Vec<PyBuildStatus>> {
    let which = if continuable_too {
        Reclaim::All
    } else {
        Reclaim::Useless
    };
    let builds = detached(py, || dataset_rt_store::reclaim_builds(&base_path, which))?;
    Ok(builds.into_iter().map(PyBuildStatus::from).collect())
}

/// What a scan of a cache found; `damages` are pairs of a sample number, if it is one, and a message.
#[pyclass(frozen, get_all, name = "Verification", module = "dataset_rt._core")]
pub(crate) struct PyVerification {
    name: String,
    samples: u64,
    bytes: u64,
    damages: Vec<(Option<u64>, String)>,
}

/// Reads all of a cache; `progress` is called with bytes read and bytes in all.
#[pyfunction]
#[pyo3(signature = (path, pool, *, progress = None))]
pub(crate) fn verify_cache(
    py: Python<'_>,
    path: PathBuf,
    pool: &PyThreadPool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<PyVerification> {
    let pool = Arc::clone(&pool.pool);
    let state = Arc::new(VerifyProgress::default());
    let state_of_thread = Arc::clone(&state);
    let report = || {
        if let Some(progress) = &progress {
            let bytes = state.bytes.load(Ordering::Acquire);
            progress.call1((bytes, state.total_bytes.load(Ordering::Acquire)))?;
        }
        Ok(())
    };
    let found = interruptible_with(
        py,
        move || verify(&path, &pool, &state_of_thread),
        &OnSignal::Cancel(&state.cancelled),
        report,
    )?;
    report()?;
    Ok(PyVerification {
        name: found.name,
        samples: found.samples,
        bytes: found.bytes,
        damages: found
            .damages
            .into_iter()
            .map(|damage| (damage.sample, damage.message))
            .collect(),
    })
}

/// Payloads by size: `counts[0]` are empty, `counts[i]` have from `2**(i - 1)` up to `2**i - 1` bytes.
#[pyclass(frozen, get_all, name = "PayloadSizes", module = "dataset_rt._core")]
pub(crate) struct PyPayloadSizes {
    counts: Vec<u64>,
    smallest_bytes: u64,
    largest_bytes: u64,
    stored_as_is: u64,
}

impl From<PayloadSizes> for PyPayloadSizes {
    fn from(sizes: PayloadSizes) -> Self {
        Self {
            counts: sizes.counts,
            smallest_bytes: sizes.smallest_bytes,
            largest_bytes: sizes.largest_bytes,
            stored_as_is: sizes.stored_as_is,
        }
    }
}

/// Looks up the size of every payload of a cache in its index.
#[pyfunction]
pub(crate) fn payload_sizes(py: Python<'_>, path: PathBuf) -> PyResult<PyPayloadSizes> {
    let sizes = interruptible(
        py,
        move || Cache::open(&path, Backend::Map)?.payload_sizes(),
        &OnSignal::Leave,
    )?;
    Ok(sizes.into())
}
