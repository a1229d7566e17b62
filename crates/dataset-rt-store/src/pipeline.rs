//! The threads behind a build: checksums and digests, file writes, and write-back to the disk.
//!
//! The thread that iterates the source fills chunks. One thread hashes them, one writes them, and
//! one asks the system to start writing dirty pages back while the build goes on, so that the
//! final sync finds little left. Channels are bounded, so memory is, and every step happens in
//! chunk order: the files are the same whatever the threads do.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded, unbounded};

use crate::checksum::record_checksum;
use crate::error::StoreError;
use crate::files::create_new;
use crate::format::{INDEX_FILE, shard_file};
use crate::manifest::ShardEntry;
use crate::metadata_assembly::MetadataParts;

/// Chunks that may wait before each thread.
const QUEUED_CHUNKS: usize = 2;
/// Write-back is asked for each time this much was written.
const WRITE_BACK_BYTES: u64 = 16 << 20;
/// Checksums wait here until the number of samples, and so their place in the index, is known.
const CHECKSUMS_PART: &str = "checksums.part";

/// Records on their way to one shard.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) first_sample: u64,
    pub(crate) payloads: Vec<u8>,
    /// Where each payload ends in `payloads`.
    pub(crate) ends: Vec<usize>,
    checksums: Vec<u32>,
}

impl Chunk {
    fn clear(&mut self) {
        self.payloads.clear();
        self.ends.clear();
        self.checksums.clear();
    }
}

/// What the iterating thread sends down the pipeline, in order.
#[derive(Debug)]
pub(crate) enum Item {
    Records(Box<Chunk>),
    Metadata(RecordBatch),
    /// The shard ends here.
    Seal,
}

enum Hashed {
    Records(Box<Chunk>),
    Metadata(RecordBatch),
    Seal { blake3: String },
}

/// A running pipeline.
pub(crate) struct Pipeline {
    items: Option<Sender<Item>>,
    recycled: Receiver<Box<Chunk>>,
    cancelled: Arc<AtomicBool>,
    hashing: Option<JoinHandle<()>>,
    writing: Option<JoinHandle<Result<Written, StoreError>>>,
    name: String,
    /// The threads live in this process; a forked child has none to wait for.
    process: u32,
}

/// Files that a finished pipeline leaves in the staging directory.
pub(crate) struct Written {
    pub(crate) shards: Vec<ShardEntry>,
    pub(crate) metadata: MetadataParts,
    /// The addresses, which are the first part of the index.
    pub(crate) index: PathBuf,
    pub(crate) checksums: PathBuf,
}

impl Pipeline {
    pub(crate) fn start(staging: &Path, name: &str) -> Result<Self, StoreError> {
        let (items, incoming) = bounded(QUEUED_CHUNKS);
        let (hashed, to_write) = bounded(QUEUED_CHUNKS);
        let (recycle, recycled) = unbounded();
        let cancelled = Arc::new(AtomicBool::new(false));
        let writer = ShardWriter::new(staging, recycle, Arc::clone(&cancelled))?;
        let hashing = spawn("hash", name, move || hash(&incoming, &hashed))?;
        let writing = spawn("write", name, move || writer.run(&to_write))?;
        Ok(Self {
            items: Some(items),
            recycled,
            cancelled,
            hashing: Some(hashing),
            writing: Some(writing),
            name: name.to_owned(),
            process: std::process::id(),
        })
    }

    /// An empty chunk, its memory reused where possible.
    pub(crate) fn empty_chunk(&self) -> Box<Chunk> {
        self.recycled.try_recv().unwrap_or_default()
    }

    /// Hands an item over; gives it back if there was no room within the time.
    pub(crate) fn send(
        &mut self,
        item: Item,
        timeout: Duration,
    ) -> Result<Option<Item>, StoreError> {
        let Some(items) = &self.items else {
            return Err(StoreError::PipelinePanic {
                name: self.name.clone(),
            });
        };
        match items.send_timeout(item, timeout) {
            Ok(()) => Ok(None),
            Err(SendTimeoutError::Timeout(item)) => Ok(Some(item)),
            // A thread ended early: its own result says why.
            Err(SendTimeoutError::Disconnected(_)) => match self.join() {
                Err(error) => Err(error),
                Ok(_) => Err(StoreError::PipelinePanic {
                    name: self.name.clone(),
                }),
            },
        }
    }

