"""pack_arrays and unpack_arrays: arrays of any shape and type, there and back without pickle."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from dataset_rt import InvalidRecordError, pack_arrays, unpack_arrays

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3, 4)])
def test_every_type_and_shape_comes_back(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7).astype(dtype)
    (found,) = unpack_arrays(pack_arrays({"array": array})).values()
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def test_several_arrays_keep_their_names() -> None:
    arrays: dict[str, Any] = {
        "image": np.zeros((3, 5), np.uint8),
        "scale": np.float64(0.5),
        "größe": [1, 2],
    }
    found = unpack_arrays(pack_arrays(arrays))
    assert set(found) == set(arrays)
    assert found["scale"] == 0.5
    assert found["größe"].tolist() == [1, 2]
    assert unpack_arrays(pack_arrays({})) == {}


def test_the_same_arrays_give_the_same_bytes() -> None:
    one = pack_arrays({"a": np.arange(3), "b": np.ones(2)})
    assert one == pack_arrays({"b": np.ones(2), "a": np.arange(3)})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24).reshape(4, 6)[::2, ::3],
        np.arange(6).reshape(2, 3).T,
        np.arange(4, dtype=">i4"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
)
def test_any_memory_order_is_packed_by_value(array: Any) -> None:
    np.testing.assert_array_equal(unpack_arrays(pack_arrays({"x": array}))["x"], array)


def test_unpacked_arrays_look_into_the_bytes() -> None:
    packed = pack_arrays({"x": np.arange(1000)})
    found = unpack_arrays(packed)["x"]
    assert np.shares_memory(found, np.frombuffer(packed, dtype=np.uint8))
    assert not found.flags.writeable
    buffer = bytearray(packed)
    unpack_arrays(buffer)["x"][0] = 77
    assert unpack_arrays(memoryview(buffer))["x"][0] == 77


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_unpacking_copies_nothing(kind: Any) -> None:
    data = kind(pack_arrays({"x": np.zeros(100_000)}))
    tracemalloc.start()
    try:
        unpacked = unpack_arrays(data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < unpacked["x"].nbytes // 10


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones(2)], "arrays is a list, expected a mapping"),
        ({5: np.ones(2)}, "array name 5 is no str"),
        ({"x": ["text"]}, '"x" has dtype str'),
        ({"x": [None]}, '"x" has dtype object'),
        ({"x": np.zeros(2, "datetime64[s]")}, '"x" has dtype datetime64'),
        ({"x": np.zeros(2, [("a", int)])}, '"x" has dtype void'),
    ],
)
def test_what_has_no_place_in_the_format_is_refused(arrays: Any, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        pack_arrays(arrays)


@pytest.mark.parametrize(
    "data",
    [b"", bytearray(), b"short", b"\xff" * 64, pack_arrays({"x": np.ones(9)})[:-1], "text", None],
)
def test_other_bytes_are_refused(data: Any) -> None:
    with pytest.raises(InvalidRecordError):
        unpack_arrays(data)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"__metadata__": np.zeros(2)}, ["__metadata__", "reserved"]),
        ({"a": np.ma.masked_equal([1, 2], 2)}, ["'a'", "masked", "hint"]),
        ({"a": [[1], [2, 3]]}, ["'a'"]),
    ],
    ids=["reserved", "masked", "ragged"],
)
def test_what_would_not_come_back_is_refused(arrays: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        pack_arrays(arrays)
    assert all(word in str(caught.value) for word in words)
