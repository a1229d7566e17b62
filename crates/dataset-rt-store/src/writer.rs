//! Building one cache: rows in, a published directory out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::checksum::{FileDigest, digest_file};
use crate::column::{Column, Value};
use crate::error::StoreError;
use crate::files::{create_new, remove_file, sync_file};
use crate::format::{BLOCKS_FILE, MANIFEST_FILE, METADATA_FILE};
use crate::manifest::{FileEntry, Manifest, ManifestContents};
use crate::metadata_builder::MetadataBuilder;
use crate::name::SourceName;
use crate::pipeline::{Chunk, Item, Pipeline};
use crate::staging::Staging;

/// A chunk is handed over when it has this many bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// How many chunks may be on their way at once; the record window is divided among them.
const CHUNKS_IN_FLIGHT: usize = 4;

/// How to write a cache.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// A shard is closed before a record that would take it beyond this many bytes.
    pub max_shard_bytes: u64,
    /// How many records may be in flight between the source and the disk.
    pub prefetch_size: usize,
    /// What the source says of its inputs: JSON text.
    pub fingerprint: Option<Box<RawValue>>,
}

/// A build in progress. Dropping it removes what it wrote.
pub struct CacheWriter {
    name: SourceName,
    options: WriterOptions,
    // The pipeline stands before the staging directory, so that its threads end first.
    pipeline: Pipeline,
    staging: Staging,
    metadata: Option<MetadataBuilder>,
    chunk: Box<Chunk>,
    waiting: std::collections::VecDeque<Item>,
    samples: u64,
    shard_bytes: u64,
    total_bytes: u64,
}

impl CacheWriter {
    /// Starts a build of `<base>/<name>`.
    pub fn create(
        base: &Path,
        name: SourceName,
        options: WriterOptions,
    ) -> Result<Self, StoreError> {
        let staging = Staging::create(base, &name)?;
        let pipeline = Pipeline::start(staging.path(), name.as_str())?;
        Ok(Self {
            name,
            options,
            pipeline,
            staging,
            metadata: None,
            chunk: Box::default(),
            waiting: std::collections::VecDeque::new(),
            samples: 0,
            shard_bytes: 0,
            total_bytes: 0,
        })
    }

    /// Fixes the column names, once, before the first record.
    pub fn set_columns(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.metadata = Some(MetadataBuilder::new(names)?);
        Ok(())
    }

