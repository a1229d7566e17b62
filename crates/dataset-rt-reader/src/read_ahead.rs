//! Bounded read-ahead: chunks of samples, or whole batches, prepared by pool threads in order.
//!
//! Single payloads of up to a mebibyte that lie in maps as they are, and in memory, are left to the
//! consumer, who verifies them in the pass that copies them: that takes no longer than copying what
//! another thread verified. Everything else is done by the threads of the pool: what comes from the
//! disk, what is decompressed or read from a file, large payloads, and batches, which the consumer
//! helps with where they are small. What runs ahead is bounded in samples and in bytes, and an
//! iterator that is dropped leaves nothing behind: what has not begun is never done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Batch, Preparation, Use};
use crate::error::ReaderError;
use crate::gather::PARALLEL_BYTES;
use crate::lookahead::WindowLookahead;
use crate::prepared::{CHUNK_BYTES, Chunk, Prepared, VERIFIED_LATE_BYTES, Verifying};
use crate::task::{Task, Worker};
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
/// Small batches are prepared together, up to so many bytes, samples and batches.
const GROUP_BYTES: u64 = 1 << 20;
const GROUP_SAMPLES: u64 = 1 << 12;
const GROUP_BATCHES: u64 = 64;
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
                self.task.run(Worker::Consumer);
            }
            Help::AtOnce => self.spare.run(Worker::Consumer),
        }
        self.task.wait(timeout);
    }
}

/// Items that pool threads prepare, received in the order in which they were asked for.
#[derive(Debug)]
struct Queue<T> {
    /// The items, and what one who waits for them does about it.
    pending: VecDeque<(Arc<Task<T>>, Help)>,
    process: u32,
}

/// How an item is asked for.
#[derive(Debug, Clone, Copy)]
struct Order {
    help: Help,
    in_front: bool,
    /// Whether threads of the pool are asked; otherwise it is left to those who wait.
    by_pool: bool,
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
        work: impl FnOnce(&Arc<View>, Worker) -> T + Send + 'static,
    ) -> Result<(), ReaderError> {
        let of_task = Arc::clone(view);
        let task = Arc::new(Task::new(move |worker| work(&of_task, worker)));
        if order.by_pool {
            let of_pool = Arc::clone(&task);
            view.pool
                .threads()?
                .spawn(move || of_pool.run(Worker::Pool));
        }
        if order.in_front {
            self.pending.push_front((task, order.help));
        } else {
            self.pending.push_back((task, order.help));
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

    /// The next item, to be waited for.
    fn waiting(&self) -> Option<Waiting<T>> {
        let (task, help) = self.pending.front()?;
        let is_spare =
            |pending: &&(Arc<Task<T>>, Help)| pending.1 == Help::AtOnce && pending.0.is_asked();
        let spare = self.pending.iter().find(is_spare);
        let (helps, spare) = match spare {
            Some((spare, _)) => (Help::AtOnce, spare),
            // Somebody is at it.
            None if *help == Help::AtOnce => (Help::Never, task),
            None => (*help, task),
        };
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
        let is_quick =
            is_copied_once(&view) || window.saturating_mul(record_bytes) < WORTH_WAKING_BYTES;
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
        self.is_quick = is_copied_once(&self.view);
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
                    // A chunk of nothing is one that a consumer left to the pool.
                    let order = self.order(true, chunk.is_empty());
                    self.ask(start, stop, order)?;
                }
                self.current = chunk;
                self.ask_ahead()?;
                continue;
            }
            match self.queue.waiting() {
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
            let order = self.order(false, false);
            self.ask(start, self.asked, order)?;
        }
        Ok(())
    }

    fn order(&self, in_front: bool, takes_long: bool) -> Order {
        let reads_here = self.reads_here() && !takes_long;
        let help = if reads_here {
            Help::AtOnce
        } else if self.chunk_samples <= HELPED_SAMPLES && !takes_long {
            Help::Late
        } else {
            Help::Never
        };
        Order {
            help,
            in_front,
            by_pool: !reads_here,
        }
    }

    fn ask(&mut self, start: u64, stop: u64, order: Order) -> Result<(), ReaderError> {
        let lookahead = Arc::clone(&self.lookahead);
        if !order.in_front {
            lookahead.ask(stop);
        }
        let verifying = if order.by_pool {
            Verifying::Early
        } else {
            Verifying::Late
        };
        self.queue.ask(&self.view, order, move |view, worker| {
            lookahead.reach(view, start);
            let most_bytes = worker.most_bytes();
            let prepare = || Chunk::prepare(view, start, stop, verifying, most_bytes);
            view.caches.coldness().watch(stop - start, prepare)
        })
    }
}

