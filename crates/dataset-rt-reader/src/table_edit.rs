//! Checking a metadata table that a user edited, whole, before anything changes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dataset_rt_sampler::{Executor, Flat};
use dataset_rt_store::ColumnType;

use crate::active_table::{ActiveTable, RecordNumber};
use crate::caches::CacheSet;
use crate::dataset::are_ones;
use crate::error::ReaderError;
use crate::huge::HugeArray;
use crate::metadata_table::{CACHE_ID_COLUMN, MetadataTable, SAMPLE_ID_COLUMN, WEIGHT_COLUMN};
use crate::parallel::{PoolExecutor, fill_parts};

/// Rows that one thread looks at at a time.
const PIECE_ROWS: usize = 1 << 16;

/// The largest double below which every whole number is one: a larger one may have been rounded.
const LARGEST_EXACT: f64 = (1_u64 << 53) as f64;

/// Offending rows that a message names.
const ROWS_NAMED: usize = 5;

/// A checked table.
pub(crate) struct TableEdit {
    pub(crate) table: ActiveTable,
    /// `None` if every row weighs 1.
    pub(crate) weights: Option<Flat<f64>>,
    pub(crate) batches: Vec<RecordBatch>,
}

fn refused(reason: impl Into<String>) -> ReaderError {
    ReaderError::TableRefused {
        reason: reason.into(),
    }
}

impl TableEdit {
    pub(crate) fn check(
        caches: &CacheSet,
        given: &MetadataTable,
        executor: &PoolExecutor<'_>,
    ) -> Result<Self, ReaderError> {
        let plan = ColumnPlan::new(caches, &given.schema)?;
        let mut checked = Vec::new();
        let mut rows = 0;
        for batch in given.batches.iter().filter(|batch| batch.num_rows() > 0) {
            executor.stop.check()?;
            checked.push(plan.apply(batch, rows as u64)?);
            rows += batch.num_rows();
        }
        if rows == 0 {
            return Err(refused("it has no rows"));
        }
        let pieces = pieces_of(&checked, plan.weight);
        // Whether the rows are all records in order, and whether all weights are 1: such a table
        // needs no list of either.
        let is_whole = rows as u64 == caches.len() && {
            let identities = Identities::new(caches);
            all(executor, &pieces, |piece| {
                let records = identities.records_of(piece);
                (piece.first_row as u64..)
                    .zip(records)
                    .all(|(row, record)| record == Some(row))
            })?
        };
        let table = if is_whole {
            ActiveTable::Whole {
                records: caches.len(),
            }
        } else {
            ActiveTable::Listed(records_of_pieces(caches, rows, &pieces, executor)?)
        };
        let weights = if all(executor, &pieces, |piece| are_ones(piece.weights))? {
            None
        } else {
            Some(weights_of_pieces(rows, &pieces, executor)?)
        };
        Ok(Self {
            table,
            weights,
            batches: checked,
        })
    }
}

/// Some rows of a checked batch.
struct Piece<'a> {
    first_row: usize,
    cache_ids: &'a [i64],
    sample_ids: &'a [i64],
    weights: &'a [f64],
}

fn pieces_of(batches: &[RecordBatch], weight: usize) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut first_row = 0;
    for batch in batches {
        let cache_ids = batch.column(0).as_primitive::<Int64Type>().values();
        let sample_ids = batch.column(1).as_primitive::<Int64Type>().values();
        let weights = batch.column(weight).as_primitive::<Float64Type>().values();
        let columns = cache_ids
            .chunks(PIECE_ROWS)
            .zip(sample_ids.chunks(PIECE_ROWS))
            .zip(weights.chunks(PIECE_ROWS));
        for ((cache_ids, sample_ids), weights) in columns {
            pieces.push(Piece {
                first_row,
                cache_ids,
                sample_ids,
                weights,
            });
            first_row += cache_ids.len();
        }
    }
    pieces
}