    /// Records so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Payload bytes so far.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Columns and the types known so far.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        self.metadata
            .as_ref()
            .map_or_else(Vec::new, MetadataBuilder::columns)
    }

    /// Copies one record. `values` are in the order of `set_columns`.
    ///
    /// After `true` the caller passes the control to [`Self::send_waiting`] until that says `true`.
    pub fn append(&mut self, payload: &[u8], values: &[Value<'_>]) -> Result<bool, StoreError> {
        self.begin_record(payload.len(), values)?;
        self.chunk.payloads.extend_from_slice(payload);
        self.end_record()
    }

    /// As [`Self::append`], with the payload written in place by `fill`, whose error ends the build.
    pub fn append_with<E>(
        &mut self,
        payload_bytes: usize,
        values: &[Value<'_>],
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<bool, E>, StoreError> {
        self.begin_record(payload_bytes, values)?;
        let start = self.chunk.payloads.len();
        self.chunk.payloads.resize(start + payload_bytes, 0);
        match fill(&mut self.chunk.payloads[start..]) {
            Ok(()) => Ok(Ok(self.end_record()?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Takes the metadata of a record, and closes the shard if the payload would not fit.
    fn begin_record(
        &mut self,
        payload_bytes: usize,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        let bytes = payload_bytes as u64;
        let total = self
            .total_bytes
            .checked_add(bytes)
            .filter(|total| i64::try_from(*total).is_ok());
        self.total_bytes = total.ok_or(StoreError::TooLarge {
            sample: self.samples,
        })?;
        if let Some(metadata) = &mut self.metadata {
            metadata.append(self.samples, values)?;
        }
        if self.shard_bytes > 0 && self.shard_bytes + bytes > self.options.max_shard_bytes {
            self.queue_chunk();
            self.waiting.push_back(Item::Seal);
            self.shard_bytes = 0;
        }
        self.shard_bytes += bytes;
        Ok(())
    }

    fn end_record(&mut self) -> Result<bool, StoreError> {
        self.chunk.ends.push(self.chunk.payloads.len());
        self.samples += 1;
        let chunk_records = (self.options.prefetch_size / CHUNKS_IN_FLIGHT).max(1);
        if self.chunk.payloads.len() >= CHUNK_BYTES || self.chunk.ends.len() >= chunk_records {
            self.queue_chunk();
        }
        if self.metadata.as_ref().is_some_and(MetadataBuilder::is_full) {
            self.queue_metadata()?;
        }
        Ok(!self.waiting.is_empty())
    }

    /// Hands full chunks to the pipeline; says `false` if there was no room within the time.
    pub fn send_waiting(&mut self, timeout: Duration) -> Result<bool, StoreError> {
        while let Some(item) = self.waiting.pop_front() {
            if let Some(item) = self.pipeline.send(item, timeout)? {
                self.waiting.push_front(item);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the source: everything that is left goes down the pipeline.
    pub fn end_records(&mut self) -> Result<(), StoreError> {
        if self.samples == 0 {
            return Err(StoreError::EmptySource {
                name: self.name.as_str().to_owned(),
            });
        }
        self.queue_chunk();
        self.waiting.push_back(Item::Seal);
        self.queue_metadata()
    }

    /// Completes and publishes the cache after `end_records` and `send_waiting`; gives its path.
    ///
    /// Setting `cancelled` calls the build off at the next step; nothing is published then.
    pub fn finish(self, cancelled: &AtomicBool) -> Result<PathBuf, StoreError> {
        let columns = self.columns();
        let Self {
            name,
            options,
            pipeline,
            staging,
            samples,
            ..
        } = self;
        let go_on = || {
            if cancelled.load(Ordering::Acquire) {
                return Err(StoreError::Cancelled {
                    name: name.as_str().to_owned(),
                });
            }
            Ok(())
        };
        let written = pipeline.finish()?;
        go_on()?;
        let folder = staging.path();
        append_file(&written.index, &written.checksums)?;
        let metadata_path = folder.join(METADATA_FILE);
        written.metadata.assemble(&columns, &metadata_path)?;

        let index = digest_file(&written.index)?;
        let metadata = digest_file(&metadata_path)?;
        let blocks_path = folder.join(BLOCKS_FILE);
        let blocks: Vec<u8> = index
            .blocks
            .iter()
            .chain(&metadata.blocks)
            .flat_map(|checksum| checksum.to_le_bytes())
            .collect();
        write_new(&blocks_path, &blocks)?;
        for path in [&written.index, &metadata_path, &blocks_path] {
            go_on()?;
            sync_file(path)?;
        }
        let manifest = Manifest::new(ManifestContents {
            name: name.clone(),
            fingerprint: options.fingerprint,
            samples,
            columns,
            shards: written.shards,
            index: file_entry(index),
            metadata: file_entry(metadata),
            blocks: FileEntry {
                bytes: blocks.len() as u64,
                blake3: blake3::hash(&blocks).to_hex().to_string(),
            },
        });
        let manifest_path = folder.join(MANIFEST_FILE);
        let text = manifest
            .to_text()
            .map_err(|error| StoreError::io("encode", &manifest_path)(io::Error::other(error)))?;
        write_new(&manifest_path, text.as_bytes())?;
        sync_file(&manifest_path)?;
        go_on()?;
        staging.publish(&name)
    }

    fn queue_chunk(&mut self) {
        if self.chunk.ends.is_empty() {
            return;
        }
        let mut fresh = self.pipeline.empty_chunk();
        fresh.first_sample = self.samples;
        self.waiting
            .push_back(Item::Records(std::mem::replace(&mut self.chunk, fresh)));
    }

    fn queue_metadata(&mut self) -> Result<(), StoreError> {
        let staging = self.staging.path();
        if let Some(metadata) = self
            .metadata
            .as_mut()
            .filter(|metadata| !metadata.is_empty())
        {
            let batch = metadata
                .take()
                .map_err(|error| StoreError::DamagedMetadata {
                    path: staging.join(METADATA_FILE),
                    reason: error.to_string(),
                })?;
            self.waiting.push_back(Item::Metadata(batch));
        }
        Ok(())
    }
}

fn file_entry(digest: FileDigest) -> FileEntry {
    FileEntry {
        bytes: digest.bytes,
        blake3: digest.blake3,
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    create_new(path)?
        .write_all(bytes)
        .map_err(StoreError::io("write", path))
}

/// Moves the bytes of one file to the end of another.
fn append_file(destination: &Path, source: &Path) -> Result<(), StoreError> {
    let mut from = File::open(source).map_err(StoreError::io("open", source))?;
    let mut to = fs::OpenOptions::new()
        .append(true)
        .open(destination)
        .map_err(StoreError::io("open", destination))?;
    io::copy(&mut from, &mut to).map_err(StoreError::io("write", destination))?;
    remove_file(source)
}
