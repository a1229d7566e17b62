"""Carries an exception from a worker process to the caller with its class, traceback and notes."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from dataset_rt.exceptions import TransformError
from dataset_rt_torch.by_value import dumps_by_value


class WorkerTraceback(Exception):  # noqa: N818
    """The traceback of an exception as it was in the worker process, shown as its cause."""

    def __init__(self, text: str) -> None:
        """Keep the formatted traceback."""
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        """Return the traceback on lines of its own."""
        return f'\n"""\n{self.text}"""'


class BatchFailure:
    """What a worker sends in place of a batch that it could not make.

    Torch would rebuild the exception from its class and one string, or give up and raise a
    RuntimeError; here the exception itself travels.

    Attributes:
        type_name: The qualified name of the exception's class.
        message: Its message.
        notes: Its notes.
        traceback_text: Its traceback in the worker.
    """

    def __init__(self, error: Exception) -> None:
        """Take what can be pickled from a live exception."""
        kind = type(error)
        self.type_name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        self.message = _message(error)
        self.notes = list(getattr(error, "__notes__", ()))
        self.traceback_text = "".join(traceback.format_exception(error))
        self._pickled = _pickle(error)

    def to_exception(self) -> Exception:
        """Rebuild the exception, or a TransformError in its place where its class cannot be."""
        if self._pickled is not None:
            try:
                error = pickle.loads(self._pickled)
            except Exception:  # noqa: BLE001
                error = None
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                return error
        error = TransformError(f"{self.type_name}: {self.message}\n{self.traceback_text}")
        for note in self.notes:
            error.add_note(note)
        return error

    def to_cause(self) -> WorkerTraceback:
        """Return the traceback in the worker, to be raised as the cause."""
        return WorkerTraceback(self.traceback_text)


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001
        return "its message cannot be shown"


def _pickle(error: Exception) -> bytes | None:
    """Pickle an exception so that it can be rebuilt; None where it cannot."""
    for candidate in (error, _Bare(error)):
        try:
            pickled, _ = dumps_by_value(candidate)
            rebuilt = pickle.loads(pickled)
        except Exception:  # noqa: BLE001, S112
            continue
        if type(rebuilt) is type(error) and _message(rebuilt) == _message(error):
            return pickled
    return None


class _Bare:
    """Pickles as an exception that is rebuilt without its constructor.

    For constructors that do not take ``args`` back, and for attributes that do not pickle, which
    are left out.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = {}
        for name, value in vars(self._error).items():
            try:
                dumps_by_value(value)
            except Exception:  # noqa: BLE001, S112
                continue
            attributes[name] = value
        return _rebuild, (type(self._error), self._error.args, attributes)


def _rebuild(kind: type[Exception], args: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error