    /// Waits until everything that was sent is on disk.
    pub(crate) fn finish(mut self) -> Result<Written, StoreError> {
        self.join()
    }

    fn join(&mut self) -> Result<Written, StoreError> {
        self.items = None;
        let panicked = || StoreError::PipelinePanic {
            name: self.name.clone(),
        };
        let written = self
            .writing
            .take()
            .ok_or_else(panicked)?
            .join()
            .map_err(|_| panicked())?;
        if let Some(hashing) = self.hashing.take() {
            hashing.join().map_err(|_| panicked())?;
        }
        written
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget((self.items.take(), self.hashing.take(), self.writing.take()));
            return;
        }
        self.cancelled.store(true, Ordering::Release);
        // Failures of an abandoned build are of no interest any more.
        let _ = self.join();
    }
}

fn spawn<T: Send + 'static>(
    role: &str,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    std::thread::Builder::new()
        .name(format!("dataset-rt-{role}"))
        .spawn(work)
        .map_err(StoreError::io("start a thread for", name))
}

fn hash(incoming: &Receiver<Item>, hashed: &Sender<Hashed>) {
    let mut digest = blake3::Hasher::new();
    for item in incoming {
        let item = match item {
            Item::Records(mut chunk) => {
                let mut start = 0;
                for (sample, &end) in (chunk.first_sample..).zip(&chunk.ends) {
                    let checksum = record_checksum(sample, &chunk.payloads[start..end]);
                    chunk.checksums.push(checksum);
                    start = end;
                }
                digest.update(&chunk.payloads);
                Hashed::Records(chunk)
            }
            Item::Metadata(batch) => Hashed::Metadata(batch),
            Item::Seal => {
                let blake3 = digest.finalize().to_hex().to_string();
                digest.reset();
                Hashed::Seal { blake3 }
            }
        };
        if hashed.send(item).is_err() {
            // The writer ended with an error, which the iterating thread will find.
            return;
        }
    }
}

struct OpenShard {
    file: Arc<File>,
    path: PathBuf,
    entry: ShardEntry,
    unsynced_bytes: u64,
}

struct ShardWriter {
    staging: PathBuf,
    recycle: Sender<Box<Chunk>>,
    cancelled: Arc<AtomicBool>,
    open: Option<OpenShard>,
    address: u64,
    samples: u64,
    written: Written,
    addresses: BufWriter<File>,
    checksums: BufWriter<File>,
    write_back: Option<WriteBack>,
}

impl ShardWriter {
    fn new(
        staging: &Path,
        recycle: Sender<Box<Chunk>>,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let index = staging.join(INDEX_FILE);
        let checksums = staging.join(CHECKSUMS_PART);
        let mut writer = Self {
            staging: staging.to_owned(),
            recycle,
            cancelled,
            open: None,
            address: 0,
            samples: 0,
            addresses: BufWriter::new(create_new(&index)?),
            checksums: BufWriter::new(create_new(&checksums)?),
            written: Written {
                shards: Vec::new(),
                metadata: MetadataParts::new(staging),
                index,
                checksums,
            },
            write_back: None,
        };
        writer.write_address()?;
        Ok(writer)
    }

    fn run(mut self, items: &Receiver<Hashed>) -> Result<Written, StoreError> {
        for item in items {
            if self.cancelled.load(Ordering::Acquire) {
                break;
            }
            match item {
                Hashed::Records(chunk) => self.write_records(chunk)?,
                Hashed::Metadata(batch) => self.written.metadata.write(&batch)?,
                Hashed::Seal { blake3 } => self.seal(blake3)?,
            }
        }
        self.addresses
            .flush()
            .map_err(StoreError::io("write", &self.written.index))?;
        self.checksums
            .flush()
            .map_err(StoreError::io("write", &self.written.checksums))?;
        if let Some(write_back) = self.write_back.take() {
            write_back.finish()?;
        }
        Ok(self.written)
    }

