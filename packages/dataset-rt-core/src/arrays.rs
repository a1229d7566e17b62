//! Dictionaries of arrays as safetensors bytes; NumPy itself stays on the Python side.

use std::collections::HashMap;

use dataset_rt_reader::Use;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::batch::{PyBatch, array_over};
use crate::error::InvalidRecordError;
use crate::gateway::read_records;
use crate::table::into_numpy;

/// NumPy's name and the name in the format.
const DTYPES: [(&str, Dtype); 16] = [
    ("bool", Dtype::BOOL),
    ("uint8", Dtype::U8),
    ("int8", Dtype::I8),
    ("uint16", Dtype::U16),
    ("int16", Dtype::I16),
    ("uint32", Dtype::U32),
    ("int32", Dtype::I32),
    ("uint64", Dtype::U64),
    ("int64", Dtype::I64),
    ("float16", Dtype::F16),
    ("float32", Dtype::F32),
    ("float64", Dtype::F64),
    ("complex64", Dtype::C64),
    ("bfloat16", Dtype::BF16),
    ("float8_e4m3fn", Dtype::F8_E4M3),
    ("float8_e5m2", Dtype::F8_E5M2),
];

/// Key of the free-form strings in a safetensors header.
const RESERVED_NAME: &str = "__metadata__";

/// Name, dtype name, shape and little-endian bytes of one array.
type PackedArray<'py> = (String, String, Vec<usize>, Bound<'py, PyBytes>);

/// Name, dtype name, shape and byte offset of one array.
type ArrayPlace = (String, &'static str, Vec<usize>, usize);

/// Serialises arrays that are given as name, dtype name, shape and bytes.
#[pyfunction]
pub(crate) fn pack_arrays<'py>(
    py: Python<'py>,
    arrays: Vec<PackedArray<'py>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut views = Vec::with_capacity(arrays.len());
    for (name, dtype, shape, bytes) in &arrays {
        if name == RESERVED_NAME {
            return Err(InvalidRecordError::new_err(format!(
                "array name {name:?} is reserved by the format"
            )));
        }
        let (_, dtype) = DTYPES
            .iter()
            .find(|(known, _)| known == dtype)
            .ok_or_else(|| {
                InvalidRecordError::new_err(format!(
                    "array {name:?} has dtype {dtype}, which cannot be packed"
                ))
            })?;
        let view = TensorView::new(*dtype, shape.clone(), bytes.as_bytes())
            .map_err(|error| InvalidRecordError::new_err(format!("array {name:?}: {error}")))?;
        views.push((name.as_str(), view));
    }
    let no_metadata: Option<HashMap<String, String>> = None;
    let packed = safetensors::serialize(views, no_metadata).map_err(|error| {
        InvalidRecordError::new_err(format!("arrays cannot be packed: {error}"))
    })?;
    Ok(PyBytes::new(py, &packed))
}

/// Packed bytes in either form that can be looked into without a copy.
#[derive(FromPyObject)]
pub(crate) enum Packed<'py> {
    Bytes(Bound<'py, PyBytes>),
    Array(PyReadonlyArray1<'py, u8>),
}

/// Name, dtype name, shape and byte offset of every array in packed bytes, by offset.
#[pyfunction]
pub(crate) fn array_layout(data: Packed<'_>) -> PyResult<Vec<ArrayPlace>> {
    let data = match &data {
        Packed::Bytes(bytes) => bytes.as_bytes(),
        Packed::Array(array) => array.as_slice()?,
    };
    let damaged = |reason: String| {
        InvalidRecordError::new_err(format!("not the bytes of packed arrays: {reason}"))
    };
    let (header_bytes, header) =
        SafeTensors::read_metadata(data).map_err(|error| damaged(error.to_string()))?;
    // The header is preceded by its length in eight bytes.
    let first = header_bytes + 8;
    let mut tensors: Vec<_> = header.tensors().into_iter().collect();
    // Arrays without elements begin where others do; then it is the end, and the name, that decides.
    tensors.sort_by(|(one_name, one), (other_name, other)| {
        (one.data_offsets, one_name).cmp(&(other.data_offsets, other_name))
    });
    let mut layout = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let (numpy_name, _) = DTYPES
            .iter()
            .find(|(_, dtype)| *dtype == tensor.dtype)
            .ok_or_else(|| damaged(format!("array {name:?} has dtype {:?}", tensor.dtype)))?;
        let (start, stop) = tensor.data_offsets;
        if first + stop > data.len() {
            return Err(damaged(format!(
                "array {name:?} lies outside its {} bytes",
                data.len()
            )));
        }
        layout.push((name, *numpy_name, tensor.shape.clone(), first + start));
    }
    Ok(layout)
}

/// Name, dtype name, shape, bytes, and the lengths along a padded axis, of stacked arrays.
type Stacked<'py> = (
    String,
    &'static str,
    Vec<usize>,
    Bound<'py, PyArray1<u8>>,
    Option<Bound<'py, PyArray1<i64>>>,
);

/// Stacks the arrays in the payloads of a batch, one buffer for each name.
#[pyfunction]
pub(crate) fn stack_arrays<'py>(
    py: Python<'py>,
    batch: &PyBatch,
    pad_axis: Option<usize>,
) -> PyResult<Vec<Stacked<'py>>> {
    batch.note_use(Use::Arrays { pad_axis });
    let stacked = match batch.take_stacked(pad_axis) {
        Some(stacked) => stacked,
        None => {
            let (view, records) = batch.records();
            read_records(py, view, records, move |view, found| {
                view.stack_arrays(found, pad_axis)
            })?
        }
    };
    stacked
        .into_iter()
        .map(|array| {
            let (dtype, _) = DTYPES
                .iter()
                .find(|(_, dtype)| *dtype == array.dtype)
                .ok_or_else(|| {
                    InvalidRecordError::new_err(format!(
                        "array {:?} has dtype {:?}, which NumPy lacks",
                        array.name, array.dtype
                    ))
                })?;
            let lengths = array.lengths.map(|lengths| into_numpy(py, lengths));
            let bytes = array_over(py, array.buffer)?;
            Ok((array.name, *dtype, array.shape, bytes, lengths))
        })
        .collect()
}
