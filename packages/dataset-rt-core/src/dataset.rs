//! The dataset as Python holds it.

use std::path::PathBuf;
use std::sync::Arc;

use dataset_rt_reader::{Batch, Dataset, DrawOptions, ReadOptions, SchemaRule};
use dataset_rt_store::Backend;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::PyTable;

use crate::batch::PyBatch;
use crate::error::{ConfigError, CoreError};
use crate::gateway::{OnSignal, detached, interruptible};
use crate::iterators::{PyBatchIterator, PySampleIterator};
use crate::pool::PyThreadPool;
use crate::samples::SampleFactory;
use crate::table::{PyMetadataTable, as_signed, into_numpy, to_vector};

/// So many draws take long enough for somebody to press Ctrl-C.
const LONG_DRAWS: u64 = 1 << 20;

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
        _ => Err(dataset_rt_reader::ReaderError::RowOutOfRange { row, rows }.into()),
    }
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

    /// Opens what `export_snapshot` wrote.
    #[staticmethod]
    fn open_snapshot(py: Python<'_>, directory: PathBuf, pool: &PyThreadPool) -> PyResult<Self> {
        let pool = Arc::clone(&pool.pool);
        let dataset = detached(py, || Dataset::open_snapshot(&directory, pool))?;
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
        detached(py, || {
            self.dataset.view()?.export_snapshot(&directory, draw)
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

    /// The samples drawn at these positions, being read ahead from now on; the cursor stays.
    fn iter_window(&self, py: Python<'_>, start: u64, stop: u64) -> PyResult<PySampleIterator> {
        let samples = detached(py, || {
            let mut samples = self.dataset.samples_at(start, stop)?;
            samples.begin()?;
            Ok::<_, dataset_rt_reader::ReaderError>(samples)
        })?;
        Ok(PySampleIterator::new(Arc::clone(&self.factory), samples))
    }

    #[pyo3(signature = (start, stop, padding_from = None))]
    fn batch_of_window(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        padding_from: Option<u64>,
    ) -> PyResult<PyBatch> {
        let padding_from = padding_from.unwrap_or(u64::MAX);
        let batch = detached(py, || {
            let batch = Batch::of_window(self.dataset.view()?, start, stop, padding_from)?;
            batch.gathered()?;
            Ok::<_, dataset_rt_reader::ReaderError>(batch)
        })?;
        Ok(self.batch(batch))
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
        cache_id: i64,
        sample_id: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let record = view
            .caches()
            .record_number(cache_id, sample_id)
            .map_err(CoreError::from)?;
        self.factory.verifying(py, &view, record)
    }

    fn sample_of_row<'py>(&self, py: Python<'py>, row: i64) -> PyResult<Bound<'py, PyAny>> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let row = row_number(row, view.num_rows())?;
        let records = view.records_of_rows(&[row]).map_err(CoreError::from)?;
        self.factory.verifying(py, &view, records[0])
    }

    fn batch_of_rows(&self, rows: &Bound<'_, PyArray1<i64>>) -> Result<PyBatch, CoreError> {
        let view = self.dataset.view()?;
        let rows = rows
            .readonly()
            .as_array()
            .iter()
            .map(|&row| row_number(row, view.num_rows()))
            .collect::<Result<_, _>>()?;
        Ok(self.batch(Batch::of_rows(view, rows)?))
    }

    /// Active rows that the stream draws at these positions.
    fn draws<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let rows = if stop.saturating_sub(start) < LONG_DRAWS {
            detached(py, || view.draws(start, stop))?
        } else {
            interruptible(py, move || view.draws(start, stop), &OnSignal::Leave)?
        };
        Ok(into_numpy(py, as_signed(&rows)))
    }

    fn metadata_table(&self, py: Python<'_>) -> PyResult<PyMetadataTable> {
        let view = self.dataset.view().map_err(CoreError::from)?;
        let table = interruptible(py, move || view.metadata_table(), &OnSignal::Leave)?;
        Ok(PyMetadataTable::new(table))
    }

    fn update_metadata(&self, py: Python<'_>, table: PyTable) -> PyResult<()> {
        let (batches, schema) = table.into_inner();
        detached(py, || self.dataset.update_metadata(&schema, &batches))
    }

    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyArray1<f64>>) -> PyResult<()> {
        let weights = to_vector(weights);
        detached(py, || self.dataset.set_weights(weights))
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
        detached(py, || {
            Ok::<_, dataset_rt_reader::ReaderError>(self.dataset.view()?.fingerprint().to_owned())
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
