"""Checks the arguments of public calls, so that each wrong one is named with what was expected."""

import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dataset_rt.exceptions import ConfigError

MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1

_SHOWN_CHARACTERS = 80


def shown(value: object) -> str:
    """Return the value as it appears in a message: its repr, cut where it would fill the screen."""
    text = repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}..."
    return text


def type_name(value: object) -> str:
    """Return the name of the value's type with its article, as in ``a list`` or ``an int``."""
    if value is None:
        return "None"
    name = type(value).__qualname__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name}"


def integer(name: str, value: object, *, minimum: int, maximum: int = MAX_INT64) -> int:
    """Return the value as an int, or raise ConfigError where it is none or out of range.

    Bools are refused: ``True`` where a count is meant is a slip, not a one.
    """
    expected = f"expected an integer from {minimum} to {maximum}"
    if isinstance(value, bool | np.bool_):
        raise ConfigError(f"{name} is {value}, {expected}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(f"{name} is {shown(value)}, {expected}") from None
    if not minimum <= number <= maximum:
        raise ConfigError(f"{name} is {number}, {expected}")
    return number


def flag(name: str, value: object) -> bool:
    """Return the value if it is a bool, Python's or NumPy's, else raise ConfigError."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ConfigError(f"{name} is {shown(value)}, expected True or False")


def flag_or_auto(name: str, value: object) -> bool | str:
    """Return the value if it is a bool or ``"auto"``, else raise ConfigError."""
    if isinstance(value, str) and value == "auto":
        return value
    try:
        return flag(name, value)
    except ConfigError as error:
        raise ConfigError(f"{error} or 'auto'") from None


def choice(name: str, value: object, options: tuple[str, ...]) -> str:
    """Return the value if it is one of the options, else raise ConfigError."""
    if isinstance(value, str) and value in options:
        return value
    listed = " or ".join(repr(option) for option in options)
    raise ConfigError(f"{name} is {shown(value)}, expected {listed}")


def path(name: str, value: object) -> str:
    """Return the value as an absolute path, so that a later ``chdir`` changes nothing."""
    expected = "expected a path as str or os.PathLike"
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name} is {shown(value)}, {expected}")
    text = os.fspath(value)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text:
        raise ConfigError(f"{name} is empty, {expected}")
    if "\0" in text:
        raise ConfigError(f"{name} is {shown(text)}, which holds a NUL character, {expected}")
    return str(Path(text).absolute())


def paths(name: str, value: object) -> list[str]:
    """Return one path or an iterable of paths as a list of absolute paths, which is not empty."""
    if isinstance(value, str | os.PathLike):
        return [path(name, value)]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise ConfigError(
            f"{name} is {shown(value)}, expected a path or an iterable of paths, "
            "each a str or os.PathLike"
        )
    found = [path(f"{name}[{index}]", item) for index, item in enumerate(value)]
    if not found:
        raise ConfigError(f"{name} is empty, expected at least one path")
    return found


def instance(name: str, value: object, expected: type[Any]) -> None:
    """Raise ConfigError unless the value is an instance of the expected class."""
    if not isinstance(value, expected):
        raise ConfigError(f"{name} is {type_name(value)}, expected {expected.__qualname__}")
