"""Says of an exception what it is about, and carries it from a worker process to the caller."""

from __future__ import annotations

import pickle
import re
import traceback
from typing import Any

from dataset_rt.exceptions import TransformError
from dataset_rt_torch.by_value import dumps_by_value

# What `explain` is given.
_WHERE = re.compile(
    r"\w[\w ]* failed (on sample \(cache_id=|on the batch of stream |in loading worker )"
)


def explain(error: BaseException, where: str) -> bool:
    """Let an exception say what failed, and return whether that could be done.

    It is said in a note, and in the message of a class that shows its only argument, a string. An
    exception that is raised again and again only says where it was raised last.

    Args:
        error: What was raised.
        where: What failed on what.
    """
    if isinstance(error, StopIteration):
        # It would end the caller's loop unnoticed.
        return False
    try:
        notes = list(getattr(error, "__notes__", ()))
        earlier = [note for note in notes if isinstance(note, str) and _WHERE.match(note)]
        others = [note for note in notes if note not in earlier]
        # The class may forbid that attributes are set, as frozen dataclasses do.
        BaseException.__setattr__(error, "__notes__", [*others, where])
        BaseException.__setattr__(error, "args", _args_that_say(where, error, earlier))
    except Exception:  # noqa: BLE001
        return False
    return True


def as_transform_error(error: BaseException, where: str) -> TransformError:
    """Return what to raise from an exception that cannot itself say what failed."""
    message = _message(error)
    name = type(error).__qualname__
    converted = TransformError(f"{name}: {message} ({where})" if message else f"{name} ({where})")
    converted.add_note(where)
    return converted


def _args_that_say(where: str, error: BaseException, earlier: list[str]) -> tuple[Any, ...]:
    """Return the arguments of an exception with a message that says what failed."""
    shows_its_argument = type(error).__str__ in (BaseException.__str__, KeyError.__str__)
    if not shows_its_argument or len(error.args) > 1:
        return error.args
    if not error.args or error.args[0] in earlier:
        return (where,)
    message = error.args[0]
    if not isinstance(message, str):
        return error.args
    for note in earlier:
        message = message.removesuffix(f" ({note})")
    return (f"{message} ({where})" if message else where,)


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

    def __init__(self, error: BaseException) -> None:
        """Take what can be pickled from a live exception."""
        kind = type(error)
        self.type_name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        self.message = _message(error)
        self.notes = list(getattr(error, "__notes__", ()))
        self.traceback_text = "".join(traceback.format_exception(error))
        self._pickled = _pickle(error)

    def to_exception(self) -> BaseException:
        """Rebuild the exception, or a TransformError in its place where its class cannot be."""
        error = self._rebuilt()
        if error is None:
            error = TransformError(f"{self.type_name}: {self.message}\n{self.traceback_text}")
        # A class that says itself how it pickles may leave them out.
        notes = list(getattr(error, "__notes__", ()))
        notes += [note for note in self.notes if note not in notes]
        if notes:
            BaseException.__setattr__(error, "__notes__", notes)
        return error

    def _rebuilt(self) -> BaseException | None:
        if self._pickled is None:
            return None
        try:
            error = pickle.loads(self._pickled)
        except Exception:  # noqa: BLE001
            return None
        if not isinstance(error, BaseException) or isinstance(error, StopIteration):
            return None
        return error

    def to_cause(self) -> WorkerTraceback:
        """Return the traceback in the worker, to be raised as the cause."""
        return WorkerTraceback(self.traceback_text)


class StartFailure(BatchFailure):
    """What a worker sends in place of all batches where ``worker_init_fn`` failed."""


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001
        return "its message cannot be shown"


def _pickle(error: BaseException) -> bytes | None:
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

    def __init__(self, error: BaseException) -> None:
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


def _rebuild(
    kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *args)
    # The class may forbid that attributes are set.
    BaseException.__setattr__(error, "args", args)
    error.__dict__.update(attributes)
    return error
