//! From the parts that a build leaves behind to the one metadata file of a cache.
//!
//! While a build runs, a column of nulls has no type yet, batches close when memory asks for it, and
//! text may grow without bound. The finished file has one schema, with narrow offsets where the text
//! allows them, and batches of a fixed number of rows, so that the batch of a sample follows from its
//! number.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, LargeStringArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::concat::concat_batches;

use crate::checksum::DigestWriter;
use crate::column::{Column, TextOffsets};
use crate::error::StoreError;
use crate::files::create_new;
use crate::format::{METADATA_ALIGNMENT_BYTES, METADATA_BATCH_ROWS};
use crate::journal::MetadataPart;
use crate::manifest::FileEntry;
use crate::metadata_builder::{arrow_schema_of, stored_schema_of};

/// The most text of one column in one record batch that offsets of 32 bits reach.
const MAX_NARROW_TEXT_BYTES: u64 = i32::MAX as u64;

fn arrow_error(path: &Path) -> impl Fn(ArrowError) -> StoreError + '_ {
    move |error| match error {
        ArrowError::IoError(_, source) => StoreError::io("write", path)(source),
        other => StoreError::DamagedMetadata {
            path: path.to_owned(),
            reason: other.to_string(),
        },
    }
}

fn write_options() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(METADATA_ALIGNMENT_BYTES, false, MetadataVersion::V5)
}

type PartWriter = StreamWriter<DigestWriter<BufWriter<File>>>;

/// Files of metadata batches, a new one whenever a column gets its type or a shard is sealed.
pub(crate) struct MetadataParts {
    folder: PathBuf,
    parts: Vec<MetadataPart>,
    /// How many of the parts belong to shards that were sealed before.
    sealed: usize,
    current: Option<(Arc<Schema>, PartWriter)>,
    max_narrow_text_bytes: u64,
}

impl MetadataParts {
    /// Goes on after these parts, which may be none.
    pub(crate) fn new(folder: &Path, parts: Vec<MetadataPart>) -> Self {
        Self {
            folder: folder.to_owned(),
            sealed: parts.len(),
            parts,
            current: None,
            max_narrow_text_bytes: MAX_NARROW_TEXT_BYTES,
        }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self
            .current
            .as_ref()
            .is_some_and(|(schema, _)| *schema != batch.schema())
        {
            self.close_current()?;
        }
        let path = self.folder.join(part_name(self.parts.len()));
        let (_, writer) = match &mut self.current {
            Some(current) => current,
            none => {
                let file = DigestWriter::new(BufWriter::new(create_new(&path)?));
                let writer = write_options()
                    .and_then(|options| {
                        StreamWriter::try_new_with_options(file, &batch.schema(), options)
                    })
                    .map_err(arrow_error(&path))?;
                none.insert((batch.schema(), writer))
            }
        };
        writer.write(batch).map_err(arrow_error(&path))
    }

    fn close_current(&mut self) -> Result<(), StoreError> {
        let Some((_, writer)) = self.current.take() else {
            return Ok(());
        };
        let file = part_name(self.parts.len());
        let path = self.folder.join(&file);
        let (_, entry, _) = close(writer.into_inner(), &path)?;
        self.parts.push(MetadataPart { file, entry });
        Ok(())
    }

    /// Closes the part being written, and gives those that came since the last call.
    pub(crate) fn seal(&mut self) -> Result<&[MetadataPart], StoreError> {
        self.close_current()?;
        let first = std::mem::replace(&mut self.sealed, self.parts.len());
        Ok(&self.parts[first..])
    }

    /// Where one of the parts lies.
    pub(crate) fn path_of(&self, part: &MetadataPart) -> PathBuf {
        self.folder.join(&part.file)
    }

    /// Writes the final file from the parts; gives its digest and the checksums of its blocks.
    pub(crate) fn assemble(
        mut self,
        columns: &[Column],
        destination: &Path,
    ) -> Result<(FileEntry, Vec<u32>), StoreError> {
        self.close_current()?;
        let schema = arrow_schema_of(columns);
        let stored_schema = stored_schema_of(columns, &self.text_offsets(columns)?);
        let failed = arrow_error(destination);
        let file = DigestWriter::new(BufWriter::new(create_new(destination)?));
        let mut writer = write_options()
            .and_then(|options| FileWriter::try_new_with_options(file, &stored_schema, options))
            .map_err(&failed)?;
        let mut write = |rows: &RecordBatch| {
            with_stored_offsets(rows, &stored_schema)
                .and_then(|rows| writer.write(&rows))
                .map_err(&failed)
        };
        let mut pending: Vec<RecordBatch> = Vec::new();
        let mut pending_rows = 0;
        self.for_each_batch(|batch| {
            pending_rows += batch.num_rows();
            pending.push(with_final_types(&batch, &schema).map_err(&failed)?);
            while pending_rows >= METADATA_BATCH_ROWS {
                let rows = concat_batches(&schema, &pending).map_err(&failed)?;
                write(&rows.slice(0, METADATA_BATCH_ROWS))?;
                pending_rows -= METADATA_BATCH_ROWS;
                pending = vec![rows.slice(METADATA_BATCH_ROWS, pending_rows)];
            }
            Ok(())
        })?;
        if pending_rows > 0 {
            write(&concat_batches(&schema, &pending).map_err(&failed)?)?;
        }
        let (_, entry, blocks) = close(writer.into_inner(), destination)?;
        Ok((entry, blocks))
    }

