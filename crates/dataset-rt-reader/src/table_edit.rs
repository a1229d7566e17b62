//! Checking a metadata table that a user edited, whole, before anything changes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dataset_rt_store::ColumnType;

use crate::active_table::{ActiveTable, RecordNumber};
use crate::caches::CacheSet;
use crate::error::ReaderError;
use crate::metadata_table::{CACHE_ID_COLUMN, SAMPLE_ID_COLUMN, WEIGHT_COLUMN};

/// Offending rows that a message names.
const ROWS_NAMED: usize = 5;

/// A checked table.
pub(crate) struct TableEdit {
    pub(crate) table: ActiveTable,
    pub(crate) weights: Vec<f64>,
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
        schema: &Schema,
        batches: &[RecordBatch],
    ) -> Result<Self, ReaderError> {
        let plan = ColumnPlan::new(caches, schema)?;
        let mut records = Vec::new();
        let mut weights = Vec::new();
        let mut checked = Vec::with_capacity(batches.len());
        let mut unknown = Offenders::default();
        let mut first_row = 0_u64;
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let batch = plan.apply(batch, first_row)?;
            let cache_ids = batch.column(0).as_primitive::<Int64Type>();
            let sample_ids = batch.column(1).as_primitive::<Int64Type>();
            let identities = cache_ids.values().iter().zip(sample_ids.values());
            for (row, (&cache_id, &sample_id)) in (first_row..).zip(identities) {
                match caches.record_number(cache_id, sample_id) {
                    Ok(record) => records.push(record),
                    Err(error) => unknown.add(row, || error.to_string()),
                }
            }
            weights.extend_from_slice(
                batch
                    .column(plan.weight)
                    .as_primitive::<Float64Type>()
                    .values(),
            );
            first_row += batch.num_rows() as u64;
            checked.push(batch);
        }
        unknown.refuse_any("rows name no sample")?;
        if first_row == 0 {
            return Err(refused("it has no rows"));
        }
        let table = ActiveTable::of_records(records, caches.len());
        Ok(Self {
            table,
            weights,
            batches: checked,
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
            let column = cast(batch.column(source), field)?;
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

fn cast(column: &ArrayRef, field: &Field) -> Result<ArrayRef, ReaderError> {
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, field.data_type(), &options)
        .map_err(|error| refused(format!("column {:?}: {error}", field.name())))
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
            Self::Stored(ColumnType::Integer) => "an integer type",
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
                    ColumnType::Integer => plain.is_integer(),
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
    named: String,
    total: u64,
}

impl Offenders {
    fn add(&mut self, row: u64, describe: impl FnOnce() -> String) {
        if self.total < ROWS_NAMED as u64 {
            // Writing to a String cannot fail.
            let _ = write!(self.named, "\n  row {row}: {}", describe());
        }
        self.total += 1;
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
        Err(refused(format!(
            "{} {rule}:{}{more}",
            self.total, self.named
        )))
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
