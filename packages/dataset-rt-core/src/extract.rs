//! Records as sources yield them: from Python objects to payload bytes and metadata values.

use std::collections::HashMap;

use dataset_rt_store::{CacheWriter, StoreError, Value};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PyMemoryView, PyString, PyTuple, PyType,
};

use crate::error::{CoreError, InvalidRecordError};

/// The columns that the first record fixed, and how to find a key among them.
pub(crate) struct RowReader<'py> {
    names: Vec<String>,
    keys: Vec<Bound<'py, PyString>>,
    places: HashMap<String, usize>,
}

impl<'py> RowReader<'py> {
    /// Takes the columns from the metadata of the first record.
    pub(crate) fn of_first(writer: &mut CacheWriter, record: &Bound<'py, PyAny>) -> PyResult<Self> {
        let (_, metadata) = split_record(record, 0)?;
        let metadata = as_dict(&metadata, 0)?;
        let mut names = Vec::with_capacity(metadata.len());
        let mut keys = Vec::with_capacity(metadata.len());
        for key in metadata.keys() {
            let key = as_key(&key, 0)?;
            names.push(as_text(&key, || "sample 0: a metadata key".to_owned())?.to_owned());
            keys.push(key);
        }
        writer.set_columns(&names).map_err(CoreError::from)?;
        let places = names.iter().cloned().zip(0..).collect();
        Ok(Self {
            names,
            keys,
            places,
        })
    }

    /// Goes on with the columns of an earlier build.
    pub(crate) fn of_columns(py: Python<'py>, names: Vec<String>) -> Self {
        let keys = names
            .iter()
            .map(|name| PyString::intern(py, name))
            .collect();
        let places = names.iter().cloned().zip(0..).collect();
        Self {
            names,
            keys,
            places,
        }
    }

    /// Copies one record into the writer; says whether the writer wants to hand chunks over.
    pub(crate) fn append(
        &self,
        writer: &mut CacheWriter,
        record: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let sample = writer.samples();
        let (data, metadata) = split_record(record, sample)?;
        let objects = self.in_column_order(&as_dict(&metadata, sample)?, sample)?;
        let values = objects
            .iter()
            .zip(&self.names)
            .map(|(object, name)| as_value(object, sample, name))
            .collect::<PyResult<Vec<_>>>()?;
        append_payload(writer, &data, &values, sample)
    }

    /// The values of a row, each in the place of its column.
    fn in_column_order(
        &self,
        metadata: &Bound<'py, PyDict>,
        sample: u64,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let names_differ = || {
            let found = metadata
                .keys()
                .iter()
                .map(|key| key.to_string())
                .collect::<Vec<_>>();
            CoreError::from(StoreError::ColumnNames {
                sample,
                expected: describe_names(&self.names),
                found: describe_names(&found),
            })
        };
        if metadata.len() != self.names.len() {
            return Err(names_differ().into());
        }
        let mut in_order = Vec::with_capacity(self.names.len());
        let mut is_in_order = true;
        for (place, (key, value)) in metadata.iter().enumerate() {
            // Sources write the same literals for every record: the keys are the same objects.
            is_in_order = is_in_order
                && (key.is(&self.keys[place])
                    || key
                        .cast::<PyString>()
                        .is_ok_and(|key| *key == *self.names[place]));
            if !is_in_order {
                break;
            }
            in_order.push(value);
        }
        if is_in_order {
            return Ok(in_order);
        }
        let mut found: Vec<Option<Bound<'py, PyAny>>> = vec![None; self.names.len()];
        for (key, value) in metadata.iter() {
            let key = as_key(&key, sample)?;
            let text = as_text(&key, || format!("sample {sample}: a metadata key"))?;
            let place = self.places.get(text).ok_or_else(names_differ)?;
            found[*place] = Some(value);
        }
        // As many keys as columns, all different and all known: every place is filled.
        Ok(found.into_iter().flatten().collect())
    }
}

fn describe_names(names: &[String]) -> String {
    if names.is_empty() {
        return "no columns".to_owned();
    }
    let quoted: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("columns {}", quoted.join(", "))
}

fn refused(sample: u64, reason: impl std::fmt::Display) -> PyErr {
    InvalidRecordError::new_err(format!("sample {sample}: {reason}"))
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .fully_qualified_name()
        .map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

fn split_record<'py>(
    record: &Bound<'py, PyAny>,
    sample: u64,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match record.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ => Err(refused(
            sample,
            format!(
                "expected CacheInput(data, metadata), found {}",
                type_name(record)
            ),
        )),
    }
}

