//! Building one cache: rows in, a published directory out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use crate::build::{Build, Continued, write_dictionary};
use crate::build_lock::BuildLock;
use crate::checksum::{DigestWriter, entry_of};
use crate::column::{Column, Value};
use crate::compression::{
    Algorithm, Compression, MIN_TRAINING_BYTES, TRAINING_BYTES, TRAINING_RECORDS, train_dictionary,
};
use crate::error::StoreError;
use crate::files::{create_new, sync_file};
use crate::format::{BLOCKS_FILE, INDEX_FILE, MANIFEST_FILE, METADATA_FILE};
use crate::journal::{BuildIdentity, JournalHeader};
use crate::manifest::{Manifest, ManifestContents};
use crate::metadata_builder::MetadataBuilder;
use crate::name::SourceName;
use crate::pipeline::{Chunk, Item, Pipeline, PipelineOptions, QUEUED_CHUNKS, StageTimes};

/// A chunk is handed over when it has this many bytes.
const CHUNK_BYTES: usize = 512 << 10;
/// A build that can be continued hands over what it has at least this often.
const MAX_CHUNK_AGE: Duration = Duration::from_secs(1);
/// More threads than this have no use: one thread iterates the source.
const MAX_ENCODE_THREADS: usize = 32;

/// How to write a cache.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// A shard is closed before a record that would take it beyond this many stored bytes.
    pub max_shard_bytes: u64,
    /// How many records may be in flight between the source and the disk.
    pub prefetch_size: usize,
    /// What the source says of its inputs: JSON text.
    pub fingerprint: Option<Box<RawValue>>,
    /// How records are stored.
    pub compression: Compression,
    /// How many threads compress.
    pub threads: usize,
    /// Keep a journal, and continue the build that another process left behind if it agrees.
    pub is_resumable: bool,
}

impl WriterOptions {
    /// Checksums alone keep no second thread busy.
    fn encode_threads(&self) -> usize {
        match self.compression.algorithm {
            Algorithm::None => 1,
            _ => self.threads.clamp(1, MAX_ENCODE_THREADS),
        }
    }

    /// A build that can be continued never holds more than a shard back.
    fn chunk_bytes(&self) -> usize {
        if self.is_resumable {
            CHUNK_BYTES.min(self.shard_bytes())
        } else {
            CHUNK_BYTES
        }
    }

    /// Where the records that a dictionary is trained on end: with the first shard, within limits.
    fn training_bytes(&self) -> usize {
        self.shard_bytes().clamp(MIN_TRAINING_BYTES, TRAINING_BYTES)
    }

    fn shard_bytes(&self) -> usize {
        usize::try_from(self.max_shard_bytes).unwrap_or(usize::MAX)
    }

    /// Records of one chunk: the window is divided among the chunks that may be on their way, which
    /// are those in the two queues, one being filled, one being hashed, one being written, and one
    /// that waits for room.
    fn chunk_records(&self) -> usize {
        let chunks_in_flight = self.encode_threads() + 2 * QUEUED_CHUNKS + 4;
        (self.prefetch_size / chunks_in_flight).max(1)
    }
}

/// A build in progress. Dropping it removes what it wrote, but for sealed shards that a later build
/// can continue from.
pub struct CacheWriter {
    name: SourceName,
    options: WriterOptions,
    // The pipeline stands before the build directory, so that its threads end first.
    stage: Stage,
    build: Build,
    metadata: MetadataBuilder,
    chunk: Box<Chunk>,
    chunk_began: Instant,
    waiting: VecDeque<Item>,
    times: Arc<StageTimes>,
    samples: u64,
    payload_bytes: u64,
}

/// Where full chunks go.
enum Stage {
    /// They wait until there are enough records to train a dictionary on.
    Training {
        bytes: usize,
        records: usize,
    },
    /// Nothing was handed over yet; what an earlier build left is here.
    Ready(Option<Box<Continued>>),
    Running(Pipeline),
}

impl CacheWriter {
    /// Starts the build that the lock is for, or continues the one it finds.
    ///
    /// Checking what an earlier build left may take long; setting `cancelled` ends it.
    pub fn start(
        lock: BuildLock,
        name: SourceName,
        options: WriterOptions,
        cancelled: &AtomicBool,
    ) -> Result<Self, StoreError> {
        let identity = identity(&name, &options);
        let identity = options.is_resumable.then_some(&identity);
        let start = Build::start(lock, &name, identity, options.threads, cancelled)?;
        let metadata = start
            .continued
            .as_ref()
            .map_or_else(MetadataBuilder::default, |continued| {
                MetadataBuilder::resume(&continued.columns)
            });
        let (samples, payload_bytes) = start.continued.as_ref().map_or((0, 0), |continued| {
            (continued.written.samples(), continued.written.payload_bytes)
        });
        let stage = match start.continued {
            Some(continued) => Stage::Ready(Some(Box::new(continued))),
            None if options.compression.dictionary => Stage::Training {
                bytes: 0,
                records: 0,
            },
            None => Stage::Ready(None),
        };
        let mut chunk = Box::<Chunk>::default();
        chunk.first_sample = samples;
        Ok(Self {
            name,
            options,
            stage,
            build: start.build,
            metadata,
            chunk,
            chunk_began: Instant::now(),
            waiting: VecDeque::new(),
            times: Arc::default(),
            samples,
            payload_bytes,
        })
    }

