"""Turns the samples of one window into the batch that the caller gets."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import time
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch.utils.data import default_collate, get_worker_info

from dataset_rt_torch.by_value import ByValue
from dataset_rt_torch.delivery import DeliveredBatch, packed_for_delivery
from dataset_rt_torch.failures import BatchFailure, as_transform_error, explain
from dataset_rt_torch.shared_memory import full_for, is_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dataset_rt.records import CachedSample
    from dataset_rt_torch.windows import Window
    from dataset_rt_torch.worker import ReadWindow, StackedArray, WindowSamples

_GOLDEN_RATIO = 0.6180339887498949


class Collation:
    """The collate function of a loader: transforms each sample, then makes one batch of them.

    With ``decode`` the arrays of the payloads become tensors, which share their memory.
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
        given: frozenset[str],
        prefetch_factor: int,
    ) -> None:
        """Keep the functions.

        Args:
            sample_transform: ``sample_transform_fn``.
            batch_transform: ``batch_transform_fn``.
            collate: ``collate_fn``.
            given: What ``sample_transform`` is given beside the sample; see `parameters_given`.
            prefetch_factor: Batches that each worker makes ahead, for messages.
        """
        self._sample_transform = sample_transform
        self._batch_transform = batch_transform
        self._collate = collate
        self._given = given
        self._prefetch_factor = prefetch_factor

    def __call__(self, read: ReadWindow | BatchFailure) -> DeliveredBatch:
        """Return the batch; in a worker process, with a `BatchFailure` in place of an exception."""
        worker = get_worker_info()
        worker_id = None if worker is None else worker.id
        if isinstance(read, BatchFailure):
            return DeliveredBatch(read, worker_id)
        if worker is None:
            return self._batch_of(read, None)
        try:
            made = self._batch_of(read, worker_id)
            return made._replace(
                batch=packed_for_delivery(made.batch, worker.num_workers, self._prefetch_factor)
            )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001
            return DeliveredBatch(BatchFailure(error), worker_id)

    def _batch_of(self, read: ReadWindow, worker: int | None) -> DeliveredBatch:
        window, content, reading = read.window, read.content, read.read_nanoseconds
        began = time.perf_counter_ns()
        if self._batch_transform is not None:
            name = "decode" if self._batch_transform is tensors_of else "batch_transform_fn"
            batch = _called(name, self._batch_transform, content, window)
            return DeliveredBatch(batch, worker, reading, time.perf_counter_ns() - began, 0)
        samples: WindowSamples = content  # type: ignore[assignment]
        if self._sample_transform is None:
            inputs: list[Any] = samples.all()
            of_samples = time.perf_counter_ns() - began
        else:
            inputs, of_samples = self._transformed(self._sample_transform, samples, window)
        transformed = time.perf_counter_ns()
        collate = self._collate
        if collate is None and self._sample_transform is not None:
            collate = default_collate
        batch = inputs if collate is None else self._collated(collate, inputs, window)
        ended = time.perf_counter_ns()
        return DeliveredBatch(
            batch,
            worker,
            reading + of_samples,
            transformed - began - of_samples,
            ended - transformed,
        )

    def _collated(self, collate: Callable[..., Any], inputs: list[Any], window: Window) -> Any:  # noqa: ANN401
        try:
            if self._collate is not None:
                return _called("collate_fn", collate, inputs, window)
            returned = type(inputs[0]).__name__
            name = f"default collation of the {returned} values that sample_transform_fn returned"
            return _called(name, collate, inputs, window)
        except RuntimeError as error:
            # In a worker, torch's collation makes tensors in shared memory.
            worker = get_worker_info()
            if worker is None or not is_full(error):
                raise
            raise full_for(inputs, worker.num_workers, self._prefetch_factor) from None

    def _transformed(
        self, transform: Callable[..., Any], samples: WindowSamples, window: Window
    ) -> tuple[list[Any], int]:
        """Return the transformed samples, and the nanoseconds that making samples took of it."""
        if isinstance(transform, ByValue):
            transform = transform.function
        if self._given:
            transform = _with_arguments(transform, self._given, window)
        transformed: list[Any] = []
        append = transformed.append
        timed = TimedSamples(samples, len(window), window.batch)
        sample: CachedSample | None = None
        try:
            for stretch in timed.stretches():
                # These few lines run once per sample. Whatever more they did would cost as much
                # as a small transform.
                for sample in stretch:
                    append(transform(sample))
                    # The next one is then made in the memory of this one.
                    sample = None  # noqa: PLW2901
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if sample is None:
                # It could not be read.
                raise
            where = (
                f"sample_transform_fn failed on sample (cache_id={sample.cache_id}, "
                f"sample_id={sample.sample_id}) at stream position "
                f"{window.start + len(transformed)}"
            )
            if not explain(error, where):
                raise as_transform_error(error, where) from error
            raise
        return transformed, timed.estimated_nanoseconds


