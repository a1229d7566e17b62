//! Several caches as one space of record numbers and one metadata schema.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use dataset_rt_store::{Backend, Cache, Column, ColumnType, Map, MetadataRow, StoreError, Value};
use rayon::prelude::*;

use crate::active_table::RecordNumber;
use crate::coldness::Coldness;
use crate::error::ReaderError;
use crate::options::SchemaRule;
use crate::pool::Pool;

/// Open caches in the order they were given.
#[derive(Debug)]
pub struct CacheSet {
    caches: Vec<Cache>,
    /// Record number of the first sample of each cache, and one past the last record.
    first_records: Vec<u64>,
    columns: Vec<Column>,
    /// For each cache: where each column of the dataset is in the cache, if it has it.
    places: Vec<Vec<Option<usize>>>,
    coldness: Coldness,
}

/// One record as a sample of one cache.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The cache.
    pub cache: &'a Cache,
    /// Its place among the caches of the dataset.
    pub cache_index: usize,
    /// Sample number in the cache.
    pub sample: u64,
}

impl CacheSet {
    /// Opens all caches and brings their columns together.
    pub fn open<P: AsRef<Path>>(
        paths: &[P],
        schema: SchemaRule,
        backend: Backend,
    ) -> Result<Self, ReaderError> {
        let caches = paths
            .iter()
            .map(|path| Cache::open(path.as_ref(), backend))
            .collect::<Result<Vec<_>, _>>()?;
        if caches.is_empty() {
            return Err(ReaderError::NoCaches);
        }
        for (number, cache) in caches.iter().enumerate() {
            if let Some(twin) = caches[..number]
                .iter()
                .find(|other| other.id() == cache.id())
            {
                return Err(ReaderError::DuplicateCache {
                    cache_id: cache.id(),
                    name: cache.name().to_owned(),
                    first: twin.path().to_owned(),
                    second: cache.path().to_owned(),
                });
            }
        }
        let columns = common_columns(&caches, schema)?;
        let place = |cache: &Cache, column: &Column| {
            cache
                .metadata()
                .columns()
                .iter()
                .position(|other| other.name == column.name)
        };
        let places = caches
            .iter()
            .map(|cache| columns.iter().map(|column| place(cache, column)).collect())
            .collect();
        let mut first_records = vec![0];
        let mut total = 0_u64;
        for cache in &caches {
            // Each cache holds fewer than 2^60 samples, as its index must fit a file.
            total = total.saturating_add(cache.len());
            first_records.push(total);
        }
        let coldness = Coldness::new(&caches, backend);
        Ok(Self {
            caches,
            first_records,
            columns,
            places,
            coldness,
        })
    }

    /// The caches.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Number of records in all caches.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a cache is never empty, so neither is a set"
    )]
    pub fn len(&self) -> u64 {
        self.first_records[self.caches.len()]
    }

    /// Bytes of a payload, on average; at least one.
    pub(crate) fn mean_payload_bytes(&self) -> u64 {
        let bytes: u64 = self
            .caches
            .iter()
            .map(|cache| cache.manifest().payload_bytes)
            .sum();
        (bytes / self.len()).max(1)
    }

    /// Says whether payloads can be copied out of maps as they are.
    pub(crate) fn are_mapped_as_they_are(&self) -> bool {
        self.caches.iter().all(Cache::is_mapped_as_it_is)
    }

    /// Metadata columns of the dataset.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The map of a shard of one of the caches, if it is mapped.
    #[must_use]
    pub fn map(&self, cache_index: usize, shard: usize) -> Option<&Map> {
        self.caches[cache_index].map(shard)
    }

    /// Where the columns of the dataset are in one cache.
    #[must_use]
    pub fn places(&self, cache_index: usize) -> &[Option<usize>] {
        &self.places[cache_index]
    }

    /// Whether payloads come from the disk.
    #[inline]
    pub(crate) fn coldness(&self) -> &Coldness {
        &self.coldness
    }

    /// Record number of the first sample of a cache.
    pub(crate) fn first_record(&self, cache_index: usize) -> u64 {
        self.first_records[cache_index]
    }

    /// The sample behind a record number below `len`.
    #[inline]
    #[must_use]
    pub fn place(&self, record: RecordNumber) -> Placed<'_> {
        let cache_index = match self.caches.as_slice() {
            [_] => 0,
            _ => self.first_records.partition_point(|&first| first <= record) - 1,
        };
        let sample = record - self.first_records[cache_index];
        Placed {
            cache: &self.caches[cache_index],
            cache_index,
            sample,
        }
    }

    /// The record number of a sample named by its identity.
    pub fn record_number(
        &self,
        cache_id: i64,
        sample_id: i64,
    ) -> Result<RecordNumber, ReaderError> {
        let cache_index = self.cache_index(cache_id)?;
        let cache = &self.caches[cache_index];
        match u64::try_from(sample_id) {
            Ok(sample) if sample < cache.len() => Ok(self.first_records[cache_index] + sample),
            _ => Err(ReaderError::UnknownSample {
                cache_id: cache.id(),
                name: cache.name().to_owned(),
                sample_id,
                last: cache.len() - 1,
            }),
        }
    }

    fn cache_index(&self, cache_id: i64) -> Result<usize, ReaderError> {
        u64::try_from(cache_id)
            .ok()
            .and_then(|id| self.caches.iter().position(|cache| cache.id() == id))
            .ok_or(ReaderError::UnknownCache { cache_id })
    }

    /// Reads every file of every cache and compares its digest, in parallel.
    pub fn validate(&self, pool: &Pool) -> Result<(), ReaderError> {
        let files: Vec<_> = self
            .caches
            .iter()
            .flat_map(|cache| {
                cache
                    .digests()
                    .into_iter()
                    .map(move |(file, _, digest)| (cache, file, digest))
            })
            .collect();
        pool.threads()?.install(|| {
            files.par_iter().try_for_each(|(cache, file, digest)| {
                cache.validate_file(file, digest, |_| Ok::<_, StoreError>(()))
            })
        })?;
        Ok(())
    }
}

