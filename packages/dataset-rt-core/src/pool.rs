//! The thread pool as Python holds it.

use std::sync::Arc;

use dataset_rt_reader::Pool;
use pyo3::prelude::*;

use crate::error::ConfigError;

/// How many threads this process may keep busy, by affinity and cgroup quota.
#[pyfunction]
pub(crate) fn available_parallelism() -> usize {
    dataset_rt_reader::available_parallelism()
}

/// Native reader threads. They start at first use, anew in every process.
#[pyclass(frozen, name = "ThreadPool", module = "dataset_rt._core")]
pub(crate) struct PyThreadPool {
    pub(crate) pool: Arc<Pool>,
}

#[pymethods]
impl PyThreadPool {
    #[new]
    fn new(num_threads: usize) -> PyResult<Self> {
        if num_threads == 0 {
            return Err(ConfigError::new_err(
                "num_threads must be at least 1, not 0",
            ));
        }
        Ok(Self {
            pool: Arc::new(Pool::new(num_threads)),
        })
    }

    #[getter]
    fn num_threads(&self) -> usize {
        self.pool.num_threads()
    }
}
