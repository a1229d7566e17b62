//! Many records at once, as NumPy arrays.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataset_rt_reader::{Batch, Buffer, Gathered, Lookahead, MetadataTable, RecordNumber, View};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySequence};

use crate::buffer::{PyBatchBuffer, PyMappedBytes};
use crate::dataset::LONG_BATCH;
use crate::gateway::{OnSignal, detached, detached_or_interruptible, interruptible};
use crate::samples::{SampleFactory, payload};
use crate::table::{PyMetadataTable, as_signed, into_numpy};

/// Payloads and offsets.
type Payloads = (Py<PyArray1<u8>>, Py<PyArray1<i64>>);

/// Records of a dataset, in order.
#[pyclass(frozen, name = "Batch", module = "dataset_rt._core")]
pub(crate) struct PyBatch {
    factory: Arc<SampleFactory>,
    batch: Mutex<Batch>,
    payloads: PyOnceLock<Payloads>,
}

impl PyBatch {
    pub(crate) fn new(factory: Arc<SampleFactory>, batch: Batch) -> Self {
        Self {
            factory,
            batch: Mutex::new(batch),
            payloads: PyOnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to read, without the lock: Python objects are made from it, and making them may run
    /// finalisers that ask for this batch again.
    pub(crate) fn records(&self) -> (Arc<View>, Vec<RecordNumber>) {
        let batch = self.lock();
        (Arc::clone(batch.view()), batch.records().to_vec())
    }

    /// Reads the payloads, unless that has been done.
    fn gathered(&self, py: Python<'_>) -> PyResult<Gathered> {
        let is_read = self.lock().first_position().is_some();
        let (view, records) = self.records();
        if is_read || !view.takes_long(records.len()) {
            return detached(py, || self.lock().take_gathered());
        }
        interruptible(py, move || view.gather(&records), &OnSignal::Leave)
    }

    /// Moves the gathered buffer into NumPy, once.
    fn payloads(&self, py: Python<'_>) -> PyResult<&Payloads> {
        self.payloads.get_or_try_init(py, || {
            let gathered = self.gathered(py)?;
            let buffer = array_over(py, gathered.buffer)?.unbind();
            Ok((buffer, into_numpy(py, gathered.offsets).unbind()))
        })
    }
}

/// A writable NumPy array over the memory of a batch, without a copy.
pub(crate) fn array_over(py: Python<'_>, buffer: Buffer) -> PyResult<Bound<'_, PyArray1<u8>>> {
    if buffer.bytes().is_empty() {
        // numpy.frombuffer refuses empty buffers.
        return Ok(into_numpy(py, Vec::new()));
    }
    static FROM_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let from_buffer = FROM_BUFFER
        .get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("numpy")?.getattr("frombuffer")?.unbind())
        })?
        .bind(py);
    let array = from_buffer.call1((PyBatchBuffer::new(buffer), "uint8"))?;
    Ok(array.cast_into::<PyArray1<u8>>()?)
}

#[pymethods]
impl PyBatch {
    fn __len__(&self) -> usize {
        self.lock().len()
    }

    /// All payloads back to back.
    #[getter]
    fn buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        Ok(self.payloads(py)?.0.bind(py).clone())
    }

    /// Where each payload begins in the buffer, and one past the last.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        Ok(self.payloads(py)?.1.bind(py).clone())
    }

    #[getter]
    fn cache_ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        into_numpy(py, self.lock().identities().0)
    }

    #[getter]
    fn sample_ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        into_numpy(py, self.lock().identities().1)
    }

    /// Active row of each record.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        into_numpy(py, as_signed(self.lock().rows()))
    }

    /// Stream position of each record; -1 where it was not drawn from the stream.
    #[getter]
    fn positions<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let batch = self.lock();
        let positions = match batch.first_position() {
            Some(first) => as_signed(&(first..first + batch.len() as u64).collect::<Vec<_>>()),
            None => vec![-1; batch.len()],
        };
        into_numpy(py, positions)
    }

    /// True for the records that only fill up the last batch of an epoch.
    #[getter]
    fn is_padding<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let batch = self.lock();
        let first = batch.first_position().unwrap_or(0);
        let from = batch.padding_from();
        let padding = (first..first + batch.len() as u64).map(|position| position >= from);
        PyArray1::from_iter(py, padding)
    }

    /// Payloads as bytes objects.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (view, records) = self.records();
        let mut payloads: Vec<Bound<'py, PyBytes>> = Vec::with_capacity(records.len());
        let lookahead = Lookahead::new(&view, &records);
        for part in records.chunks(LONG_BATCH) {
            py.check_signals()?;
            for &record in part {
                lookahead.reach(payloads.len());
                payloads.push(payload(py, &view, record)?);
            }
        }
        PyList::new(py, payloads)
    }

    /// Payloads as read-only memoryviews into the mapped files.
    fn views<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (view, records) = self.records();
        let takes_long = view.takes_long(records.len());
        let find = move || view.places(&records);
        let places = detached_or_interruptible(py, takes_long, find)?;
        // Parts of one view of each shard: that takes half the time of a view for each payload.
        let mut shards: HashMap<(usize, usize), Bound<'py, PySequence>> = HashMap::new();
        let mut views = Vec::with_capacity(places.len());
        for part in places.chunks(LONG_BATCH) {
            py.check_signals()?;
            for place in part {
                let shard = match shards.entry((place.cache_index, place.shard)) {
                    Entry::Occupied(shard) => shard.into_mut(),
                    Entry::Vacant(free) => {
                        let bytes = Bound::new(py, PyMappedBytes::new(place.map.clone()))?;
                        let whole = PyMemoryView::from(bytes.as_any())?;
                        free.insert(whole.into_any().cast_into::<PySequence>()?)
                    }
                };
                views.push(shard.get_slice(place.range.start, place.range.end)?);
            }
        }
        PyList::new(py, views)
    }

    /// `CachedSample` objects.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (view, records) = self.records();
        self.factory.list(py, &view, &records)
    }

    /// The stored metadata columns of the records.
    fn metadata_table(&self, py: Python<'_>) -> PyResult<PyMetadataTable> {
        let (view, records) = self.records();
        let is_long = records.len() >= LONG_BATCH;
        let gather = move || view.caches().gather_metadata(&records);
        let columns = detached_or_interruptible(py, is_long, gather)?;
        let table = MetadataTable {
            schema: columns.schema(),
            batches: vec![columns],
        };
        Ok(PyMetadataTable::new(table))
    }
}
