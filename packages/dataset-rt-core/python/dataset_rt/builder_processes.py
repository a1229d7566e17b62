"""Building several caches at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dataset_rt.building import BuildPlan, Outcome, failure, reclaim_useless, write_one
from dataset_rt.exceptions import BuilderProcessError, ConfigError, DatasetRtError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from types import FrameType

    from dataset_rt.config import WriterConfig
    from dataset_rt.progress import WriteProgress
    from dataset_rt.sources import NamedSource

# Builders clean up when they are told to end; one that does not come to it is killed.
_CLEAN_UP_SECONDS = 0.7
_MAIN_GUARD_HINT = (
    "hint: a script that writes with num_processes is a file, not standard input, and begins its "
    'work under `if __name__ == "__main__":`'
)


class _Builder(NamedTuple):
    named: NamedSource
    process: BaseProcess
    connection: Connection


def write_in_processes(
    base_path: str,
    config: WriterConfig,
    num_threads: int,
    sources: Sequence[NamedSource],
    progress: WriteProgress,
) -> list[Outcome]:
    """Build what is missing, up to ``num_processes`` sources at once, and give outcomes in order.

    Raises:
        ConfigError: This process is itself being started for another one, as happens to a script
            without a main guard.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigError(
            f"num_processes is {config.num_processes} in a process that is just being started\n"
            f"{_MAIN_GUARD_HINT}"
        )
    count = min(config.num_processes, len(sources))
    plan = BuildPlan(base_path, config, max(1, num_threads // count))
    outcomes: dict[str, Outcome] = {}
    pending = list(reversed(sources))
    running: dict[Any, _Builder] = {}
    try:
        while pending or running:
            while pending and len(running) < count:
                named = pending.pop()
                started = _start(plan, named)
                if isinstance(started, _Builder):
                    running[started.connection] = started
                else:
                    outcomes[named.name] = started
                    progress.finish(named.name)
            for connection in wait(list(running)):
                builder = running[connection]
                outcome = _receive(builder, plan, progress)
                if outcome is not None:
                    outcomes[builder.named.name] = outcome
                    progress.finish(builder.named.name)
                    del running[connection]
    finally:
        _end(list(running.values()))
        if running:
            reclaim_useless(base_path)
    return [outcomes[named.name] for named in sources]


def _start(plan: BuildPlan, named: NamedSource) -> _Builder | Outcome:
    """Start the process of one source, or say why that cannot be."""
    try:
        pickled = bytes(ForkingPickler.dumps(named))
    except Exception as error:  # noqa: BLE001 - pickling runs the source's own code
        return Outcome(
            failure(
                named.name,
                ConfigError(
                    f"the source cannot be sent to a process: {error}\n"
                    "hint: define its class at the top of a module and keep open files out of it, "
                    "or use num_processes=0"
                ),
            )
        )
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(
        target=_run, args=(sending, plan, pickled), name=f"dataset-rt-builder-{named.name}"
    )
    try:
        process.start()
    except OSError as error:
        receiving.close()
        return Outcome(failure(named.name, error))
    finally:
        sending.close()
    return _Builder(named, process, receiving)


def _receive(builder: _Builder, plan: BuildPlan, progress: WriteProgress) -> Outcome | None:
    """Take one message of a builder; its outcome if that was the last one."""
    name = builder.named.name
    try:
        message = builder.connection.recv()
    except (EOFError, OSError):
        builder.process.join()
        builder.connection.close()
        error = BuilderProcessError(_cause_of_death(builder.process.exitcode))
        return Outcome(failure(name, error, base_path=plan.base_path))
    except Exception as error:  # noqa: BLE001 - unpickling runs the source's own code
        builder.process.join()
        builder.connection.close()
        return Outcome(failure(name, BuilderProcessError(f"its result cannot be read: {error}")))
    if isinstance(message, Outcome):
        builder.process.join()
        builder.connection.close()
        return message
    progress.update(name, *message)
    return None


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        likely = ", likely out of memory" if -exit_code == signal.SIGKILL else ""
        return f"its builder process was killed by {name}{likely}"
    return (
        f"its builder process ended with exit code {exit_code} before it had a result\n"
        f"{_MAIN_GUARD_HINT}"
    )


def _end(builders: list[_Builder]) -> None:
    """Tell builders to clean up and end, and kill those that take too long."""
    for builder in builders:
        builder.process.terminate()
    deadline = time.monotonic() + _CLEAN_UP_SECONDS
    for builder in builders:
        builder.process.join(max(0.0, deadline - time.monotonic()))
        if builder.process.is_alive():
            builder.process.kill()
            builder.process.join()
        builder.connection.close()


def _run(connection: Connection, plan: BuildPlan, pickled: bytes) -> None:
    """Build one source; the body of a builder process."""
    # Ctrl-C in a terminal reaches the whole group; the parent decides, and tells by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_by_exception)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    named = pickle.loads(pickled)

    def report(samples: int, payload_bytes: int) -> None:
        connection.send((samples, payload_bytes))

    outcome = write_one(plan, named, report, waits=True)
    if outcome is None:
        raise AssertionError("a builder that waits always has an outcome")
    connection.send(_portable(outcome))
    connection.close()


def _exit_by_exception(_signal_number: int, _frame: FrameType | None) -> NoReturn:
    # Unwinding drops the build, which gives its space back.
    sys.exit(128 + signal.SIGTERM)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _portable(outcome: Outcome) -> Outcome:
    """Return the outcome with an exception that the parent can rebuild, its traceback as a note."""
    exception = getattr(outcome.result, "exception", None)
    if exception is None:
        return outcome
    text = "".join(traceback.format_exception(exception))
    try:
        copy = pickle.loads(pickle.dumps(exception))
    except Exception:  # noqa: BLE001 - exceptions with awkward constructors raise anything
        copy = DatasetRtError(f"{type(exception).__qualname__}: {exception}")
    copy.add_note(f"in the builder process:\n{text}")
    result = type(outcome.result)(
        outcome.result.source_name,
        outcome.result.message,
        exception=copy,
    )
    return Outcome(result, outcome.figures)
