"""Explains that shared memory is full, in which workers hand tensors over."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from dataset_rt.batch import CachedBatch
from dataset_rt.exceptions import DatasetRtError

_DIRECTORY = "/dev/shm"  # noqa: S108 - where the system keeps it
_MEBIBYTE = 1 << 20
_MAX_DEPTH = 4


class SharedMemoryError(DatasetRtError, RuntimeError):
    """A worker found no room in shared memory for a batch."""


def is_full(error: BaseException) -> bool:
    """Return whether torch raised this because shared memory is full."""
    return isinstance(error, RuntimeError) and "unable to allocate shared memory" in str(error)


def full_for(batch: Any, num_workers: int, prefetch_factor: int) -> SharedMemoryError:  # noqa: ANN401
    """Return the error to raise for a batch that found no room.

    Args:
        batch: The batch, or what it was to be made of.
        num_workers: How many workers hand batches over.
        prefetch_factor: How many batches each of them makes ahead.
    """
    size = tensor_bytes(batch)
    needed = size * num_workers * prefetch_factor
    return SharedMemoryError(
        f"no room in shared memory for a batch of {_shown(size)}: {shown_room()}, expected room "
        f"for {_shown(needed)}, which is {prefetch_factor} batches of each of {num_workers} "
        "workers\nhint: enlarge it (docker run --shm-size), or use fewer workers, smaller batches "
        "or a smaller prefetch_factor; batches that your loop keeps take room too"
    )


def tensor_bytes(value: Any, depth: int = 0) -> int:  # noqa: ANN401
    """Return the bytes of the tensors and arrays in a value.

    Example:
        >>> tensor_bytes({"a": torch.zeros(3), "b": [torch.zeros(2), "text"]})
        20
    """
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.nbytes
    if isinstance(value, CachedBatch):
        return value.buffer.nbytes
    if depth == _MAX_DEPTH:
        return 0
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return sum(tensor_bytes(part, depth + 1) for part in value)


def shown_room() -> str:
    """Say how much shared memory there is, and how much of it is left."""
    try:
        room = os.statvfs(_DIRECTORY)
    except OSError:
        return "its size is unknown"
    left, size = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    return f"{_DIRECTORY} has {_shown(left)} left of {_shown(size)}"


def _shown(size: int) -> str:
    return f"{size / _MEBIBYTE:.1f} MiB"
