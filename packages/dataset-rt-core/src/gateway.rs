//! The one way out of Python: detach, do the work, see to signals, map the error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dataset_rt_reader::{FoundRecords, ReaderError, RecordNumber, View};
use pyo3::prelude::*;

use crate::error::CoreError;

/// How often a waiting call looks for Ctrl-C.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs short work without the GIL.
pub(crate) fn detached<T, E>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T>
where
    T: Send,
    E: Into<CoreError> + Send,
{
    py.detach(work).map_err(|error| error.into().into())
}

/// How long cancelled work is waited for.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// What becomes of long work when a signal arrives.
pub(crate) enum OnSignal<'a> {
    /// The flag is set, and the work is waited for a moment: it has files to clean up, and goes on
    /// doing so by itself if that takes longer.
    Cancel(&'a AtomicBool),
    /// The work only computes or reads: it goes on for nobody, and its result is dropped.
    Leave,
}

/// Runs long work in a thread of its own and waits for it, looking for signals.
pub(crate) fn interruptible<T, E>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    on_signal: &OnSignal<'_>,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<CoreError> + Send + 'static,
{
    interruptible_with(py, work, on_signal, || Ok(()))
}

/// Runs work that only computes or reads: in a thread of its own, which takes a moment to start, where
/// it may take long enough for somebody to press Ctrl-C.
pub(crate) fn detached_or_interruptible<T, E>(
    py: Python<'_>,
    takes_long: bool,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<CoreError> + Send + 'static,
{
    if takes_long {
        interruptible(py, work, &OnSignal::Leave)
    } else {
        detached(py, work)
    }
}

/// Finds records and reads them, in a way that Ctrl-C can end where it may take long.
pub(crate) fn read_records<T: Send + 'static>(
    py: Python<'_>,
    view: Arc<View>,
    records: Vec<RecordNumber>,
    read: impl FnOnce(&View, &FoundRecords) -> Result<T, ReaderError> + Send + 'static,
) -> PyResult<T> {
    if view.may_take_long(records.len()) {
        let find_and_read = move || read(&view, &view.find(records)?);
        return interruptible(py, find_and_read, &OnSignal::Leave);
    }
    let done = detached(py, || {
        let found = view.find(records)?;
        if found.take_long() {
            return Ok(Err((found, read)));
        }
        read(&view, &found).map(Ok)
    })?;
    match done {
        Ok(result) => Ok(result),
        Err((found, read)) => interruptible(py, move || read(&view, &found), &OnSignal::Leave),
    }
}

/// As [`interruptible`]; `tick` is called again and again while the work goes on, and an error of
/// it counts as a signal.
pub(crate) fn interruptible_with<T, E>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    on_signal: &OnSignal<'_>,
    tick: impl Fn() -> PyResult<()>,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<CoreError> + Send + 'static,
{
    let (answer, answers) = channel();
    let thread = std::thread::Builder::new()
        .name("dataset-rt-call".to_owned())
        .spawn(move || {
            // After a signal nobody may wait for the answer any more.
            let _ = answer.send(work());
        })
        .map_err(|error| {
            CoreError::from(ReaderError::Threads {
                threads: 1,
                reason: error.to_string(),
            })
        })?;
    let answers = Mutex::new(answers);
    let result = loop {
        let received = py.detach(|| receive(&answers, SIGNAL_INTERVAL));
        match received {
            Ok(result) => break Some(result),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals().and_then(|()| tick()) {
                    if let OnSignal::Cancel(flag) = on_signal {
                        flag.store(true, Ordering::Release);
                        // Whatever the answer, the interrupt is what the caller hears of.
                        let _ = py.detach(|| receive(&answers, CANCEL_GRACE));
                    }
                    return Err(interrupt);
                }
            }
        }
    };
    py.detach(|| thread.join())
        .map_err(|_| CoreError::from(ReaderError::ReaderPanic))?;
    match result {
        Some(result) => result.map_err(|error| error.into().into()),
        None => Err(CoreError::from(ReaderError::ReaderPanic).into()),
    }
}

fn receive<T>(answers: &Mutex<Receiver<T>>, timeout: Duration) -> Result<T, RecvTimeoutError> {
    match answers.lock() {
        Ok(answers) => answers.recv_timeout(timeout),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    }
}
