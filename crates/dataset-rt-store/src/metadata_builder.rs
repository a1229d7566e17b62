//! Metadata rows on their way to disk: the schema fixed by the first row, columns being filled.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, NullArray, RecordBatch,
    RecordBatchOptions,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};

use crate::column::{Column, ColumnType, TextOffsets, Value};
use crate::error::StoreError;
use crate::format::METADATA_BATCH_ROWS;

/// A batch is also closed when its text reaches this size, so that memory stays bounded.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Every integer up to this magnitude is exact in a double.
const MAX_EXACT_INTEGER: u64 = 1 << 53;
/// Columns that `get_metadata` adds, and that a source therefore cannot use.
const RESERVED_COLUMNS: [&str; 3] = ["cache_id", "sample_id", "weight"];

/// Columns under construction.
#[derive(Debug, Default)]
pub(crate) struct MetadataBuilder {
    columns: Vec<ColumnBuilder>,
    rows: usize,
}

impl MetadataBuilder {
    /// Starts with the column names of the first row.
    pub(crate) fn new(names: &[String]) -> Result<Self, StoreError> {
        for name in names {
            let refuse = |reason| {
                Err(StoreError::InvalidColumn {
                    column: name.clone(),
                    reason,
                })
            };
            if name.is_empty() {
                return refuse("is empty");
            }
            if RESERVED_COLUMNS.contains(&name.as_str()) {
                return refuse("is reserved for the metadata table");
            }
        }
        let columns = names
            .iter()
            .map(|name| ColumnBuilder::new(name.clone()))
            .collect();
        Ok(Self { columns, rows: 0 })
    }

    /// Goes on with the columns of an earlier build.
    pub(crate) fn resume(columns: &[Column]) -> Self {
        let builder = |column: &Column| ColumnBuilder {
            values: ColumnValues::of_type(column.column_type),
            ..ColumnBuilder::new(column.name.clone())
        };
        Self {
            columns: columns.iter().map(builder).collect(),
            rows: 0,
        }
    }

    /// Adds one row; `values` are in column order.
    pub(crate) fn append(&mut self, sample: u64, values: &[Value<'_>]) -> Result<(), StoreError> {
        debug_assert_eq!(values.len(), self.columns.len());
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.append(sample, value)?;
        }
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= METADATA_BATCH_ROWS
            || self
                .columns
                .iter()
                .map(ColumnBuilder::text_bytes)
                .sum::<usize>()
                >= MAX_TEXT_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Names and the types known so far.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let column = |builder: &ColumnBuilder| Column {
            name: builder.name.clone(),
            column_type: builder.values.column_type(),
        };
        self.columns.iter().map(column).collect()
    }

    /// Hands the buffered rows over and starts anew with the same types.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let schema = arrow_schema_of(&self.columns());
        let arrays = self
            .columns
            .iter_mut()
            .map(ColumnBuilder::take)
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(schema, arrays, &options)
    }
}

/// The Arrow schema of these columns in tables; every column may hold nulls.
pub(crate) fn arrow_schema_of(columns: &[Column]) -> Arc<Schema> {
    stored_schema_of(columns, &vec![TextOffsets::Bits64; columns.len()])
}

/// The Arrow schema of these columns in the file of a cache, with the offsets of each.
pub(crate) fn stored_schema_of(columns: &[Column], offsets: &[TextOffsets]) -> Arc<Schema> {
    let field = |(column, &offsets): (&Column, _)| {
        Field::new(&column.name, column.column_type.stored(offsets), true)
    };
    let fields: Vec<_> = columns.iter().zip(offsets).map(field).collect();
    Arc::new(Schema::new(fields))
}

#[derive(Debug)]
struct ColumnBuilder {
    name: String,
    values: ColumnValues,
    /// Made at the first null.
    validity: Option<BooleanBufferBuilder>,
    rows: usize,
}

#[derive(Debug)]
enum ColumnValues {
    Null,
    Boolean(BooleanBufferBuilder),
    Integer(Vec<i64>),
    Float(Vec<f64>),
    String { offsets: Vec<i64>, text: Vec<u8> },
}

impl ColumnValues {
    fn column_type(&self) -> ColumnType {
        match self {
            Self::Null => ColumnType::Null,
            Self::Boolean(_) => ColumnType::Boolean,
            Self::Integer(_) => ColumnType::Integer,
            Self::Float(_) => ColumnType::Float,
            Self::String { .. } => ColumnType::String,
        }
    }

