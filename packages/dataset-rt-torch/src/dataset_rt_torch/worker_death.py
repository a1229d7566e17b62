"""Says why loading workers ended or do not answer, where torch only says that they do."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from dataset_rt.exceptions import DatasetRtError
from dataset_rt_torch.shared_memory import shown_room

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

NO_MAIN_GUARD_STATUS = 113
"""With what a worker exits that finds itself starting the training it was started by."""


_DYING_SECONDS = 5.0
_STARTER_VARIABLE = "DATASET_RT_WORKERS_STARTED_BY"
_NO_MAIN_GUARD = (
    "loading workers run the main script again, and this one trains whenever it is run, "
    "expected training to be under a main guard\n"
    'hint: move it into a function main(), and call that under `if __name__ == "__main__":`'
)


class WorkerError(DatasetRtError, RuntimeError):
    """A loading worker died, or could not start."""


class WorkerTimeoutError(WorkerError, TimeoutError):
    """No batch came from the loading workers within ``timeout`` seconds."""


def has_dead_worker(batches: Any) -> bool:  # noqa: ANN401
    """Return whether a worker of torch's iterator has ended, which it must not while that lives."""
    return any(worker.exitcode is not None for worker in getattr(batches, "_workers", ()))


def have_only_left(batches: Any) -> bool:  # noqa: ANN401
    """Return whether all workers that have ended did so in an orderly way, as Ctrl-C makes them."""
    return all(worker.exitcode in (None, 0) for worker in getattr(batches, "_workers", ()))


def explained(error: Exception, batches: Any, timeout_seconds: float) -> WorkerError | None:  # noqa: ANN401
    """Return what to raise in place of what torch raised; None where that says all.

    If there is something to explain, the workers that are left are ended.

    Args:
        error: What torch raised.
        batches: The iterator that raised it.
        timeout_seconds: How long torch was to wait for a batch.
    """
    workers: list[BaseProcess] = list(getattr(batches, "_workers", ()))
    explanation = None
    for _attempt in range(2 * len(workers) + 2):
        # Torch hears of a death by a signal, and raises in whatever line runs then. That ends once
        # the exit status of all workers has been asked for.
        with contextlib.suppress(RuntimeError):
            if explanation is None:
                explanation = _explanation(error, workers, timeout_seconds)
            if explanation is not None:
                _end(workers)
            break
    return explanation


def _end(workers: list[BaseProcess]) -> None:
    """End workers of which nothing is expected any more."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(_DYING_SECONDS)


def _explanation(
    error: Exception, workers: list[BaseProcess], timeout_seconds: float
) -> WorkerError | None:
    if isinstance(error, EOFError | OSError):
        # What a dying worker leaves of a batch. Its descriptors are closed before it is dead.
        dying = wait([worker.sentinel for worker in workers], _DYING_SECONDS)
        for worker in workers:
            if worker.sentinel in dying:
                worker.join(_DYING_SECONDS)
    elif not isinstance(error, RuntimeError):
        return None
    for number, worker in enumerate(workers):
        if worker.exitcode is not None:
            return WorkerError(_cause_of_death(number, worker))
    if timeout_seconds > 0 and "timed out" in str(error):
        return WorkerTimeoutError(
            f"no batch came from {len(workers)} loading workers within {timeout_seconds:g} "
            "seconds, and all of them live: a transform hangs or takes longer\n"
            "hint: raise timeout, or find with num_workers=0 or `py-spy dump` where it hangs"
        )
    return None


def _cause_of_death(number: int, worker: BaseProcess) -> str:
    status = worker.exitcode
    name = f"loading worker {number} (process {worker.pid})"
    if status == NO_MAIN_GUARD_STATUS:
        return _NO_MAIN_GUARD
    if status is None or status >= 0:
        hint = "what it wrote to stderr says why"
        if status == 0:
            hint = "a transform that calls sys.exit() or interrupts does that; raise an exception"
        return (
            f"{name} exited with status {status}, expected it to live as long as its loader\n"
            f"hint: {hint}"
        )
    with contextlib.suppress(ValueError):
        name = f"{name} was killed by {signal.Signals(-status).name}"
    if -status == signal.SIGKILL:
        return (
            f"{name}, likely out of memory\n"
            "hint: use fewer workers, smaller batches or a smaller prefetch_factor"
        )
    if -status == signal.SIGBUS:
        return (
            f"{name}, likely out of shared memory: {shown_room()}\n"
            "hint: enlarge it (docker run --shm-size), or use fewer workers, smaller batches or a "
            "smaller prefetch_factor"
        )
    if -status in (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE):
        return (
            f"{name}, so native code that it called has crashed\n"
            "hint: python -X faulthandler shows where; num_workers=0 runs it in this process"
        )
    return f"{name}, expected it to live as long as its loader"


def refuse_to_start_in_a_starting_worker() -> None:
    """End this process if it is still importing the main script and would start workers itself.

    It came here because the script trains whenever it is run. Where a loader started it, that one
    sees the status and explains; this process has nothing to add.

    Raises:
        WorkerError: Something else started this process.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if os.environ.get(_STARTER_VARIABLE) == str(os.getppid()):
            raise SystemExit(NO_MAIN_GUARD_STATUS)
        raise WorkerError(_NO_MAIN_GUARD)


@contextlib.contextmanager
def starting_workers(*, inherit_from_here: bool) -> Iterator[None]:
    """Start processes that know who started them, and see Ctrl-C only when they want to.

    A terminal sends Ctrl-C to workers too. One that is just importing PyTorch would print a
    traceback of its own about that; so it is held back until `let_interrupts_through`.

    Args:
        inherit_from_here: Whether processes are started that inherit the environment and what this
            thread holds back.
    """
    if not inherit_from_here:
        yield
        return
    # It lets signals through when it starts, whatever was held back before.
    from multiprocessing import resource_tracker  # noqa: PLC0415

    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ[_STARTER_VARIABLE] = str(os.getpid())
    try:
        yield
    finally:
        os.environ.pop(_STARTER_VARIABLE, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_interrupts_through() -> None:
    """See Ctrl-C from here on."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