/// Whether all pieces pass a test; those after one that does not may be left out.
fn all(
    executor: &PoolExecutor<'_>,
    pieces: &[Piece<'_>],
    test: impl Fn(&Piece<'_>) -> bool + Sync,
) -> Result<bool, ReaderError> {
    let failed = OnceLock::new();
    executor.run(pieces.len(), &|number| {
        if failed.get().is_none() && !test(&pieces[number]) {
            failed.get_or_init(|| ());
        }
    });
    executor.stop.check()?;
    Ok(failed.get().is_none())
}

fn records_of_pieces(
    caches: &CacheSet,
    rows: usize,
    pieces: &[Piece<'_>],
    executor: &PoolExecutor<'_>,
) -> Result<Flat<RecordNumber>, ReaderError> {
    let identities = Identities::new(caches);
    let mut records = HugeArray::zeroed(rows, "the active rows")?;
    let unknown = Mutex::new(Vec::new());
    let lengths = pieces.iter().map(|piece| piece.cache_ids.len());
    fill_parts(
        executor,
        records.as_mut_slice(),
        lengths,
        |number, places| {
            let piece = &pieces[number];
            let mut offenders = Offenders::default();
            let records = identities.records_of(piece);
            for ((place, record), row) in places.iter_mut().zip(records).zip(0..) {
                match record {
                    Some(record) => *place = record,
                    None => offenders.add((piece.first_row + row) as u64, || {
                        let identity = (piece.cache_ids[row], piece.sample_ids[row]);
                        match caches.record_number(identity.0, identity.1) {
                            Ok(_) => format!("{identity:?}"),
                            Err(error) => error.to_string(),
                        }
                    }),
                }
            }
            if offenders.total > 0 {
                let mut unknown = unknown.lock().unwrap_or_else(PoisonError::into_inner);
                unknown.push((piece.first_row, offenders));
            }
        },
    )?;
    let mut unknown = unknown.into_inner().unwrap_or_else(PoisonError::into_inner);
    unknown.sort_by_key(|(first_row, _)| *first_row);
    let unknown = unknown.into_iter().map(|(_, offenders)| offenders);
    unknown
        .fold(Offenders::default(), Offenders::and)
        .refuse_any("rows name no sample")?;
    records.into_flat()
}

fn weights_of_pieces(
    rows: usize,
    pieces: &[Piece<'_>],
    executor: &PoolExecutor<'_>,
) -> Result<Flat<f64>, ReaderError> {
    let mut weights = HugeArray::zeroed(rows, "the weights")?;
    let lengths = pieces.iter().map(|piece| piece.weights.len());
    fill_parts(
        executor,
        weights.as_mut_slice(),
        lengths,
        |number, places| {
            places.copy_from_slice(pieces[number].weights);
        },
    )?;
    weights.into_flat()
}

/// The record numbers of each cache, by its id.
struct Identities {
    records: HashMap<i64, Range<RecordNumber>>,
}

impl Identities {
    fn new(caches: &CacheSet) -> Self {
        let records = caches.caches().iter().enumerate().map(|(index, cache)| {
            let first = caches.first_record(index);
            (cache.id() as i64, first..first + cache.len())
        });
        Self {
            records: records.collect(),
        }
    }

    /// The record of each row, `None` where it names no sample.
    fn records_of<'a>(
        &'a self,
        piece: &'a Piece<'_>,
    ) -> impl Iterator<Item = Option<RecordNumber>> + 'a {
        // Neighbouring rows mostly are of one cache.
        let (mut known_id, mut known) = (-1, 0..0);
        let identities = piece.cache_ids.iter().zip(piece.sample_ids);
        identities.map(move |(&cache_id, &sample_id)| {
            if cache_id != known_id {
                known_id = cache_id;
                known = self.records.get(&cache_id).cloned().unwrap_or_default();
            }
            let sample = u64::try_from(sample_id).ok()?;
            let samples = known.end - known.start;
            (sample < samples).then(|| known.start + sample)
        })
    }
}

/// Where each column of the checked table comes from, and what it becomes.
struct ColumnPlan {
    schema: SchemaRef,
    sources: Vec<usize>,
    weight: usize,
}

impl ColumnPlan {
    fn new(caches: &CacheSet, given: &Schema) -> Result<Self, ReaderError> {
        for (number, field) in given.fields().iter().enumerate() {
            if given.fields()[..number]
                .iter()
                .any(|other| other.name() == field.name())
            {
                return Err(refused(format!("column {:?} is there twice", field.name())));
            }
        }
        let stored = caches.columns();
        let mut required = vec![
            (CACHE_ID_COLUMN, Wanted::Identity),
            (SAMPLE_ID_COLUMN, Wanted::Identity),
        ];
        required.extend(
            stored
                .iter()
                .map(|column| (column.name.as_str(), Wanted::Stored(column.column_type))),
        );
        required.push((WEIGHT_COLUMN, Wanted::Weight));
        let missing: Vec<_> = required
            .iter()
            .filter(|(name, _)| given.index_of(name).is_err())
            .map(|(name, _)| format!("{name:?}"))
            .collect();
        if !missing.is_empty() {
            return Err(refused(format!(
                "it lacks the columns {}\nhint: begin from get_metadata() and keep its columns",
                missing.join(", ")
            )));
        }
        let mut fields = Vec::new();
        let mut sources = Vec::new();
        for (name, wanted) in &required {
            let source = given.index_of(name)?;
            let found = given.field(source).data_type();
            let target = wanted.target(found).ok_or_else(|| {
                refused(format!(
                    "column {name:?} has type {found}, expected {}",
                    wanted.name()
                ))
            })?;
            fields.push(Field::new(
                *name,
                target,
                matches!(wanted, Wanted::Stored(_)),
            ));
            sources.push(source);
        }
        let weight = sources.len() - 1;
        for (source, field) in given.fields().iter().enumerate() {
            if !sources.contains(&source) {
                fields.push(field.as_ref().clone());
                sources.push(source);
            }
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            sources,
            weight,
        })
    }

    /// Brings one batch into the order and types of the plan.
    fn apply(&self, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch, ReaderError> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for (field, &source) in self.schema.fields().iter().zip(&self.sources) {
            let column = cast(batch.column(source), field, first_row)?;
            if !field.is_nullable() && column.null_count() > 0 {
                let mut nulls = Offenders::default();
                for row in (0..column.len()).filter(|&row| column.is_null(row)) {
                    nulls.add(first_row + row as u64, || "null".to_owned());
                }
                nulls.refuse_any(&format!("column {:?} has nulls", field.name()))?;
            }
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

fn cast(column: &ArrayRef, field: &Field, first_row: u64) -> Result<ArrayRef, ReaderError> {
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    if column.data_type().is_floating() && field.data_type() == &DataType::Int64 {
        return integers_of_floats(column, field.name(), first_row);
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, field.data_type(), &options)
        .map_err(|error| refused(format!("column {:?}: {error}", field.name())))
}

/// The whole numbers in a column of floats: what pandas makes of integers among which are nulls.
fn integers_of_floats(
    column: &ArrayRef,
    name: &str,
    first_row: u64,
) -> Result<ArrayRef, ReaderError> {
    let floats = cast_with_options(column, &DataType::Float64, &CastOptions::default())?;
    let floats = floats.as_primitive::<Float64Type>();
    let mut offenders = Offenders::default();
    for (row, value) in (first_row..).zip(floats) {
        if let Some(value) = value
            && !(value.fract() == 0.0 && value.abs() <= LARGEST_EXACT)
        {
            offenders.add(row, || format!("{value:?}"));
        }
    }
    offenders.refuse_any(&format!(
        "values of column {name:?} are no whole numbers from -2^53 to 2^53, in a column of integers \
         that has come as floats"
    ))?;
    let integers: Int64Array = floats.unary(|value| value as i64);
    Ok(Arc::new(integers))
}

#[derive(Clone, Copy)]
enum Wanted {
    Identity,
    Weight,
    Stored(ColumnType),
}

impl Wanted {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "an integer type",
            Self::Weight => "a number type",
            Self::Stored(ColumnType::Boolean) => "a boolean type",
            Self::Stored(ColumnType::Integer) => {
                "an integer type, or floats that are whole numbers"
            }
            Self::Stored(ColumnType::Float) => "a floating-point type",
            Self::Stored(ColumnType::String) => "a text type",
            Self::Stored(ColumnType::Null) => "any type",
        }
    }

    /// The type that a column becomes, if what was found may become it.
    fn target(self, found: &DataType) -> Option<DataType> {
        let plain = match found {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let is_text = matches!(
            plain,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        match self {
            Self::Identity => plain.is_integer().then_some(DataType::Int64),
            Self::Weight => {
                (plain.is_integer() || plain.is_floating()).then_some(DataType::Float64)
            }
            // What was all null so far may become anything in the table.
            Self::Stored(ColumnType::Null) => Some(found.clone()),
            Self::Stored(column_type) => {
                let fits = match column_type {
                    ColumnType::Boolean => plain == &DataType::Boolean,
                    ColumnType::Integer => plain.is_integer() || found.is_floating(),
                    ColumnType::Float => plain.is_floating(),
                    ColumnType::String => is_text,
                    ColumnType::Null => true,
                };
                (fits || plain == &DataType::Null).then(|| column_type.arrow())
            }
        }
    }
}

/// Rows that break a rule: the first few by name, all by number.
#[derive(Default)]
struct Offenders {
    named: Vec<String>,
    total: u64,
}

impl Offenders {
    fn add(&mut self, row: u64, describe: impl FnOnce() -> String) {
        if self.named.len() < ROWS_NAMED {
            self.named.push(format!("\n  row {row}: {}", describe()));
        }
        self.total += 1;
    }

    /// These and those of later rows.
    fn and(mut self, later: Self) -> Self {
        self.named.extend(later.named);
        self.named.truncate(ROWS_NAMED);
        self.total += later.total;
        self
    }

    fn refuse_any(self, rule: &str) -> Result<(), ReaderError> {
        if self.total == 0 {
            return Ok(());
        }
        let more = if self.total > ROWS_NAMED as u64 {
            "\n  …"
        } else {
            ""
        };
        let named = self.named.concat();
        Err(refused(format!("{} {rule}:{named}{more}", self.total)))
    }
}

/// Record numbers, for callers that list rows by identity.
pub(crate) fn records_of_identities(
    caches: &CacheSet,
    cache_ids: &[i64],
    sample_ids: &[i64],
) -> Result<Vec<RecordNumber>, ReaderError> {
    cache_ids
        .iter()
        .zip(sample_ids)
        .map(|(&cache_id, &sample_id)| caches.record_number(cache_id, sample_id))
        .collect()
}
