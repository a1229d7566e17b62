//! Metadata columns on their way to Python, as an Arrow stream or as NumPy arrays, and from there.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat;
use dataset_rt_reader::{MetadataTable, ReaderError};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3_arrow::{PyRecordBatchReader, PyTable};

use crate::error::CoreError;

/// One column: its values, and where it is null if it is anywhere.
type NumpyColumn<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyArray1<bool>>>);

/// Metadata columns; anything that speaks the Arrow C stream interface can take them.
#[pyclass(frozen, name = "MetadataTable", module = "dataset_rt._core")]
pub(crate) struct PyMetadataTable {
    table: MetadataTable,
}

impl PyMetadataTable {
    pub(crate) fn new(table: MetadataTable) -> Self {
        Self { table }
    }
}

#[pymethods]
impl PyMetadataTable {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = PyTable::try_new(self.table.batches.clone(), self.table.schema.clone())?;
        Bound::new(py, table)?.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    fn __len__(&self) -> usize {
        self.table
            .batches
            .iter()
            .map(arrow_array::RecordBatch::num_rows)
            .sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.table
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }

    /// Python type of each column: `"bool"`, `"int"`, `"float"`, `"str"` or, without values, `"None"`.
    #[getter]
    fn column_types(&self) -> Vec<&'static str> {
        let fields = self.table.schema.fields().iter();
        fields.map(|field| python_type(field.data_type())).collect()
    }

    /// Values of one column, and a mask that is true where it is null.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<NumpyColumn<'py>> {
        let place = self
            .table
            .schema
            .index_of(name)
            .map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        let chunks: Vec<&dyn Array> = self
            .table
            .batches
            .iter()
            .map(|batch| batch.column(place).as_ref())
            .collect();
        let column = concat(&chunks)
            .and_then(|column| as_known_type(column, name))
            .map_err(ReaderError::from)
            .map_err(CoreError::from)?;
        to_numpy(py, &column)
    }
}

/// Reads a table to its end; `null_columns` come as another type, but are of type null.
pub(crate) fn read_table(
    py: Python<'_>,
    table: PyRecordBatchReader,
    null_columns: &[String],
) -> PyResult<MetadataTable> {
    let refused = |error: ArrowError| {
        CoreError::from(ReaderError::TableRefused {
            reason: format!("its Arrow stream failed: {error}"),
        })
    };
    let mut reader = table.into_reader()?;
    let given = reader.schema();
    let is_null = |field: &Field| null_columns.contains(field.name());
    let fields = given.fields().iter().map(|field| {
        if is_null(field) {
            Arc::new(Field::new(field.name(), DataType::Null, true))
        } else {
            Arc::clone(field)
        }
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut batches = Vec::new();
    // Whoever gives the table may insist on being asked by the thread that gave it.
    while let Some(batch) = py.detach(|| reader.next()) {
        let batch = batch.map_err(refused)?;
        let rows = batch.num_rows();
        let columns = batch.columns().iter().zip(given.fields());
        let columns = columns.map(|(column, field)| {
            if is_null(field) {
                Arc::new(NullArray::new(rows))
            } else {
                Arc::clone(column)
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect(), &options);
        batches.push(batch.map_err(refused)?);
        py.check_signals()?;
    }
    Ok(MetadataTable { schema, batches })
}

fn python_type(data_type: &DataType) -> &'static str {
    match known_type(data_type) {
        Some(DataType::Boolean) => "bool",
        Some(DataType::Int64) => "int",
        Some(DataType::Float64) => "float",
        Some(DataType::LargeUtf8) => "str",
        _ => "None",
    }
}

/// The type of stored columns that holds the values of a type; users may add columns of any type.
fn known_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Null | DataType::Boolean => Some(data_type.clone()),
        _ if data_type.is_integer() => Some(DataType::Int64),
        _ if data_type.is_floating() => Some(DataType::Float64),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::Dictionary(_, values) => known_type(values),
        _ => None,
    }
}

/// Casts a column to the type of stored columns that holds its values, without losing any.
fn as_known_type(column: ArrayRef, name: &str) -> Result<ArrayRef, ArrowError> {
    let Some(known) = known_type(column.data_type()) else {
        return Err(ArrowError::CastError(format!(
            "column {name:?} has type {}, which NumPy columns of a table are not made of",
            column.data_type()
        )));
    };
    if known == *column.data_type() {
        return Ok(column);
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(&column, &known, &options)
}

fn to_numpy<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<NumpyColumn<'py>> {
    let mask = column
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .map(|nulls| PyArray1::from_iter(py, nulls.iter().map(|is_valid| !is_valid)));
    let values = match column.data_type() {
        DataType::Int64 => {
            PyArray1::from_slice(py, column.as_primitive::<Int64Type>().values()).into_any()
        }
        DataType::Float64 => {
            PyArray1::from_slice(py, column.as_primitive::<Float64Type>().values()).into_any()
        }
        DataType::Boolean => {
            PyArray1::from_iter(py, column.as_boolean().values().iter()).into_any()
        }
        DataType::LargeUtf8 => {
            let objects: Vec<Py<PyAny>> = column
                .as_string::<i64>()
                .iter()
                .map(|text| match text {
                    Some(text) => PyString::new(py, text).into_any().unbind(),
                    None => py.None(),
                })
                .collect();
            PyArray1::from_vec(py, objects).into_any()
        }
        // Only columns without a value are left.
        _ => {
            let objects: Vec<Py<PyAny>> = (0..column.len()).map(|_| py.None()).collect();
            PyArray1::from_vec(py, objects).into_any()
        }
    };
    Ok((values, mask))
}

/// Hands a vector to NumPy without copying it.
pub(crate) fn into_numpy<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
) -> Bound<'_, PyArray1<T>> {
    PyArray1::from_vec(py, values)
}

/// Row numbers as NumPy's usual integers; they are far below 2^63.
pub(crate) fn as_signed(values: &[u64]) -> Vec<i64> {
    values
        .iter()
        .map(|&value| i64::try_from(value).unwrap_or(i64::MAX))
        .collect()
}

/// Reads a one-dimensional NumPy array that may be strided.
pub(crate) fn to_vector<T: numpy::Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> Vec<T> {
    array.readonly().as_array().iter().copied().collect()
}
