//! Bounded read-ahead: chunks of samples, or whole batches, prepared by pool threads in order.
//!
//! Payloads that lie in maps as they are, and in memory, are copied once, by the consumer, who
//! verifies them in the same pass: that takes no longer than copying what another thread verified.
//! Everything else is left to the threads of the pool: what comes from the disk, what is decompressed
//! or read from a file, and whatever is prepared while somebody computes. What runs ahead is bounded
//! in samples and in bytes, and an iterator that is dropped leaves nothing behind: what has not begun
//! is never done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Batch, LatestUse, Use};
use crate::error::ReaderError;
use crate::gather::PARALLEL_BYTES;
use crate::lookahead::WindowLookahead;
use crate::prepared::{CHUNK_BYTES, Chunk, Prepared, Verifying};
use crate::task::Task;
use crate::view::View;

/// A chunk of this many bytes is worth waking a thread, so smaller ones are not made to employ more.
const HANDED_OUT_BYTES: u64 = 128 << 10;
/// If all that may be prepared ahead takes less than this, the consumer had better do it itself.
const WORTH_WAKING_BYTES: u64 = 256 << 10;
/// No more than this is prepared ahead of the consumer.
const AHEAD_BYTES: u64 = 8 << 20;
/// Chunks of so few samples are prepared by the consumer itself, where it would have to wait.
/// Nothing interrupts that, so even from a slow disk it must not take long.
const HELPED_SAMPLES: u64 = 64;
/// A thread that was idle begins within this time, unless the machine is busy.
const WAKING_TIME: Duration = Duration::from_micros(50);
/// Large batches that are prepared ahead, each by all threads.
const BATCHES_AHEAD: u64 = 2;
/// Small batches are prepared together, up to so many bytes.
const GROUP_BYTES: u64 = 1 << 20;
/// Gathered batches ahead take no more than this, but for a single one.
const BATCHES_AHEAD_BYTES: u64 = 256 << 20;

/// What a consumer can do next.
#[derive(Debug)]
pub enum Step<T, W = T> {
    /// Take the next item.
    Ready(T),
    /// Wait, then ask again.
    Wait(Waiting<W>),
    /// Stop: the window is exhausted.
    End,
}

/// An item that is not ready yet. It is waited for without the iterator, which others may ask for
/// its position meanwhile, or which a child may be forked with.
#[derive(Debug)]
pub struct Waiting<T> {
    task: Arc<Task<T>>,
    /// What nobody has begun, this one or a later one.
    spare: Arc<Task<T>>,
    helps: Help,
}

/// What one who waits for an item does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Help {
    /// Nothing: a thread of the pool prepares it.
    Never,
    /// Prepares it, if no thread has begun after a while: on a busy machine that takes less time than
    /// waiting for one.
    Late,
    /// Prepares it, or a later one if a thread has begun with it.
    AtOnce,
}

impl<T> Waiting<T> {
    /// Sees to it that the item is ready, or waits for it, but no longer than this.
    pub fn wait(&self, timeout: Duration) {
        match self.helps {
            Help::Never => {}
            Help::Late => {
                self.task.wait(WAKING_TIME);
                self.task.run();
            }
            Help::AtOnce => self.spare.run(),
        }
        self.task.wait(timeout);
    }
}

/// Items that pool threads prepare, received in the order in which they were asked for.
#[derive(Debug)]
struct Queue<T> {
    /// The items, and whether the pool prepares them.
    pending: VecDeque<(Arc<Task<T>>, bool)>,
    process: u32,
}

/// How an item is asked for.
#[derive(Debug, Clone, Copy)]
struct Order {
    by_pool: bool,
    in_front: bool,
}

