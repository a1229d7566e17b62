//! The threads behind a build: compression and checksums, digests, file writes, syncs.
//!
//! The thread that iterates the source fills chunks. Several threads encode chunks at once, one
//! takes them in order, decides where shards end and hashes them, one writes, and one makes complete
//! shards durable while the build goes on. Channels are bounded, so memory is, and from the
//! second step on everything happens in chunk order: the files are the same whatever the threads do.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded, unbounded};

use crate::build::BuildPlace;
use crate::checksum::record_checksum;
use crate::column::Column;
use crate::compression::{Compression, Encoder};
use crate::error::StoreError;
use crate::shard_writer::{ShardWriter, Written};

/// Chunks that may wait before a thread.
pub(crate) const QUEUED_CHUNKS: usize = 8;
/// Payload bytes that may be on their way; one chunk may be larger than this.
const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;

/// Consecutive records on their way to the shards.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) first_sample: u64,
    pub(crate) payloads: Vec<u8>,
    /// Where each payload ends in `payloads`.
    pub(crate) ends: Vec<usize>,
    /// Metadata that travels with the chunk, and the columns as they were known at its end.
    pub(crate) metadata: Option<RecordBatch>,
    pub(crate) columns: Vec<Column>,
    /// Stored forms of the payloads and where each ends; unused where payloads are stored as they are.
    stored: Vec<u8>,
    stored_ends: Vec<usize>,
    is_encoded: bool,
    pub(crate) checksums: Vec<u32>,
    /// Where shards end in the chunk.
    pub(crate) cuts: Vec<Cut>,
}

/// A shard ends before a record.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) record: usize,
    /// Digest of the shard that ends.
    pub(crate) blake3: String,
}

impl Chunk {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where one payload lies in `payloads`.
    pub(crate) fn payload_range(&self, record: usize) -> Range<usize> {
        range_of(&self.ends, record..record + 1)
    }

    /// All stored bytes.
    pub(crate) fn stored_bytes(&self) -> &[u8] {
        if self.is_encoded {
            &self.stored
        } else {
            &self.payloads
        }
    }

    /// Where one record lies in the stored bytes.
    pub(crate) fn stored_range(&self, record: usize) -> Range<usize> {
        self.stored_span(record..record + 1)
    }

    /// Where some records, at least one, lie in the stored bytes.
    pub(crate) fn stored_span(&self, records: Range<usize>) -> Range<usize> {
        let ends = if self.is_encoded {
            &self.stored_ends
        } else {
            &self.ends
        };
        range_of(ends, records)
    }

    pub(crate) fn clear(&mut self) {
        self.payloads.clear();
        self.ends.clear();
        self.metadata = None;
        self.columns.clear();
        self.stored.clear();
        self.stored_ends.clear();
        self.is_encoded = false;
        self.checksums.clear();
        self.cuts.clear();
    }

    fn encode(&mut self, encoder: &mut Encoder) -> Result<(), String> {
        if !encoder.is_none() {
            self.is_encoded = true;
            for record in 0..self.len() {
                let payload = self.payload_range(record);
                encoder.append(&self.payloads[payload], &mut self.stored)?;
                self.stored_ends.push(self.stored.len());
            }
        }
        for (sample, record) in (self.first_sample..).zip(0..self.len()) {
            let checksum = record_checksum(sample, &self.stored_bytes()[self.stored_range(record)]);
            self.checksums.push(checksum);
        }
        Ok(())
    }
}

fn range_of(ends: &[usize], records: Range<usize>) -> Range<usize> {
    let start = records
        .start
        .checked_sub(1)
        .map_or(0, |before| ends[before]);
    start..ends[records.end - 1]
}

/// What the iterating thread sends down the pipeline, in order.
#[derive(Debug)]
pub(crate) enum Item {
    Records(Box<Chunk>),
    /// The source is exhausted; these are its columns.
    End(Vec<Column>),
}

/// What arrives at the writing thread.
pub(crate) enum Digested {
    Records(Box<Chunk>),
    End {
        blake3: String,
        columns: Vec<Column>,
    },
    Failed(StoreError),
}

/// One place in the order of chunks: a chunk that is being encoded, or the end.
enum Ordered {
    Encoded(Receiver<Result<Box<Chunk>, StoreError>>),
    End(Vec<Column>),
}

type Work = (Box<Chunk>, Sender<Result<Box<Chunk>, StoreError>>);

/// How long each stage was busy, in nanoseconds, over all of its threads.
#[derive(Debug, Default)]
pub struct StageTimes {
    /// Compression and record checksums.
    pub encode: AtomicU64,
    /// Digests of shards.
    pub digest: AtomicU64,
    /// File writes.
    pub write: AtomicU64,
    /// Waiting for the disk.
    pub sync: AtomicU64,
}

