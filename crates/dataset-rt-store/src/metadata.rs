//! The metadata table of an open cache: mapped, and decoded batch by batch at first touch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, GenericStringArray, Int64Array, LargeStringArray,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StringArray, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, MetadataVersion, root_as_footer};
use arrow_schema::{ArrowError, DataType, Schema};

use crate::blocks::VerifiedMap;
use crate::column::{Column, ColumnType, TextOffsets, Value};
use crate::error::StoreError;
use crate::format::METADATA_BATCH_ROWS;
use crate::metadata_builder::{arrow_schema_of, stored_schema_of};
use crate::mmap::prefetch;

/// The last bytes of every Arrow IPC file.
const CLOSING_MAGIC: &[u8] = b"ARROW1";
/// Bytes of the footer length and of the closing magic of an Arrow IPC file.
const TRAILER_BYTES: usize = 10;

/// Columns of one cache.
#[derive(Debug)]
pub struct Metadata {
    file: VerifiedMap,
    buffer: Buffer,
    /// What the file has; text may have offsets of either width.
    stored_schema: Arc<Schema>,
    columns: Vec<Column>,
    version: MetadataVersion,
    blocks: Vec<Block>,
    batches: Vec<OnceLock<Batch>>,
    samples: u64,
}

#[derive(Debug)]
struct Batch {
    record_batch: RecordBatch,
    columns: Vec<TypedColumn>,
}

#[derive(Debug)]
enum TypedColumn {
    Null,
    Boolean(BooleanArray),
    Integer(Int64Array),
    Float(Float64Array),
    String(StringArray),
    LargeString(LargeStringArray),
}

impl Metadata {
    /// Reads the footer; no batch is touched.
    pub(crate) fn new(
        file: VerifiedMap,
        columns: Vec<Column>,
        samples: u64,
    ) -> Result<Self, StoreError> {
        let damaged = |reason: String| StoreError::DamagedMetadata {
            path: file.map().path().to_owned(),
            reason,
        };
        let length = file.map().bytes().len();
        let trailer_start = length
            .checked_sub(TRAILER_BYTES)
            .ok_or_else(|| damaged(format!("{length} bytes are too few for an Arrow file")))?;
        let mut trailer = [0; TRAILER_BYTES];
        trailer.copy_from_slice(file.bytes(trailer_start..length)?);
        let footer_bytes =
            read_footer_length(trailer).map_err(|error| damaged(error.to_string()))?;
        let footer_start = trailer_start
            .checked_sub(footer_bytes)
            .ok_or_else(|| damaged(format!("a footer of {footer_bytes} bytes")))?;
        let footer = root_as_footer(file.bytes(footer_start..trailer_start)?)
            .map_err(|error| damaged(error.to_string()))?;
        let stored = footer
            .schema()
            .ok_or_else(|| damaged("no schema".to_owned()))?;
        let stored = catch_unwind(AssertUnwindSafe(|| fb_to_schema(stored)))
            .map_err(|_| damaged("its schema cannot be decoded".to_owned()))?;
        let offsets: Vec<_> = stored
            .fields()
            .iter()
            .map(|field| match field.data_type() {
                DataType::Utf8 => TextOffsets::Bits32,
                _ => TextOffsets::Bits64,
            })
            .collect();
        let stored_schema = stored_schema_of(&columns, &offsets);
        if offsets.len() != columns.len() || stored.fields() != stored_schema.fields() {
            return Err(damaged(
                "its schema is not the one in the manifest".to_owned(),
            ));
        }
        let blocks: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        if blocks.len() as u64 != samples.div_ceil(METADATA_BATCH_ROWS as u64) {
            return Err(damaged(format!(
                "{} record batches for {samples} rows",
                blocks.len()
            )));
        }
        let version = footer.version();
        let buffer = Buffer::from(bytes::Bytes::from_owner(file.map().clone()));
        let batches = blocks.iter().map(|_| OnceLock::new()).collect();
        Ok(Self {
            buffer,
            stored_schema,
            columns,
            version,
            blocks,
            batches,
            samples,
            file,
        })
    }

    /// Names and types, in the order the source gave them.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Number of record batches; each has [`METADATA_BATCH_ROWS`] rows but the last.
    #[must_use]
    pub fn num_batches(&self) -> usize {
        self.blocks.len()
    }

