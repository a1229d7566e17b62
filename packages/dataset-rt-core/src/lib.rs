//! Native module `dataset_rt._core`: names only, no logic.
