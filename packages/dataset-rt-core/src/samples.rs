//! `CachedSample` objects, built straight from the maps.

use dataset_rt_reader::{
    Chunk, Lookahead, Placed, Prepared, ReaderError, RecordNumber, View, value_at,
};
use dataset_rt_store::{Destination, Record, StoreError, Unwritten, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};

use crate::buffer::{NamedTupleClass, new_bytes};
use crate::error::CoreError;

/// How many samples are made before Ctrl-C is looked for, if they are not as large as a chunk.
const SAMPLES_BETWEEN_SIGNALS: usize = 1024;

/// Objects that all samples of one dataset share.
pub(crate) struct SampleFactory {
    class: NamedTupleClass,
    keys: Vec<Py<PyString>>,
    cache_ids: Vec<Py<PyInt>>,
}

impl SampleFactory {
    pub(crate) fn new(py: Python<'_>, view: &View) -> PyResult<Self> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = CLASS.import(py, "dataset_rt.records", "CachedSample")?;
        let class = NamedTupleClass::new(class)?;
        let columns = view.caches().columns();
        let keys = columns
            .iter()
            .map(|column| PyString::intern(py, &column.name).unbind())
            .collect();
        let cache_ids = view
            .caches()
            .caches()
            .iter()
            .map(|cache| Ok(cache.id().into_pyobject(py)?.unbind()))
            .collect::<PyResult<_>>()?;
        Ok(Self {
            class,
            keys,
            cache_ids,
        })
    }

    /// One sample that a reader thread prepared.
    pub(crate) fn prepared<'py>(
        &self,
        py: Python<'py>,
        view: &View,
        prepared: &Prepared,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copy = |place: Unwritten<'_>| prepared.copy_payload(view, place);
        let data = new_bytes(py, prepared.payload_bytes(), copy)?;
        let metadata = self.metadata(py, |column| Ok(prepared.value(column)))?;
        self.assemble(
            py,
            data,
            metadata,
            prepared.cache_index(),
            prepared.sample(),
        )
    }

    /// One sample by itself.
    pub(crate) fn single<'py>(
        &self,
        py: Python<'py>,
        view: &View,
        record: RecordNumber,
    ) -> PyResult<Bound<'py, PyAny>> {
        let placed = view.caches().place(record);
        if let Some(found) = view.quick_record(&placed) {
            return self.quick(py, view, &placed, &found);
        }
        let records = [record];
        let chunk = py.detach(|| {
            // Advice has the disk read the payload at once, and not page by page.
            let lookahead = Lookahead::new(view, &records);
            lookahead.reach(0);
            Chunk::of_records(view, &records)
        });
        let mut samples = Vec::with_capacity(1);
        self.add_all(py, view, chunk, &mut samples)?;
        samples
            .pop()
            .ok_or_else(|| CoreError::from(ReaderError::ReaderPanic).into())
    }

    /// Makes all samples of a chunk.
    fn add_all<'py>(
        &self,
        py: Python<'py>,
        view: &View,
        mut chunk: Chunk,
        samples: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        while let Some(prepared) = chunk.next_sample() {
            samples.push(self.prepared(py, view, &prepared)?);
        }
        match chunk.take_error() {
            Some(error) => Err(CoreError::from(error).into()),
            None => Ok(()),
        }
    }

    /// One sample whose payload was found in the map, verified here and now.
    fn quick<'py>(
        &self,
        py: Python<'py>,
        view: &View,
        placed: &Placed<'_>,
        found: &Record<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let verify = view.read_options().verify_reads;
        let copy = |place: Unwritten<'_>| found.copy_into(place, verify, Destination::Cached);
        let data = new_bytes(py, found.payload.len(), copy)?;
        let row = placed.metadata_row().map_err(CoreError::from)?;
        let places = view.caches().places(placed.cache_index);
        let metadata = self.metadata(py, |column| value_at(&row, places[column]))?;
        placed.cache.metadata().check().map_err(CoreError::from)?;
        self.assemble(py, data, metadata, placed.cache_index, placed.sample)
    }

    /// All samples of these records.
    pub(crate) fn list<'py>(
        &self,
        py: Python<'py>,
        view: &View,
        records: &[RecordNumber],
    ) -> PyResult<Bound<'py, PyList>> {
        let mut samples = Vec::with_capacity(records.len());
        let lookahead = Lookahead::new(view, records);
        while samples.len() < records.len() {
            py.check_signals()?;
            let done = samples.len();
            let part = &records[done..records.len().min(done + SAMPLES_BETWEEN_SIGNALS)];
            let chunk = py.detach(|| {
                lookahead.reach(done);
                Chunk::of_records(view, part)
            });
            self.add_all(py, view, chunk, &mut samples)?;
        }
        PyList::new(py, samples)
    }

    fn metadata<'py, 'a>(
        &self,
        py: Python<'py>,
        value: impl Fn(usize) -> Result<Value<'a>, StoreError>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (column, key) in self.keys.iter().enumerate() {
            let value = value(column).map_err(CoreError::from)?;
            set_value(&metadata, key.bind(py), value)?;
        }
        Ok(metadata)
    }

    fn assemble<'py>(
        &self,
        py: Python<'py>,
        data: Bound<'py, PyBytes>,
        metadata: Bound<'py, PyDict>,
        cache_index: usize,
        sample: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cache_id = self.cache_ids[cache_index].bind(py).clone();
        let sample = sample.into_pyobject(py)?;
        self.class.instance(
            py,
            [
                data.into_any(),
                metadata.into_any(),
                cache_id.into_any(),
                sample.into_any(),
            ],
        )
    }
}

#[inline]
fn set_value(
    metadata: &Bound<'_, PyDict>,
    key: &Bound<'_, PyString>,
    value: Value<'_>,
) -> PyResult<()> {
    let py = metadata.py();
    match value {
        Value::Null => metadata.set_item(key, py.None()),
        Value::Boolean(value) => metadata.set_item(key, PyBool::new(py, value)),
        Value::Integer(value) => metadata.set_item(key, value),
        Value::Float(value) => metadata.set_item(key, PyFloat::new(py, value)),
        Value::String(value) => metadata.set_item(key, PyString::new(py, value)),
    }
}