/// Says whether the consumer verifies payloads in the pass that copies them, if they are in memory.
fn is_copied_once(view: &View) -> bool {
    view.caches.are_mapped_as_they_are()
        && view.caches.mean_payload_bytes() <= VERIFIED_LATE_BYTES as u64
}

/// The batches of a window, prepared ahead for what those before were asked for.
#[derive(Debug)]
pub struct BatchReadAhead {
    view: Arc<View>,
    queue: Queue<BatchGroup>,
    preparation: Preparation,
    current: BatchGroup,
    position: u64,
    asked: u64,
    stop: u64,
    batch_size: u64,
    /// Small batches are prepared some at a time: handing over each takes longer than preparing it.
    batches_per_group: u64,
    wanted_groups: u64,
    groups_ahead: u64,
    /// Whether a group is prepared by one thread.
    is_small: bool,
}

/// Consecutive batches, up to the first that could not be made.
#[derive(Debug, Default)]
pub struct BatchGroup {
    batches: VecDeque<Batch>,
    error: Option<ReaderError>,
    /// Positions that are left to the pool, as reading them takes long.
    rest: Option<(u64, u64)>,
}

impl BatchGroup {
    /// The work of preparing the batches of a window.
    fn of(
        window: BatchWindow,
        batch_size: u64,
        preparation: &Preparation,
    ) -> impl FnOnce(&Arc<View>, Worker) -> Self + Send + use<> {
        let preparation = preparation.clone();
        move |view, worker| Self::prepare(view, window, batch_size, &preparation, worker)
    }

