"""Collects what is found of several paths, so that one that fails does not hide the others."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dataset_rt.cli.failures import SUCCESS, CommandError, Failure
from dataset_rt.cli.places import absolute
from dataset_rt.exceptions import DatasetRtError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataset_rt.cli.terminal import Terminal


class Entries:
    """One entry for each path, in order; the exit status is that of the worst.

    Messages go to standard error at once, or into the document.
    """

    def __init__(self, *, as_json: bool) -> None:
        """Begin with none."""
        self._as_json = as_json
        self._entries: list[dict[str, Any]] = []
        self._first_failure: Failure | None = None
        self.status = SUCCESS

    def add(self, entry: dict[str, Any], status: int = SUCCESS) -> None:
        """Add what was found."""
        self._entries.append(entry)
        self.status = max(self.status, status)

    @contextlib.contextmanager
    def attempt(self, path: str) -> Iterator[None]:
        """Turn an error into the entry of this path."""
        try:
            yield
        except BrokenPipeError:
            # Nobody reads what the other paths would give.
            raise
        except (CommandError, DatasetRtError, OSError) as error:
            failure = Failure.of(error)
            self._first_failure = self._first_failure or failure
            self.add({"path": absolute(path), **failure.fields}, failure.status)
            if not self._as_json:
                failure.show()

    def write(self, terminal: Terminal, name: str) -> None:
        """Write the document, which begins with the first error if there is one."""
        if self._as_json:
            fields = {} if self._first_failure is None else self._first_failure.fields
            terminal.write_json({**fields, name: self._entries})
