"""Turns the samples of one window into the batch that the caller gets."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import default_collate, get_worker_info

from dataset_rt.exceptions import TransformError
from dataset_rt_torch.by_value import ByValue
from dataset_rt_torch.delivery import packed_for_delivery
from dataset_rt_torch.failures import BatchFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataset_rt_torch.windows import Window
    from dataset_rt_torch.worker import ReadWindow, WindowSamples


class Collation:
    """The collate function of a loader: transforms each sample, then makes one batch of them.

    With ``batch_transform_fn`` that function gets the whole `CachedBatch` and returns the batch.
    Without any function the batch is the list of its `CachedSample`: payloads are bytes and
    metadata may hold None, so torch's default collation could do nothing useful with them.
    """

    def __init__(
        self,
        *,
        sample_transform: Callable[..., Any] | None,
        batch_transform: Callable[..., Any] | None,
        collate: Callable[..., Any] | None,
        takes_rng: bool,
    ) -> None:
        """Keep the functions.

        Args:
            sample_transform: ``sample_transform_fn``.
            batch_transform: ``batch_transform_fn``.
            collate: ``collate_fn``.
            takes_rng: Whether ``sample_transform`` is given a random number generator.
        """
        self._sample_transform = sample_transform
        self._batch_transform = batch_transform
        self._collate = collate
        self._takes_rng = takes_rng

    def __call__(self, read: ReadWindow | BatchFailure) -> Any:  # noqa: ANN401
        """Return the batch; in a worker process, a `BatchFailure` in place of an exception."""
        if isinstance(read, BatchFailure):
            return read
        if get_worker_info() is None:
            return self._batch_of(read)
        try:
            return packed_for_delivery(self._batch_of(read))
        except Exception as error:  # noqa: BLE001
            return BatchFailure(error)

    def _batch_of(self, read: ReadWindow) -> Any:  # noqa: ANN401
        window, content = read.window, read.content
        if self._batch_transform is not None:
            return _called("batch_transform_fn", self._batch_transform, content, window)
        samples: WindowSamples = content  # type: ignore[assignment]
        if self._sample_transform is None:
            if self._collate is None:
                return samples.all()
            return _called("collate_fn", self._collate, samples.all(), window)
        transformed = self._transformed(self._sample_transform, samples, window)
        return _called("collate_fn", self._collate or default_collate, transformed, window)

    def _transformed(
        self, transform: Callable[..., Any], samples: WindowSamples, window: Window
    ) -> list[Any]:
        if isinstance(transform, ByValue):
            transform = transform.function
        takes_rng = self._takes_rng
        transformed: list[Any] = []
        for position, sample in enumerate(samples, window.start):
            try:
                if takes_rng:
                    rng = rng_of_position(window.seed, position)
                    transformed.append(transform(sample, rng=rng))
                else:
                    transformed.append(transform(sample))
            except Exception as error:
                _explain(
                    error,
                    f"sample_transform_fn failed on sample (cache_id={sample.cache_id}, "
                    f"sample_id={sample.sample_id}) at stream position {position}",
                )
                if isinstance(error, StopIteration):
                    raise _as_transform_error(error) from error
                raise
        return transformed


def rng_of_position(seed: int, position: int) -> np.random.Generator:
    """Return the random number generator of one stream position.

    The pair is the key of a counter-based generator, so generators of different positions are
    independent, and each is the same for any number of workers and ranks.

    Example:
        >>> int(rng_of_position(seed=42, position=7).integers(1000))
        306
    """
    key = np.array([seed, position], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def takes_rng(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``rng`` that it wants to be given.

    Example:
        >>> takes_rng(lambda sample, rng: None), takes_rng(lambda sample: None)
        (True, False)
    """
    if isinstance(function, functools.partial) and "rng" in function.keywords:
        return False
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )


def _called(
    argument: str,
    function: Callable[..., Any],
    content: Any,  # noqa: ANN401
    window: Window,
) -> Any:  # noqa: ANN401
    try:
        return function(content)
    except Exception as error:
        _explain(
            error,
            f"{argument} failed on the batch of stream positions {window.start} to "
            f"{window.stop - 1} (epoch {window.epoch}, batch {window.batch})",
        )
        if isinstance(error, StopIteration):
            raise _as_transform_error(error) from error
        raise


def _explain(error: Exception, where: str) -> None:
    """Say in the message, where the class lets one, and in a note what was being transformed."""
    kind = type(error)
    plain_message = kind.__str__ in (BaseException.__str__, KeyError.__str__)
    if plain_message and len(error.args) <= 1:
        message = str(error.args[0]) if error.args else ""
        error.args = (f"{message} ({where})" if message else where,)
    error.add_note(where)


def _as_transform_error(error: StopIteration) -> TransformError:
    """Return what to raise for a StopIteration, which would end the caller's loop unnoticed."""
    converted = TransformError(f"StopIteration: {error}")
    for note in getattr(error, "__notes__", ()):
        converted.add_note(note)
    return converted
