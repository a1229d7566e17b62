"""Makes sure that what a worker made arrives, or that the reason why not does."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import torch

from dataset_rt.batch import CachedBatch
from dataset_rt.exceptions import DatasetRtError, TransformError
from dataset_rt.records import CachedSample
from dataset_rt_torch.failures import BatchFailure
from dataset_rt_torch.shared_memory import full_for, is_full


class DeliveredBatch(NamedTuple):
    """A batch, or the failure to make it, on its way to the caller with what its making took.

    A named tuple, because that is what torch pins part by part and gives back as what it was.

    Attributes:
        batch: The batch, or a `BatchFailure`.
        worker: The number of the loading process that made it; None for the training process.
        read_nanoseconds: Drawing, reading and verifying.
        transform_nanoseconds: The user's transform. Where reading is an estimate that was taken
            off the time of both, it may be negative; only the sum over batches has a meaning.
        collate_nanoseconds: Collation.
    """

    batch: Any
    worker: int | None
    read_nanoseconds: int = 0
    transform_nanoseconds: int = 0
    collate_nanoseconds: int = 0


_SAFE_TYPES = frozenset(
    {
        bool,
        int,
        float,
        str,
        bytes,
        type(None),
        # Both are made of bytes, numbers and strings only.
        CachedSample,
        CachedBatch,
    }
)
_MAX_DEPTH = 4


def packed_for_delivery(batch: Any, num_workers: int, prefetch_factor: int) -> Any:  # noqa: ANN401
    """Return the batch itself if it is certain to pickle, else a parcel that holds it.

    Torch pickles batches in a thread of the worker. There an error is printed and the batch is
    lost, and the training process waits for it for ever. A parcel sends the error instead.

    Args:
        batch: The batch.
        num_workers: How many workers hand batches over, for messages.
        prefetch_factor: How many batches each of them makes ahead, for messages.
    """
    return batch if _is_safe(batch, 0) else Parcel(batch, num_workers, prefetch_factor)


class Parcel:
    """Unpickles as the batch it holds, or as the failure to pickle that batch."""

    def __init__(self, batch: Any, num_workers: int, prefetch_factor: int) -> None:  # noqa: ANN401
        """Hold a batch; the arguments are those of `packed_for_delivery`."""
        self._batch = batch
        self._num_workers = num_workers
        self._prefetch_factor = prefetch_factor

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the batch apart, so that an error can be caught."""
        try:
            # Torch's tensors are registered with this pickler: it shares their memory.
            pickled = bytes(ForkingPickler.dumps(self._batch))
        except Exception as error:  # noqa: BLE001
            return _itself, (BatchFailure(self._refusal(error)),)
        return _unpacked, (pickled,)

    def _refusal(self, error: Exception) -> DatasetRtError:
        if is_full(error):
            return full_for(self._batch, self._num_workers, self._prefetch_factor)
        return TransformError(
            f"a batch of type {type(self._batch).__qualname__} cannot be sent from the worker "
            f"process: {error}, expected tensors, arrays and plain Python values"
        )


def _unpacked(pickled: bytes) -> Any:  # noqa: ANN401
    """Unpickle a batch in the training process; torch would end the pass over what that raises."""
    try:
        return pickle.loads(pickled)
    except (EOFError, OSError):
        # So it looks when the worker died, whose death is then looked for.
        raise
    except Exception as error:  # noqa: BLE001
        where = "a batch that was sent from a worker process cannot be unpickled"
        failure = TransformError(f"{where}: {type(error).__qualname__}: {error}")
        failure.__cause__ = error
        return BatchFailure(failure)


def _itself(value: Any) -> Any:  # noqa: ANN401
    return value


def _is_safe(value: Any, depth: int) -> bool:  # noqa: ANN401
    kind = type(value)
    if kind is torch.Tensor:
        # For any other one memory is still to be shared, and there may be none left. Sparse ones
        # cannot be asked, and what autograd computed is refused.
        is_plain = value.layout is torch.strided and not value.is_nested and value.is_leaf
        return is_plain and value.is_shared()
    if kind is np.ndarray:
        return not value.dtype.hasobject
    if kind in _SAFE_TYPES or depth == _MAX_DEPTH:
        return kind in _SAFE_TYPES
    if kind is dict:
        return all(type(key) in _SAFE_TYPES for key in value) and all(
            _is_safe(part, depth + 1) for part in value.values()
        )
    if kind is list or kind is tuple:
        return all(_is_safe(part, depth + 1) for part in value)
    return False
