//! The metadata of whole caches as one long column each.
//!
//! What is asked for a table goes on to sort, filter and hand it back, and libraries that get many
//! short chunks join them first, at the price of all its memory once more.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, NullArray, RecordBatch};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use arrow_select::concat::concat;
use dataset_rt_store::ColumnType;
use dataset_rt_store::format::METADATA_BATCH_ROWS;

use crate::error::ReaderError;
use crate::huge::HugeArray;
use crate::metadata_table::{MetadataTable, table_schema};
use crate::parallel::{PoolExecutor, StopFlag, fill_parts, map_parts, split_parts};
use crate::view::View;

/// A stored batch of one cache.
struct Part {
    cache_index: usize,
    batch: usize,
    rows: usize,
}

/// What one part adds to a column: its values too, where they were not copied to their place.
enum Piece {
    Nulls(Option<NullBuffer>),
    Values(ArrayRef),
}

impl View {
    /// All rows of all caches: identities, stored columns, weights.
    pub(crate) fn whole_table(&self, stop: &StopFlag) -> Result<MetadataTable, ReaderError> {
        let pool = &self.pool;
        let executor = &PoolExecutor { pool, stop };
        let parts = self.parts();
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.caches.columns().len() + 3);
        for makes_sample_ids in [false, true] {
            let mut values = HugeArray::<i64>::zeroed(rows, "a metadata column")?;
            let lengths = parts.iter().map(|part| part.rows);
            fill_parts(
                executor,
                values.as_mut_slice(),
                lengths,
                |number, values| {
                    let part = &parts[number];
                    if makes_sample_ids {
                        let first = (part.batch * METADATA_BATCH_ROWS) as i64;
                        values
                            .iter_mut()
                            .zip(first..)
                            .for_each(|(value, id)| *value = id);
                    } else {
                        values.fill(self.caches.caches()[part.cache_index].id() as i64);
                    }
                },
            )?;
            let values = ScalarBuffer::new(values.into_buffer(), 0, rows);
            columns.push(Arc::new(Int64Array::new(values, None)));
        }
        columns.extend(self.stored_of_parts(&parts, rows, executor)?);
        columns.push(Arc::new(self.weights_of_rows(0, rows)?));
        let schema = table_schema(self.caches.columns());
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let batches = vec![batch];
        Ok(MetadataTable { schema, batches })
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (cache_index, cache) in self.caches.caches().iter().enumerate() {
            let mut rows_left = cache.len() as usize;
            for batch in 0..cache.metadata().num_batches() {
                let rows = rows_left.min(METADATA_BATCH_ROWS);
                rows_left -= rows;
                parts.push(Part {
                    cache_index,
                    batch,
                    rows,
                });
            }
        }
        parts
    }

    fn stored_of_parts(
        &self,
        parts: &[Part],
        rows: usize,
        executor: &PoolExecutor<'_>,
    ) -> Result<Vec<ArrayRef>, ReaderError> {
        let types: Vec<ColumnType> = self
            .caches
            .columns()
            .iter()
            .map(|c| c.column_type)
            .collect();
        // Numbers go to their place at once; other values are joined at the end.
        let mut numbers = Vec::with_capacity(types.len());
        for column_type in &types {
            let is_number = matches!(column_type, ColumnType::Integer | ColumnType::Float);
            let length = if is_number { rows } else { 0 };
            numbers.push(HugeArray::<u64>::zeroed(length, "a metadata column")?);
        }
        let places: Vec<Vec<Mutex<&mut [u64]>>> = numbers
            .iter_mut()
            .map(|numbers| {
                let numbers = numbers.as_mut_slice();
                let is_number = !numbers.is_empty();
                split_parts(
                    numbers,
                    parts
                        .iter()
                        .map(|part| if is_number { part.rows } else { 0 }),
                )
            })
            .collect();
        let pieces = map_parts(executor, parts.len(), |number| {
            let part = &parts[number];
            let stored = self.caches.stored_columns(part.cache_index, part.batch)?;
            let columns = stored.columns().iter().zip(&types).zip(&places);
            let pieces = columns.map(|((column, column_type), places)| {
                let mut place = places[number]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let values: &[u64] = match column_type {
                    ColumnType::Integer => {
                        bytemuck::cast_slice(column.as_primitive::<Int64Type>().values())
                    }
                    ColumnType::Float => {
                        bytemuck::cast_slice(column.as_primitive::<Float64Type>().values())
                    }
                    _ => return Piece::Values(Arc::clone(column)),
                };
                place.copy_from_slice(values);
                Piece::Nulls(column.nulls().cloned())
            });
            Ok::<Vec<Piece>, ReaderError>(pieces.collect())
        })?;
        drop(places);
        let mut pieces_of_columns: Vec<Vec<Piece>> = types.iter().map(|_| Vec::new()).collect();
        for pieces in pieces {
            for (column, piece) in pieces_of_columns.iter_mut().zip(pieces?) {
                column.push(piece);
            }
        }
        let columns = types.into_iter().zip(numbers).zip(pieces_of_columns);
        columns
            .map(|((column_type, numbers), pieces)| match column_type {
                ColumnType::Integer => {
                    let values = ScalarBuffer::new(numbers.into_buffer(), 0, rows);
                    Ok(Arc::new(Int64Array::new(values, nulls_of(parts, &pieces))) as ArrayRef)
                }
                ColumnType::Float => {
                    let values = ScalarBuffer::new(numbers.into_buffer(), 0, rows);
                    Ok(Arc::new(Float64Array::new(values, nulls_of(parts, &pieces))) as ArrayRef)
                }
                ColumnType::Null => Ok(Arc::new(NullArray::new(rows)) as ArrayRef),
                ColumnType::Boolean | ColumnType::String => {
                    executor.stop.check()?;
                    let values: Vec<&dyn Array> = pieces.iter().filter_map(Piece::values).collect();
                    Ok(concat(&values)?)
                }
            })
            .collect()
    }
}

impl Piece {
    fn values(&self) -> Option<&dyn Array> {
        match self {
            Self::Values(values) => Some(values.as_ref()),
            Self::Nulls(_) => None,
        }
    }
}

/// Where a column is null, if it is anywhere.
fn nulls_of(parts: &[Part], pieces: &[Piece]) -> Option<NullBuffer> {
    let nulls_in = |piece: &Piece| match piece {
        Piece::Nulls(nulls) => nulls.clone(),
        Piece::Values(_) => None,
    };
    if pieces.iter().all(|piece| nulls_in(piece).is_none()) {
        return None;
    }
    let mut builder = BooleanBufferBuilder::new(parts.iter().map(|part| part.rows).sum());
    for (part, piece) in parts.iter().zip(pieces) {
        match nulls_in(piece) {
            Some(nulls) => builder.append_buffer(nulls.inner()),
            None => builder.append_n(part.rows, true),
        }
    }
    Some(NullBuffer::new(builder.finish()))
}
