//! One thread pool per process id, built at first use.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::buffers::BufferStore;
use crate::error::ReaderError;

/// How many threads this process may keep busy: affinity and cgroup quotas are counted in.
#[must_use]
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A recipe for threads. They start when first needed, and anew in a forked child, which inherits
/// the memory of its parent but none of its threads.
#[derive(Debug)]
pub struct Pool {
    num_threads: usize,
    running: Mutex<Option<(u32, Arc<ThreadPool>)>>,
    buffers: Arc<BufferStore>,
}

impl Pool {
    /// A pool of this many threads, at least one; none is started yet.
    #[must_use]
    pub fn new(num_threads: usize) -> Self {
        Self {
            num_threads: num_threads.max(1),
            running: Mutex::new(None),
            buffers: Arc::default(),
        }
    }

    /// Number of threads.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }

    /// Memory for batches, used again and again.
    pub(crate) fn buffers(&self) -> &Arc<BufferStore> {
        &self.buffers
    }

    /// The threads of this process.
    pub(crate) fn threads(&self) -> Result<Arc<ThreadPool>, ReaderError> {
        let process = std::process::id();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, threads)) = running.as_ref()
            && *owner == process
        {
            return Ok(Arc::clone(threads));
        }
        let threads = ThreadPoolBuilder::new()
            .num_threads(self.num_threads)
            .thread_name(|number| format!("dataset-rt-reader-{number}"))
            .build()
            .map_err(|error| ReaderError::Threads {
                threads: self.num_threads,
                reason: error.to_string(),
            })?;
        let threads = Arc::new(threads);
        if let Some(of_parent) = running.replace((process, Arc::clone(&threads))) {
            // Dropping the parent's pool would wait for threads that do not exist here.
            std::mem::forget(of_parent);
        }
        Ok(threads)
    }
}
