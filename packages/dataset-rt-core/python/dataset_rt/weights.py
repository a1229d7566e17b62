"""Turns what people have as weights into one contiguous array of doubles."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from dataset_rt import arguments
from dataset_rt.exceptions import WeightError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

WeightsLike: TypeAlias = "npt.ArrayLike | Sequence[float]"
"""Any one-dimensional array of real numbers: NumPy, Polars, pandas, a CPU tensor, a list."""

_REAL_KINDS = "biuf"


def weights_as_array(weights: object, num_rows: int) -> npt.NDArray[np.float64]:
    """Return weights as contiguous doubles, one per active row.

    Bools count as 0 and 1, so that a mask is a filter.

    Raises:
        WeightError: The weights are not one-dimensional, not real numbers, or not ``num_rows``.
    """
    expected = f"expected a one-dimensional array of {num_rows} real numbers, one per active row"
    if weights is None or isinstance(weights, str | bytes | dict | set):
        raise WeightError(f"weights is {arguments.type_name(weights)}, {expected}")
    try:
        array = np.asanyarray(weights)
    except (TypeError, ValueError) as error:
        raise WeightError(f"weights cannot become an array ({error}), {expected}") from error
    if array.ndim != 1:
        raise WeightError(f"weights has shape {array.shape}, {expected}")
    if len(array) != num_rows:
        raise WeightError(f"weights has {len(array)} values, {expected}")
    if isinstance(array, np.ma.MaskedArray):
        masked = np.flatnonzero(np.ma.getmaskarray(array))
        if len(masked):
            raise WeightError(f"weights has a null in row {masked[0]}, {expected}")
        array = array.data
    if array.dtype.kind == "O":
        array = _real_numbers(array, expected)
    if array.dtype.kind not in _REAL_KINDS:
        raise WeightError(f"weights has type {array.dtype}, {expected}")
    # A sub-class such as a tensor or a matrix has had its say; from here on it is a plain array.
    return np.ascontiguousarray(np.asarray(array), dtype=np.float64)


def _real_numbers(array: npt.NDArray[Any], expected: str) -> npt.NDArray[np.float64]:
    for row, value in enumerate(array):
        if value is None:
            raise WeightError(f"weights has a null in row {row}, {expected}")
        if not isinstance(value, Real | np.bool_):
            raise WeightError(f"weights has {arguments.shown(value)} in row {row}, {expected}")
    try:
        return cast("npt.NDArray[np.float64]", array.astype(np.float64))
    except (OverflowError, TypeError, ValueError) as error:
        raise WeightError(f"weights has a value that is no double ({error}), {expected}") from error
