//! The thread that writes a build's files: shards, the lists of the index, metadata rows.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use crate::build::BuildPlace;
use crate::column::Column;
use crate::error::StoreError;
use crate::files::create_new;
use crate::format::shard_file;
use crate::journal::SealedShard;
use crate::manifest::{FileEntry, ShardEntry};
use crate::metadata_assembly::MetadataParts;
use crate::pipeline::{Chunk, Digested, StageTimes, add_elapsed};
use crate::streams::Streams;
use crate::write_back::{JournalEntry, WriteBack};

/// Write-back is asked for each time this much was written.
const WRITE_BACK_BYTES: u64 = 16 << 20;

struct OpenShard {
    file: Arc<File>,
    path: PathBuf,
    entry: ShardEntry,
    unsynced_bytes: u64,
}

/// What a build has on disk, finished or to be continued.
pub(crate) struct Written {
    pub(crate) shards: Vec<ShardEntry>,
    pub(crate) payload_bytes: u64,
    pub(crate) metadata: MetadataParts,
    pub(crate) streams: Streams,
    pub(crate) dictionary: Option<FileEntry>,
}

impl Written {
    pub(crate) fn samples(&self) -> u64 {
        self.shards
            .last()
            .map_or(0, |shard| shard.first_sample + shard.samples)
    }
}

/// Where the thread writes, and what it goes on from.
pub(crate) struct ShardWriter {
    cache_folder: PathBuf,
    recycle: Sender<Box<Chunk>>,
    cancelled: Arc<AtomicBool>,
    times: Arc<StageTimes>,
    write_back: WriteBack,
    keeps_journal: bool,
    written: Written,
    open: Option<OpenShard>,
    samples: u64,
    address: u64,
}

impl ShardWriter {
    pub(crate) fn new(
        place: &BuildPlace,
        written: Written,
        recycle: Sender<Box<Chunk>>,
        cancelled: Arc<AtomicBool>,
        times: Arc<StageTimes>,
    ) -> Result<Self, StoreError> {
        let journal = place.open_journal()?;
        let keeps_journal = journal.is_some();
        let write_back = WriteBack::start(
            &place.cache_folder,
            journal,
            Arc::clone(&place.sealed_shards),
            Arc::clone(&times),
        )?;
        Ok(Self {
            cache_folder: place.cache_folder.clone(),
            recycle,
            cancelled,
            times,
            write_back,
            keeps_journal,
            open: None,
            samples: written.samples(),
            address: written.shards.iter().map(|shard| shard.bytes).sum(),
            written,
        })
    }

    /// Writes until the channel closes, then waits until all shards are durable.
    pub(crate) fn run(mut self, items: &Receiver<Digested>) -> Result<Written, StoreError> {
        let written = self.write_all(items);
        // If the disk failed there, this is the reason why writing ended.
        self.write_back.finish()?;
        written.map(|()| self.written)
    }

    fn write_all(&mut self, items: &Receiver<Digested>) -> Result<(), StoreError> {
        for item in items {
            if self.cancelled.load(Ordering::Acquire) {
                break;
            }
            let started = Instant::now();
            match item {
                Digested::Records(chunk) => self.write_records(chunk)?,
                Digested::End { blake3, columns } => self.seal(blake3, &columns)?,
                Digested::Failed(error) => return Err(error),
            }
            add_elapsed(&self.times.write, started);
        }
        self.written.streams.flush()
    }

    /// Writes the records of a chunk, and seals a shard wherever the chunk says so.
    fn write_records(&mut self, mut chunk: Box<Chunk>) -> Result<(), StoreError> {
        let mut first = 0;
        for cut in std::mem::take(&mut chunk.cuts) {
            self.write_range(&chunk, first..cut.record)?;
            self.seal(cut.blake3, &chunk.columns)?;
            first = cut.record;
        }
        self.write_range(&chunk, first..chunk.len())?;
        chunk.clear();
        // The iterating thread is gone once the build is finished; then the chunk is not needed.
        let _ = self.recycle.send(chunk);
        Ok(())
    }

    fn write_range(&mut self, chunk: &Chunk, records: Range<usize>) -> Result<(), StoreError> {
        if records.is_empty() && !chunk.is_empty() {
            return Ok(());
        }
        if let Some(batch) = &chunk.metadata {
            // Only with a journal do rows belong to the records of their chunk, and so to a shard.
            if self.keeps_journal {
                self.written
                    .metadata
                    .write(&batch.slice(records.start, records.len()))?;
            } else if records.end == chunk.len() {
                self.written.metadata.write(batch)?;
            }
        }
        for record in records.clone() {
            self.address += chunk.stored_range(record).len() as u64;
            self.written.payload_bytes += chunk.payload_range(record).len() as u64;
            self.written.streams.push(
                self.address,
                self.written.payload_bytes,
                chunk.checksums[record],
            );
        }
        self.written.streams.flush()?;
        if records.is_empty() {
            return Ok(());
        }
        let count = records.len() as u64;
        self.samples += count;
        let bytes = &chunk.stored_bytes()[chunk.stored_span(records)];
        let shard = self.open_shard(count)?;
        (&*shard.file)
            .write_all(bytes)
            .map_err(StoreError::io("write", &shard.path))?;
        shard.entry.samples += count;
        shard.entry.bytes += bytes.len() as u64;
        shard.unsynced_bytes += bytes.len() as u64;
        if shard.unsynced_bytes >= WRITE_BACK_BYTES {
            shard.unsynced_bytes = 0;
            let file = (Arc::clone(&shard.file), shard.path.clone());
            self.write_back.write_back(file);
        }
        Ok(())
    }

    /// The shard being written, begun now if there is none; `count` of its samples are counted.
    fn open_shard(&mut self, count: u64) -> Result<&mut OpenShard, StoreError> {
        match &mut self.open {
            Some(shard) => Ok(shard),
            none => {
                let path = self
                    .cache_folder
                    .join(shard_file(self.written.shards.len()));
                let file = Arc::new(create_new(&path)?);
                let entry = ShardEntry {
                    first_sample: self.samples - count,
                    samples: 0,
                    bytes: 0,
                    blake3: String::new(),
                };
                Ok(none.insert(OpenShard {
                    file,
                    path,
                    entry,
                    unsynced_bytes: 0,
                }))
            }
        }
    }

    fn seal(&mut self, blake3: String, columns: &[Column]) -> Result<(), StoreError> {
        let Some(shard) = self.open.take() else {
            return Ok(());
        };
        let entry = ShardEntry {
            blake3,
            ..shard.entry
        };
        self.written.shards.push(entry.clone());
        let journal = self
            .keeps_journal
            .then(|| {
                let metadata_parts = self.written.metadata.seal()?.to_vec();
                let mut files = self.written.streams.paths();
                files.extend(
                    metadata_parts
                        .iter()
                        .map(|part| self.written.metadata.path_of(part)),
                );
                Ok::<_, StoreError>(JournalEntry {
                    sealed: SealedShard {
                        shard: entry,
                        payload_bytes: self.written.payload_bytes,
                        columns: columns.to_vec(),
                        metadata_parts,
                        streams: self.written.streams.entries(),
                    },
                    files,
                })
            })
            .transpose()?;
        if self.write_back.seal((shard.file, shard.path), journal) {
            return Ok(());
        }
        // The thread has ended, and `run` asks it why.
        Err(StoreError::PipelinePanic {
            name: "write-back".to_owned(),
        })
    }
}
