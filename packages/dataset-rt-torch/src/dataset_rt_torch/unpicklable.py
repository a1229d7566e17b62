"""Finds which part of a function cannot be pickled, to name it in a message."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DEPTH = 8


def describe_unpicklable(value: object, name: str, error: Exception) -> str:
    """Say which attribute, captured variable or element of a value cannot be pickled, and why.

    Args:
        value: What could not be pickled.
        name: What the message calls it.
        error: What pickling it raised.

    Example:
        >>> import threading
        >>> lock = threading.Lock()
        >>> print(describe_unpicklable({"lock": lock}, "options", TypeError("no")))
        options['lock'] (a lock): cannot pickle '_thread.lock' object
    """
    found = _culprit(value, name, error, set(), 0)
    culprit_name, culprit, reason = found
    if culprit is value:
        return str(reason)
    return f"{culprit_name} (a {type(culprit).__qualname__}): {reason}"


def _culprit(
    value: object, name: str, error: Exception, seen: set[int], depth: int
) -> tuple[str, object, Exception]:
    """Return name, value and error of the innermost part that fails."""
    seen.add(id(value))
    if depth < _MAX_DEPTH:
        for part_name, part in _parts(value, name):
            if id(part) in seen:
                continue
            try:
                cloudpickle.dumps(part)
            except Exception as part_error:  # noqa: BLE001
                return _culprit(part, part_name, part_error, seen, depth + 1)
    return name, value, error


def _parts(value: object, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts that pickling a value by value would pickle, with their names."""
    if isinstance(value, types.MethodType):
        yield f"{name}.__self__", value.__self__
        yield f"{name}.__func__", value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _variables(value, name)
        yield f"{name}.__defaults__", value.__defaults__ or ()
        yield f"{name}.__kwdefaults__", value.__kwdefaults__ or {}
    elif isinstance(value, functools.partial):
        yield f"{name}.func", value.func
        yield f"{name}.args", value.args
        yield f"{name}.keywords", value.keywords
    elif isinstance(value, dict | list | tuple):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield f"{name}[{key!r}]", part
    else:
        for attribute, part in getattr(value, "__dict__", {}).items():
            yield f"{name}.{attribute}", part


def _variables(function: types.FunctionType, name: str) -> Iterator[tuple[str, Any]]:
    try:
        variables = inspect.getclosurevars(function)
    except ValueError:
        # A captured variable has no value yet.
        return
    for kind, captured in (("captured", variables.nonlocals), ("global", variables.globals)):
        for variable, part in captured.items():
            yield f"{kind} variable {variable!r} of {name}", part