class TimedSamples:
    """The samples of a window, of which one is timed as it is made.

    Timing each would cost as much as a small transform. One of each batch, now near its begin and
    now near its end, is enough for the sum over many batches.
    """

    def __init__(self, samples: Iterable[Any], num_samples: int, batch: int) -> None:
        """Choose the sample that is timed.

        Args:
            samples: The samples, made one by one.
            num_samples: How many there are.
            batch: The number of the batch, which decides the choice.
        """
        self._samples = samples
        self._num_samples = num_samples
        self._timed = int((batch + 1) * _GOLDEN_RATIO % 1 * num_samples)
        self._nanoseconds = 0

    def stretches(self) -> Iterator[Iterator[Any]]:
        """Yield the samples before the timed one, that one, and those after it."""
        samples = iter(self._samples)
        yield itertools.islice(samples, self._timed)
        yield self._one_timed(samples)
        yield samples

    @property
    def estimated_nanoseconds(self) -> int:
        """What making all samples took if each was like the timed one."""
        return self._nanoseconds * self._num_samples

    def _one_timed(self, samples: Iterator[Any]) -> Iterator[Any]:
        began = time.perf_counter_ns()
        for sample in itertools.islice(samples, 1):
            self._nanoseconds = time.perf_counter_ns() - began
            yield sample


def tensors_of(arrays: Iterable[StackedArray]) -> dict[str, torch.Tensor]:
    """Return tensors over the memory of stacked arrays.

    Types are looked up in torch, which has some that NumPy lacks, such as bfloat16.

    Example:
        >>> import numpy as np
        >>> tensors_of([("label", "int16", [2, 1], np.array([3, 0, 1, 0], np.uint8), None)])
        {'label': tensor([[3],
                [1]], dtype=torch.int16)}
    """
    return {
        name: torch.from_numpy(data).view(getattr(torch, dtype_name)).view(shape)
        for name, dtype_name, shape, data, _lengths in arrays
    }


def parameters_given(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters of a transform, beside the sample, that the loader gives it.

    ``rng`` is a random number generator of the stream position, ``is_padding`` says whether the
    sample only pads the batch.

    Example:
        >>> sorted(parameters_given(lambda sample, rng, *, is_padding: None))
        ['is_padding', 'rng']
        >>> sorted(parameters_given(lambda sample: None))
        []
    """
    bound: Mapping[str, Any] = {}
    if isinstance(function, functools.partial):
        bound = function.keywords
        if _is_module(function.func):
            function = functools.partial(function.func.forward, *function.args, **bound)
    elif _is_module(function):
        # What a module is called by takes anything, and hands it on.
        function = function.forward
    return frozenset(
        name for name in ("rng", "is_padding") if name not in bound and _takes(function, name)
    )


def _is_module(function: Callable[..., Any]) -> TypeGuard[torch.nn.Module]:
    return (
        isinstance(function, torch.nn.Module)
        and type(function).__call__ is torch.nn.Module.__call__
    )


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function takes a keyword argument of this name, and uses it.

    What a wrapper that takes any keyword does with it, the function that it wraps tells.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    with contextlib.suppress(TypeError, ValueError):
        own = inspect.signature(function, follow_wrapped=False).parameters
        if name in own or all(part.kind is not part.VAR_KEYWORD for part in own.values()):
            parameters = own
    return name in parameters and parameters[name].kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )


def _with_arguments(
    transform: Callable[..., Any], given: frozenset[str], window: Window
) -> Callable[[CachedSample], Any]:
    """Return a function that gives a transform what it takes beside the samples of a window.

    It has to be called with all of them, in order.
    """
    # NumPy's generators take a while to import, and few transforms use them.
    from dataset_rt_torch.position_rng import rng_of_position  # noqa: PLC0415

    positions = itertools.count(window.start)

    def transform_next(sample: CachedSample) -> Any:  # noqa: ANN401
        position = next(positions)
        arguments: dict[str, Any] = {}
        if "rng" in given:
            arguments["rng"] = rng_of_position(window.seed, position)
        if "is_padding" in given:
            arguments["is_padding"] = position >= window.padding_from
        return transform(sample, **arguments)

    return transform_next


def _called(
    argument: str,
    function: Callable[..., Any],
    content: Any,  # noqa: ANN401
    window: Window,
) -> Any:  # noqa: ANN401
    try:
        return function(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        where = (
            f"{argument} failed on the batch of stream positions {window.start} to "
            f"{window.stop - 1} (epoch {window.epoch}, batch {window.batch})"
        )
        if not explain(error, where):
            raise as_transform_error(error, where) from error
        raise
