"""Arrays of a batch, stacked natively: right, or refused with the sample, name, type and shape."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import (
    CachedBatch,
    CacheInput,
    ConfigError,
    CorruptCacheError,
    DatasetRuntime,
    InvalidRecordError,
    ReaderConfig,
    ShardCompression,
    WriterConfig,
    pack_arrays,
    unpack_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

Arrays = dict[str, "npt.NDArray[Any]"]


def example(number: int) -> Arrays:
    chance = np.random.default_rng(number)
    return {
        "image": chance.integers(0, 256, (3, 40, 50), dtype=np.uint8),
        "weights": chance.standard_normal(7),
        "label": np.asarray(number),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "flag": np.asarray([number % 2 == 0]),
    }


@pytest.fixture
def batch_of(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> Callable[..., CachedBatch]:
    def make(
        records: list[Any], algo: Any = "none", rows: Any = slice(None), **options: Any
    ) -> CachedBatch:
        payloads = [
            record if isinstance(record, bytes) else pack_arrays(record) for record in records
        ]
        source = list_source("s", [CacheInput(payload, {}) for payload in payloads])
        config = WriterConfig(shard_compression=ShardCompression(algo=algo))
        path = write(source, tmp_path, writer_config=config)
        reader_config = ReaderConfig(shuffle=False, **options)
        batch = runtime.cached_dataset(path, reader_config=reader_config).rows[rows]
        assert isinstance(batch, CachedBatch)
        return batch

    return make


def same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def stack(records: list[Arrays]) -> Arrays:
    in_order = unpack_arrays(pack_arrays(records[0]))
    return {name: np.stack([record[name] for record in records]) for name in in_order}


@pytest.mark.parametrize("algo", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("backend", ["map", "pread"])
@pytest.mark.parametrize("verify_reads", [True, False])
def test_arrays_are_stacked_in_the_order_of_the_rows(
    batch_of: Callable[..., CachedBatch], algo: str, backend: str, verify_reads: Any
) -> None:
    records = [example(number) for number in range(150)]
    rows = [random.Random(1).randrange(150) for _ in range(200)]
    batch = batch_of(records, algo, rows, backend=backend, verify_reads=verify_reads)
    same(batch.arrays(), stack([records[row] for row in rows]))


def test_a_batch_that_crossed_to_another_process_stacks_the_same(
    batch_of: Callable[..., CachedBatch],
) -> None:
    batch = batch_of([example(number) for number in range(10)])
    same(pickle.loads(pickle.dumps(batch)).arrays(), batch.arrays())


def test_the_result_is_aligned_and_can_be_written(batch_of: Callable[..., CachedBatch]) -> None:
    arrays = batch_of([example(0)] * 3).arrays()
    assert all(array.flags.aligned and array.flags.writeable for array in arrays.values())
    arrays["image"][:] = 0


def test_arrays_in_another_order_are_found_by_name(batch_of: Callable[..., CachedBatch]) -> None:
    # Two arrays of one type and size: the format orders them by name, but another writer may not.
    one = pack_arrays({"a": np.array([1], np.int32), "b": np.array([2], np.int32)})
    other = one.replace(b'"a"', b'"x"').replace(b'"b"', b'"a"').replace(b'"x"', b'"b"')
    arrays = batch_of([one, other]).arrays()
    assert arrays["a"].tolist() == [[1], [2]]
    assert arrays["b"].tolist() == [[2], [1]]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"x": np.zeros((2, 3), np.uint8)},
            r"U8 of shape \[2, 3\] in sample 1 of cache \"s\" and U8",
        ),
        ({"x": np.zeros((2, 2), np.int8)}, r"I8 of shape \[2, 2\] in sample 1"),
        ({"x": np.zeros(4, np.uint8)}, r"U8 of shape \[4\] in sample 1"),
        ({"y": np.zeros((2, 2), np.uint8)}, r'array "x" is none in sample 1'),
        (
            {"x": np.zeros((2, 2), np.uint8), "y": np.zeros(1)},
            r'array "y" is F64 of shape \[1\] in sample 1 of cache "s" and none in sample 0',
        ),
        (b"no arrays at all", r'sample 1 of cache "s" is not the bytes of packed arrays'),
        (b"", r'sample 1 of cache "s" is not the bytes of packed arrays'),
    ],
)
def test_arrays_that_differ_are_refused_by_sample_name_type_and_shape(
    batch_of: Callable[..., CachedBatch], second: Any, message: str
) -> None:
    batch = batch_of([{"x": np.zeros((2, 2), np.uint8)}, second])
    with pytest.raises(InvalidRecordError, match=message):
        batch.arrays()
    with pytest.raises(InvalidRecordError):
        pickle.loads(pickle.dumps(batch)).arrays()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_ragged_axis_is_filled_up_with_zeros(
    batch_of: Callable[..., CachedBatch], axis: int
) -> None:
    lengths = [3, 0, 5, 1]
    records = []
    for number, length in enumerate(lengths):
        shape = [2, 3, 4]
        shape[axis] = length
        filled = np.random.default_rng(number).standard_normal(shape)
        records.append({"ragged": filled, "fixed": np.arange(2)})
    batch = batch_of(records)
    arrays = batch.arrays(pad_axis=axis)
    assert arrays["ragged_lengths"].tolist() == lengths
    assert "fixed_lengths" not in arrays
    for record, length, found in zip(records, lengths, arrays["ragged"], strict=True):
        inside = np.take(found, range(length), axis=axis)
        np.testing.assert_array_equal(inside, record["ragged"])
        assert not np.take(found, range(length, 5), axis=axis).any()
    same(pickle.loads(pickle.dumps(batch)).arrays(pad_axis=axis), arrays)
    with pytest.raises(InvalidRecordError, match=rf"hint: CachedBatch.arrays\(pad_axis={axis}\)"):
        batch.arrays()


@pytest.mark.parametrize("axis", [-1, 1.5, "0", True])
def test_what_is_no_axis_is_refused(batch_of: Callable[..., CachedBatch], axis: Any) -> None:
    with pytest.raises(ConfigError, match="pad_axis is "):
        batch_of([example(0)]).arrays(pad_axis=axis)


def test_a_batch_of_no_rows_has_no_arrays(batch_of: Callable[..., CachedBatch]) -> None:
    assert batch_of([example(0)], rows=slice(0, 0)).arrays() == {}


def test_a_damaged_payload_is_noticed(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    payloads = [pack_arrays(example(number)) for number in range(100)]
    path = write(list_source("s", [CacheInput(payload, {}) for payload in payloads]), tmp_path)
    shard = path / "shards" / "000000.bin"
    damaged = bytearray(shard.read_bytes())
    damaged[len(payloads[0]) * 57 + 5000] ^= 1
    shard.write_bytes(damaged)
    dataset = runtime.cached_dataset(path, reader_config=ReaderConfig(shuffle=False))
    with pytest.raises(CorruptCacheError, match="damaged sample 57"):
        dataset.rows[:].arrays()