    fn prepare(
        view: &Arc<View>,
        window: BatchWindow,
        batch_size: u64,
        preparation: &Preparation,
        worker: Worker,
    ) -> Self {
        let mut group = Self::default();
        let BatchWindow {
            mut start,
            stop,
            padding_from,
        } = window;
        while start < stop {
            let end = start.saturating_add(batch_size).min(stop);
            let batch = Batch::of_window(Arc::clone(view), start, end, padding_from);
            match batch.and_then(|batch| batch.prepared(preparation, worker.most_bytes())) {
                Ok(Some(batch)) => group.batches.push_back(batch),
                Ok(None) => {
                    group.rest = Some((start, stop));
                    break;
                }
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

/// The positions of some samples.
#[derive(Debug, Clone, Copy)]
pub struct BatchWindow {
    /// Position of the first sample.
    pub start: u64,
    /// Position after the last one.
    pub stop: u64,
    /// Position from which on samples are padding.
    pub padding_from: u64,
}

impl BatchReadAhead {
    /// Starts at `start`; the last batch may be shorter. Nothing is read before the first step.
    #[must_use]
    pub fn new(view: Arc<View>, start: u64, stop: u64, batch_size: u64) -> Self {
        let batch_size = batch_size.max(1);
        let batch_bytes = batch_size.saturating_mul(view.caches.mean_payload_bytes());
        let is_small = batch_bytes < PARALLEL_BYTES as u64;
        let (batches_per_group, wanted_groups) = if is_small {
            // Each thread has one group in hand, and finds another when it is done.
            let threads = view.pool.num_threads() as u64;
            let batches = (GROUP_BYTES / batch_bytes)
                .min(GROUP_SAMPLES / batch_size)
                .clamp(1, GROUP_BATCHES);
            (batches, threads + 1)
        } else {
            (1, BATCHES_AHEAD)
        };
        Self {
            preparation: Preparation::as_latest(&view),
            view,
            queue: Queue::new(),
            current: BatchGroup::default(),
            position: start,
            asked: start,
            stop,
            batch_size,
            batches_per_group,
            wanted_groups,
            // More once it is known how large one is.
            groups_ahead: 1,
            is_small,
        }
    }

    /// Counts with groups as large as the latest, where records that are drawn are larger than most.
    fn learn_from(&mut self, group: &BatchGroup) {
        let bytes: u64 = group.batches.iter().map(Batch::prepared_bytes).sum();
        let fitting = BATCHES_AHEAD_BYTES / bytes.max(1);
        self.groups_ahead = self.wanted_groups.min(fitting).max(1);
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
                batch.hand_out();
                return Ok(Step::Ready(batch));
            }
            if let Some((start, stop)) = self.current.rest.take() {
                self.ask(start, stop, Help::Never, true)?;
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
            return Ok(match self.queue.waiting() {
                Some(waiting) => Step::Wait(waiting),
                None => Step::End,
            });
        }
    }

    fn ask_ahead(&mut self) -> Result<(), ReaderError> {
        while self.asked < self.stop && self.queue.len() < self.groups_ahead {
            let start = self.asked;
            let samples = self.batch_size.saturating_mul(self.batches_per_group);
            let stop = start.saturating_add(samples).min(self.stop);
            let help = help_with_batches(self.is_small, &self.view);
            self.ask(start, stop, help, false)?;
            self.asked = stop;
        }
        Ok(())
    }

    fn ask(
        &mut self,
        start: u64,
        stop: u64,
        help: Help,
        in_front: bool,
    ) -> Result<(), ReaderError> {
        let window = BatchWindow {
            start,
            stop,
            padding_from: u64::MAX,
        };
        let order = Order {
            help,
            in_front,
            by_pool: true,
        };
        let group = BatchGroup::of(window, self.batch_size, &self.preparation);
        self.queue.ask(&self.view, order, group)
    }
}

/// One batch that the pool prepares while somebody computes.
#[derive(Debug)]
pub struct BatchAhead {
    view: Arc<View>,
    queue: Queue<BatchGroup>,
    window: BatchWindow,
    preparation: Preparation,
    is_given: bool,
}

impl BatchAhead {
    /// Asks the pool to begin with what the batch is going to be asked for.
    pub fn begin(view: Arc<View>, window: BatchWindow, wanted: Use) -> Result<Self, ReaderError> {
        let mut ahead = Self {
            view,
            queue: Queue::new(),
            window,
            preparation: Preparation::For(wanted),
            is_given: false,
        };
        let samples = window.stop.saturating_sub(window.start);
        let bytes = samples.saturating_mul(ahead.view.caches.mean_payload_bytes());
        let help = help_with_batches(bytes < PARALLEL_BYTES as u64, &ahead.view);
        ahead.ask(help)?;
        Ok(ahead)
    }

    /// The batch, if it is ready; it is given once.
    pub fn step(&mut self) -> Result<Step<Batch, BatchGroup>, ReaderError> {
        if self.is_given {
            return Ok(Step::End);
        }
        if self.queue.restart_after_fork() {
            self.ask(Help::AtOnce)?;
        }
        if let Some(mut group) = self.queue.take()? {
            if group.rest.is_some() {
                self.ask(Help::Never)?;
            } else {
                self.is_given = true;
                return match (group.batches.pop_front(), group.error) {
                    (Some(batch), _) => Ok(Step::Ready(batch)),
                    (None, Some(error)) => Err(error),
                    (None, None) => Ok(Step::End),
                };
            }
        }
        Ok(match self.queue.waiting() {
            Some(waiting) => Step::Wait(waiting),
            None => Step::End,
        })
    }

    fn ask(&mut self, help: Help) -> Result<(), ReaderError> {
        let order = Order {
            help,
            in_front: false,
            by_pool: true,
        };
        let batch_size = self.window.stop.saturating_sub(self.window.start).max(1);
        let group = BatchGroup::of(self.window, batch_size, &self.preparation);
        self.queue.ask(&self.view, order, group)
    }
}

/// What one who waits for batches does: what takes all threads, or comes from the disk, takes longer
/// than others may wait.
fn help_with_batches(is_small: bool, view: &View) -> Help {
    if is_small && !view.caches.coldness().is_cold() {
        Help::AtOnce
    } else {
        Help::Never
    }
}
