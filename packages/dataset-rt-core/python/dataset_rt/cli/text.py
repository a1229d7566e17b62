"""Turns values into text that is safe to show: no control characters, no endless lines."""

from __future__ import annotations

import json
import math
from typing import Any

_SHOWN_CHARACTERS = 200
_BYTES_PER_STEP = 1000
_BYTES_PER_BINARY_STEP = 1024


def printable(text: str) -> str:
    r"""Return the text with everything escaped that a terminal would obey or could not show.

    Example:
        >>> printable("naïve\x1b[31m")
        'naïve\\x1b[31m'
    """
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def literal(value: object) -> str:
    r"""Return a metadata value as Python would write it, cut where it would fill the screen.

    Example:
        >>> literal("a\tb"), literal(None), literal(0.5)
        ("'a\\tb'", 'None', '0.5')
    """
    text = repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}..."
    return text


def amount(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun.

    Example:
        >>> amount(1, "sample"), amount(1797, "sample"), amount(2, "class", "classes")
        ('1 sample', '1,797 samples', '2 classes')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def size(count: float) -> str:
    """Return a number of bytes in the decimal unit that suits it.

    Example:
        >>> size(0), size(999), size(115_008), size(999_999)
        ('0 B', '999 B', '115.0 kB', '1.0 MB')
    """
    if count < _BYTES_PER_STEP:
        return f"{count:.4g} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= _BYTES_PER_STEP
        # What rounds up to the next step is shown in its unit.
        if round(count, 1) < _BYTES_PER_STEP:
            return f"{count:,.1f} {unit}"
    return f"{count / _BYTES_PER_STEP:,.1f} PB"


def binary_size(count: int) -> str:
    """Return a power of two of bytes, exactly.

    Example:
        >>> binary_size(0), binary_size(512), binary_size(2**20)
        ('0 B', '512 B', '1 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < _BYTES_PER_BINARY_STEP:
            return f"{count} {unit}"
        count //= _BYTES_PER_BINARY_STEP
    return f"{count} EiB"


def json_value(value: object) -> object:
    """Return a metadata value as JSON can hold it: numbers that JSON lacks become their names.

    Example:
        >>> json_value(0.5), json_value(float("-inf")), json_value("text")
        (0.5, '-Infinity', 'text')
    """
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    return value


def json_document(document: dict[str, Any]) -> str:
    """Return a document as it is written with ``--json``; ASCII, so that any pipe can carry it."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