pub(crate) fn add_elapsed(stage: &AtomicU64, started: Instant) {
    let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    stage.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// A running pipeline.
pub(crate) struct Pipeline {
    /// Both are closed when the source ends.
    channels: Option<(Sender<Ordered>, Sender<Work>)>,
    recycled: Receiver<Box<Chunk>>,
    /// Chunks to be used again.
    #[expect(
        clippy::vec_box,
        reason = "chunks travel through channels in their boxes"
    )]
    spare: Vec<Box<Chunk>>,
    bytes_in_flight: usize,
    cancelled: Arc<AtomicBool>,
    helpers: Vec<JoinHandle<()>>,
    writing: Option<JoinHandle<Result<Written, StoreError>>>,
    name: String,
    /// The threads live in this process; a forked child has none to wait for.
    process: u32,
}

/// What the threads need to know.
pub(crate) struct PipelineOptions {
    pub(crate) name: String,
    pub(crate) compression: Compression,
    pub(crate) dictionary: Option<Vec<u8>>,
    pub(crate) encode_threads: usize,
    pub(crate) max_shard_bytes: u64,
}

impl Pipeline {
    pub(crate) fn start(
        place: &BuildPlace,
        options: PipelineOptions,
        written: Written,
        times: &Arc<StageTimes>,
    ) -> Result<Self, StoreError> {
        let (ordered, in_order) = bounded(options.encode_threads + QUEUED_CHUNKS);
        // Bounded by the channel above, which takes the place of a chunk first.
        let (work, waiting) = unbounded::<Work>();
        let (digested, to_write) = bounded(QUEUED_CHUNKS);
        let (recycle, recycled) = unbounded();
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut pipeline = Self {
            channels: Some((ordered, work)),
            recycled,
            spare: Vec::new(),
            bytes_in_flight: 0,
            cancelled: Arc::clone(&cancelled),
            helpers: Vec::new(),
            writing: None,
            name: options.name.clone(),
            process: std::process::id(),
        };
        let writer = ShardWriter::new(place, written, recycle, cancelled, Arc::clone(times))?;
        pipeline.writing = Some(spawn("write", &options.name, move || {
            writer.run(&to_write)
        })?);
        for _ in 0..options.encode_threads {
            let encoder = Encoder::new(options.compression, options.dictionary.as_deref())
                .map_err(|reason| StoreError::Codec {
                    path: place.cache_folder.clone(),
                    reason,
                })?;
            let (waiting, times) = (waiting.clone(), Arc::clone(times));
            let path = place.cache_folder.clone();
            let thread = spawn("encode", &options.name, move || {
                encode(&waiting, encoder, &path, &times);
            })?;
            pipeline.helpers.push(thread);
        }
        let times = Arc::clone(times);
        let name = options.name.clone();
        let digest = Digest {
            hasher: blake3::Hasher::new(),
            shard_bytes: 0,
            max_shard_bytes: options.max_shard_bytes,
        };
        let thread = spawn("digest", &options.name, move || {
            digest.run(&in_order, &digested, &name, &times);
        })?;
        pipeline.helpers.push(thread);
        Ok(pipeline)
    }

    /// An empty chunk, its memory reused where possible.
    pub(crate) fn empty_chunk(&mut self) -> Box<Chunk> {
        while let Ok(chunk) = self.recycled.try_recv() {
            self.take_back(chunk);
        }
        self.spare.pop().unwrap_or_default()
    }

    fn take_back(&mut self, mut chunk: Box<Chunk>) {
        self.bytes_in_flight -= chunk.payloads.len();
        chunk.clear();
        self.spare.push(chunk);
    }

    /// Waits until there is room for the bytes of an item; says `false` if the time was too short.
    fn wait_for_room(&mut self, item: &Item, timeout: Duration) -> Result<bool, StoreError> {
        let Item::Records(chunk) = item else {
            return Ok(true);
        };
        while self.bytes_in_flight > 0
            && self.bytes_in_flight + chunk.payloads.len() > MAX_BYTES_IN_FLIGHT
        {
            match self.recycled.recv_timeout(timeout) {
                Ok(done) => self.take_back(done),
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(self.early_end()),
            }
        }
        Ok(true)
    }

