"""Datasets that the tests of the torch loader share, and workers that start quickly."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import CachedDataset, CacheInput, CacheWriteSuccess, DatasetRuntime, ReaderConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUM_ROWS = 50
SEED = 42

# Each spawned process would import torch anew, which takes seconds.
multiprocessing.get_context("forkserver").set_forkserver_preload(
    ["torch", "dataset_rt_torch.loader"]
)


class Numbers:
    """A source of small records that are told apart by their number."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(self.count):
            yield CacheInput(
                data=number.to_bytes(4, "little") * (number % 5 + 1),
                metadata={
                    "number": number,
                    "share": None if number % 3 == 0 else number / self.count,
                },
            )


@pytest.fixture(scope="session")
def write_numbers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a function that caches so many numbered records once and gives the cache's path."""
    base = tmp_path_factory.mktemp("caches")
    runtime = DatasetRuntime(num_workers=2)
    paths: dict[int, Path] = {}

    def write(count: int) -> Path:
        if count not in paths:
            (result,) = runtime.write_cache(Numbers(f"numbers-{count}", count), base)
            assert isinstance(result, CacheWriteSuccess)
            paths[count] = result.path
        return paths[count]

    return write


@pytest.fixture(scope="session")
def open_numbers(write_numbers: Callable[[int], Path]) -> Callable[..., CachedDataset]:
    """Return a function that opens a dataset of numbered records, fresh at each call."""
    runtime = DatasetRuntime(num_workers=2)

    def open_dataset(count: int = NUM_ROWS, *, seed: int = SEED, **config: Any) -> CachedDataset:
        return runtime.cached_dataset(
            write_numbers(count), reader_config=ReaderConfig(seed=seed, **config)
        )

    return open_dataset


@pytest.fixture
def dataset(open_numbers: Callable[..., CachedDataset]) -> CachedDataset:
    """A dataset of 50 rows with equal weights."""
    return open_numbers()


@pytest.fixture
def skewed(open_numbers: Callable[..., CachedDataset]) -> CachedDataset:
    """A dataset of 50 rows, each with another weight, the first with none."""
    opened = open_numbers()
    opened.set_weights(range(NUM_ROWS))
    return opened
