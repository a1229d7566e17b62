"""Batches: one buffer with offsets, columns, identities, and the same after pickling."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from dataset_rt import CachedBatch, CachedDataset, CacheInput, DatasetRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["native", "pickled", "pickled twice"])
def batch(numbers_in_order: CachedDataset, request: pytest.FixtureRequest) -> CachedBatch:
    """The first eight numbers, as they come and as they cross to another process."""
    found = next(numbers_in_order.iter_batches(8))
    for _ in range(["native", "pickled", "pickled twice"].index(request.param)):
        found = pickle.loads(pickle.dumps(found))
    return found


def test_payloads_lie_back_to_back(batch: CachedBatch) -> None:
    payloads = [f"payload {number} ".encode() * (number % 4) for number in range(8)]
    assert len(batch) == 8
    assert batch.data == payloads
    assert batch.buffer.dtype == np.uint8
    assert batch.buffer.tobytes() == b"".join(payloads)
    assert batch.offsets.dtype == np.int64
    assert batch.offsets.tolist() == [0, *np.cumsum([len(payload) for payload in payloads])]


def test_views_are_read_only_and_equal_the_data(batch: CachedBatch) -> None:
    assert [bytes(view) for view in batch.views] == batch.data
    assert all(type(view) is memoryview and view.readonly for view in batch.views)
    with pytest.raises(TypeError):
        batch.views[1][0] = 0


def test_identities_and_positions(batch: CachedBatch, numbers_in_order: CachedDataset) -> None:
    cache_id = numbers_in_order.caches[0].id
    assert batch.cache_ids.tolist() == [cache_id] * 8
    for array in (batch.sample_ids, batch.rows, batch.positions):
        assert array.dtype == np.int64
        assert array.tolist() == list(range(8))
    assert batch.is_padding.dtype == np.bool_
    assert batch.is_padding.tolist() == [False] * 8


def test_metadata_columns_are_arrays_masked_where_null(batch: CachedBatch) -> None:
    metadata = batch.metadata
    assert list(metadata) == ["number", "half", "label", "even"]
    assert len(metadata) == 4
    assert metadata["number"].dtype == np.int64
    assert metadata["number"].tolist() == list(range(8))
    assert metadata["even"].dtype == np.bool_
    assert not isinstance(metadata["number"], np.ma.MaskedArray)
    half = metadata["half"]
    assert isinstance(half, np.ma.MaskedArray)
    assert half.dtype == np.float64
    assert half.tolist() == [0.0, 0.5, None, 1.5, 2.0, None, 3.0, 3.5]
    assert half.mask.tolist() == [number % 3 == 2 for number in range(8)]
    assert metadata["label"].tolist()[:3] == ["läbel 0", "läbel 1", None]
    assert metadata["half"] is half
    assert "absent" not in metadata
    with pytest.raises(KeyError, match="absent"):
        metadata["absent"]


def test_samples_are_those_of_the_sample_path(
    batch: CachedBatch, open_numbers: Callable[..., CachedDataset]
) -> None:
    assert batch.samples == list(open_numbers(shuffle=False))[:8]


def test_a_batch_is_an_arrow_stream(
    batch: CachedBatch, open_numbers: Callable[..., CachedDataset]
) -> None:
    frame = pl.DataFrame(batch)
    expected = open_numbers(shuffle=False).get_metadata().head(8)
    assert frame.equals(expected.select("number", "half", "label", "even"), null_equal=True)
    assert frame.dtypes == [pl.Int64, pl.Float64, pl.String, pl.Boolean]


def test_the_repr_says_what_is_in_it(batch: CachedBatch) -> None:
    assert repr(batch) == (
        f"CachedBatch(8 samples, {len(batch.buffer)} bytes, columns: number, half, label, even)"
    )


def test_what_is_asked_for_twice_is_made_once(batch: CachedBatch) -> None:
    assert batch.data is batch.data
    assert batch.views is batch.views
    assert batch.samples is batch.samples
    assert batch.metadata is batch.metadata


def test_the_buffer_is_the_caller_s_own(numbers_in_order: CachedDataset) -> None:
    batch = numbers_in_order.rows[:8]
    batch.buffer[:] = 0
    assert numbers_in_order.rows[:8].data[1] == b"payload 1 "


def test_an_empty_batch(numbers_in_order: CachedDataset) -> None:
    for batch in (numbers_in_order.rows[:0], pickle.loads(pickle.dumps(numbers_in_order.rows[:0]))):
        assert len(batch) == 0
        assert batch.offsets.tolist() == [0]
        assert batch.data == []
        assert batch.metadata["number"].tolist() == []
        assert batch.samples == []


@pytest.mark.parametrize("column", [["text", None], [1, None], [0.5, None], [True, None]])
def test_null_columns_keep_their_type_when_pickled(
    runtime: DatasetRuntime,
    tmp_path: Path,
    write: Callable[..., Path],
    list_source: Callable[..., Any],
    column: list[Any],
) -> None:
    records = [CacheInput(b"", {"x": value}) for value in [*column, None]]
    dataset = runtime.cached_dataset(write(list_source("nulls", records), tmp_path))
    nulls = dataset.rows[[1, 2]]
    again = pickle.loads(pickle.dumps(nulls))
    assert pl.DataFrame(again).schema == pl.DataFrame(nulls).schema
    assert again.metadata["x"].tolist() == [None, None]
    assert [sample.metadata for sample in again.samples] == [{"x": None}] * 2


def test_a_pickled_batch_is_readable_elsewhere_without_polars(
    numbers_in_order: CachedDataset, tmp_path: Path
) -> None:
    path = tmp_path / "batch.pickle"
    path.write_bytes(pickle.dumps(numbers_in_order.rows[:4]))
    script = (
        "import pickle, sys\n"
        f"batch = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(batch.data[1], batch.metadata['half'].tolist())\n"
        "print(batch.samples[2].metadata)\n"
        "print('polars' in sys.modules)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output.splitlines() == [
        "b'payload 1 ' [0.0, 0.5, None, 1.5]",
        "{'number': 2, 'half': None, 'label': None, 'even': True}",
        "False",
    ]
