"""Sources, caches and datasets that the tests of the core share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CacheWriteError,
    CacheWriteSuccess,
    DatasetRuntime,
    ReaderConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

NUM_NUMBERS = 20


class ListSource:
    """A source over ready records that counts how often it is iterated."""

    def __init__(self, name: str, records: Iterable[object], **attributes: object) -> None:
        self.name = name
        self.records = records
        self.iterations = 0
        for attribute, value in attributes.items():
            setattr(self, attribute, value)

    def __iter__(self) -> Iterator[Any]:
        self.iterations += 1
        yield from self.records


def number_record(number: int) -> CacheInput:
    """Return a record with a column of each type; every third row has nulls."""
    some = number % 3 != 2
    return CacheInput(
        data=f"payload {number} ".encode() * (number % 4),
        metadata={
            "number": number,
            "half": number / 2 if some else None,
            "label": f"läbel {number}" if some else None,
            "even": number % 2 == 0,
        },
    )


@pytest.fixture(scope="session")
def runtime() -> DatasetRuntime:
    return DatasetRuntime(num_workers=2)


@pytest.fixture(scope="session")
def list_source() -> type[ListSource]:
    return ListSource


@pytest.fixture(scope="session")
def write(runtime: DatasetRuntime) -> Callable[..., Path]:
    """Write one source, which must succeed, and return the cache's path."""

    def write_one(source: Any, base: Path, **options: Any) -> Path:
        (result,) = runtime.write_cache(source, base, **options)
        assert isinstance(result, CacheWriteSuccess), result
        return result.path

    return write_one


@pytest.fixture
def refused(runtime: DatasetRuntime, tmp_path: Path) -> Callable[..., CacheWriteError]:
    """Write records that must be refused; nothing may be left of them."""

    def write_refused(*records: object) -> CacheWriteError:
        base = tmp_path / "refused"
        (result,) = runtime.write_cache(ListSource("bad source", records), base)
        assert isinstance(result, CacheWriteError), result
        assert list(base.iterdir()) == []
        return result

    return write_refused


@pytest.fixture(scope="session")
def numbers_path(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    """A cache of twenty rows in several shards; no test changes it."""
    records = [number_record(number) for number in range(NUM_NUMBERS)]
    base = tmp_path_factory.mktemp("numbers")
    return write(ListSource("numbers", records), base)


@pytest.fixture
def open_numbers(runtime: DatasetRuntime, numbers_path: Path) -> Callable[..., CachedDataset]:
    """Open the numbers with these reader options."""

    def open_with(**options: Any) -> CachedDataset:
        return runtime.cached_dataset(numbers_path, reader_config=ReaderConfig(**options))

    return open_with


@pytest.fixture
def numbers(open_numbers: Callable[..., CachedDataset]) -> CachedDataset:
    """The numbers, drawn at random with replacement."""
    return open_numbers(seed=7)


@pytest.fixture
def numbers_in_order(open_numbers: Callable[..., CachedDataset]) -> CachedDataset:
    """The numbers, read in table order."""
    return open_numbers(shuffle=False)
