//! Metadata as Arrow tables: of the active rows, or of the records of a batch.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, LargeStringBuilder};
use arrow_array::{
    ArrayRef, Float64Array, NullArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use dataset_rt_sampler::Flat;
use dataset_rt_store::{Column, ColumnType, StoreError, Value};

use crate::active_table::{ActiveTable, RecordNumber};
use crate::caches::{CacheSet, value_at};
use crate::error::ReaderError;
use crate::huge::HugeArray;
use crate::parallel::StopFlag;
use crate::view::View;

/// Column of the cache identity.
pub const CACHE_ID_COLUMN: &str = "cache_id";
/// Column of the sample number.
pub const SAMPLE_ID_COLUMN: &str = "sample_id";
/// Column of the weight.
pub const WEIGHT_COLUMN: &str = "weight";

/// Record batches of one schema.
#[derive(Debug, Clone)]
pub struct MetadataTable {
    /// The schema.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl View {
    /// The active table: identities, stored columns, weight, and what the user added.
    pub fn metadata_table(&self, stop: &StopFlag) -> Result<MetadataTable, ReaderError> {
        match (&self.edited, &self.table) {
            (Some(edited), _) => self.edited_table(edited),
            (None, ActiveTable::Whole { .. }) => self.whole_table(stop),
            // Rows are listed only by an edited table or by a snapshot, and that keeps no table.
            (None, ActiveTable::Listed(_)) => Err(ReaderError::TableRefused {
                reason: "a snapshot keeps no metadata table".to_owned(),
            }),
        }
    }

    /// The weights of some rows, which tables share with this view.
    pub(crate) fn weights_of_rows(
        &self,
        first: usize,
        rows: usize,
    ) -> Result<Float64Array, ReaderError> {
        let values = match &self.weights {
            Some(weights) => {
                let all = Buffer::from(Bytes::from_owner(WeightBytes(weights.clone())));
                ScalarBuffer::new(all, first, rows)
            }
            None => {
                let mut ones = HugeArray::zeroed(rows, "a metadata column")?;
                ones.as_mut_slice().fill(1.0);
                ScalarBuffer::new(ones.into_buffer(), 0, rows)
            }
        };
        Ok(Float64Array::new(values, None))
    }

    /// The user's table; its weights may have been set anew since.
    fn edited_table(&self, edited: &[RecordBatch]) -> Result<MetadataTable, ReaderError> {
        let schema = edited[0].schema();
        let weight = schema.index_of(WEIGHT_COLUMN)?;
        let mut first_row = 0;
        let mut batches = Vec::with_capacity(edited.len());
        for batch in edited {
            let mut columns = batch.columns().to_vec();
            columns[weight] = Arc::new(self.weights_of_rows(first_row, batch.num_rows())?);
            first_row += batch.num_rows();
            batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
        }
        Ok(MetadataTable { schema, batches })
    }
}

/// Weights as the memory of an Arrow column.
struct WeightBytes(Flat<f64>);

impl AsRef<[u8]> for WeightBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Identities, stored columns and weight.
pub(crate) fn table_schema(columns: &[Column]) -> SchemaRef {
    let mut fields = vec![
        Field::new(CACHE_ID_COLUMN, DataType::Int64, false),
        Field::new(SAMPLE_ID_COLUMN, DataType::Int64, false),
    ];
    fields.extend(stored_fields(columns));
    fields.push(Field::new(WEIGHT_COLUMN, DataType::Float64, false));
    Arc::new(Schema::new(fields))
}

fn stored_fields(columns: &[Column]) -> impl Iterator<Item = Field> + '_ {
    columns
        .iter()
        .map(|column| Field::new(&column.name, column.column_type.arrow(), true))
}

impl CacheSet {
    fn stored_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(
            stored_fields(self.columns()).collect::<Vec<_>>(),
        ))
    }

    /// One stored batch of one cache, in the columns of the dataset.
    pub(crate) fn stored_columns(
        &self,
        cache_index: usize,
        batch: usize,
    ) -> Result<RecordBatch, ReaderError> {
        let stored = self.caches()[cache_index].metadata().copied_batch(batch)?;
        let rows = stored.num_rows();
        let columns = self
            .columns()
            .iter()
            .zip(self.places(cache_index))
            .map(
                |(column, place)| match place.map(|place| stored.column(place)) {
                    Some(array) if array.data_type() == &column.column_type.arrow() => {
                        Arc::clone(array)
                    }
                    _ => new_null_array(&column.column_type.arrow(), rows),
                },
            )
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            self.stored_schema(),
            columns,
            &options,
        )?)
    }

    /// The stored columns of some records.
    pub fn gather_metadata(&self, records: &[RecordNumber]) -> Result<RecordBatch, ReaderError> {
        let rows = records
            .iter()
            .map(|&record| {
                let placed = self.place(record);
                Ok((placed.metadata_row()?, self.places(placed.cache_index)))
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let columns = self
            .columns()
            .iter()
            .enumerate()
            .map(|(number, column)| {
                let values = rows
                    .iter()
                    .map(|(row, places)| value_at(row, places[number]))
                    .collect::<Result<Vec<_>, StoreError>>()?;
                Ok(array_of(column.column_type, values.into_iter()))
            })
            .collect::<Result<_, StoreError>>()?;
        for cache in self.caches() {
            cache.metadata().check()?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
        Ok(RecordBatch::try_new_with_options(
            self.stored_schema(),
            columns,
            &options,
        )?)
    }
}

/// Builds one column. Every value is null or of the column's type.
fn array_of<'a>(
    column_type: ColumnType,
    values: impl ExactSizeIterator<Item = Value<'a>>,
) -> ArrayRef {
    let rows = values.len();
    match column_type {
        ColumnType::Null => Arc::new(NullArray::new(rows)),
        ColumnType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(rows);
            for value in values {
                builder.append_option(match value {
                    Value::Boolean(value) => Some(value),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        ColumnType::Integer => {
            let mut builder = Int64Builder::with_capacity(rows);
            for value in values {
                builder.append_option(match value {
                    Value::Integer(value) => Some(value),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        ColumnType::Float => {
            let mut builder = Float64Builder::with_capacity(rows);
            for value in values {
                builder.append_option(match value {
                    Value::Float(value) => Some(value),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        ColumnType::String => {
            let mut builder = LargeStringBuilder::with_capacity(rows, 0);
            for value in values {
                builder.append_option(match value {
                    Value::String(value) => Some(value),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
    }
}
