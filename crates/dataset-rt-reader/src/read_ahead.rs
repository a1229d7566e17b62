//! Bounded read-ahead: chunks of samples, or whole batches, prepared by pool threads in order.
//!
//! Samples are not copied ahead. A pool thread finds each record and hashes it in the map, which
//! verifies it and brings it into the processor's shared cache; the consumer then makes the one
//! copy, into the object it hands out. What runs ahead is bounded in samples and in bytes, and an
//! iterator that is dropped leaves nothing behind: unfinished chunks see the flag and end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};

use crate::active_table::RecordNumber;
use crate::batch::Batch;
use crate::caches::CacheSet;
use crate::error::ReaderError;
use crate::gather::Located;
use crate::view::View;

/// Samples are prepared in chunks of about this many bytes.
const CHUNK_BYTES: u64 = 1 << 20;
/// No more than this is prepared ahead of the consumer.
const AHEAD_BYTES: u64 = 8 << 20;
/// Batches that are gathered ahead, at most.
const BATCHES_AHEAD: u64 = 2;
/// Gathered batches ahead take no more than this, but for a single one.
const BATCHES_AHEAD_BYTES: u64 = 256 << 20;

/// What a consumer can do next.
#[derive(Debug)]
pub enum Step<T> {
    /// Take the next item.
    Ready(T),
    /// Wait, then ask again.
    Wait,
    /// Stop: the window is exhausted.
    End,
}

/// One record, found and verified.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    /// In the common numbering of the caches.
    pub record: RecordNumber,
    located: Located,
}

impl Prepared {
    /// Finds a record and, if the options say so, verifies it in the map.
    pub fn new(view: &View, record: RecordNumber) -> Result<Self, ReaderError> {
        let located = Located::find(&view.caches, record)?;
        if view.read.verify_reads {
            let found = located.record(&view.caches);
            found.verify(found.payload)?;
        }
        Ok(Self { record, located })
    }

    /// Finds a record; the copy is still to be verified.
    pub fn unverified(view: &View, record: RecordNumber) -> Result<Self, ReaderError> {
        Ok(Self {
            record,
            located: Located::find(&view.caches, record)?,
        })
    }

    /// The record, whose payload is in the map.
    #[must_use]
    #[inline]
    pub fn record_in<'a>(&self, caches: &'a CacheSet) -> dataset_rt_store::Record<'a> {
        self.located.record(caches)
    }

    /// Place of the cache among the caches of the dataset.
    #[must_use]
    pub fn cache_index(&self) -> usize {
        self.located.cache_index
    }
}

/// Items that pool threads prepare, received in the order in which they were asked for.
#[derive(Debug)]
struct Queue<T> {
    pending: VecDeque<Receiver<T>>,
    received: Option<T>,
    cancelled: Arc<AtomicBool>,
    process: u32,
}

impl<T: Send + 'static> Queue<T> {
    fn new() -> Self {
        Self {
            pending: VecDeque::new(),
            received: None,
            cancelled: Arc::new(AtomicBool::new(false)),
            process: std::process::id(),
        }
    }

    fn len(&self) -> u64 {
        self.pending.len() as u64 + u64::from(self.received.is_some())
    }

    /// Says whether this is a forked child, where the parent's threads will never answer; the
    /// caller then asks again for everything that it has not received.
    fn restart_after_fork(&mut self) -> bool {
        let process = std::process::id();
        if process == self.process {
            return false;
        }
        *self = Self::new();
        true
    }

    fn ask(
        &mut self,
        view: &Arc<View>,
        work: impl FnOnce(&Arc<View>) -> T + Send + 'static,
    ) -> Result<(), ReaderError> {
        let (answer, receiver) = bounded(1);
        let cancelled = Arc::clone(&self.cancelled);
        let view = Arc::clone(view);
        view.pool.threads()?.spawn(move || {
            if !cancelled.load(Ordering::Acquire) {
                // The consumer may be gone; then nobody wants the answer.
                let _ = answer.send(work(&view));
            }
        });
        self.pending.push_back(receiver);
        Ok(())
    }

    fn take(&mut self) -> Result<Option<T>, ReaderError> {
        if let Some(item) = self.received.take() {
            return Ok(Some(item));
        }
        match self.pending.front().map(Receiver::try_recv) {
            Some(Ok(item)) => {
                self.pending.pop_front();
                Ok(Some(item))
            }
            Some(Err(TryRecvError::Disconnected)) => Err(ReaderError::ReaderPanic),
            Some(Err(TryRecvError::Empty)) | None => Ok(None),
        }
    }

    fn wait(&mut self, timeout: Duration) {
        if self.received.is_some() {
            return;
        }
        // A disconnected channel is found by the next `take`.
        match self
            .pending
            .front()
            .map(|receiver| receiver.recv_timeout(timeout))
        {
            Some(Ok(item)) => {
                self.pending.pop_front();
                self.received = Some(item);
            }
            Some(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) | None => {}
        }
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

/// Samples up to the first that failed.
#[derive(Debug)]
struct Chunk {
    samples: Vec<Prepared>,
    error: Option<ReaderError>,
}

/// The samples of a window, one by one.
#[derive(Debug)]
pub struct SampleReadAhead {
    view: Arc<View>,
    queue: Queue<Chunk>,
    current: std::vec::IntoIter<Prepared>,
    error: Option<ReaderError>,
    /// Next position to hand out.
    position: u64,
    /// Next position to ask for.
    asked: u64,
    stop: u64,
    chunk_samples: u64,
    chunks_ahead: u64,
}

impl SampleReadAhead {
    /// Starts at `start`; nothing is read before the first step.
    #[must_use]
    pub fn new(view: Arc<View>, start: u64, stop: u64) -> Self {
        let record_bytes = mean_record_bytes(&view);
        let window = view.read.prefetch_size.max(1) as u64;
        let chunk_samples = (CHUNK_BYTES / record_bytes).clamp(1, window.div_ceil(2));
        let chunk_bytes = chunk_samples.saturating_mul(record_bytes).max(1);
        let chunks_ahead = (window / chunk_samples)
            .min(AHEAD_BYTES / chunk_bytes)
            .max(1);
        Self {
            view,
            queue: Queue::new(),
            current: Vec::new().into_iter(),
            error: None,
            position: start,
            asked: start,
            stop,
            chunk_samples,
            chunks_ahead,
        }
    }

    /// Lets the pool begin before the first step asks for a sample.
    pub fn begin(&mut self) -> Result<(), ReaderError> {
        self.ask_ahead()
    }

    /// Position of the next sample.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Samples that are still to come.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.stop - self.position
    }

    /// The dataset that is read.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The next sample, if it is ready. After an error there are no more.
    pub fn step(&mut self) -> Result<Step<Prepared>, ReaderError> {
        loop {
            if let Some(prepared) = self.current.next() {
                self.position += 1;
                return Ok(Step::Ready(prepared));
            }
            if let Some(error) = self.error.take() {
                self.stop = self.position;
                return Err(error);
            }
            if self.position >= self.stop {
                return Ok(Step::End);
            }
            if self.queue.restart_after_fork() {
                self.asked = self.position;
            }
            self.ask_ahead()?;
            match self.queue.take()? {
                Some(chunk) => {
                    self.current = chunk.samples.into_iter();
                    self.error = chunk.error;
                    self.ask_ahead()?;
                }
                None => return Ok(Step::Wait),
            }
        }
    }

    /// Waits for the next sample, but no longer than this.
    pub fn wait(&mut self, timeout: Duration) {
        self.queue.wait(timeout);
    }

    fn ask_ahead(&mut self) -> Result<(), ReaderError> {
        while self.asked < self.stop && self.queue.len() < self.chunks_ahead {
            let start = self.asked;
            let stop = start.saturating_add(self.chunk_samples).min(self.stop);
            self.queue
                .ask(&self.view, move |view| prepare(view, start, stop))?;
            self.asked = stop;
        }
        Ok(())
    }
}

