//! The dataset as Python holds it.

use std::path::PathBuf;
use std::sync::Arc;

use dataset_rt_reader::{
    Batch, BatchAhead, BatchWindow, Dataset, DrawOptions, Edit, HugeArray, ReadOptions,
    ReaderError, SchemaRule, StopFlag, Use, View,
};
use dataset_rt_store::Backend;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyInt, PyList};
use pyo3_arrow::PyRecordBatchReader;

use crate::batch::PyBatch;
use crate::error::{ConfigError, CoreError};
use crate::gateway::{OnSignal, detached, detached_or_interruptible, interruptible, read_records};
use crate::iterators::{PyBatchIterator, PyPendingBatch, PySampleIterator};
use crate::pool::PyThreadPool;
use crate::samples::SampleFactory;
use crate::table::{PyMetadataTable, read_table, to_vector};

/// Work on so many rows takes long enough for somebody to press Ctrl-C.
const LONG_ROWS: u64 = 1 << 19;

/// Records of one batch whose reading may take that long.
pub(crate) const LONG_BATCH: usize = 1 << 14;

/// Draws between two looks for Ctrl-C.
const DRAWS_PER_LOOK: usize = 1 << 20;

/// Weights copied between two looks for Ctrl-C.
const WEIGHTS_PER_LOOK: usize = 1 << 17;

/// Open caches, an active table and a cursor in the stream of draws.
#[pyclass(frozen, name = "Dataset", module = "dataset_rt._core")]
pub(crate) struct PyDataset {
    dataset: Arc<Dataset>,
    factory: Arc<SampleFactory>,
}

impl PyDataset {
    fn new(py: Python<'_>, dataset: Dataset) -> PyResult<Self> {
        let view = dataset.view().map_err(CoreError::from)?;
        let factory = Arc::new(SampleFactory::new(py, &view)?);
        Ok(Self {
            dataset: Arc::new(dataset),
            factory,
        })
    }

    fn batch(&self, batch: Batch) -> PyBatch {
        PyBatch::new(Arc::clone(&self.factory), batch)
    }

    /// Runs work that is as long as there are rows; Ctrl-C stops it, and nothing has changed then.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: u64,
        work: impl FnOnce(&Dataset, &StopFlag) -> Result<T, ReaderError> + Send + 'static,
    ) -> PyResult<T> {
        let stop = StopFlag::default();
        if rows < LONG_ROWS {
            return detached(py, || work(&self.dataset, &stop));
        }
        let (dataset, stop_of_work) = (Arc::clone(&self.dataset), stop.clone());
        let work = move || work(&dataset, &stop_of_work);
        interruptible(py, work, &OnSignal::Cancel(stop.as_atomic()))
    }

    /// Makes an edit the present state, unless Ctrl-C came while it was made.
    fn apply(&self, py: Python<'_>, edit: Edit) -> PyResult<()> {
        py.check_signals()?;
        let applied = self.dataset.apply(edit);
        applied.map_err(|error| CoreError::from(error).into())
    }
}

fn schema_rule(name: &str) -> PyResult<SchemaRule> {
    match name {
        "strict" => Ok(SchemaRule::Strict),
        "union" => Ok(SchemaRule::Union),
        other => Err(ConfigError::new_err(format!(
            "schema is {other:?}, expected \"strict\" or \"union\""
        ))),
    }
}

fn backend_of(name: &str) -> PyResult<Backend> {
    match name {
        "map" => Ok(Backend::Map),
        "pread" => Ok(Backend::PositionedRead),
        other => Err(ConfigError::new_err(format!(
            "backend is {other:?}, expected \"map\" or \"pread\""
        ))),
    }
}

/// Row numbers from Python, where negative ones count from the end.
fn row_number(row: i64, rows: u64) -> Result<u64, CoreError> {
    let counted = if row < 0 {
        rows.checked_add_signed(row)
    } else {
        u64::try_from(row).ok()
    };
    match counted {
        Some(row) if row < rows => Ok(row),
        _ => Err(ReaderError::RowOutOfRange { row, rows }.into()),
    }
}

