//! The window plan as Python holds it.

use dataset_rt_sampler::WindowPlan;
use pyo3::prelude::*;

use crate::error::CoreError;

/// Which stream positions each batch of each epoch covers, for one rank.
#[pyclass(frozen, name = "WindowPlan", module = "dataset_rt._core")]
pub(crate) struct PyWindowPlan {
    plan: WindowPlan,
}

#[pymethods]
impl PyWindowPlan {
    #[new]
    #[pyo3(signature = (*, budget, batch_size, rank, world_size, drop_last))]
    fn new(
        budget: u64,
        batch_size: u64,
        rank: u64,
        world_size: u64,
        drop_last: bool,
    ) -> Result<Self, CoreError> {
        let plan = WindowPlan::new(budget, batch_size, rank, world_size, drop_last)?;
        Ok(Self { plan })
    }

    #[getter]
    fn num_batches(&self) -> u64 {
        self.plan.num_batches()
    }

    #[getter]
    fn samples_per_rank(&self) -> u64 {
        self.plan.samples_per_rank()
    }

    #[getter]
    fn padded_samples(&self) -> u64 {
        self.plan.padded_samples()
    }

    #[getter]
    fn dropped_samples(&self) -> u64 {
        self.plan.dropped_samples()
    }

    /// The window of one batch: start, stop, and the position from which on it is padding.
    fn window(&self, epoch: u64, batch: u64) -> Result<(u64, u64, u64), CoreError> {
        let window = self.plan.window(epoch, batch)?;
        Ok((window.start, window.stop, window.padding_from))
    }
}
