"""Says why loading workers ended or do not answer, where torch only says that they do."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from typing import TYPE_CHECKING, Any

from dataset_rt.exceptions import DatasetRtError
from dataset_rt_torch.shared_memory import shown_room

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

NO_MAIN_GUARD_STATUS = 113
"""With what a worker exits that finds itself starting the training it was started by."""


class WorkerError(DatasetRtError, RuntimeError):
    """A loading worker died, or could not start."""


class WorkerTimeoutError(WorkerError, TimeoutError):
    """No batch came from the loading workers within ``timeout`` seconds."""


def explained(error: Exception, batches: Any, timeout_seconds: float) -> WorkerError | None:  # noqa: ANN401
    """Return what to raise in place of what torch raised; None where that says all.

    Args:
        error: What torch raised.
        batches: The iterator that raised it.
        timeout_seconds: How long torch was to wait for a batch.
    """
    if not isinstance(error, RuntimeError):
        return None
    workers: list[BaseProcess] = list(getattr(batches, "_workers", ()))
    for number, worker in enumerate(workers):
        if worker.exitcode not in (None, 0):
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
        return (
            "loading workers run the main script again, and this one trains whenever it is run, "
            "expected training to be under a main guard\n"
            'hint: move it into a function main(), and call that under `if __name__ == "__main__":`'
        )
    if status is None or status > 0:
        return (
            f"{name} exited with status {status}, expected it to live as long as its loader\n"
            "hint: what it wrote to stderr says why"
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
    """End this process if it is a worker that is still importing the main script.

    It came here because the script trains whenever it is run. The training process sees the status
    and explains; this process has nothing to add.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(NO_MAIN_GUARD_STATUS)


@contextlib.contextmanager
def interrupts_held_back(*, is_needed: bool) -> Iterator[None]:
    """Start processes that do not see Ctrl-C before they call `let_interrupts_through`.

    A terminal sends Ctrl-C to workers too. One that is just importing PyTorch would print a
    traceback of its own about that.

    Args:
        is_needed: Whether processes are started that inherit what this thread holds back.
    """
    if not is_needed:
        yield
        return
    # It lets signals through when it starts, whatever was held back before.
    from multiprocessing import resource_tracker  # noqa: PLC0415

    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_interrupts_through() -> None:
    """See Ctrl-C from here on."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
