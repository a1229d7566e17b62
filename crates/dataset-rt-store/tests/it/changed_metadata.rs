//! Caches with another metadata table than they were written with, checksums and digests made right.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{LargeStringArray, RecordBatch};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Schema};
use dataset_rt_store::format::{
    BLOCK_BYTES, BLOCKS_FILE, INDEX_FILE, MANIFEST_FILE, METADATA_ALIGNMENT_BYTES, METADATA_FILE,
};
use dataset_rt_store::{FileEntry, Manifest, record_checksum};

/// Gives one column the offsets of 64 bits that it would have with 2 GiB of text in a record batch.
pub(crate) fn widen_text(cache: &Path, column: &str) {
    let metadata = std::fs::read(cache.join(METADATA_FILE)).unwrap();
    replace_metadata(cache, &with_wide_column(&metadata, column));
}

/// Puts another file in place of the metadata table.
pub(crate) fn replace_metadata(cache: &Path, metadata: &[u8]) {
    let index = std::fs::read(cache.join(INDEX_FILE)).unwrap();
    let blocks: Vec<u8> = [&index[..], metadata]
        .into_iter()
        .flat_map(|file| file.chunks(BLOCK_BYTES as usize).zip(0..))
        .flat_map(|(block, number)| record_checksum(number, block).to_le_bytes())
        .collect();
    let mut manifest = Manifest::read(cache).unwrap();
    manifest.metadata = entry_of(metadata);
    manifest.blocks = entry_of(&blocks);
    manifest.digest = "0".repeat(manifest.digest.len());
    let unsigned = serde_json::to_string_pretty(&manifest).unwrap() + "\n";
    manifest.digest = blake3::hash(unsigned.as_bytes()).to_hex().to_string();
    let text = serde_json::to_string_pretty(&manifest).unwrap() + "\n";
    let write = |name: &str, bytes: &[u8]| std::fs::write(cache.join(name), bytes).unwrap();
    write(METADATA_FILE, metadata);
    write(BLOCKS_FILE, &blocks);
    write(MANIFEST_FILE, text.as_bytes());
}

fn with_wide_column(metadata: &[u8], column: &str) -> Vec<u8> {
    let reader = FileReader::try_new(std::io::Cursor::new(metadata), None).unwrap();
    let place = reader.schema().index_of(column).unwrap();
    let mut fields = reader.schema().fields().to_vec();
    fields[place] = Arc::new(
        fields[place]
            .as_ref()
            .clone()
            .with_data_type(DataType::LargeUtf8),
    );
    let schema = Arc::new(Schema::new(fields));
    let options =
        IpcWriteOptions::try_new(METADATA_ALIGNMENT_BYTES, false, MetadataVersion::V5).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    for batch in reader {
        let mut columns = batch.unwrap().columns().to_vec();
        columns[place] = Arc::new(LargeStringArray::from_iter(
            columns[place].as_string::<i32>(),
        ));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn entry_of(bytes: &[u8]) -> FileEntry {
    FileEntry {
        bytes: bytes.len() as u64,
        blake3: blake3::hash(bytes).to_hex().to_string(),
    }
}