    /// The values of one sample below the number of samples.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the table is mapped, so its rows fit"
    )]
    pub fn row(&self, sample: u64) -> Result<MetadataRow<'_>, StoreError> {
        debug_assert!(sample < self.samples);
        let batch = self.batch(sample as usize / METADATA_BATCH_ROWS)?;
        Ok(MetadataRow {
            metadata: self,
            batch,
            row: sample as usize % METADATA_BATCH_ROWS,
        })
    }

    /// The values of one sample, if their batch was read before.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the table is mapped, so its rows fit"
    )]
    pub fn known_row(&self, sample: u64) -> Option<MetadataRow<'_>> {
        let batch = self
            .batches
            .get(sample as usize / METADATA_BATCH_ROWS)?
            .get()?;
        Some(MetadataRow {
            metadata: self,
            batch,
            row: sample as usize % METADATA_BATCH_ROWS,
        })
    }

    /// Says whether what was read from the table so far came from the file.
    ///
    /// A file that is cut inside a page gives zeros for the rest of that page, without a fault; then
    /// its last bytes are not the magic ones any more. If they lie in a lost page, reading them here
    /// is the fault.
    #[inline]
    pub fn check(&self) -> Result<(), StoreError> {
        let map = self.file.map();
        let is_whole = map.bytes().ends_with(CLOSING_MAGIC);
        map.check()?;
        if is_whole {
            return Ok(());
        }
        Err(StoreError::FileShrank {
            path: map.path().to_owned(),
        })
    }

    /// A record batch in memory of its own, which stays what it is whatever becomes of the file.
    ///
    /// Its types are those of [`ColumnType::arrow`], whatever offsets the file has.
    pub fn copied_batch(&self, number: usize) -> Result<RecordBatch, StoreError> {
        let batch = &self.batch(number)?.record_batch;
        let damaged = |error: ArrowError| StoreError::DamagedMetadata {
            path: self.file.map().path().to_owned(),
            reason: format!("record batch {number}: {error}"),
        };
        let copied = batch
            .columns()
            .iter()
            .map(copied_array)
            .collect::<Result<Vec<_>, _>>();
        // A file that was cut short explains whatever the copies lack.
        self.check()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = arrow_schema_of(&self.columns);
        RecordBatch::try_new_with_options(schema, copied.map_err(damaged)?, &options)
            .map_err(damaged)
    }

    #[inline]
    fn batch(&self, number: usize) -> Result<&Batch, StoreError> {
        match self.batches[number].get() {
            Some(batch) => Ok(batch),
            None => self.decode(number),
        }
    }

    #[cold]
    fn decode(&self, number: usize) -> Result<&Batch, StoreError> {
        let damaged = |reason: String| StoreError::DamagedMetadata {
            path: self.file.map().path().to_owned(),
            reason: format!("record batch {number}: {reason}"),
        };
        let block = &self.blocks[number];
        let range = usize::try_from(block.offset())
            .ok()
            .zip(usize::try_from(block.metaDataLength()).ok())
            .zip(usize::try_from(block.bodyLength()).ok())
            .and_then(|((offset, head), body)| {
                Some(offset..offset.checked_add(head)?.checked_add(body)?)
            })
            .filter(|range| range.end <= self.buffer.len())
            .ok_or_else(|| damaged("lies outside the file".to_owned()))?;
        self.file.verify(range.clone())?;
        let data = self.buffer.slice_with_length(range.start, range.len());
        let decoder = FileDecoder::new(Arc::clone(&self.stored_schema), self.version);
        // Arrow checks offsets and UTF-8; a hostile file may still run into an assertion of its.
        let record_batch =
            catch_unwind(AssertUnwindSafe(|| decoder.read_record_batch(block, &data)))
                .map_err(|_| damaged("cannot be decoded".to_owned()))?
                .map_err(|error| damaged(error.to_string()))?
                .ok_or_else(|| damaged("is missing".to_owned()))?;
        self.check()?;
        let first_row = (number * METADATA_BATCH_ROWS) as u64;
        let expected = (self.samples - first_row).min(METADATA_BATCH_ROWS as u64);
        if record_batch.num_rows() as u64 != expected {
            return Err(damaged(format!(
                "{} rows, not {expected}",
                record_batch.num_rows()
            )));
        }
        let columns = record_batch
            .columns()
            .iter()
            .zip(&self.columns)
            .map(
                |(array, column)| match (column.column_type, array.data_type()) {
                    (ColumnType::Null, _) => TypedColumn::Null,
                    (ColumnType::Boolean, _) => TypedColumn::Boolean(array.as_boolean().clone()),
                    (ColumnType::Integer, _) => {
                        TypedColumn::Integer(array.as_primitive::<Int64Type>().clone())
                    }
                    (ColumnType::Float, _) => {
                        TypedColumn::Float(array.as_primitive::<Float64Type>().clone())
                    }
                    (ColumnType::String, DataType::Utf8) => {
                        TypedColumn::String(array.as_string().clone())
                    }
                    (ColumnType::String, _) => TypedColumn::LargeString(array.as_string().clone()),
                },
            )
            .collect();
        Ok(self.batches[number].get_or_init(|| Batch {
            record_batch,
            columns,
        }))
    }
}

