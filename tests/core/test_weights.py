"""Weights: any one-dimensional array of real numbers, and a clear refusal of all else."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dataset_rt import CachedDataset, WeightError

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_ROW = [float(number == 7) for number in range(20)]


@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        np.array,
        pl.Series,
        pd.Series,
        pa.array,
        lambda weights: np.array(weights, dtype=np.float32),
        lambda weights: np.array(weights, dtype=np.uint8),
        lambda weights: np.array(weights, dtype=bool),
        lambda weights: np.repeat(weights, 2)[::2],
        np.ma.MaskedArray,
        lambda weights: [Fraction(weight) for weight in weights],
        lambda weights: pl.Series(weights).cast(pl.Int32),
    ],
)
def test_any_array_of_real_numbers_is_accepted(
    numbers: CachedDataset, convert: Callable[[list[float]], Any]
) -> None:
    numbers.set_weights(convert(ONE_ROW))
    assert set(numbers.draws(0, 100).tolist()) == {7}
    assert numbers.get_metadata()["weight"].to_list() == ONE_ROW


def test_equal_weights_draw_as_no_weights_do(
    numbers: CachedDataset, open_numbers: Callable[..., CachedDataset]
) -> None:
    numbers.set_weights([3.5] * 20)
    assert numbers.draws(0, 500).tolist() == open_numbers(seed=7).draws(0, 500).tolist()


def test_a_wide_range_draws_right(numbers: CachedDataset) -> None:
    numbers.set_weights([1e-300] * 18 + [1e300, 1e300])
    counts = np.bincount(numbers.draws(0, 1000), minlength=20)
    assert counts[:18].sum() == 0
    assert counts[18:].min() > 400


def test_new_weights_restart_the_stream_and_keep_the_epoch_length(numbers: CachedDataset) -> None:
    numbers.set_epoch_len(5)
    list(numbers)
    numbers.set_weights(ONE_ROW)
    assert numbers.state_dict()["position"] == 0
    assert len(numbers) == 5


def test_a_change_of_the_array_afterwards_changes_nothing(numbers: CachedDataset) -> None:
    weights = np.array(ONE_ROW)
    numbers.set_weights(weights)
    weights[:] = 1
    assert set(numbers.draws(0, 100).tolist()) == {7}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (None, "weights is None, expected a one-dimensional array of 20 real numbers"),
        ("heavy", "weights is a str"),
        ({0: 1.0}, "weights is a dict"),
        (1.0, r"weights has shape \(\)"),
        (np.ones((20, 1)), r"weights has shape \(20, 1\)"),
        (np.ones(19), "weights has 19 values"),
        ([], "weights has 0 values"),
        ([[1.0], [1.0, 2.0]], "weights cannot become an array"),
        (["1.0"] * 20, "weights has type <U3"),
        ([1j] * 20, "weights has type complex128"),
        (np.zeros(20, dtype="datetime64[s]"), "weights has type datetime64"),
        ([1.0] * 3 + [None] + [1.0] * 16, "weights has a null in row 3"),
        ([1.0] * 3 + [Decimal(1)] + [1.0] * 16, r"weights has Decimal\('1'\) in row 3"),
        (np.ma.MaskedArray(np.ones(20), mask=np.arange(20) == 4), "weights has a null in row 4"),
        ([1] * 19 + [10**400], "weights has a value that is no double"),
    ],
)
def test_what_is_no_array_of_weights_is_refused(
    numbers: CachedDataset, weights: Any, message: str
) -> None:
    numbers.set_weights(ONE_ROW)
    with pytest.raises(WeightError, match=message):
        numbers.set_weights(weights)
    assert numbers.get_metadata()["weight"].to_list() == ONE_ROW


@pytest.mark.parametrize(
    ("row", "weight", "word"),
    [(3, -1.0, "-1"), (5, float("nan"), "nan"), (0, float("inf"), "inf"), (19, -1e-300, "-1e-300")],
)
def test_wrong_values_name_the_row_and_change_nothing(
    numbers: CachedDataset, row: int, weight: float, word: str
) -> None:
    numbers.set_weights(ONE_ROW)
    list(numbers)
    weights = np.ones(20)
    weights[row] = weight
    with pytest.raises(WeightError) as caught:
        numbers.set_weights(weights)
    assert str(row) in str(caught.value)
    assert word in str(caught.value).lower()
    assert numbers.get_metadata()["weight"].to_list() == ONE_ROW
    assert numbers.state_dict()["position"] == 20


def test_a_null_in_a_polars_series_is_refused(numbers: CachedDataset) -> None:
    with pytest.raises(WeightError, match="4"):
        numbers.set_weights(pl.Series([1.0] * 4 + [None] + [1.0] * 15))


def test_weights_that_are_all_zero_are_refused(numbers: CachedDataset) -> None:
    with pytest.raises(WeightError, match=r"zero|0"):
        numbers.set_weights(np.zeros(20))


def test_without_replacement_unequal_weights_are_refused(
    open_numbers: Callable[..., CachedDataset],
) -> None:
    dataset = open_numbers(replacement=False)
    with pytest.raises(WeightError):
        dataset.set_weights(np.arange(1, 21))


@pytest.mark.parametrize("options", [{"shuffle": False}, {"replacement": False}])
def test_without_replacement_zeros_are_a_filter(
    open_numbers: Callable[..., CachedDataset], options: dict[str, Any]
) -> None:
    dataset = open_numbers(**options)
    dataset.set_weights([2.0 * (number in {3, 7, 11}) for number in range(20)])
    dataset.set_epoch_len(3)
    for _ in range(4):
        assert sorted(sample.metadata["number"] for sample in dataset) == [3, 7, 11]