    fn of_type(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Null => Self::Null,
            ColumnType::Boolean => Self::Boolean(BooleanBufferBuilder::new(0)),
            ColumnType::Integer => Self::Integer(Vec::new()),
            ColumnType::Float => Self::Float(Vec::new()),
            ColumnType::String => Self::String {
                offsets: vec![0],
                text: Vec::new(),
            },
        }
    }

    /// Fills one place that the validity marks as null.
    fn append_default(&mut self) {
        match self {
            Self::Null => {}
            Self::Boolean(values) => values.append(false),
            Self::Integer(values) => values.push(0),
            Self::Float(values) => values.push(0.0),
            Self::String { offsets, text } => offsets.push(text.len() as i64),
        }
    }
}

impl ColumnBuilder {
    fn new(name: String) -> Self {
        Self {
            name,
            values: ColumnValues::Null,
            validity: None,
            rows: 0,
        }
    }

    fn text_bytes(&self) -> usize {
        match &self.values {
            ColumnValues::String { text, .. } => text.len(),
            _ => 0,
        }
    }

    #[inline]
    fn append(&mut self, sample: u64, value: &Value<'_>) -> Result<(), StoreError> {
        match (&mut self.values, value) {
            (ColumnValues::Boolean(values), Value::Boolean(value)) => values.append(*value),
            (ColumnValues::Integer(values), Value::Integer(value)) => values.push(*value),
            (ColumnValues::Float(values), Value::Float(value)) => values.push(*value),
            (ColumnValues::String { offsets, text }, Value::String(value)) => {
                text.extend_from_slice(value.as_bytes());
                offsets.push(text.len() as i64);
            }
            (ColumnValues::Float(values), Value::Integer(value)) if is_exact(*value) => {
                #[expect(clippy::cast_precision_loss, reason = "checked to be exact")]
                values.push(*value as f64);
            }
            (_, Value::Null) => {
                self.append_null();
                return Ok(());
            }
            (ColumnValues::Null, value) => {
                self.fix_type(value.column_type());
                return self.append(sample, value);
            }
            _ => return Err(self.wrong_type(sample, value)),
        }
        self.rows += 1;
        if let Some(validity) = &mut self.validity {
            validity.append(true);
        }
        Ok(())
    }

    fn append_null(&mut self) {
        self.values.append_default();
        let rows = self.rows;
        let validity = self.validity.get_or_insert_with(|| all_valid(rows));
        validity.append(false);
        self.rows += 1;
    }

    /// The first value of a column that held only nulls so far.
    fn fix_type(&mut self, column_type: ColumnType) {
        self.values = ColumnValues::of_type(column_type);
        for _ in 0..self.rows {
            self.values.append_default();
        }
    }

    fn wrong_type(&self, sample: u64, value: &Value<'_>) -> StoreError {
        let expected = match (&self.values, value) {
            (ColumnValues::Float(_), Value::Integer(_)) => {
                "float (an int is accepted only if a double holds it exactly)"
            }
            (values, _) => values.column_type().python_name(),
        };
        StoreError::ColumnType {
            sample,
            column: self.name.clone(),
            expected,
            found: value.to_string(),
        }
    }

    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let nulls = self
            .validity
            .take()
            .map(|mut validity| NullBuffer::new(validity.finish()));
        let fresh = ColumnValues::of_type(self.values.column_type());
        Ok(match std::mem::replace(&mut self.values, fresh) {
            ColumnValues::Null => Arc::new(NullArray::new(rows)),
            ColumnValues::Boolean(mut values) => {
                Arc::new(BooleanArray::new(values.finish(), nulls))
            }
            ColumnValues::Integer(values) => Arc::new(Int64Array::try_new(values.into(), nulls)?),
            ColumnValues::Float(values) => Arc::new(Float64Array::try_new(values.into(), nulls)?),
            ColumnValues::String { offsets, text } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(LargeStringArray::try_new(
                    offsets,
                    Buffer::from_vec(text),
                    nulls,
                )?)
            }
        })
    }
}

fn all_valid(rows: usize) -> BooleanBufferBuilder {
    let mut validity = BooleanBufferBuilder::new(rows + 1);
    validity.append_n(rows, true);
    validity
}

fn is_exact(value: i64) -> bool {
    // Beyond 2^53 a double holds only multiples of a power of two: enough trailing zeros will do.
    let magnitude = value.unsigned_abs();
    magnitude <= MAX_EXACT_INTEGER
        || u64::BITS - magnitude.leading_zeros() - magnitude.trailing_zeros()
            <= f64::MANTISSA_DIGITS
}
