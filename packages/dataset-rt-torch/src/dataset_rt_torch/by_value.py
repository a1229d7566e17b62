"""Sends a user's functions to worker processes by value, so that lambdas and closures work."""

from __future__ import annotations

import contextlib
import io
import marshal
import pickle
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import cloudpickle  # type: ignore[import-untyped]

from dataset_rt.exceptions import ConfigError
from dataset_rt_torch.importable import can_be_imported, main_is_importable
from dataset_rt_torch.unpicklable import describe_unpicklable

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Payload:
    """A pickled function.

    Classes of the main script go by reference where they can: a worker imports the script again,
    and what it sends back must be of the script's own classes. A worker whose main module lacks
    them (a notebook, a class made under the main guard) takes the second form, which carries them.

    Attributes:
        pickled: The function, with references to classes of the main module.
        self_contained: The function and those classes by value; None if it refers to none.
    """

    pickled: bytes
    self_contained: bytes | None = None


class ByValue:
    """A callable that pickles by value and is unpickled at its first call.

    Unpickling late turns a module that is missing in the worker into an ordinary exception; during
    the start of the process it would only be a dead worker.
    """

    def __init__(self, function: Callable[..., Any], argument: str) -> None:
        """Pickle a function.

        Args:
            function: What is called in this process, as it is.
            argument: The loader's argument it was given for, named in messages.

        Raises:
            ConfigError: It cannot be pickled; names the attribute at fault.
        """
        self._function: Callable[..., Any] | None = function
        self._payload = serialize(function, argument)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Call the function."""
        return self.function(*args, **kwargs)

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, unpickled here if it came from another process."""
        if self._function is None:
            self._function = deserialize(self._payload)
        return self._function

    def __getstate__(self) -> Payload:
        """Return the function as it was pickled at construction."""
        return self._payload

    def __setstate__(self, payload: Payload) -> None:
        """Keep the pickled function for the first call."""
        self._payload = payload
        self._function = None


def serialize(function: Callable[..., Any], argument: str) -> Payload:
    """Pickle a function by value.

    Raises:
        ConfigError: It cannot be pickled; names the attribute at fault.
    """
    try:
        pickled, main_classes = dumps_by_value(function)
    except Exception as error:
        pickled_by_reference = _by_reference(function)
        if pickled_by_reference is not None:
            return Payload(pickled_by_reference)
        raise ConfigError(
            f"{argument} cannot be sent to worker processes: "
            f"{describe_unpicklable(function, argument, error)}\n"
            "hint: create it inside the function at its first call, or use num_workers=0"
        ) from error
    if not main_classes:
        return Payload(pickled)
    try:
        return Payload(pickled, _dumps_self_contained((function, main_classes)))
    except Exception:  # noqa: BLE001
        # Such a class can only be imported again; that suffices wherever the main module is.
        return Payload(pickled)


def deserialize(payload: Payload) -> Callable[..., Any]:
    """Unpickle a function in the process that calls it."""
    function: Callable[..., Any]
    try:
        function = pickle.loads(payload.pickled)
    except _MainClassMissingError:
        if payload.self_contained is None:
            raise
        function, main_classes = pickle.loads(payload.self_contained)
        main = sys.modules["__main__"]
        for qualified_name, main_class in main_classes.items():
            # Batches go back by ordinary pickling, which looks classes up by name.
            if "." not in qualified_name and not hasattr(main, qualified_name):
                setattr(main, qualified_name, main_class)
    return function


class _MainClassMissingError(AttributeError):
    """The main module of this process lacks a class that the main module of the sender has."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Cloudpickle's pickler with other rules for what goes by value.

    Cloudpickle sends what was defined in the main module by value and all else by name. Here
    classes of the main module may go by name, and what was defined in a module that another
    process would not find (a test file, a file loaded by its path) goes by value. Code keeps the
    name of its file, so that tracebacks show its lines.
    """

    def __init__(self, file: io.BytesIO, *, names_main_classes: bool) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.main_classes: dict[str, type] = {}
        self._names_main_classes = names_main_classes
        self._seen_modules: set[str] = set()
        self._by_value: list[types.ModuleType] = []

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, types.CodeType):
            with contextlib.suppress(ValueError):
                return marshal.loads, (marshal.dumps(value),)
        if isinstance(value, type | types.FunctionType):
            if self._names_main_classes and self._is_named_in_main(value):
                name = value.__qualname__
                self.main_classes[name] = value
                return _main_class, (name,)
            self._consider_module(value.__module__)
        return super().reducer_override(value)

    def dump(self, value: object) -> None:
        try:
            super().dump(value)
        finally:
            for module in self._by_value:
                cloudpickle.unregister_pickle_by_value(module)
            self._by_value.clear()

    @staticmethod
    def _is_named_in_main(value: type | types.FunctionType) -> TypeGuard[type]:
        if not isinstance(value, type) or value.__module__ != "__main__":
            return False
        try:
            return _main_class(value.__qualname__) is value
        except _MainClassMissingError:
            return False

    def _consider_module(self, name: str | None) -> None:
        if name is None or name in self._seen_modules:
            return
        self._seen_modules.add(name)
        module = sys.modules.get(name)
        if (
            module is not None
            and not can_be_imported(module)
            and name not in cloudpickle.list_registry_pickle_by_value()
        ):
            cloudpickle.register_pickle_by_value(module)
            self._by_value.append(module)


def dumps_by_value(value: object) -> tuple[bytes, dict[str, type]]:
    """Pickle by value but for classes of the main module; return those too, by qualified name."""
    file = io.BytesIO()
    pickler = _Pickler(file, names_main_classes=True)
    pickler.dump(value)
    return file.getvalue(), pickler.main_classes


def _dumps_self_contained(value: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file, names_main_classes=False).dump(value)
    return file.getvalue()


def _main_class(qualified_name: str) -> Any:  # noqa: ANN401
    found: Any = sys.modules["__main__"]
    for name in qualified_name.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise _MainClassMissingError(
                f"the main module of this process has no {qualified_name!r}"
            ) from None
    return found


def _by_reference(function: Callable[..., Any]) -> bytes | None:
    """Pickle a function of the main script by name, if workers import that script again."""
    if getattr(function, "__module__", None) != "__main__" or not main_is_importable():
        return None
    try:
        return pickle.dumps(function)
    except Exception:  # noqa: BLE001
        return None