    /// Fixes the column names, once, before the first record of a build that begins anew.
    pub fn set_columns(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.metadata = MetadataBuilder::new(names)?;
        Ok(())
    }

    /// Records so far, those that an earlier build wrote among them.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Payload bytes so far.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// How long the stages of the pipeline were busy.
    #[must_use]
    pub fn times(&self) -> Arc<StageTimes> {
        Arc::clone(&self.times)
    }

    /// Columns and the types known so far.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        self.metadata.columns()
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

    /// Takes the metadata of a record and counts its bytes.
    fn begin_record(
        &mut self,
        payload_bytes: usize,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        let total = self
            .payload_bytes
            .checked_add(payload_bytes as u64)
            .filter(|total| i64::try_from(*total).is_ok());
        self.payload_bytes = total.ok_or(StoreError::TooLarge {
            sample: self.samples,
        })?;
        self.metadata.append(self.samples, values)
    }

    fn end_record(&mut self) -> Result<bool, StoreError> {
        self.chunk.ends.push(self.chunk.payloads.len());
        self.samples += 1;
        let metadata_is_full = self.metadata.is_full();
        if self.chunk.payloads.len() >= self.options.chunk_bytes()
            || self.chunk.len() >= self.options.chunk_records()
            || metadata_is_full
            || (self.options.is_resumable && self.chunk_began.elapsed() >= MAX_CHUNK_AGE)
        {
            self.queue_chunk(metadata_is_full)?;
        }
        Ok(match self.stage {
            Stage::Training { bytes, records } => {
                bytes >= self.options.training_bytes() || records >= TRAINING_RECORDS
            }
            _ => !self.waiting.is_empty(),
        })
    }

