//! Python buffers over memory that Rust owns, read-only over mapped files and writable over the
//! memory of a batch, and bytes objects and named tuples that are filled in place; the binding's
//! only unsafe code.

#![allow(
    unsafe_code,
    reason = "the buffer protocol hands out a raw pointer, and new objects are filled in place"
)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use dataset_rt_reader::Buffer;
use dataset_rt_store::{Map, Unwritten, Written};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::error::CoreError;

/// A mapped shard. Memoryviews of it, and their slices, keep the map alive.
#[pyclass(frozen, name = "MappedBytes", module = "dataset_rt._core")]
pub(crate) struct PyMappedBytes {
    map: Map,
}

impl PyMappedBytes {
    pub(crate) fn new(map: Map) -> Self {
        Self { map }
    }
}

#[pymethods]
impl PyMappedBytes {
    fn __len__(&self) -> usize {
        self.map.bytes().len()
    }

    // SAFETY: `view` is null or points to a Py_buffer that the interpreter owns for this call.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let bytes = this.map.bytes();
        let pointer = bytes.as_ptr().cast_mut();
        // SAFETY: the bytes belong to a map that `slf` keeps alive; the view is read-only, so
        // nobody writes to it.
        unsafe {
            fill_view(
                view,
                slf.as_any(),
                pointer,
                bytes.len(),
                IsReadOnly::Yes,
                flags,
            )
        }
    }
}

/// The payloads of a batch. Arrays over it keep it alive; then its memory serves another batch.
#[pyclass(frozen, name = "BatchBuffer", module = "dataset_rt._core")]
pub(crate) struct PyBatchBuffer {
    /// First byte of `_owner`, which nothing in Rust reads or writes from now on.
    pointer: *mut u8,
    length: usize,
    /// Held for its memory and for what happens when it is dropped.
    _owner: Buffer,
}

// SAFETY: the pointer goes with the buffer that it points into, and only Python's buffer protocol,
// whose users see to their own locking, reads or writes through it.
unsafe impl Send for PyBatchBuffer {}
// SAFETY: as above; `&self` gives no access to the bytes from Rust.
unsafe impl Sync for PyBatchBuffer {}

impl PyBatchBuffer {
    pub(crate) fn new(mut owner: Buffer) -> Self {
        let bytes = owner.bytes_mut();
        let (pointer, length) = (bytes.as_mut_ptr(), bytes.len());
        // Moving the owner moves no byte: the memory is on the heap.
        Self {
            pointer,
            length,
            _owner: owner,
        }
    }
}

#[pymethods]
impl PyBatchBuffer {
    fn __len__(&self) -> usize {
        self.length
    }

    // SAFETY: `view` is null or points to a Py_buffer that the interpreter owns for this call.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        // SAFETY: pointer and length describe memory that `slf` owns and that Rust does not touch
        // again, so it may be written through the view.
        unsafe {
            fill_view(
                view,
                slf.as_any(),
                this.pointer,
                this.length,
                IsReadOnly::No,
                flags,
            )
        }
    }
}

/// A bytes object of this length, written by `fill`.
pub(crate) fn new_bytes<'py, E: Into<CoreError>>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(Unwritten<'_>) -> Result<Written, E>,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(length)
        .map_err(|_| PyMemoryError::new_err("too long for a bytes object"))?;
    // SAFETY: without a source this gives a new reference to a bytes object whose bytes have no value
    // yet, or null with an exception set.
    let bytes = unsafe {
        let bytes = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, bytes)?.cast_into_unchecked::<PyBytes>()
    };
    // SAFETY: the object has so many bytes, and nobody else has a reference to it. That of an empty
    // object is shared, but no bytes of it are written.
    let place = unsafe {
        let first = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<MaybeUninit<u8>>();
        std::slice::from_raw_parts_mut(first, length)
    };
    // An object that was not filled is dropped without being looked at.
    let _: Written = fill(Unwritten::from(place)).map_err(|error| PyErr::from(error.into()))?;
    Ok(bytes)
}

enum IsReadOnly {
    Yes,
    No,
}

/// Fills in a view of `length` bytes at `pointer`, which `owner` keeps alive.
///
/// # Safety
/// `view` is null or valid for writes; the bytes live as long as `owner`, and unless the view is
/// read-only nobody else uses them.
unsafe fn fill_view(
    view: *mut ffi::Py_buffer,
    owner: &Bound<'_, PyAny>,
    pointer: *mut u8,
    length: usize,
    is_read_only: IsReadOnly,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view was given"));
    }
    let length = ffi::Py_ssize_t::try_from(length)
        .map_err(|_| PyBufferError::new_err("too long for a view"))?;
    let read_only = c_int::from(matches!(is_read_only, IsReadOnly::Yes));
    // SAFETY: the caller vouches for view, pointer and length; PyBuffer_FillInfo stores a new
    // reference to the owner in the view.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            pointer.cast(),
            length,
            read_only,
            flags,
        )
    };
    if filled == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(owner.py()))
    }
}

/// A named tuple's class, whose instances are made as `tuple.__new__` makes them, but without the
/// tuple of arguments and the tuple of fields that calling it would take.
pub(crate) struct NamedTupleClass {
    class: Py<PyType>,
    allocate: ffi::allocfunc,
}

impl NamedTupleClass {
    pub(crate) fn new(class: &Bound<'_, PyType>) -> PyResult<Self> {
        // SAFETY: the class is a live type object, and the number is that of a slot.
        let slot = unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), ffi::Py_tp_alloc) };
        if slot.is_null() || !class.is_subclass_of::<PyTuple>()? {
            return Err(PyTypeError::new_err("not a class of tuples"));
        }
        // SAFETY: what the slot `tp_alloc` holds is a function of this type.
        let allocate = unsafe { std::mem::transmute::<*mut c_void, ffi::allocfunc>(slot) };
        Ok(Self {
            class: class.clone().unbind(),
            allocate,
        })
    }

    /// An instance with these fields.
    pub(crate) fn instance<'py, const FIELDS: usize>(
        &self,
        py: Python<'py>,
        fields: [Bound<'py, PyAny>; FIELDS],
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: this is the class that the function was taken from; it gives a new reference to a
        // tuple with room for so many fields, all of them null, or null with an exception set.
        let instance = unsafe {
            let instance = (self.allocate)(self.class.as_ptr().cast(), FIELDS as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(py, instance)?
        };
        for (number, field) in fields.into_iter().enumerate() {
            let number = number as ffi::Py_ssize_t;
            // SAFETY: the tuple is new, nobody else has a reference to it, and the number is below
            // its length; the reference to the field passes to the tuple.
            if unsafe { ffi::PyTuple_SetItem(instance.as_ptr(), number, field.into_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(instance)
    }
}