    fn write_address(&mut self) -> Result<(), StoreError> {
        self.addresses
            .write_all(&self.address.to_le_bytes())
            .map_err(StoreError::io("write", &self.written.index))
    }

    fn write_records(&mut self, mut chunk: Box<Chunk>) -> Result<(), StoreError> {
        self.open_shard()?;
        let first_address = self.address;
        for (&end, checksum) in chunk.ends.iter().zip(&chunk.checksums) {
            self.address = first_address + end as u64;
            self.write_address()?;
            self.checksums
                .write_all(&checksum.to_le_bytes())
                .map_err(StoreError::io("write", &self.written.checksums))?;
        }
        let records = chunk.ends.len() as u64;
        let bytes = chunk.payloads.len() as u64;
        self.samples += records;
        if let Some(shard) = &mut self.open {
            (&*shard.file)
                .write_all(&chunk.payloads)
                .map_err(StoreError::io("write", &shard.path))?;
            shard.entry.samples += records;
            shard.entry.bytes += bytes;
            shard.unsynced_bytes += bytes;
            if shard.unsynced_bytes >= WRITE_BACK_BYTES {
                shard.unsynced_bytes = 0;
                let (file, path) = (Arc::clone(&shard.file), shard.path.clone());
                self.write_back()?.start(file, path);
            }
        }
        chunk.clear();
        // The iterating thread is gone once the build is finished; then the chunk is not needed.
        let _ = self.recycle.send(chunk);
        Ok(())
    }

    fn open_shard(&mut self) -> Result<(), StoreError> {
        if self.open.is_none() {
            let path = self.staging.join(shard_file(self.written.shards.len()));
            let file = Arc::new(create_new(&path)?);
            let entry = ShardEntry {
                first_sample: self.samples,
                samples: 0,
                bytes: 0,
                blake3: String::new(),
            };
            self.open = Some(OpenShard {
                file,
                path,
                entry,
                unsynced_bytes: 0,
            });
        }
        Ok(())
    }

    fn seal(&mut self, blake3: String) -> Result<(), StoreError> {
        if let Some(shard) = self.open.take() {
            self.written.shards.push(ShardEntry {
                blake3,
                ..shard.entry
            });
            if !self.write_back()?.complete(shard.file, shard.path) {
                // The thread ended early: its result is the reason.
                self.write_back.take().map_or(Ok(()), WriteBack::finish)?;
            }
        }
        Ok(())
    }

    fn write_back(&mut self) -> Result<&mut WriteBack, StoreError> {
        match &mut self.write_back {
            Some(write_back) => Ok(write_back),
            empty => Ok(empty.insert(WriteBack::start_thread()?)),
        }
    }
}

/// A thread that makes shards durable while later ones are being written.
struct WriteBack {
    files: Sender<(Arc<File>, PathBuf, bool)>,
    thread: JoinHandle<Result<(), StoreError>>,
}

impl WriteBack {
    fn start_thread() -> Result<Self, StoreError> {
        // One request may wait; more would only repeat it.
        let (files, requests) = bounded::<(Arc<File>, PathBuf, bool)>(1);
        let thread = spawn("sync", "write-back", move || {
            for (file, path, is_complete) in requests {
                let synced = if is_complete {
                    file.sync_all()
                } else {
                    file.sync_data()
                };
                synced.map_err(StoreError::io("sync", path))?;
            }
            Ok(())
        })?;
        Ok(Self { files, thread })
    }

    /// Asks for write-back of what is written so far, unless the thread is busy.
    fn start(&self, file: Arc<File>, path: PathBuf) {
        // A full or closed queue is fine: `complete` makes sure of everything.
        let _ = self.files.try_send((file, path, false));
    }

    /// Queues the final sync of a file; says `false` if the thread has failed.
    fn complete(&self, file: Arc<File>, path: PathBuf) -> bool {
        self.files.send((file, path, true)).is_ok()
    }

    fn finish(self) -> Result<(), StoreError> {
        drop(self.files);
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => Err(StoreError::PipelinePanic {
                name: "write-back".to_owned(),
            }),
        }
    }
}