impl<T: Send + 'static> Queue<T> {
    fn new() -> Self {
        Self {
            pending: VecDeque::new(),
            process: std::process::id(),
        }
    }

    fn len(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Says whether this is a forked child, where the parent's threads will never answer; the
    /// caller then asks again for everything that it has not received.
    fn restart_after_fork(&mut self) -> bool {
        let process = std::process::id();
        if process == self.process {
            return false;
        }
        // Dropped tasks would take locks that a thread of the parent may have held at the fork.
        std::mem::forget(std::mem::replace(self, Self::new()));
        true
    }

    /// Asks the pool, or whoever waits for it, for one more item at the end or in front of all others.
    fn ask(
        &mut self,
        view: &Arc<View>,
        order: Order,
        work: impl FnOnce(&Arc<View>) -> T + Send + 'static,
    ) -> Result<(), ReaderError> {
        let of_task = Arc::clone(view);
        let task = Arc::new(Task::new(move || work(&of_task)));
        if order.by_pool {
            let of_pool = Arc::clone(&task);
            view.pool.threads()?.spawn(move || of_pool.run());
        }
        if order.in_front {
            self.pending.push_front((task, order.by_pool));
        } else {
            self.pending.push_back((task, order.by_pool));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<T>, ReaderError> {
        let item = match self.pending.front() {
            Some((task, _)) => task.take()?,
            None => None,
        };
        if item.is_some() {
            self.pending.pop_front();
        }
        Ok(item)
    }

    /// The next item, to be waited for; `helps` says what to do about what the pool prepares.
    fn waiting(&self, helps: Help) -> Option<Waiting<T>> {
        let (task, by_pool) = self.pending.front()?;
        let helps = if *by_pool { helps } else { Help::AtOnce };
        let mut spare = task;
        if helps == Help::AtOnce {
            let mut tasks = self.pending.iter().map(|(task, _)| task);
            spare = tasks.find(|task| task.is_asked()).unwrap_or(task);
        }
        Some(Waiting {
            task: Arc::clone(task),
            spare: Arc::clone(spare),
            helps,
        })
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.pending.drain(..).for_each(|(task, _)| task.cancel());
        } else {
            // A thread of the parent may have held a lock of theirs at the fork.
            std::mem::forget(std::mem::take(&mut self.pending));
        }
    }
}

/// The samples of a window, one by one.
#[derive(Debug)]
pub struct SampleReadAhead {
    view: Arc<View>,
    queue: Queue<Chunk>,
    lookahead: Arc<WindowLookahead>,
    current: Chunk,
    /// Next position to hand out.
    position: u64,
    /// Next position to ask for.
    asked: u64,
    stop: u64,
    chunk_samples: u64,
    chunks_ahead: u64,
    /// Whether the consumer had better prepare chunks itself, unless they come from the disk: handing
    /// them from thread to thread would take longer.
    is_quick: bool,
}

impl SampleReadAhead {
    /// Starts at `start`; nothing is read before the first step.
    #[must_use]
    pub fn new(view: Arc<View>, start: u64, stop: u64) -> Self {
        let record_bytes = view.caches.mean_payload_bytes();
        let window = view.read.prefetch_size.max(1) as u64;
        let shared_out = window.div_ceil(view.pool.num_threads() as u64);
        let chunk_samples = (CHUNK_BYTES / record_bytes)
            .min(shared_out.max(HANDED_OUT_BYTES / record_bytes))
            .clamp(1, window);
        let chunk_bytes = chunk_samples.saturating_mul(record_bytes).max(1);
        let chunks_ahead = (window / chunk_samples)
            .min(AHEAD_BYTES / chunk_bytes)
            .max(1);
        let is_quick = view.caches.are_mapped_as_they_are()
            || window.saturating_mul(record_bytes) < WORTH_WAKING_BYTES;
        Self {
            view,
            queue: Queue::new(),
            lookahead: Arc::new(WindowLookahead::new(start)),
            current: Chunk::default(),
            position: start,
            asked: start,
            stop,
            chunk_samples,
            chunks_ahead,
            is_quick,
        }
    }

    /// Lets the pool begin before the first step asks for a sample, where there is something to gain:
    /// what lies in memory as it is takes the consumer no longer than a copy.
    pub fn begin(&mut self) -> Result<(), ReaderError> {
        self.is_quick = self.view.caches.are_mapped_as_they_are();
        if self.reads_here() {
            return Ok(());
        }
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
    pub fn step(&mut self) -> Result<Step<Prepared, Chunk>, ReaderError> {
        loop {
            if let Some(prepared) = self.current.next_sample() {
                self.position += 1;
                return Ok(Step::Ready(prepared));
            }
            if let Some(error) = self.current.take_error() {
                self.stop = self.position;
                return Err(error);
            }
            if self.position >= self.stop {
                return Ok(Step::End);
            }
            if self.queue.restart_after_fork() {
                self.asked = self.position;
                // A thread of the parent may have held its lock.
                self.lookahead = Arc::new(WindowLookahead::new(self.position));
            }
            self.ask_ahead()?;
            if let Some(chunk) = self.queue.take()? {
                if let Some((start, stop)) = chunk.rest() {
                    self.ask(start, stop, true)?;
                }
                self.current = chunk;
                self.ask_ahead()?;
                continue;
            }
            let helps = if self.chunk_samples <= HELPED_SAMPLES {
                Help::Late
            } else {
                Help::Never
            };
            match self.queue.waiting(helps) {
                Some(waiting) => return Ok(Step::Wait(waiting)),
                None => return Ok(Step::End),
            }
        }
    }

    /// Ends with the sample at this position, which was handed out and could not be read after all.
    pub fn end_at(&mut self, position: u64) {
        self.position = self.position.min(position);
        self.stop = self.stop.min(position);
        self.current = Chunk::default();
    }

    fn reads_here(&self) -> bool {
        self.is_quick && !self.view.caches.coldness().is_cold()
    }

    fn ask_ahead(&mut self) -> Result<(), ReaderError> {
        // What the consumer prepares itself, it prepares when it comes to it.
        let chunks_ahead = if self.reads_here() {
            1
        } else {
            self.chunks_ahead
        };
        while self.asked < self.stop && self.queue.len() < chunks_ahead {
            let start = self.asked;
            self.asked = start.saturating_add(self.chunk_samples).min(self.stop);
            self.ask(start, self.asked, false)?;
        }
        Ok(())
    }

    fn ask(&mut self, start: u64, stop: u64, in_front: bool) -> Result<(), ReaderError> {
        let lookahead = Arc::clone(&self.lookahead);
        if !in_front {
            lookahead.ask(stop);
        }
        let reads_here = self.reads_here();
        let order = Order {
            by_pool: !reads_here,
            in_front,
        };
        let verifying = if reads_here {
            Verifying::Late
        } else {
            Verifying::Early
        };
        self.queue.ask(&self.view, order, move |view| {
            lookahead.reach(view, start);
            let prepare = || Chunk::prepare(view, start, stop, verifying);
            view.caches.coldness().watch(stop - start, prepare)
        })
    }
}

/// The batches of a window, prepared ahead for what those before were asked for.
#[derive(Debug)]
pub struct BatchReadAhead {
    view: Arc<View>,
    queue: Queue<BatchGroup>,
    latest_use: Arc<LatestUse>,
    current: BatchGroup,
    position: u64,
    asked: u64,
    stop: u64,
    batch_size: u64,
    /// Small batches are prepared some at a time: handing over each takes longer than preparing it.
    batches_per_group: u64,
    groups_ahead: u64,
    /// Whether a group is prepared by one thread.
    is_small: bool,
}

/// Consecutive batches, up to the first that failed.
#[derive(Debug, Default)]
pub struct BatchGroup {
    batches: VecDeque<Batch>,
    error: Option<ReaderError>,
}

impl BatchGroup {
    fn prepare(
        view: &Arc<View>,
        mut start: u64,
        stop: u64,
        batch_size: u64,
        latest_use: &Arc<LatestUse>,
    ) -> Self {
        let mut group = Self::default();
        while start < stop {
            let end = start.saturating_add(batch_size).min(stop);
            let batch = Batch::of_window(Arc::clone(view), start, end, u64::MAX);
            match batch.and_then(|batch| batch.prepared(latest_use)) {
                Ok(batch) => group.batches.push_back(batch),
                Err(error) => {
                    group.error = Some(error);
                    break;
                }
            }
            start = end;
        }
        group
    }
}

impl BatchReadAhead {
    /// Starts at `start`; the last batch may be shorter. Nothing is read before the first step.
    #[must_use]
    pub fn new(view: Arc<View>, start: u64, stop: u64, batch_size: u64) -> Self {
        let batch_size = batch_size.max(1);
        let batch_bytes = batch_size.saturating_mul(view.caches.mean_payload_bytes());
        let is_small = batch_bytes < PARALLEL_BYTES as u64;
        let (batches_per_group, groups_ahead) = if is_small {
            // Each thread has one group in hand, and finds another when it is done.
            let threads = view.pool.num_threads() as u64;
            ((GROUP_BYTES / batch_bytes).max(1), threads + 1)
        } else {
            (1, BATCHES_AHEAD)
        };
        let fitting = BATCHES_AHEAD_BYTES / batch_bytes.saturating_mul(batches_per_group);
        Self {
            latest_use: Arc::new(LatestUse::new(view.latest_use.get())),
            view,
            queue: Queue::new(),
            current: BatchGroup::default(),
            position: start,
            asked: start,
            stop,
            batch_size,
            batches_per_group,
            groups_ahead: groups_ahead.min(fitting).max(1),
            is_small,
        }
    }

    /// Counts with groups as large as the latest, where records that are drawn are larger than most.
    fn learn_from(&mut self, group: &BatchGroup) {
        let bytes: u64 = group.batches.iter().map(Batch::prepared_bytes).sum();
        let fitting = BATCHES_AHEAD_BYTES / bytes.max(1);
        self.groups_ahead = self.groups_ahead.min(fitting).max(1);
    }

    /// Position of the first sample of the next batch.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next batch, if it is ready. After an error there are no more.
    pub fn step(&mut self) -> Result<Step<Batch, BatchGroup>, ReaderError> {
        loop {
            if let Some(batch) = self.current.batches.pop_front() {
                self.position += batch.len() as u64;
                return Ok(Step::Ready(batch));
            }
            if let Some(error) = self.current.error.take() {
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
            if let Some(group) = self.queue.take()? {
                self.learn_from(&group);
                self.current = group;
                self.ask_ahead()?;
                continue;
            }
            let is_cold = self.view.caches.coldness().is_cold();
            let helps = helps_with_batches(self.is_small, is_cold);
            return Ok(match self.queue.waiting(helps) {
                Some(waiting) => Step::Wait(waiting),
                None => Step::End,
            });
        }
    }

    fn ask_ahead(&mut self) -> Result<(), ReaderError> {
        while self.asked < self.stop && self.queue.len() < self.groups_ahead {
            let start = self.asked;
            let batch_size = self.batch_size;
            let samples = batch_size.saturating_mul(self.batches_per_group);
            let stop = start.saturating_add(samples).min(self.stop);
            let order = Order {
                by_pool: true,
                in_front: false,
            };
            let latest_use = Arc::clone(&self.latest_use);
            self.queue.ask(&self.view, order, move |view| {
                BatchGroup::prepare(view, start, stop, batch_size, &latest_use)
            })?;
            self.asked = stop;
        }
        Ok(())
    }
}

/// One batch that the pool prepares while somebody computes.
#[derive(Debug)]
pub struct BatchAhead {
    view: Arc<View>,
    queue: Queue<Result<Batch, ReaderError>>,
    window: BatchWindow,
    is_small: bool,
}

/// What a batch is made of, and what it is going to be asked for.
#[derive(Debug, Clone, Copy)]
pub struct BatchWindow {
    /// Position of the first sample.
    pub start: u64,
    /// Position after the last one.
    pub stop: u64,
    /// Position from which on samples are padding.
    pub padding_from: u64,
    /// What is done ahead.
    pub wanted: Use,
}

impl BatchAhead {
    /// Asks the pool to begin.
    pub fn begin(view: Arc<View>, window: BatchWindow) -> Result<Self, ReaderError> {
        let samples = window.stop.saturating_sub(window.start);
        let bytes = samples.saturating_mul(view.caches.mean_payload_bytes());
        let mut ahead = Self {
            view,
            queue: Queue::new(),
            window,
            is_small: bytes < PARALLEL_BYTES as u64,
        };
        ahead.ask()?;
        Ok(ahead)
    }

    /// The batch, if it is ready; it is given once.
    pub fn step(&mut self) -> Result<Step<Batch, Result<Batch, ReaderError>>, ReaderError> {
        if self.queue.restart_after_fork() {
            self.ask()?;
        }
        if let Some(batch) = self.queue.take()? {
            return batch.map(Step::Ready);
        }
        let is_cold = self.view.caches.coldness().is_cold();
        Ok(
            match self
                .queue
                .waiting(helps_with_batches(self.is_small, is_cold))
            {
                Some(waiting) => Step::Wait(waiting),
                None => Step::End,
            },
        )
    }

    fn ask(&mut self) -> Result<(), ReaderError> {
        let window = self.window;
        let order = Order {
            by_pool: true,
            in_front: false,
        };
        self.queue.ask(&self.view, order, move |view| {
            let BatchWindow {
                start,
                stop,
                padding_from,
                wanted,
            } = window;
            let batch = Batch::of_window(Arc::clone(view), start, stop, padding_from)?;
            batch.prepared(&Arc::new(LatestUse::new(wanted)))
        })
    }
}

/// What one who waits for batches does: what takes all threads, or comes from the disk, takes longer
/// than others may wait.
fn helps_with_batches(is_small: bool, is_cold: bool) -> Help {
    if is_small && !is_cold {
        Help::AtOnce
    } else {
        Help::Never
    }
}