    /// Hands an item over; gives it back if there was no room within the time.
    pub(crate) fn send(
        &mut self,
        item: Item,
        timeout: Duration,
    ) -> Result<Option<Item>, StoreError> {
        if !self.wait_for_room(&item, timeout)? {
            return Ok(Some(item));
        }
        let Some((ordered, work)) = &self.channels else {
            return Err(self.panicked());
        };
        let (place, chunk) = match item {
            Item::Records(chunk) => {
                let (answer, answers) = bounded(1);
                (Ordered::Encoded(answers), Some((chunk, answer)))
            }
            Item::End(columns) => (Ordered::End(columns), None),
        };
        match ordered.send_timeout(place, timeout) {
            Ok(()) => {
                if let Some((chunk, answer)) = chunk {
                    self.bytes_in_flight += chunk.payloads.len();
                    if work.send((chunk, answer)).is_err() {
                        return Err(self.panicked());
                    }
                }
                Ok(None)
            }
            Err(SendTimeoutError::Timeout(place)) => Ok(match (place, chunk) {
                (_, Some((chunk, _))) => Some(Item::Records(chunk)),
                (Ordered::End(columns), None) => Some(Item::End(columns)),
                (Ordered::Encoded(_), None) => None,
            }),
            Err(SendTimeoutError::Disconnected(_)) => Err(self.early_end()),
        }
    }

    /// A thread ended early: the writer's own result says why.
    fn early_end(&mut self) -> StoreError {
        self.join().err().unwrap_or_else(|| self.panicked())
    }

    /// Waits until everything that was sent is on disk.
    pub(crate) fn finish(mut self) -> Result<Written, StoreError> {
        self.join()
    }

    fn join(&mut self) -> Result<Written, StoreError> {
        self.channels = None;
        let written = match self.writing.take() {
            Some(writing) => writing.join().map_err(|_| self.panicked())?,
            None => Err(self.panicked()),
        };
        for helper in self.helpers.drain(..) {
            if helper.join().is_err() {
                return Err(StoreError::PipelinePanic {
                    name: self.name.clone(),
                });
            }
        }
        written
    }

    fn panicked(&self) -> StoreError {
        StoreError::PipelinePanic {
            name: self.name.clone(),
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget((
                self.channels.take(),
                std::mem::take(&mut self.helpers),
                self.writing.take(),
            ));
            return;
        }
        self.cancelled.store(true, Ordering::Release);
        // Failures of an abandoned build are of no interest any more.
        let _ = self.join();
    }
}

pub(crate) fn spawn<T: Send + 'static>(
    role: &str,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    std::thread::Builder::new()
        .name(format!("dataset-rt-{role}"))
        .spawn(work)
        .map_err(StoreError::io("start a thread for", name))
}

fn encode(
    waiting: &Receiver<Work>,
    mut encoder: Encoder,
    path: &std::path::Path,
    times: &StageTimes,
) {
    for (mut chunk, answer) in waiting {
        let started = Instant::now();
        let encoded = chunk
            .encode(&mut encoder)
            .map(|()| chunk)
            .map_err(|reason| StoreError::Codec {
                path: path.to_owned(),
                reason,
            });
        add_elapsed(&times.encode, started);
        // Nobody waits for the answer of a build that ended early.
        let _ = answer.send(encoded);
    }
}

/// Decides where shards end, and computes their digests.
struct Digest {
    hasher: blake3::Hasher,
    shard_bytes: u64,
    max_shard_bytes: u64,
}

impl Digest {
    fn run(
        mut self,
        in_order: &Receiver<Ordered>,
        digested: &Sender<Digested>,
        name: &str,
        times: &StageTimes,
    ) {
        for place in in_order {
            let item = match place {
                Ordered::Encoded(answers) => match answers.recv() {
                    Ok(Ok(chunk)) => {
                        let started = Instant::now();
                        let chunk = self.take(chunk);
                        add_elapsed(&times.digest, started);
                        Digested::Records(chunk)
                    }
                    Ok(Err(error)) => Digested::Failed(error),
                    Err(_) => Digested::Failed(StoreError::PipelinePanic {
                        name: name.to_owned(),
                    }),
                },
                Ordered::End(columns) => Digested::End {
                    blake3: self.close(),
                    columns,
                },
            };
            if digested.send(item).is_err() {
                // The writer ended with an error, which the iterating thread will find.
                return;
            }
        }
    }

    fn take(&mut self, mut chunk: Box<Chunk>) -> Box<Chunk> {
        let mut first = 0;
        for record in 0..chunk.len() {
            let bytes = chunk.stored_range(record).len() as u64;
            if self.shard_bytes > 0 && self.shard_bytes.saturating_add(bytes) > self.max_shard_bytes
            {
                self.update(&chunk, first..record);
                first = record;
                let blake3 = self.close();
                chunk.cuts.push(Cut { record, blake3 });
            }
            self.shard_bytes += bytes;
        }
        self.update(&chunk, first..chunk.len());
        chunk
    }

    fn update(&mut self, chunk: &Chunk, records: Range<usize>) {
        if !records.is_empty() {
            self.hasher
                .update(&chunk.stored_bytes()[chunk.stored_span(records)]);
        }
    }

    fn close(&mut self) -> String {
        let blake3 = self.hasher.finalize().to_hex().to_string();
        self.hasher.reset();
        self.shard_bytes = 0;
        blake3
    }
}