    /// What the text of each column needs in the final file. It depends on the rows alone, not on
    /// the parts that they came in.
    fn text_offsets(&self, columns: &[Column]) -> Result<Vec<TextOffsets>, StoreError> {
        let part_bytes: u64 = self.parts.iter().map(|part| part.entry.bytes).sum();
        if part_bytes <= self.max_narrow_text_bytes {
            // No batch can have more text than all parts together, so nearly all builds end here.
            return Ok(vec![TextOffsets::Bits32; columns.len()]);
        }
        let mut text = TextMeasure::new(columns.len());
        self.for_each_batch(|batch| {
            text.add(&batch);
            Ok(())
        })?;
        let offsets = |&bytes| {
            if bytes <= self.max_narrow_text_bytes {
                TextOffsets::Bits32
            } else {
                TextOffsets::Bits64
            }
        };
        Ok(text.most_bytes.iter().map(offsets).collect())
    }

    /// Reads the closed parts in order.
    fn for_each_batch(
        &self,
        mut visit: impl FnMut(RecordBatch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for part in &self.parts {
            let path = self.path_of(part);
            let file = File::open(&path).map_err(StoreError::io("open", &path))?;
            let reader =
                StreamReader::try_new(BufReader::new(file), None).map_err(arrow_error(&path))?;
            for batch in reader {
                visit(batch.map_err(arrow_error(&path))?)?;
            }
        }
        Ok(())
    }
}

/// How much text the columns have in the batches of the final file.
struct TextMeasure {
    /// Rows of the final batch that is being measured.
    rows: usize,
    /// Text of each column in that batch so far.
    bytes: Vec<u64>,
    /// The most that each column has in one batch.
    most_bytes: Vec<u64>,
}

impl TextMeasure {
    fn new(columns: usize) -> Self {
        Self {
            rows: 0,
            bytes: vec![0; columns],
            most_bytes: vec![0; columns],
        }
    }

