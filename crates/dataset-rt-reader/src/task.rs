//! A piece of work that is done once, by whoever comes first, while somebody may wait for the result.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::ReaderError;

/// Who does a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    /// A thread of the pool.
    Pool,
    /// The one who waits for the result, whom nothing interrupts meanwhile.
    Consumer,
}

impl Worker {
    /// What a consumer does at most; more is left to the pool. Records may be much larger than most.
    pub(crate) fn most_bytes(self) -> u64 {
        match self {
            Self::Pool => u64::MAX,
            Self::Consumer => 16 << 20,
        }
    }
}

/// Work that was handed to the pool, and its result.
pub(crate) struct Task<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Asked(Box<dyn FnOnce(Worker) -> T + Send>),
    Running,
    Done(T),
    /// The work panicked.
    Failed,
    /// The result was taken, or nobody wants it any more.
    Over,
}

impl<T> Task<T> {
    pub(crate) fn new(work: impl FnOnce(Worker) -> T + Send + 'static) -> Self {
        Self {
            state: Mutex::new(State::Asked(Box::new(work))),
            changed: Condvar::new(),
        }
    }

    /// Does the work, unless that was begun or cancelled before.
    pub(crate) fn run(&self, worker: Worker) {
        let mut state = self.lock();
        let State::Asked(_) = &*state else {
            return;
        };
        let State::Asked(work) = std::mem::replace(&mut *state, State::Running) else {
            return;
        };
        drop(state);
        // A panic would end the pool, or go on in a consumer that only helped.
        let result = catch_unwind(AssertUnwindSafe(|| work(worker)));
        *self.lock() = result.map_or(State::Failed, State::Done);
        self.changed.notify_all();
    }

    /// The result, if it is there.
    pub(crate) fn take(&self) -> Result<Option<T>, ReaderError> {
        let mut state = self.lock();
        match &*state {
            State::Done(_) => match std::mem::replace(&mut *state, State::Over) {
                State::Done(result) => Ok(Some(result)),
                _ => Ok(None),
            },
            State::Failed => Err(ReaderError::ReaderPanic),
            State::Asked(_) | State::Running | State::Over => Ok(None),
        }
    }

    /// Says whether nobody has begun.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(*self.lock(), State::Asked(_))
    }

    /// Waits until the work is done or has failed, but no longer than this.
    pub(crate) fn wait(&self, timeout: Duration) {
        let is_pending = |state: &mut State<T>| matches!(state, State::Asked(_) | State::Running);
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, is_pending);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sees to it that the work is not begun any more, and that its result is dropped.
    pub(crate) fn cancel(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Running) {
            let old = std::mem::replace(&mut *state, State::Over);
            drop(state);
            drop(old);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn work_is_done_once_whoever_comes_first() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let task = Task::new(|_| RUNS.fetch_add(1, Ordering::Relaxed));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| task.run(Worker::Pool));
            }
            task.wait(LONG);
        });
        assert_eq!(task.take().expect("no panic"), Some(0));
        assert_eq!(RUNS.load(Ordering::Relaxed), 1);
        assert_eq!(task.take().expect("no panic"), None);
    }

    #[test]
    fn cancelled_work_is_never_begun() {
        let task = Task::new(|_| unreachable!("it was cancelled"));
        task.cancel();
        task.run(Worker::Pool);
        task.wait(LONG);
        assert_eq!(task.take().expect("no panic"), None::<()>);
    }

    #[test]
    fn a_panic_is_an_error_for_those_who_wait() {
        let task = Task::<()>::new(|_| panic!("as it must"));
        std::thread::scope(|scope| {
            scope.spawn(|| task.run(Worker::Pool));
            task.wait(LONG);
        });
        assert!(matches!(task.take(), Err(ReaderError::ReaderPanic)));
    }
}