fn as_dict<'py>(metadata: &Bound<'py, PyAny>, sample: u64) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = metadata.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    let mapping = metadata.cast::<PyMapping>().map_err(|_| {
        refused(
            sample,
            format!(
                "expected metadata as a mapping of str to values, found {}",
                type_name(metadata)
            ),
        )
    })?;
    PyDict::from_sequence(mapping.items()?.as_any())
}

fn as_key<'py>(key: &Bound<'py, PyAny>, sample: u64) -> PyResult<Bound<'py, PyString>> {
    key.cast::<PyString>().cloned().map_err(|_| {
        refused(
            sample,
            format!("expected metadata keys as str, found {}", type_name(key)),
        )
    })
}

fn as_text<'a>(text: &'a Bound<'_, PyString>, place: impl FnOnce() -> String) -> PyResult<&'a str> {
    text.to_str().map_err(|_| {
        InvalidRecordError::new_err(format!(
            "{} holds a lone surrogate, which is no valid text",
            place()
        ))
    })
}

/// Replaces NumPy scalars by the Python value they stand for, then reads the value.
fn as_value<'a>(object: &'a Bound<'_, PyAny>, sample: u64, column: &str) -> PyResult<Value<'a>> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        let place = || format!("sample {sample}, column {column:?}");
        return Ok(Value::String(as_text(text, place)?));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(value.is_true()));
    }
    if object.cast::<PyInt>().is_ok() {
        return object.extract().map(Value::Integer).map_err(|_| {
            refused(
                sample,
                format!("column {column:?}: {object} does not fit a 64-bit signed integer"),
            )
        });
    }
    if let Ok(value) = object.cast::<PyFloat>() {
        return Ok(Value::Float(value.value()));
    }
    if object.is_instance(numpy_scalar_class(object.py())?)? {
        let item = object.call_method0("item")?;
        // Text would have to outlive `item`; np.str_ is a str and was read above.
        if item.cast::<PyInt>().is_ok() || item.cast::<PyFloat>().is_ok() {
            return match as_value(&item, sample, column)? {
                Value::Boolean(value) => Ok(Value::Boolean(value)),
                Value::Integer(value) => Ok(Value::Integer(value)),
                Value::Float(value) => Ok(Value::Float(value)),
                Value::Null | Value::String(_) => Ok(Value::Null),
            };
        }
    }
    Err(refused(
        sample,
        format!(
            "column {column:?}: expected bool, int, float, str, None or a NumPy scalar of these, found {}",
            type_name(object)
        ),
    ))
}

fn numpy_scalar_class<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "numpy", "generic")
}

/// Copies the payload out of whatever holds it.
fn append_payload(
    writer: &mut CacheWriter,
    data: &Bound<'_, PyAny>,
    values: &[Value<'_>],
    sample: u64,
) -> PyResult<bool> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(writer
            .append(bytes.as_bytes(), values)
            .map_err(CoreError::from)?);
    }
    let view = PyMemoryView::from(data).map_err(|_| {
        refused(
            sample,
            format!(
                "expected data as bytes or a C-contiguous buffer, found {}",
                type_name(data)
            ),
        )
    })?;
    if !view.getattr("c_contiguous")?.is_truthy()? {
        return Err(refused(
            sample,
            "data is a buffer that is not C-contiguous\nhint: numpy.ascontiguousarray copies it into order",
        ));
    }
    if holds_objects(&view.getattr("format")?.extract::<String>()?) {
        return Err(refused(
            sample,
            "data is a buffer of Python objects, not of plain bytes",
        ));
    }
    // memoryview.cast refuses empty shapes and formats beyond the native letters; those are copied.
    match view
        .call_method1("cast", ("B",))
        .and_then(|bytes| PyBuffer::<u8>::get(&bytes))
    {
        Ok(buffer) => {
            let length = buffer.len_bytes();
            let py = data.py();
            writer
                .append_with(length, values, |place| buffer.copy_to_slice(py, place))
                .map_err(CoreError::from)?
        }
        Err(_) => {
            let copy = view.call_method0("tobytes")?;
            let bytes = copy.cast::<PyBytes>()?;
            Ok(writer
                .append(bytes.as_bytes(), values)
                .map_err(CoreError::from)?)
        }
    }
}

/// Says whether a buffer format (PEP 3118) has object pointers; names of fields stand between colons.
fn holds_objects(format: &str) -> bool {
    format
        .split(':')
        .step_by(2)
        .any(|codes| codes.contains('O'))
}
