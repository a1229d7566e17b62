"""What writing caches returns: one value per source, and one for a dataset over all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt.dataset import CachedDataset


@dataclass(frozen=True)
class CacheWriteSuccess:
    """A source whose cache is complete, whether written now or found finished.

    Attributes:
        source_name: The normalised name of the source.
        path: The directory of its cache.

    Example:
        >>> from pathlib import Path
        >>> match CacheWriteSuccess("digits", Path("cache/digits")):
        ...     case CacheWriteSuccess(source_name, path):
        ...         print(source_name, path.name)
        digits digits
    """

    source_name: str
    path: Path


@dataclass(frozen=True)
class CacheWriteError:
    """A source that has no cache, and why.

    Attributes:
        source_name: The normalised name of the source.
        message: What went wrong, for people to read.
        exception: The exception with its traceback, for ``raise result.exception`` or
            ``traceback.print_exception``. It takes no part in comparison.

    Example:
        >>> CacheWriteError("digits", "source 'digits' yielded no records").source_name
        'digits'
    """

    source_name: str
    message: str
    exception: Exception | None = field(default=None, compare=False, repr=False, kw_only=True)


CacheWriteResult: TypeAlias = CacheWriteSuccess | CacheWriteError
"""What one source gave."""


@dataclass(frozen=True)
class CacheSourcesDatasetSuccess:
    """A dataset over the caches of all sources.

    Attributes:
        dataset: The open dataset.
        results: One success per source, in source order.

    Example:
        A match statement tells it from its counterpart::

            match runtime.from_cache_sources(sources, "cache"):
                case CacheSourcesDatasetSuccess(dataset=dataset):
                    ...
                case CacheSourcesDatasetError(message=message):
                    ...
    """

    dataset: CachedDataset
    results: tuple[CacheWriteResult, ...]


@dataclass(frozen=True)
class CacheSourcesDatasetError:
    """No dataset: a source failed, or the caches do not fit together.

    Attributes:
        results: One result per source, in source order.
        message: What went wrong, for people to read; with one line per failed source.
        exception: The first exception behind it. It takes no part in comparison.

    Example:
        >>> failure = CacheWriteError("digits", "source 'digits' yielded no records")
        >>> CacheSourcesDatasetError((failure,), "1 of 1 sources failed").results[0].source_name
        'digits'
    """

    results: tuple[CacheWriteResult, ...]
    message: str
    exception: Exception | None = field(default=None, compare=False, repr=False, kw_only=True)


CacheSourcesDatasetResult: TypeAlias = CacheSourcesDatasetSuccess | CacheSourcesDatasetError
"""What ``from_cache_sources`` gives."""
