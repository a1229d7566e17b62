//! From the parts that a build leaves behind to the one metadata file of a cache.
//!
//! While a build runs, a column of nulls has no type yet, and batches close when memory asks for
//! it. The finished file has one schema and batches of a fixed number of rows, so that the batch
//! of a sample follows from its number.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::concat::concat_batches;

use crate::column::Column;
use crate::error::StoreError;
use crate::files::{create_new, remove_file};
use crate::format::{METADATA_ALIGNMENT_BYTES, METADATA_BATCH_ROWS};
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

/// Files of metadata batches, a new one whenever a column gets its type.
pub(crate) struct MetadataParts {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    current: Option<(Arc<Schema>, StreamWriter<BufWriter<File>>)>,
}

impl MetadataParts {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            paths: Vec::new(),
            current: None,
        }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        if self
            .current
            .as_ref()
            .is_none_or(|(schema, _)| *schema != batch.schema())
        {
            self.close_current()?;
            let path = self
                .folder
                .join(format!("metadata-{:06}.part", self.paths.len()));
            let file = BufWriter::new(create_new(&path)?);
            let writer = write_options()
                .and_then(|options| {
                    StreamWriter::try_new_with_options(file, &batch.schema(), options)
                })
                .map_err(arrow_error(&path))?;
            self.paths.push(path);
            self.current = Some((batch.schema(), writer));
        }
        if let (Some((_, writer)), Some(path)) = (&mut self.current, self.paths.last()) {
            writer.write(batch).map_err(arrow_error(path))?;
        }
        Ok(())
    }

    fn close_current(&mut self) -> Result<(), StoreError> {
        if let (Some((_, mut writer)), Some(path)) = (self.current.take(), self.paths.last()) {
            writer
                .finish()
                .and_then(|()| writer.get_mut().flush().map_err(ArrowError::from))
                .map_err(arrow_error(path))?;
        }
        Ok(())
    }

    /// Writes the final file from the parts and removes them.
    pub(crate) fn assemble(
        mut self,
        columns: &[Column],
        destination: &Path,
    ) -> Result<(), StoreError> {
        self.close_current()?;
        let schema = arrow_schema_of(columns);
        let failed = arrow_error(destination);
        let file = BufWriter::new(create_new(destination)?);
        let mut writer = write_options()
            .and_then(|options| FileWriter::try_new_with_options(file, &schema, options))
            .map_err(&failed)?;
        let mut pending: Vec<RecordBatch> = Vec::new();
        let mut pending_rows = 0;
        for path in &self.paths {
            let file = File::open(path).map_err(StoreError::io("open", path))?;
            let reader =
                StreamReader::try_new(BufReader::new(file), None).map_err(arrow_error(path))?;
            for batch in reader {
                let batch = batch.map_err(arrow_error(path))?;
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
        writer
            .finish()
            .and_then(|()| writer.get_mut().flush().map_err(ArrowError::from))
            .map_err(&failed)?;
        self.paths.iter().try_for_each(|path| remove_file(path))
    }
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
