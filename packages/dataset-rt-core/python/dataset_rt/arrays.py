"""A payload codec without pickle: dictionaries of NumPy arrays as safetensors bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_rt import _core, arguments
from dataset_rt.exceptions import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import Buffer


def pack_arrays(arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """Return named arrays as bytes in the safetensors format.

    Args:
        arrays: Names and arrays of numbers or bools; scalars and nested lists become arrays.

    Raises:
        InvalidRecordError: A name is no str, a type has no place in the format, lists are ragged,
            or an array is masked.

    Example:
        >>> import numpy as np
        >>> packed = pack_arrays({"image": np.zeros((2, 3), dtype=np.uint8), "label": 7})
        >>> unpack_arrays(packed)["image"].shape
        (2, 3)
    """
    if not isinstance(arrays, Mapping):
        raise InvalidRecordError(
            f"arrays is {arguments.type_name(arrays)}, expected a mapping of str to arrays"
        )
    return _core.pack_arrays([_packed(name, array) for name, array in arrays.items()])


def unpack_arrays(data: Buffer) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays in bytes of ``pack_arrays``, without copying them.

    The arrays look into ``data`` and keep it alive; they are read-only where it is.

    Args:
        data: The bytes, or any other C-contiguous buffer of them.

    Raises:
        InvalidRecordError: The bytes are no packed arrays.

    Example:
        >>> unpack_arrays(pack_arrays({"label": 7}))
        {'label': array(7)}
    """
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError) as error:
        raise InvalidRecordError(
            f"data is {arguments.type_name(data)}, expected the bytes of pack_arrays"
        ) from error
    layout = _core.array_layout(
        data if isinstance(data, bytes) else np.frombuffer(view, dtype=np.uint8)
    )
    return {
        name: _unpacked(view, name, dtype, shape, offset) for name, dtype, shape, offset in layout
    }


def stacked(batch: _core.Batch, pad_axis: int | None) -> dict[str, npt.NDArray[Any]]:
    """Return the stacked arrays of a native batch; ``CachedBatch.arrays`` describes them."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    lengths_by_name = {}
    for name, dtype_name, shape, data, lengths in _core.stack_arrays(batch, pad_axis):
        arrays[name] = data.view(_dtype(name, dtype_name)).reshape(shape)
        if lengths is not None:
            lengths_by_name[name] = lengths
    return _with_lengths(arrays, lengths_by_name)


def stack_payloads(payloads: Sequence[Buffer], pad_axis: int | None) -> dict[str, npt.NDArray[Any]]:
    """Stack the arrays of payloads that are no native batch any more.

    Raises:
        InvalidRecordError: The payloads are no packed arrays, or their arrays differ.
    """
    unpacked = [unpack_arrays(payload) for payload in payloads]
    if not unpacked:
        return {}
    names = list(unpacked[0])
    for number, record in enumerate(unpacked):
        if record.keys() != unpacked[0].keys():
            raise InvalidRecordError(
                f"sample {number} of the batch has arrays {sorted(record)}, sample 0 has "
                f"{sorted(names)}, and only arrays that agree are stacked"
            )
    arrays: dict[str, npt.NDArray[Any]] = {}
    lengths = {}
    for name in names:
        parts = [record[name] for record in unpacked]
        if pad_axis is not None and all(part.ndim > pad_axis for part in parts):
            found = np.array([part.shape[pad_axis] for part in parts], dtype=np.int64)
            if found.min() != found.max():
                lengths[name] = found
                parts = [_filled_up(part, pad_axis, int(found.max())) for part in parts]
        for number, part in enumerate(parts):
            if (part.dtype, part.shape) != (parts[0].dtype, parts[0].shape):
                raise InvalidRecordError(
                    f"array {name!r} is {part.dtype} of shape {part.shape} in sample {number} of "
                    f"the batch and {parts[0].dtype} of shape {parts[0].shape} in sample 0, and "
                    "only arrays that agree are stacked"
                )
        arrays[name] = np.stack(parts)
    return _with_lengths(arrays, lengths)


def _filled_up(array: npt.NDArray[Any], axis: int, length: int) -> npt.NDArray[Any]:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, length - array.shape[axis])
    return np.pad(array, widths)


def _with_lengths(
    arrays: dict[str, npt.NDArray[Any]], lengths: dict[str, npt.NDArray[np.int64]]
) -> dict[str, npt.NDArray[Any]]:
    for name, values in lengths.items():
        key = f"{name}_lengths"
        if key in arrays:
            raise InvalidRecordError(
                f"array {name!r} is filled up, and the name for its lengths, {key!r}, is taken"
            )
        arrays[key] = values
    return arrays


def _packed(name: object, value: npt.ArrayLike) -> tuple[str, str, list[int], bytes]:
    if not isinstance(name, str):
        raise InvalidRecordError(f"array name {arguments.shown(name)} is no str")
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidRecordError(
            f"array {name!r} is masked, and the format has no place for a mask\n"
            "hint: pack array.filled(value), or the data and the mask as two arrays"
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidRecordError(f"array {name!r}: {error}") from error
    # The format is little-endian. Types that it lacks are refused by the native side.
    ordered = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return name, array.dtype.name, list(array.shape), ordered.tobytes()


def _unpacked(
    view: memoryview, name: str, dtype_name: str, shape: list[int], offset: int
) -> npt.NDArray[Any]:
    count = math.prod(shape)
    dtype = _dtype(name, dtype_name)
    return np.frombuffer(view, dtype=dtype, count=count, offset=offset).reshape(shape)


def _dtype(name: str, dtype_name: str) -> np.dtype[Any]:
    try:
        return np.dtype(dtype_name).newbyteorder("<")
    except TypeError as error:
        raise InvalidRecordError(
            f"array {name!r} has type {dtype_name}, which NumPy does not know\n"
            "hint: import ml_dtypes first, which teaches it"
        ) from error