impl<'a> Placed<'a> {
    /// The metadata of the sample in the columns of its own cache.
    #[inline]
    pub fn metadata_row(&self) -> Result<MetadataRow<'a>, StoreError> {
        self.cache.metadata().row(self.sample)
    }
}

/// The value of a dataset column in a row of one cache, null where the cache lacks the column.
#[inline]
pub fn value_at<'a>(row: &MetadataRow<'a>, place: Option<usize>) -> Result<Value<'a>, StoreError> {
    place.map_or(Ok(Value::Null), |column| row.value(column))
}

/// The columns of the dataset: those of the first cache, then, for a union, those that others add.
fn common_columns(caches: &[Cache], schema: SchemaRule) -> Result<Vec<Column>, ReaderError> {
    let mut columns: Vec<Column> = caches[0].metadata().columns().to_vec();
    let mut differences = String::new();
    let mut types_differ = false;
    for cache in &caches[1..] {
        for column in cache.metadata().columns() {
            match columns.iter_mut().find(|known| known.name == column.name) {
                None => {
                    describe(&mut differences, &column.name, caches);
                    columns.push(column.clone());
                }
                // A column without a value has no type of its own.
                Some(known) if known.column_type == ColumnType::Null => {
                    known.column_type = column.column_type;
                }
                Some(known)
                    if known.column_type != column.column_type
                        && column.column_type != ColumnType::Null =>
                {
                    types_differ = true;
                    describe(&mut differences, &column.name, caches);
                }
                Some(_) => {}
            }
        }
        for known in &columns {
            if cache.manifest().column_type(&known.name).is_none() {
                describe(&mut differences, &known.name, caches);
            }
        }
    }
    if differences.is_empty() || (schema == SchemaRule::Union && !types_differ) {
        return Ok(columns);
    }
    let hint = if types_differ {
        ""
    } else {
        "hint: ReaderConfig(schema=\"union\") gives nulls for missing columns"
    };
    Err(ReaderError::SchemasDiffer { differences, hint })
}

/// One line that says what each cache has in a column, unless the line is there already.
fn describe(differences: &mut String, column: &str, caches: &[Cache]) {
    let head = format!("  {column:?}: ");
    if differences
        .lines()
        .any(|line| line.starts_with(head.trim_end_matches(' ')))
    {
        return;
    }
    differences.push_str(&head);
    for (number, cache) in caches.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        let found = cache
            .manifest()
            .column_type(column)
            .map_or("absent", ColumnType::python_name);
        // Writing to a String cannot fail.
        let _ = write!(differences, "{separator}{found} in {:?}", cache.name());
    }
    differences.push('\n');
}

/// A set of caches shared by views.
pub(crate) type SharedCaches = Arc<CacheSet>;
