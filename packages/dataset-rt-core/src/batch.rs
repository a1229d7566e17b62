//! Many records at once, as NumPy arrays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataset_rt_reader::{
    Batch, Buffer, Gathered, Lookahead, MetadataTable, ReaderError, RecordNumber, StackedArray,
    Use, View,
};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySequence};

use crate::buffer::{PyBatchBuffer, PyMappedBytes};
use crate::dataset::LONG_BATCH;
use crate::error::CoreError;
use crate::gateway::{detached, detached_or_interruptible, read_records};
use crate::samples::SampleFactory;
use crate::table::{PyMetadataTable, as_signed, into_numpy};

/// Payloads that are read at once to become bytes objects, unless one is larger.
const DATA_PART_BYTES: usize = 8 << 20;

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

    /// Notes what the batch is asked for, for the benefit of the next ones.
    pub(crate) fn note_use(&self, latest: Use) {
        self.lock().note_use(latest);
    }

    /// Arrays that were stacked ahead.
    pub(crate) fn take_stacked(&self, pad_axis: Option<usize>) -> Option<Vec<StackedArray>> {
        self.lock().take_stacked(pad_axis)
    }

    /// What to read, without the lock: Python objects are made from it, and making them may run other
    /// Python code, which asks for this batch again. No getter makes any with the lock.
    pub(crate) fn records(&self) -> (Arc<View>, Vec<RecordNumber>) {
        let batch = self.lock();
        (Arc::clone(batch.view()), batch.records().to_vec())
    }

    fn first_position_and_length(&self) -> (Option<u64>, u64) {
        let batch = self.lock();
        (batch.first_position(), batch.len() as u64)
    }

    /// Reads the payloads, unless that has been done.
    fn gathered(&self, py: Python<'_>) -> PyResult<Gathered> {
        let ahead = self.lock().take_gathered();
        if let Some(gathered) = ahead {
            return Ok(gathered);
        }
        let (view, records) = self.records();
        read_records(py, view, records, View::gather)
    }

    /// Moves the gathered buffer into NumPy, once.
    fn payloads(&self, py: Python<'_>) -> PyResult<&Payloads> {
        self.payloads.get_or_try_init(py, || {
            self.note_use(Use::Payloads);
            let gathered = self.gathered(py)?;
            let buffer = array_over(py, gathered.buffer)?.unbind();
            Ok((buffer, into_numpy(py, gathered.offsets).unbind()))
        })
    }
}

/// A memoryview of each shard that was asked for.
struct MappedShards<'a, 'py> {
    view: &'a View,
    /// Those of each cache.
    shards: Vec<Vec<Option<Bound<'py, PySequence>>>>,
}

impl<'a, 'py> MappedShards<'a, 'py> {
    fn of(view: &'a View) -> Self {
        let num_caches = view.caches().caches().len();
        Self {
            view,
            shards: vec![Vec::new(); num_caches],
        }
    }

    fn get(
        &mut self,
        py: Python<'py>,
        cache_index: usize,
        shard: usize,
    ) -> PyResult<&Bound<'py, PySequence>> {
        let shards = &mut self.shards[cache_index];
        if shards.len() <= shard {
            shards.resize(shard + 1, None);
        }
        let known = &mut shards[shard];
        if known.is_none() {
            let map = self.view.caches().map(cache_index, shard);
            // A place in a map was found in one.
            let map = map.ok_or_else(|| CoreError::from(ReaderError::ReaderPanic))?;
            let bytes = Bound::new(py, PyMappedBytes::new(map.clone()))?;
            let whole = PyMemoryView::from(bytes.as_any())?;
            *known = Some(whole.into_any().cast_into::<PySequence>()?);
        }
        known
            .as_ref()
            .ok_or_else(|| CoreError::from(ReaderError::ReaderPanic).into())
    }
}

/// Adds a bytes object for each payload.
fn add_payloads<'py>(
    py: Python<'py>,
    gathered: &Gathered,
    payloads: &mut Vec<Bound<'py, PyBytes>>,
) -> PyResult<()> {
    let bytes = gathered.buffer.bytes();
    let mut looked = 0;
    for ends in gathered.offsets.windows(2) {
        let (start, stop) = (ends[0] as usize, ends[1] as usize);
        if stop - looked > DATA_PART_BYTES {
            py.check_signals()?;
            looked = start;
        }
        payloads.push(PyBytes::new(py, &bytes[start..stop]));
    }
    Ok(())
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
        let cache_ids = self.lock().identities().0;
        into_numpy(py, cache_ids)
    }

    #[getter]
    fn sample_ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let sample_ids = self.lock().identities().1;
        into_numpy(py, sample_ids)
    }

    /// Active row of each record.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rows = as_signed(self.lock().rows());
        into_numpy(py, rows)
    }

    /// Stream position of each record; -1 where it was not drawn from the stream.
    #[getter]
    fn positions<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let (first, length) = self.first_position_and_length();
        let positions = match first {
            Some(first) => as_signed(&(first..first + length).collect::<Vec<_>>()),
            None => vec![-1; length as usize],
        };
        into_numpy(py, positions)
    }

    /// True for the records that only fill up the last batch of an epoch.
    #[getter]
    fn is_padding<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let (first, length) = self.first_position_and_length();
        let first = first.unwrap_or(0);
        let from = self.lock().padding_from();
        let padding = (first..first + length).map(|position| position >= from);
        PyArray1::from_iter(py, padding)
    }

    /// Payloads as bytes objects.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.note_use(Use::Payloads);
        let ahead = self.lock().take_gathered();
        if let Some(gathered) = ahead {
            let mut payloads = Vec::with_capacity(gathered.offsets.len());
            let added = add_payloads(py, &gathered, &mut payloads);
            self.lock().put_gathered(gathered);
            added?;
            return PyList::new(py, payloads);
        }
        let (view, records) = self.records();
        let mut payloads: Vec<Bound<'py, PyBytes>> = Vec::with_capacity(records.len());
        let lookahead = Lookahead::new(&view, &records);
        for records in records.chunks(LONG_BATCH) {
            let found = detached(py, || view.find(records.to_vec()))?;
            for stretch in found.stretches(DATA_PART_BYTES) {
                py.check_signals()?;
                let done = payloads.len();
                let gathered = detached(py, || {
                    lookahead.reach(done);
                    view.gather(&stretch)
                })?;
                add_payloads(py, &gathered, &mut payloads)?;
            }
        }
        PyList::new(py, payloads)
    }

    /// Payloads as read-only memoryviews into the mapped files.
    fn views<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.note_use(Use::Views);
        let (view, records) = self.records();
        let ahead = self.lock().take_places();
        let places = match ahead {
            Some(places) => places,
            None => read_records(py, Arc::clone(&view), records, View::places)?,
        };
        // Parts of one view of each shard: that takes half the time of a view for each payload.
        let mut shards = MappedShards::of(&view);
        let mut views = Vec::with_capacity(places.len());
        for part in places.chunks(LONG_BATCH) {
            py.check_signals()?;
            for place in part {
                let shard = shards.get(py, place.cache_index, place.shard)?;
                views.push(shard.get_slice(place.range.start, place.range.end)?);
            }
        }
        PyList::new(py, views)
    }

    /// `CachedSample` objects.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.note_use(Use::Other);
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