/// Copies the buffers of an array, text with offsets of 64 bits, and checks the copies.
fn copied_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let mut buffers: Vec<_> = data
        .buffers()
        .iter()
        .map(|buffer| Buffer::from(buffer.as_slice()))
        .collect();
    let mut data_type = data.data_type().clone();
    if let Some(text) = array.as_string_opt::<i32>() {
        data_type = DataType::LargeUtf8;
        buffers[0] = text
            .value_offsets()
            .iter()
            .copied()
            .map(i64::from)
            .collect();
    }
    let nulls = data.nulls().map(|nulls| {
        let bits = Buffer::from(nulls.validity());
        NullBuffer::new(BooleanBuffer::new(bits, nulls.offset(), nulls.len()))
    });
    Ok(make_array(
        data.into_builder()
            .data_type(data_type)
            .buffers(buffers)
            .nulls(nulls)
            .build()?,
    ))
}

/// The metadata of one sample.
#[derive(Debug, Clone, Copy)]
pub struct MetadataRow<'a> {
    metadata: &'a Metadata,
    batch: &'a Batch,
    row: usize,
}

impl<'a> MetadataRow<'a> {
    /// Starts loading all values, to be read a little later; of text, where it lies.
    #[inline]
    pub fn prefetch(&self) {
        for column in &self.batch.columns {
            match column {
                TypedColumn::Null => {}
                TypedColumn::Boolean(array) => {
                    let byte = (array.offset() + self.row) / 8;
                    prefetch_element(array.values().values(), byte);
                }
                TypedColumn::Integer(array) => prefetch_element(array.values(), self.row),
                TypedColumn::Float(array) => prefetch_element(array.values(), self.row),
                TypedColumn::String(array) => prefetch_element(array.value_offsets(), self.row),
                TypedColumn::LargeString(array) => {
                    prefetch_element(array.value_offsets(), self.row);
                }
            }
        }
    }

    /// Starts loading the text of all columns of text, once `prefetch` has done its part.
    #[inline]
    pub fn prefetch_text(&self) {
        for column in &self.batch.columns {
            match column {
                TypedColumn::String(array) => prefetch_text(array, self.row),
                TypedColumn::LargeString(array) => prefetch_text(array, self.row),
                _ => {}
            }
        }
    }

    /// The value in one column, by its number.
    ///
    /// Text is checked each time: the file may have been cut short since its batch was decoded, and
    /// then offsets and bytes are zeros. What such a value is worth, [`Metadata::check`] tells.
    #[inline]
    pub fn value(&self, column: usize) -> Result<Value<'a>, StoreError> {
        let row = self.row;
        Ok(match &self.batch.columns[column] {
            TypedColumn::Boolean(array) if array.is_valid(row) => Value::Boolean(array.value(row)),
            TypedColumn::Integer(array) if array.is_valid(row) => Value::Integer(array.value(row)),
            TypedColumn::Float(array) if array.is_valid(row) => Value::Float(array.value(row)),
            TypedColumn::String(array) if array.is_valid(row) => {
                Value::String(text_at(array, row).ok_or_else(|| self.damaged_text(column))?)
            }
            TypedColumn::LargeString(array) if array.is_valid(row) => {
                Value::String(text_at(array, row).ok_or_else(|| self.damaged_text(column))?)
            }
            _ => Value::Null,
        })
    }

    #[cold]
    fn damaged_text(&self, column: usize) -> StoreError {
        match self.metadata.check() {
            Err(error) => error,
            Ok(()) => StoreError::DamagedMetadata {
                path: self.metadata.file.map().path().to_owned(),
                reason: format!(
                    "text of column {:?} changed while it was open",
                    self.metadata.columns[column].name
                ),
            },
        }
    }
}

#[inline]
fn prefetch_element<T>(values: &[T], element: usize) {
    if let Some(element) = values.get(element) {
        prefetch(slice::from_ref(element));
    }
}

#[inline]
fn prefetch_text<O: OffsetSizeTrait>(array: &GenericStringArray<O>, row: usize) {
    let start = array.value_offsets()[row].to_usize();
    if let Some(start) = start.filter(|&start| start < array.value_data().len()) {
        prefetch(&array.value_data()[start..=start]);
    }
}

#[inline]
fn text_at<O: OffsetSizeTrait>(array: &GenericStringArray<O>, row: usize) -> Option<&str> {
    let offsets = array.value_offsets();
    let start = offsets[row].to_usize()?;
    let stop = offsets[row + 1].to_usize()?;
    std::str::from_utf8(array.value_data().get(start..stop)?).ok()
}
