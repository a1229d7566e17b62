"""What went wrong, in one form for people and for programs, and with which status the command ends.

This module is used where typer and rich are missing, so it does not import them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dataset_rt.cli.text import json_document, printable
from dataset_rt.exceptions import CorruptCacheError

SUCCESS = 0
DAMAGED = 1
"""A cache is not as it was written."""
FAILED = 2
"""The command could not be carried out: bad usage, no such cache, a file that cannot be read."""
INTERRUPTED = 130
"""Ended by Ctrl-C; 128 and the number of the signal, as shells count."""
BROKEN_PIPE = 141
"""The reader of the output went away; counted in the same way."""

_HINT = "\nhint: "


class CommandError(Exception):
    """A command cannot be carried out as it was given."""


@dataclass(frozen=True)
class Failure:
    """Why a command ends without its result.

    Attributes:
        message: What was found and what was expected.
        hint: What to do about it; empty if there is nothing.
        status: The exit status.
    """

    message: str
    hint: str
    status: int

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an exception that a command ends with."""
        if isinstance(error, OSError) and error.strerror:
            place = "" if error.filename is None else f": {error.filename}"
            text = f"{error.strerror[:1].lower()}{error.strerror[1:]}{place}"
        else:
            text = str(error)
        message, _, hint = text.partition(_HINT)
        status = DAMAGED if isinstance(error, CorruptCacheError) else FAILED
        return cls(message, hint, status)

    @property
    def fields(self) -> dict[str, str]:
        """The parts of a JSON document that say so."""
        fields = {"error": self.message}
        if self.hint:
            fields["hint"] = self.hint
        return fields

    def write(self, *, as_json: bool) -> None:
        """Write a document of it to standard output, or a message to standard error."""
        if as_json:
            sys.stdout.write(json_document(self.fields))
        else:
            self.show()

    def show(self) -> None:
        """Write a message to standard error."""
        sys.stdout.flush()
        lines = [
            f"error: {line}" if number == 0 else line
            for number, line in enumerate(self.message.split("\n"))
        ]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