    /// Goes on with the rows of a part, which may end anywhere in a final batch.
    fn add(&mut self, batch: &RecordBatch) {
        let mut start = 0;
        while start < batch.num_rows() {
            let stop = batch
                .num_rows()
                .min(start + METADATA_BATCH_ROWS - self.rows);
            let measures = self.bytes.iter_mut().zip(&mut self.most_bytes);
            for (column, (bytes, most_bytes)) in batch.columns().iter().zip(measures) {
                if let Some(text) = column.as_string_opt::<i64>() {
                    let offsets = text.value_offsets();
                    *bytes += offsets[stop].abs_diff(offsets[start]);
                    *most_bytes = (*most_bytes).max(*bytes);
                }
            }
            self.rows += stop - start;
            if self.rows == METADATA_BATCH_ROWS {
                self.rows = 0;
                self.bytes.fill(0);
            }
            start = stop;
        }
    }
}

fn part_name(number: usize) -> String {
    format!("metadata-{number:06}.part")
}

/// Ends a file of batches.
fn close(
    writer: Result<DigestWriter<BufWriter<File>>, ArrowError>,
    path: &Path,
) -> Result<(BufWriter<File>, FileEntry, Vec<u32>), StoreError> {
    writer
        .map_err(arrow_error(path))?
        .finish()
        .map_err(StoreError::io("write", path))
}

/// Gives columns that were all null in a part the type that they got later.
fn with_final_types(batch: &RecordBatch, schema: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() {
            DataType::Null => new_null_array(field.data_type(), batch.num_rows()),
            _ => Arc::clone(column),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Gives text the offsets that it has in the final file.
fn with_stored_offsets(
    batch: &RecordBatch,
    schema: &Arc<Schema>,
) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match field.data_type() {
            DataType::Utf8 => narrowed(column.as_string()),
            _ => Ok(Arc::clone(column)),
        })
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The same text with offsets of 32 bits, which begin with 0 wherever the text lay.
fn narrowed(text: &LargeStringArray) -> Result<ArrayRef, ArrowError> {
    let offsets = text.value_offsets();
    let first = offsets[0];
    let narrow = offsets
        .iter()
        .map(|&offset| {
            i32::try_from(offset - first)
                .map_err(|_| ArrowError::OffsetOverflowError((offset - first) as usize))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let length = narrow.last().copied().unwrap_or_default();
    Ok(Arc::new(StringArray::try_new(
        OffsetBuffer::new(ScalarBuffer::from(narrow)),
        text.values()
            .slice_with_length(first as usize, length as usize),
        text.nulls().cloned(),
    )?))
}

#[cfg(test)]
mod tests {
    use arrow_ipc::reader::FileReader;

    use super::*;
    use crate::blocks::VerifiedMap;
    use crate::column::Value;
    use crate::metadata::Metadata;
    use crate::metadata_builder::MetadataBuilder;
    use crate::mmap::Map;

    const ROWS: usize = 70_000;
    const COLUMNS: [&str; 3] = ["one", "three", "late"];
    /// The most text that each column has in one record batch of the final file.
    const MOST_TEXT_BYTES: [u64; 3] = [65_536, 3 * 65_536, 2 * 2_000];

    /// One byte, three bytes, and two bytes in every second of the last 4,000 rows.
    fn values(row: usize) -> [Option<String>; 3] {
        let late = (row >= 66_000 && row.is_multiple_of(2)).then(|| "é".to_owned());
        [
            Some((row % 10).to_string()),
            Some(format!("{:03}", row % 1_000)),
            late,
        ]
    }

    /// Writes all rows; at each cut the build is as if it had ended there and been continued.
    fn write_parts(folder: &Path, cuts: &[usize]) -> (MetadataParts, Vec<Column>) {
        let mut parts = MetadataParts::new(folder, Vec::new());
        let mut builder = MetadataBuilder::new(&COLUMNS.map(str::to_owned)).unwrap();
        for row in 0..ROWS {
            if cuts.contains(&row) {
                parts.write(&builder.take().unwrap()).unwrap();
                parts.seal().unwrap();
                parts = MetadataParts::new(folder, parts.parts);
                builder = MetadataBuilder::resume(&builder.columns());
            }
            let texts = values(row);
            let values = texts
                .each_ref()
                .map(|text| text.as_deref().map_or(Value::Null, Value::String));
            builder.append(row as u64, &values).unwrap();
            if builder.is_full() {
                parts.write(&builder.take().unwrap()).unwrap();
            }
        }
        parts.write(&builder.take().unwrap()).unwrap();
        (parts, builder.columns())
    }

    fn stored_types(file: &Path) -> Vec<DataType> {
        let reader = FileReader::try_new(File::open(file).unwrap(), None).unwrap();
        let schema = reader.schema();
        let fields = schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    }

    #[test]
    fn text_has_wide_offsets_only_where_a_batch_has_too_much_of_it_and_reads_the_same() {
        let limits = [
            MAX_NARROW_TEXT_BYTES,
            3 * 65_536,
            3 * 65_536 - 1,
            65_535,
            3_999,
        ];
        let cuts = [&[][..], &[1, 5_000, 65_535, 67_000], &[10_000]];
        let files = cuts.map(|cuts| {
            let folder = tempfile::tempdir().unwrap();
            let (mut written, columns) = write_parts(folder.path(), cuts);
            written.seal().unwrap();
            limits.map(|limit| {
                let mut parts = MetadataParts::new(folder.path(), written.parts.clone());
                parts.max_narrow_text_bytes = limit;
                let file = folder.path().join(limit.to_string());
                let (entry, blocks) = parts.assemble(&columns, &file).unwrap();
                let expected = MOST_TEXT_BYTES.map(|bytes| match bytes <= limit {
                    true => DataType::Utf8,
                    false => DataType::LargeUtf8,
                });
                assert_eq!(stored_types(&file), expected, "{limit}, cut at {cuts:?}");
                // Files with the same digest need to be read but once.
                if cuts.is_empty() {
                    let map = Map::open(&file, entry.bytes).unwrap();
                    let map = VerifiedMap::new(map, blocks.into());
                    check(&Metadata::new(map, columns.clone(), ROWS as u64).unwrap());
                }
                entry
            })
        });
        assert_eq!(files[1], files[0]);
        assert_eq!(files[2], files[0]);
    }

    /// Reads every value as a row and in a table, whose type does not tell what the file has.
    fn check(metadata: &Metadata) {
        assert_eq!(metadata.num_batches(), 2);
        for batch in 0..2 {
            let first = batch * METADATA_BATCH_ROWS;
            let table = metadata.copied_batch(batch).unwrap();
            assert_eq!(
                table.num_rows(),
                METADATA_BATCH_ROWS.min(ROWS - first),
                "batch {batch}"
            );
            for column in 0..COLUMNS.len() {
                let found = table.column(column).as_string::<i64>();
                for (row, found) in (first..).zip(found) {
                    let expected = &values(row)[column];
                    assert_eq!(found, expected.as_deref(), "row {row}");
                    let value = metadata.row(row as u64).unwrap().value(column).unwrap();
                    let expected = expected.as_deref().map_or(Value::Null, Value::String);
                    assert_eq!(value, expected, "row {row}");
                }
            }
        }
    }
}
