//! Native module `dataset_rt._core`: the names that Python sees, and no logic.

mod arrays;
mod batch;
mod buffer;
mod dataset;
mod error;
mod extract;
mod gateway;
mod iterators;
mod maintenance;
mod plan;
mod pool;
mod samples;
mod table;
mod writer;

/// Storage, sampling and reading of DatasetRT.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arrays::{array_layout, pack_arrays, stack_arrays};
    #[pymodule_export]
    use crate::batch::PyBatch;
    #[pymodule_export]
    use crate::buffer::{PyBatchBuffer, PyMappedBytes};
    #[pymodule_export]
    use crate::dataset::PyDataset;
    #[pymodule_export]
    use crate::iterators::{PyBatchIterator, PyPendingBatch, PySampleIterator};
    #[pymodule_export]
    use crate::maintenance::{
        PyBuildStatus, PyPayloadSizes, PyVerification, list_builds, payload_sizes, reclaim_builds,
        verify_cache,
    };
    #[pymodule_export]
    use crate::plan::PyWindowPlan;
    #[pymodule_export]
    use crate::pool::{PyThreadPool, available_parallelism};
    #[pymodule_export]
    use crate::table::PyMetadataTable;
    #[pymodule_export]
    use crate::writer::{
        PyBuildHolder, PyBuildLock, PyBuildReport, PyExistingCache, build_cache, cache_at,
        existing_cache, normalize_source_name, try_lock_build,
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python name")]
    const build_profile: &str = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python name")]
    const format_version: u32 = dataset_rt_store::format::FORMAT_VERSION;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python name")]
    const sampler_version: u32 = dataset_rt_sampler::ALGORITHM_VERSION;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
