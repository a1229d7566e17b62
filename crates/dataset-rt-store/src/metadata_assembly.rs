//! From the parts that a build leaves behind to the one metadata file of a cache.
//!
//! While a build runs, a column of nulls has no type yet, and batches close when memory asks for
//! it. The finished file has one schema and batches of a fixed number of rows, so that the batch
//! of a sample follows from its number.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::concat::concat_batches;

use crate::checksum::DigestWriter;
use crate::column::Column;
use crate::error::StoreError;
use crate::files::create_new;
use crate::format::{METADATA_ALIGNMENT_BYTES, METADATA_BATCH_ROWS};
use crate::journal::MetadataPart;
use crate::manifest::FileEntry;
use crate::metadata_builder::arrow_schema_of;

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
}

impl MetadataParts {
    /// Goes on after these parts, which may be none.
    pub(crate) fn new(folder: &Path, parts: Vec<MetadataPart>) -> Self {
        Self {
            folder: folder.to_owned(),
            sealed: parts.len(),
            parts,
            current: None,
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
        let failed = arrow_error(destination);
        let file = DigestWriter::new(BufWriter::new(create_new(destination)?));
        let mut writer = write_options()
            .and_then(|options| FileWriter::try_new_with_options(file, &schema, options))
            .map_err(&failed)?;
        let mut pending: Vec<RecordBatch> = Vec::new();
        let mut pending_rows = 0;
        for part in &self.parts {
            let path = self.folder.join(&part.file);
            let file = File::open(&path).map_err(StoreError::io("open", &path))?;
            let reader =
                StreamReader::try_new(BufReader::new(file), None).map_err(arrow_error(&path))?;
            for batch in reader {
                let batch = batch.map_err(arrow_error(&path))?;
                let batch = with_final_types(&batch, &schema).map_err(&failed)?;
                pending_rows += batch.num_rows();
                pending.push(batch);
                while pending_rows >= METADATA_BATCH_ROWS {
                    let rows = concat_batches(&schema, &pending).map_err(&failed)?;
                    writer
                        .write(&rows.slice(0, METADATA_BATCH_ROWS))
                        .map_err(&failed)?;
                    pending_rows -= METADATA_BATCH_ROWS;
                    pending = vec![rows.slice(METADATA_BATCH_ROWS, pending_rows)];
                }
            }
        }
        if pending_rows > 0 {
            let rows = concat_batches(&schema, &pending).map_err(&failed)?;
            writer.write(&rows).map_err(&failed)?;
        }
        let (_, entry, blocks) = close(writer.into_inner(), destination)?;
        Ok((entry, blocks))
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