/// An int of Python; what is none is converted or refused by the function for all arguments.
fn integer_argument(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(number) = value.cast_exact::<PyInt>()
        && let Ok(number) = number.extract()
    {
        return Ok(number);
    }
    let py = value.py();
    let minimum = [("minimum", -i64::MAX)].into_py_dict(py)?;
    py.import("dataset_rt.arguments")?
        .getattr("integer")?
        .call((name, value), Some(&minimum))?
        .extract()
}

#[pymethods]
impl PyDataset {
    /// Opens caches; the active table is the whole of them.
    #[staticmethod]
    #[pyo3(signature = (
        paths, pool, *, seed, shuffle, replacement, prefetch_size, validate_cache, verify_reads, schema,
        backend
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of a reader configuration"
    )]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        pool: &PyThreadPool,
        seed: u64,
        shuffle: bool,
        replacement: bool,
        prefetch_size: usize,
        validate_cache: bool,
        verify_reads: bool,
        schema: &str,
        backend: &str,
    ) -> PyResult<Self> {
        let draw = DrawOptions {
            seed,
            shuffle,
            replacement,
        };
        let read = ReadOptions {
            prefetch_size,
            verify_reads,
            schema: schema_rule(schema)?,
            backend: backend_of(backend)?,
        };
        let pool = Arc::clone(&pool.pool);
        let dataset = detached(py, || Dataset::open(&paths, pool, draw, read))?;
        let opened = Self::new(py, dataset)?;
        if validate_cache {
            let dataset = Arc::clone(&opened.dataset);
            interruptible(py, move || dataset.validate(), &OnSignal::Leave)?;
        }
        Ok(opened)
    }

    /// Opens what `export_snapshot` wrote, to be drawn with the seed of the export or another.
    #[staticmethod]
    #[pyo3(signature = (directory, pool, *, seed = None))]
    fn open_snapshot(
        py: Python<'_>,
        directory: PathBuf,
        pool: &PyThreadPool,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let pool = Arc::clone(&pool.pool);
        let dataset = detached(py, || Dataset::open_snapshot(&directory, pool, seed))?;
        Self::new(py, dataset)
    }

    /// Writes what another process needs to draw and read the same rows.
    #[pyo3(signature = (directory, *, seed, shuffle, replacement))]
    fn export_snapshot(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        seed: u64,
        shuffle: bool,
        replacement: bool,
    ) -> PyResult<()> {
        let draw = DrawOptions {
            seed,
            shuffle,
            replacement,
        };
        self.run(py, self.num_rows()?, move |dataset, stop| {
            dataset.view()?.export_snapshot(&directory, draw, stop)
        })
    }

    fn __iter__(&self) -> Result<PySampleIterator, CoreError> {
        Ok(PySampleIterator::new(
            Arc::clone(&self.factory),
            self.dataset.samples()?,
        ))
    }

    fn iter_batches(&self, batch_size: u64) -> Result<PyBatchIterator, CoreError> {
        let batches = self.dataset.batches(batch_size)?;
        Ok(PyBatchIterator::new(Arc::clone(&self.factory), batches))
    }

    /// The samples drawn at these positions; the cursor stays. With `reads_ahead` threads begin to
    /// read them now, for a consumer that comes later.
    #[pyo3(signature = (start, stop, *, reads_ahead = true))]
    fn iter_window(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        reads_ahead: bool,
    ) -> PyResult<PySampleIterator> {
        let samples = detached(py, || {
            let mut samples = self.dataset.samples_at(start, stop)?;
            if reads_ahead {
                samples.begin()?;
            }
            Ok::<_, ReaderError>(samples)
        })?;
        Ok(PySampleIterator::new(Arc::clone(&self.factory), samples))
    }

    /// The records drawn at these positions; `gathers` reads their payloads at once.
    #[pyo3(signature = (start, stop, padding_from = None, *, gathers = true))]
    fn batch_of_window(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        padding_from: Option<u64>,
        gathers: bool,
    ) -> PyResult<PyBatch> {
        let padding_from = padding_from.unwrap_or(u64::MAX);
        let view = self.dataset.view().map_err(CoreError::from)?;
        let is_long = stop.saturating_sub(start) >= LONG_BATCH as u64;
        let of_batch = Arc::clone(&view);
        let draw = move || Batch::of_window(of_batch, start, stop, padding_from);
        let mut batch = detached_or_interruptible(py, is_long, draw)?;
        if gathers {
            let records = batch.records().to_vec();
            batch.put_gathered(read_records(py, view, records, View::gather)?);
        }
        Ok(self.batch(batch))
    }

    /// The same, prepared by threads from now on, for somebody who comes later; with `stacks` it is
    /// going to be asked for arrays.
    #[pyo3(signature = (start, stop, padding_from = None, *, stacks = false))]
    fn begin_batch(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        padding_from: Option<u64>,
        stacks: bool,
    ) -> PyResult<PyPendingBatch> {
        let window = BatchWindow {
            start,
            stop,
            padding_from: padding_from.unwrap_or(u64::MAX),
        };
        let wanted = if stacks {
            Use::Arrays { pad_axis: None }
        } else {
            Use::Payloads
        };
        let ahead = detached(py, || {
            BatchAhead::begin(self.dataset.view()?, window, wanted)
        })?;
        Ok(PyPendingBatch::new(Arc::clone(&self.factory), ahead))
    }

    fn samples_of_ids<'py>(
        &self,
        py: Python<'py>,
        cache_ids: &Bound<'py, PyArray1<i64>>,
        sample_ids: &Bound<'py, PyArray1<i64>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (cache_ids, sample_ids) = (to_vector(cache_ids), to_vector(sample_ids));
        let records = self
            .dataset
            .records_of_identities(&cache_ids, &sample_ids)
            .map_err(CoreError::from)?;
        let view = self.dataset.view().map_err(CoreError::from)?;
        self.factory.list(py, &view, &records)
    }

    fn sample_of_id<'py>(
        &self,
        py: Python<'py>,
        cache_id: &Bound<'py, PyAny>,
        sample_id: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cache_id = integer_argument("cache_id", cache_id)?;
        let sample_id = integer_argument("sample_id", sample_id)?;
        let view = self.dataset.view().map_err(CoreError::from)?;
        let record = view
            .caches()
            .record_number(cache_id, sample_id)
            .map_err(CoreError::from)?;
        self.factory.single(py, &view, record)
    }

    fn sample_of_row<'py>(&self, py: Python<'py>, row: i64) -> PyResult<Bound<'py, PyAny>> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let row = row_number(row, view.num_rows())?;
        let record = view.record_of_row(row).map_err(CoreError::from)?;
        self.factory.single(py, &view, record)
    }

    fn batch_of_rows(&self, py: Python<'_>, rows: &Bound<'_, PyArray1<i64>>) -> PyResult<PyBatch> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let rows = to_vector(rows);
        let is_long = rows.len() >= LONG_BATCH;
        let find = move || {
            let rows = rows
                .into_iter()
                .map(|row| row_number(row, view.num_rows()))
                .collect::<Result<_, CoreError>>()?;
            Ok::<_, CoreError>(Batch::of_rows(view, rows)?)
        };
        let batch = detached_or_interruptible(py, is_long, find)?;
        Ok(self.batch(batch))
    }

    /// Active rows that the stream draws at these positions.
    fn draws<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let length = View::num_draws(start, stop).map_err(CoreError::from)?;
        // NumPy's own memory, which it asks the system for in huge pages.
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("zeros", (length, "int64"))?;
        let array = array.cast_into::<PyArray1<i64>>()?;
        let mut writable = array.readwrite();
        // A row below 2^63 is the same number with a sign.
        let rows = bytemuck::cast_slice_mut::<i64, u64>(writable.as_slice_mut()?);
        let never = StopFlag::default();
        let mut position = start;
        for part in rows.chunks_mut(DRAWS_PER_LOOK) {
            detached(py, || view.draw_into(position, part, &never))?;
            position += part.len() as u64;
            py.check_signals()?;
        }
        drop(writable);
        Ok(array)
    }

    fn metadata_table(&self, py: Python<'_>) -> PyResult<PyMetadataTable> {
        let table = self.run(py, self.num_rows()?, |dataset, stop| {
            dataset.view()?.metadata_table(stop)
        })?;
        Ok(PyMetadataTable::new(table))
    }

    /// Replaces the active table; `null_columns` are sent as another type, but are of type null.
    fn update_metadata(
        &self,
        py: Python<'_>,
        table: PyRecordBatchReader,
        null_columns: Vec<String>,
    ) -> PyResult<()> {
        let table = read_table(py, table, &null_columns)?;
        let rows = table
            .batches
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum();
        let edit = self.run(py, rows, move |dataset, stop| {
            dataset.edit_metadata(&table, stop)
        })?;
        self.apply(py, edit)
    }

    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyArray1<f64>>) -> PyResult<()> {
        let length = weights.len()?;
        let mut copy = HugeArray::zeroed(length, "the weights").map_err(CoreError::from)?;
        for (number, part) in copy.as_mut_slice().chunks_mut(WEIGHTS_PER_LOOK).enumerate() {
            let start = number * WEIGHTS_PER_LOOK;
            // Borrowed anew each time, as other threads of Python run in between.
            let given = weights.readonly();
            match given.as_slice()?.get(start..start + part.len()) {
                Some(given) => part.copy_from_slice(given),
                None => return Err(ConfigError::new_err("weights changed its length")),
            }
            drop(given);
            py.detach(|| ());
            py.check_signals()?;
        }
        let weights = copy.into_flat().map_err(CoreError::from)?;
        let edit = self.run(py, length as u64, move |dataset, stop| {
            dataset.edit_weights(weights, stop)
        })?;
        self.apply(py, edit)
    }

    fn set_epoch_len(&self, epoch_len: u64) {
        self.dataset.set_epoch_len(epoch_len);
    }

    fn set_cursor(&self, position: u64) {
        self.dataset.set_cursor(position);
    }

    fn close(&self) {
        self.dataset.close();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.dataset.is_closed()
    }

    #[getter]
    fn cursor(&self) -> u64 {
        self.dataset.cursor()
    }

    #[getter]
    fn epoch_len(&self) -> u64 {
        self.dataset.epoch_len()
    }

    #[getter]
    fn num_rows(&self) -> Result<u64, CoreError> {
        Ok(self.dataset.view()?.num_rows())
    }

    /// Says whether the active table differs from the caches.
    #[getter]
    fn table_is_edited(&self) -> Result<bool, CoreError> {
        Ok(self.dataset.view()?.is_edited())
    }

    /// Hash of the caches, the active rows and their weights.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, self.num_rows()?, |dataset, stop| {
            Ok(dataset.view()?.fingerprint(stop)?.to_owned())
        })
    }

    /// Id, name, path and number of samples of each cache.
    #[getter]
    fn caches(&self) -> Result<Vec<(u64, String, PathBuf, u64)>, CoreError> {
        let view = self.dataset.view()?;
        Ok(view
            .caches()
            .caches()
            .iter()
            .map(|cache| {
                (
                    cache.id(),
                    cache.name().to_owned(),
                    cache.path().to_owned(),
                    cache.len(),
                )
            })
            .collect())
    }

    /// Name and Python type of each stored metadata column.
    #[getter]
    fn columns(&self) -> Result<Vec<(String, &'static str)>, CoreError> {
        let view = self.dataset.view()?;
        let columns = view.caches().columns().iter();
        Ok(columns
            .map(|column| (column.name.clone(), column.column_type.python_name()))
            .collect())
    }
}
