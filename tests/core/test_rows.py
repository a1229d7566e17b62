"""The active rows as a sequence: numbers, slices, arrays and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from dataset_rt import CachedBatch, CachedDataset, ConfigError, PositionError


def numbers_of(batch: CachedBatch) -> list[int]:
    numbers: list[int] = batch.metadata["number"].tolist()
    return numbers


def test_a_number_gives_a_sample(numbers: CachedDataset) -> None:
    rows = numbers.rows
    assert len(rows) == 20
    assert rows[3].metadata["number"] == 3
    assert rows[-1].metadata["number"] == 19
    assert rows[np.int32(-20)].metadata["number"] == 0
    assert repr(rows) == "DatasetRows(20 rows)"


def test_rows_can_be_iterated_in_table_order(numbers: CachedDataset) -> None:
    assert [sample.metadata["number"] for sample in numbers.rows] == list(range(20))


@pytest.mark.parametrize(
    "index",
    [
        slice(None),
        slice(3, 7),
        slice(-3, None),
        slice(None, None, -6),
        slice(50, 60),
        slice(7, 3),
        [],
        [4],
        [-1, 0, 5, 5],
    ],
)
def test_slices_and_lists_are_those_of_a_list(numbers: CachedDataset, index: Any) -> None:
    everything = list(range(20))
    expected = everything[index] if isinstance(index, slice) else [everything[row] for row in index]
    assert numbers_of(numbers.rows[index]) == expected


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, 3], dtype=np.uint8),
        np.array([1, 3], dtype=np.uint64),
        np.array([0, 1, 2, 3], dtype=np.int16)[1::2],
        np.array([1, -17], dtype=np.int64),
        pl.Series([1, 3]),
        np.arange(20) % 18 == np.arange(20) ** 0 * 1,
    ],
    ids=["uint8", "uint64", "strided", "negative", "polars", "mask"],
)
def test_arrays_give_a_batch(numbers: CachedDataset, array: Any) -> None:
    expected = [1, 19] if getattr(array, "dtype", None) == np.bool_ else [1, 3]
    assert numbers_of(numbers.rows[array]) == expected


def test_a_batch_knows_its_rows(numbers: CachedDataset) -> None:
    batch = numbers.rows[[7, 2, 7]]
    assert batch.rows.tolist() == [7, 2, 7]
    assert batch.sample_ids.tolist() == [7, 2, 7]
    assert batch.positions.tolist() == [-1, -1, -1]
    assert not batch.is_padding.any()


def test_rows_follow_the_active_table(numbers: CachedDataset) -> None:
    rows = numbers.rows
    numbers.update_metadata(numbers.get_metadata().filter(pl.col("number") >= 15).reverse())
    assert len(rows) == 5
    assert [sample.metadata["number"] for sample in rows] == [19, 18, 17, 16, 15]
    assert rows[[0, -1]].rows.tolist() == [0, 4]


@pytest.mark.parametrize("index", [20, -21, 2**70, np.int64(20)])
def test_a_number_outside_is_an_index_error(numbers: CachedDataset, index: Any) -> None:
    with pytest.raises(PositionError, match=r"row .* is out of range, expected -20 to 19"):
        numbers.rows[index]
    with pytest.raises(IndexError):
        numbers.rows[index]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([0, 20], "row 20 is out of range"),
        ([-21], "row -21 is out of range"),
        (np.array([2**63], dtype=np.uint64), "row 9223372036854775808 is out of range"),
        (np.zeros(19, dtype=bool), "bool array of length 19, expected 20"),
    ],
)
def test_an_array_outside_names_the_row(numbers: CachedDataset, array: Any, message: str) -> None:
    with pytest.raises(PositionError, match=message):
        numbers.rows[array]


@pytest.mark.parametrize("index", [None, "a", 1.5, True, (1, 2), [1.5], [[1]], ["a"], [None], {}])
def test_what_is_no_index_is_refused(numbers: CachedDataset, index: Any) -> None:
    with pytest.raises(ConfigError, match=r"row index .*expected a row number, a slice"):
        numbers.rows[index]


def test_reading_rows_moves_no_cursor(numbers: CachedDataset) -> None:
    list(numbers.rows)
    assert numbers.rows[:5]
    assert numbers.state_dict()["position"] == 0
