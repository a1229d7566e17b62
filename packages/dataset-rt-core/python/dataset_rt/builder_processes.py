"""Building several caches at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from dataset_rt.building import BuildPlan, Outcome, failure, reclaim_useless, write_one
from dataset_rt.exceptions import BuilderProcessError, CachePermissionError, ConfigError
from dataset_rt.results import CacheWriteSuccess

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


@dataclass
class _Builder:
    named: NamedSource
    process: BaseProcess
    connection: Connection
    has_begun: bool = False


class _Message(NamedTuple):
    """What a builder says: that it began, how far it is, or how it ended."""

    kind: Literal["begun", "progress", "outcome", "exit", "interrupt", "failed"]
    content: Any = None


class _ToldToEnd(BaseException):
    """The parent wants no more of this builder."""


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
    this_process = multiprocessing.current_process()
    if getattr(this_process, "_inheriting", False):
        raise ConfigError(
            f"num_processes is {config.num_processes} in a process that is just being started\n"
            f"{_MAIN_GUARD_HINT}"
        )
    if this_process.daemon:
        raise ConfigError(
            f"num_processes is {config.num_processes} in a daemonic process, which cannot start "
            "others\nhint: use num_processes=0 there"
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
            # Without any, every source so far could not be sent to a process.
            for connection in wait(list(running)) if running else ():
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
    """Take one message of a builder; its outcome if that was the last one.

    Raises:
        KeyboardInterrupt: The source raised it in its process.
        SystemExit: The same.
    """
    try:
        message: _Message = builder.connection.recv()
    except (EOFError, OSError):
        builder.process.join()
        builder.connection.close()
        return _failed(builder, plan, _cause_of_death(builder))
    match message.kind:
        case "begun":
            builder.has_begun = True
            return None
        case "progress":
            progress.update(builder.named.name, *message.content)
            return None
    builder.process.join()
    builder.connection.close()
    match message.kind:
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            raise SystemExit(message.content)
        case "outcome":
            return _unpickled(builder, plan, message.content)
    return _failed(builder, plan, f"its builder process failed\n{message.content}")


def _unpickled(builder: _Builder, plan: BuildPlan, pickled: bytes) -> Outcome:
    try:
        outcome: Outcome = pickle.loads(pickled)
    except Exception as error:  # noqa: BLE001 - unpickling runs code of the source's exceptions
        return _failed(builder, plan, f"the result of its builder process cannot be read: {error}")
    return outcome


def _failed(builder: _Builder, plan: BuildPlan, message: str) -> Outcome:
    error = BuilderProcessError(message)
    return Outcome(failure(builder.named.name, error, base_path=plan.base_path))


def _cause_of_death(builder: _Builder) -> str:
    exit_code = builder.process.exitcode
    if exit_code is not None and exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:
            name = f"signal {-exit_code}"
        likely = ", likely out of memory" if -exit_code == signal.SIGKILL else ""
        return f"its builder process was killed by {name}{likely}"
    hint = "" if builder.has_begun else f"\n{_MAIN_GUARD_HINT}"
    return f"its builder process ended with exit code {exit_code} before it had a result{hint}"


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
    signal.signal(signal.SIGTERM, _end_by_exception)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connection.send(_Message("begun"))
    try:
        message = _Message("outcome", _portable(_outcome(connection, plan, pickled)))
    except _ToldToEnd:
        # Unwinding has dropped the build, which gives its space back.
        return
    except KeyboardInterrupt:
        message = _Message("interrupt")
    except SystemExit as request:
        is_plain = isinstance(request.code, int | str | None)
        message = _Message("exit", request.code if is_plain else 1)
    except BaseException:  # noqa: BLE001 - a process has no caller; its parent gets the text
        message = _Message("failed", traceback.format_exc())
    connection.send(message)
    connection.close()


def _outcome(connection: Connection, plan: BuildPlan, pickled: bytes) -> Outcome:
    named = pickle.loads(pickled)

    def report(samples: int, payload_bytes: int) -> None:
        connection.send(_Message("progress", (samples, payload_bytes)))

    try:
        outcome = write_one(plan, named, report, waits=True)
    except CachePermissionError as error:
        return Outcome(failure(named.name, error))
    if outcome is None:
        raise AssertionError("a builder that waits always has an outcome")
    return outcome


def _end_by_exception(_signal_number: int, _frame: FrameType | None) -> NoReturn:
    raise _ToldToEnd


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _portable(outcome: Outcome) -> bytes:
    """Pickle an outcome so that the parent can rebuild it, with the traceback as a note."""
    result = outcome.result
    if isinstance(result, CacheWriteSuccess) or result.exception is None:
        return pickle.dumps(outcome)
    exception = result.exception
    text = "".join(traceback.format_exception(exception))

    def pickled_with(copy: Exception) -> bytes:
        copy.add_note(f"in the builder process:\n{text}")
        return pickle.dumps(outcome._replace(result=replace(result, exception=copy)))

    try:
        return pickled_with(pickle.loads(pickle.dumps(exception)))
    except Exception:  # noqa: BLE001 - exceptions with awkward constructors raise anything
        return pickled_with(BuilderProcessError(result.message))
