//! Iterators over one window of the stream, and batches that are prepared while somebody computes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataset_rt_reader::{BatchAhead, BatchReadAhead, SampleReadAhead, Step, View};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::batch::PyBatch;
use crate::error::CoreError;
use crate::gateway::SIGNAL_INTERVAL;
use crate::samples::SampleFactory;

/// Samples of one epoch, in stream order.
#[pyclass(frozen, name = "SampleIterator", module = "dataset_rt._core")]
pub(crate) struct PySampleIterator {
    view: Arc<View>,
    factory: Arc<SampleFactory>,
    read_ahead: Mutex<SampleReadAhead>,
}

impl PySampleIterator {
    pub(crate) fn new(factory: Arc<SampleFactory>, read_ahead: SampleReadAhead) -> Self {
        Self {
            view: Arc::clone(read_ahead.view()),
            factory,
            read_ahead: Mutex::new(read_ahead),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SampleReadAhead> {
        self.read_ahead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PySampleIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            // The lock is released before Python is entered and before anything is waited for, so no
            // thread waits for both.
            let step = self.lock().step().map_err(CoreError::from)?;
            match step {
                Step::Ready(prepared) => {
                    let sample = self.factory.prepared(py, &self.view, &prepared);
                    return sample
                        .inspect_err(|_| self.lock().end_at(prepared.position()))
                        .map(Some);
                }
                Step::End => return Ok(None),
                Step::Wait(waiting) => {
                    py.detach(|| waiting.wait(SIGNAL_INTERVAL));
                    py.check_signals()?;
                }
            }
        }
    }

    fn __length_hint__(&self) -> u64 {
        self.lock().remaining()
    }

    /// Stream position of the next sample.
    #[getter]
    fn position(&self) -> u64 {
        self.lock().position()
    }
}

/// Batches of one epoch, in stream order.
#[pyclass(frozen, name = "BatchIterator", module = "dataset_rt._core")]
pub(crate) struct PyBatchIterator {
    factory: Arc<SampleFactory>,
    read_ahead: Mutex<BatchReadAhead>,
}

impl PyBatchIterator {
    pub(crate) fn new(factory: Arc<SampleFactory>, read_ahead: BatchReadAhead) -> Self {
        Self {
            factory,
            read_ahead: Mutex::new(read_ahead),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchReadAhead> {
        self.read_ahead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyBatchIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyBatch>> {
        loop {
            let step = self.lock().step().map_err(CoreError::from)?;
            match step {
                Step::Ready(batch) => {
                    return Ok(Some(PyBatch::new(Arc::clone(&self.factory), batch)));
                }
                Step::End => return Ok(None),
                Step::Wait(waiting) => {
                    py.detach(|| waiting.wait(SIGNAL_INTERVAL));
                    py.check_signals()?;
                }
            }
        }
    }

    /// Stream position of the first sample of the next batch.
    #[getter]
    fn position(&self) -> u64 {
        self.lock().position()
    }
}

/// One batch that threads prepare.
#[pyclass(frozen, name = "PendingBatch", module = "dataset_rt._core")]
pub(crate) struct PyPendingBatch {
    factory: Arc<SampleFactory>,
    ahead: Mutex<BatchAhead>,
}

impl PyPendingBatch {
    pub(crate) fn new(factory: Arc<SampleFactory>, ahead: BatchAhead) -> Self {
        Self {
            factory,
            ahead: Mutex::new(ahead),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyPendingBatch {
    /// The batch, as soon as it is ready; it is given once.
    fn result(&self, py: Python<'_>) -> PyResult<PyBatch> {
        loop {
            let step = self.lock().step().map_err(CoreError::from)?;
            match step {
                Step::Ready(batch) => return Ok(PyBatch::new(Arc::clone(&self.factory), batch)),
                Step::End => return Err(PyRuntimeError::new_err("the batch was given before")),
                Step::Wait(waiting) => {
                    py.detach(|| waiting.wait(SIGNAL_INTERVAL));
                    py.check_signals()?;
                }
            }
        }
    }
}
