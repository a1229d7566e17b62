"""What a source is, and the checks that a list of sources passes before any file exists."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from dataset_rt import _core, arguments
from dataset_rt.exceptions import ConfigError, SourceNameError
from dataset_rt.fingerprints import canonical_json
from dataset_rt.records import CacheInput


@runtime_checkable
class CacheSource(Protocol):
    """Where records come from: any object with a name that can be iterated.

    A source is iterated once per build, in the process and thread that called ``write_cache``.
    It must yield the same records in the same order each time. Two more attributes are optional:

    - ``fingerprint``: any JSON value that says what the records were made from, such as the
      sizes of the input files and a version number. A finished cache with another fingerprint is
      refused as stale; without the attribute, or with None, a finished cache is reused as it is.
    - ``__len__``: how many records to expect, for the progress bar.
    - ``iter_from(start)``: an iterator of the records from number ``start`` on. With it a build
      that was interrupted is continued after the last complete shard; without it the next build
      begins anew. It must yield what ``__iter__`` would from there on.

    Example:
        >>> from dataset_rt import CacheInput
        >>> class Squares:
        ...     name = "squares"
        ...     fingerprint = {"version": 1}
        ...
        ...     def __iter__(self):
        ...         for number in range(10):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> isinstance(Squares(), CacheSource)
        True
    """

    @property
    def name(self) -> str:
        """The name of the cache: one path segment, the same for every build."""

    def __iter__(self) -> Iterator[CacheInput]:
        """Yield the records."""


class NamedSource(NamedTuple):
    """A source with its normalised name."""

    name: str
    source: CacheSource


def normalize_sources(sources: object) -> list[NamedSource]:
    """Return one source or an iterable of sources as a list, with normalised, distinct names.

    Raises:
        ConfigError: ``sources`` is neither, or an item is no source.
        SourceNameError: A name cannot be a directory, or two collide.
    """
    if _is_source(sources):
        return [_named(sources, "sources")]
    if isinstance(sources, str | bytes | dict | type) or not isinstance(sources, Iterable):
        raise ConfigError(f"sources is {_described(sources)}, {_expected(sources)}")
    found = []
    for index, source in enumerate(sources):
        if isinstance(source, CacheInput):
            raise ConfigError(f"sources is {_described(sources)}, {_expected(sources)}")
        found.append(_named(source, f"sources[{index}]"))
    if not found:
        raise ConfigError("sources is empty, expected at least one source")
    _refuse_collisions([name for name, _ in found])
    return found


def fingerprint_of(source: CacheSource) -> str | None:
    """Return the fingerprint of a source as canonical JSON, or None where it makes no claim.

    Raises:
        ConfigError: The fingerprint is no JSON value.
    """
    fingerprint = _optional(source, "fingerprint")
    if fingerprint is None:
        return None
    if callable(fingerprint):
        raise ConfigError(
            "fingerprint is a method, expected a JSON value\nhint: make it a property"
        )
    return canonical_json(fingerprint)


def _optional(source: CacheSource, name: str) -> object:
    """Return an attribute that a source need not have.

    An AttributeError from inside a property that is there is not taken for its absence.
    """
    try:
        return getattr(source, name)
    except AttributeError:
        if inspect.getattr_static(source, name, None) is None:
            return None
        raise


def can_continue(source: CacheSource) -> bool:
    """Say whether a source can go on in the middle."""
    return callable(_optional(source, "iter_from"))


def records_from(source: CacheSource, start: int) -> Iterator[CacheInput]:
    """Return an iterator of the records from number ``start`` on; 0 unless it can continue."""
    if start == 0:
        return iter(source)
    return iter(source.iter_from(start))  # type: ignore[attr-defined]


def expected_samples(source: CacheSource) -> int | None:
    """Return how many records a source says that it has, if it says so."""
    try:
        return len(source)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - it only decorates a bar, and is the source's own code
        return None


def _is_source(value: object) -> TypeGuard[CacheSource]:
    # Not isinstance: from Python 3.12 on it overlooks a name that __getattr__ provides.
    return not isinstance(value, type) and isinstance(value, Iterable) and hasattr(value, "name")


def _named(source: object, where: str) -> NamedSource:
    if not _is_source(source):
        raise ConfigError(f"{where} is {_described(source)}, {_expected(source)}")
    name: object = source.name
    if not isinstance(name, str):
        raise ConfigError(
            f"{where}.name is {arguments.shown(name)} ({arguments.type_name(name)}), expected a str"
        )
    try:
        normalized = _core.normalize_source_name(name)
    except SourceNameError as error:
        raise SourceNameError(f"{where}: {error}") from None
    except UnicodeEncodeError:
        raise SourceNameError(
            f"{where}: source name {name!a} holds a lone surrogate, expected valid text"
        ) from None
    return NamedSource(normalized, source)


def _refuse_collisions(names: list[str]) -> None:
    # Case folding, because a cache may be copied to a file system that ignores case.
    first_with: dict[str, int] = {}
    for index, name in enumerate(names):
        first = first_with.setdefault(name.casefold(), index)
        if first == index:
            continue
        detail = "" if names[first] == name else ", which differ only in case"
        raise SourceNameError(
            f"sources[{first}] and sources[{index}] are named {names[first]!r} and {name!r}"
            f"{detail}, expected distinct names"
        )


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return f"{arguments.shown(value)} ({arguments.type_name(value)})"


def _expected(value: object) -> str:
    expected = "expected a source (an object with name and __iter__)"
    if isinstance(value, type):
        return f"{expected}\nhint: pass an instance, {value.__qualname__}()"
    missing = [name for name in ("name", "__iter__") if not hasattr(value, name)]
    if len(missing) == 1:
        return f"{expected}, but it has no {missing[0]}"
    return f"{expected} or an iterable of sources"