    /// Hands full chunks to the pipeline; says `false` if there was no room within the time.
    pub fn send_waiting(&mut self, timeout: Duration) -> Result<bool, StoreError> {
        self.build.require_own(&self.name)?;
        if !matches!(self.stage, Stage::Running(_)) {
            self.start_pipeline()?;
        }
        let Stage::Running(pipeline) = &mut self.stage else {
            return Ok(false);
        };
        while let Some(item) = self.waiting.pop_front() {
            if let Some(item) = pipeline.send(item, timeout)? {
                self.waiting.push_front(item);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Starts the threads, once it is known what they compress with.
    fn start_pipeline(&mut self) -> Result<(), StoreError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Ready(None));
        let (continued, dictionary) = match stage {
            Stage::Ready(Some(continued)) => {
                let dictionary = continued.dictionary.clone();
                (Some(continued), dictionary)
            }
            Stage::Training { .. } => (None, self.train()?),
            Stage::Ready(None) | Stage::Running(_) => (None, None),
        };
        let entry = dictionary.as_deref().map(entry_of);
        let header = self.options.is_resumable.then(|| JournalHeader {
            identity: identity(&self.name, &self.options),
            dictionary: entry.clone(),
        });
        let place = self.build.place(header, continued.as_deref());
        let written = match continued {
            Some(continued) => continued.written,
            None => self
                .build
                .nothing_written(self.options.compression, entry)?,
        };
        let options = PipelineOptions {
            name: self.name.as_str().to_owned(),
            compression: self.options.compression,
            dictionary,
            encode_threads: self.options.encode_threads(),
            max_shard_bytes: self.options.max_shard_bytes,
        };
        let pipeline = Pipeline::start(&place, options, written, &self.times)?;
        self.stage = Stage::Running(pipeline);
        Ok(())
    }

    /// Looks for a dictionary in the records that wait, and writes it down.
    fn train(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let records = self.waiting.iter().flat_map(|item| {
            let chunk = match item {
                Item::Records(chunk) => Some(chunk),
                Item::End(_) => None,
            };
            chunk.into_iter().flat_map(|chunk| {
                (0..chunk.len()).map(|record| &chunk.payloads[chunk.payload_range(record)])
            })
        });
        // Which records these are must not depend on how they are divided among chunks.
        let mut bytes = 0;
        let training_bytes = self.options.training_bytes();
        let records = records.take(TRAINING_RECORDS).take_while(|record| {
            let is_needed = bytes < training_bytes;
            bytes += record.len();
            is_needed
        });
        let folder = self.build.cache_folder();
        let dictionary = train_dictionary(self.options.compression, records).map_err(|reason| {
            StoreError::Codec {
                path: folder.clone(),
                reason,
            }
        })?;
        if let Some(dictionary) = &dictionary {
            write_dictionary(&folder, dictionary)?;
        }
        Ok(dictionary)
    }

    /// Ends the source: everything that is left goes down the pipeline.
    pub fn end_records(&mut self) -> Result<(), StoreError> {
        if self.samples == 0 {
            return Err(StoreError::EmptySource {
                name: self.name.as_str().to_owned(),
            });
        }
        self.queue_chunk(true)?;
        let columns = self.columns();
        self.waiting.push_back(Item::End(columns));
        Ok(())
    }

    /// Gives the build up, but for what a later one can continue from: complete shards among the
    /// records taken so far are made durable first.
    pub fn give_up(mut self) {
        // Before a dictionary is trained nothing is written: it would be another one later.
        if !self.options.is_resumable
            || matches!(self.stage, Stage::Training { .. })
            || self.build.require_own(&self.name).is_err()
        {
            return;
        }
        // A failure here is not the one that the caller tells about; less is kept then.
        let handed_over = self.queue_chunk(true).and_then(|()| {
            while !self.send_waiting(MAX_CHUNK_AGE)? {}
            Ok(())
        });
        if let (Ok(()), Stage::Running(pipeline)) = (handed_over, self.stage) {
            let _ = pipeline.finish();
        }
    }

    /// Completes and publishes the cache after `end_records` and `send_waiting`; gives its path.
    ///
    /// Setting `cancelled` calls the build off at the next step; nothing is published then.
    pub fn finish(self, cancelled: &AtomicBool) -> Result<PathBuf, StoreError> {
        self.build.require_own(&self.name)?;
        let columns = self.columns();
        let Self {
            name,
            options,
            stage,
            build,
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
        let Stage::Running(pipeline) = stage else {
            return Err(StoreError::PipelinePanic {
                name: name.as_str().to_owned(),
            });
        };
        let written = pipeline.finish()?;
        go_on()?;
        let folder = build.cache_folder();
        let index_path = folder.join(INDEX_FILE);
        let mut index = DigestWriter::new(io::BufWriter::new(create_new(&index_path)?));
        written.streams.copy_to(&mut index, &index_path)?;
        let (_, index, index_blocks) = index
            .finish()
            .map_err(StoreError::io("write", &index_path))?;
        go_on()?;
        let metadata_path = folder.join(METADATA_FILE);
        let (metadata, metadata_blocks) = written.metadata.assemble(&columns, &metadata_path)?;
        let blocks_path = folder.join(BLOCKS_FILE);
        let blocks: Vec<u8> = index_blocks
            .iter()
            .chain(&metadata_blocks)
            .flat_map(|checksum| checksum.to_le_bytes())
            .collect();
        write_new(&blocks_path, &blocks)?;
        for path in [&index_path, &metadata_path, &blocks_path] {
            go_on()?;
            sync_file(path)?;
        }
        let manifest = Manifest::new(ManifestContents {
            name: name.clone(),
            fingerprint: options.fingerprint,
            samples,
            payload_bytes: written.payload_bytes,
            compression: options.compression,
            columns,
            shards: written.shards,
            index,
            metadata,
            blocks: entry_of(&blocks),
            dictionary: written.dictionary,
        });
        let manifest_path = folder.join(MANIFEST_FILE);
        let text = manifest
            .to_text()
            .map_err(|error| StoreError::io("encode", &manifest_path)(io::Error::other(error)))?;
        write_new(&manifest_path, text.as_bytes())?;
        sync_file(&manifest_path)?;
        go_on()?;
        build.publish(&name)
    }

    /// Lets the current chunk wait for the pipeline, with the rows of metadata that go with it.
    fn queue_chunk(&mut self, with_metadata: bool) -> Result<(), StoreError> {
        // With a journal, rows go with the records of their chunk, so that both can be cut alike.
        if (with_metadata || self.options.is_resumable) && !self.metadata.is_empty() {
            let batch = self
                .metadata
                .take()
                .map_err(|error| StoreError::DamagedMetadata {
                    path: self.build.cache_folder().join(METADATA_FILE),
                    reason: error.to_string(),
                })?;
            self.chunk.metadata = Some(batch);
        }
        if self.chunk.is_empty() && self.chunk.metadata.is_none() {
            return Ok(());
        }
        self.chunk.columns = self.columns();
        let mut fresh = match &mut self.stage {
            Stage::Running(pipeline) => pipeline.empty_chunk(),
            Stage::Training { bytes, records } => {
                *bytes += self.chunk.payloads.len();
                *records += self.chunk.len();
                Box::default()
            }
            Stage::Ready(_) => Box::default(),
        };
        fresh.first_sample = self.samples;
        self.chunk_began = Instant::now();
        self.waiting
            .push_back(Item::Records(std::mem::replace(&mut self.chunk, fresh)));
        Ok(())
    }
}

/// What another build must have in common with this one to continue it.
fn identity(name: &SourceName, options: &WriterOptions) -> BuildIdentity {
    BuildIdentity::new(
        name.as_str(),
        options.fingerprint.as_deref().map(RawValue::get),
        options.compression,
        options.max_shard_bytes,
    )
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    create_new(path)?
        .write_all(bytes)
        .map_err(StoreError::io("write", path))
}
