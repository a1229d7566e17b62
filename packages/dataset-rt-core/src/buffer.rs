//! Read-only Python buffers over mapped files; the binding's only unsafe code.

#![allow(unsafe_code, reason = "the buffer protocol hands out a raw pointer")]

use std::ffi::{c_int, c_void};
use std::ops::Range;

use dataset_rt_store::Map;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Part of a mapped shard. Memoryviews of it keep the map alive.
#[pyclass(frozen, name = "MappedBytes", module = "dataset_rt._core")]
pub(crate) struct PyMappedBytes {
    map: Map,
    range: Range<usize>,
}

impl PyMappedBytes {
    /// The range lies inside the map.
    pub(crate) fn new(map: Map, range: Range<usize>) -> Self {
        Self { map, range }
    }
}

#[pymethods]
impl PyMappedBytes {
    fn __len__(&self) -> usize {
        self.range.len()
    }

    // SAFETY: `view` is null or points to a Py_buffer that the interpreter owns for this call.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view was given"));
        }
        let this = slf.get();
        let bytes = &this.map.bytes()[this.range.clone()];
        let length = ffi::Py_ssize_t::try_from(bytes.len())
            .map_err(|_| PyBufferError::new_err("the record is too long for a view"))?;
        // SAFETY: the pointer and the length describe bytes of a map that `slf` keeps alive, and
        // PyBuffer_FillInfo stores a new reference to `slf` in the view; the last argument but one
        // makes the view read-only, so nobody writes to the map.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast::<c_void>(),
                length,
                1,
                flags,
            )
        };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}
