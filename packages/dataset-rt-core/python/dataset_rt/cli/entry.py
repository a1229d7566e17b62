"""The way in and out of the command line: its arguments, its exit status, and every way to fail."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from dataset_rt.cli.failures import BROKEN_PIPE, FAILED, INTERRUPTED, CommandError, Failure
from dataset_rt.exceptions import DatasetRtError

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXTRA = {"typer", "rich"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: The command line without the program's name; None takes that of the process.

    Returns:
        0 if all went well, 1 if a cache is damaged, 2 if the command could not be carried out,
        130 after Ctrl-C, 141 if the reader of the output went away.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    # A command line that cannot be parsed has to be refused in the form that it asks for.
    as_json = "--json" in given
    for stream in (sys.stdout, sys.stderr):
        # What the encoding of a terminal or pipe lacks is escaped, and no reason to fail.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = _run(given, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_output()
        return BROKEN_PIPE
    return status


def _run(arguments: list[str], *, as_json: bool) -> int:
    try:
        from dataset_rt.cli import application  # noqa: PLC0415 - which needs the extra
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        failure = Failure(
            f"the command line needs {missing}, which is not installed",
            'pip install "dataset-rt[cli]"',
            FAILED,
        )
    else:
        try:
            return application.run(arguments)
        except KeyboardInterrupt:
            failure = Failure("interrupted", "", INTERRUPTED)
        except BrokenPipeError:
            raise
        except (CommandError, DatasetRtError, OSError) as error:
            failure = Failure.of(error)
    failure.write(as_json=as_json)
    return failure.status


def _silence_output() -> None:
    """Let the interpreter's last flush of what nobody reads succeed."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