fn prepare(view: &View, start: u64, stop: u64) -> Chunk {
    let mut chunk = Chunk {
        samples: Vec::new(),
        error: None,
    };
    let records = view
        .draws(start, stop)
        .and_then(|rows| view.records_of_rows(&rows));
    match records {
        Ok(records) => {
            chunk.samples.reserve_exact(records.len());
            for record in records {
                match Prepared::new(view, record) {
                    Ok(prepared) => chunk.samples.push(prepared),
                    Err(error) => {
                        chunk.error = Some(error);
                        break;
                    }
                }
            }
        }
        Err(error) => chunk.error = Some(error),
    }
    chunk
}

fn mean_record_bytes(view: &View) -> u64 {
    let bytes: u64 = view
        .caches
        .caches()
        .iter()
        .map(|cache| cache.manifest().stored_bytes)
        .sum();
    (bytes / view.caches.len()).max(1)
}

/// The batches of a window, gathered ahead.
#[derive(Debug)]
pub struct BatchReadAhead {
    view: Arc<View>,
    queue: Queue<Result<Batch, ReaderError>>,
    position: u64,
    asked: u64,
    stop: u64,
    batch_size: u64,
    batches_ahead: u64,
}

impl BatchReadAhead {
    /// Starts at `start`; the last batch may be shorter. Nothing is read before the first step.
    #[must_use]
    pub fn new(view: Arc<View>, start: u64, stop: u64, batch_size: u64) -> Self {
        let batch_size = batch_size.max(1);
        let batch_bytes = batch_size.saturating_mul(mean_record_bytes(&view));
        let batches_ahead = BATCHES_AHEAD.min(BATCHES_AHEAD_BYTES / batch_bytes).max(1);
        let queue = Queue::new();
        Self {
            view,
            queue,
            position: start,
            asked: start,
            stop,
            batch_size,
            batches_ahead,
        }
    }

    /// Position of the first sample of the next batch.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next batch, if it is ready. After an error there are no more.
    pub fn step(&mut self) -> Result<Step<Batch>, ReaderError> {
        if self.position >= self.stop {
            return Ok(Step::End);
        }
        if self.queue.restart_after_fork() {
            self.asked = self.position;
        }
        self.ask_ahead()?;
        match self.queue.take()? {
            Some(Ok(batch)) => {
                self.position += batch.len() as u64;
                self.ask_ahead()?;
                Ok(Step::Ready(batch))
            }
            Some(Err(error)) => {
                self.stop = self.position;
                Err(error)
            }
            None => Ok(Step::Wait),
        }
    }

    /// Waits for the next batch, but no longer than this.
    pub fn wait(&mut self, timeout: Duration) {
        self.queue.wait(timeout);
    }

    fn ask_ahead(&mut self) -> Result<(), ReaderError> {
        while self.asked < self.stop && self.queue.len() < self.batches_ahead {
            let start = self.asked;
            let stop = start.saturating_add(self.batch_size).min(self.stop);
            self.queue.ask(&self.view, move |view| {
                let batch = Batch::of_window(Arc::clone(view), start, stop, u64::MAX)?;
                batch.gathered()?;
                Ok(batch)
            })?;
            self.asked = stop;
        }
        Ok(())
    }
}
