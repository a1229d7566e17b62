"""Records: what a source may yield, bit for bit, and what is refused with its place."""

from __future__ import annotations

import array
import datetime as dt
import math
import mmap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import (
    CachedSample,
    CacheInput,
    CacheWriteError,
    DatasetRuntime,
    InvalidRecordError,
    ReaderConfig,
)

if TYPE_CHECKING:
    from pathlib import Path

Written = Callable[..., list[CachedSample]]


@pytest.fixture
def written(
    runtime: DatasetRuntime,
    tmp_path: Path,
    write: Callable[..., Path],
    list_source: Callable[..., Any],
) -> Written:
    """Write records and read them back in order."""

    def write_and_read(*records: object) -> list[CachedSample]:
        path = write(list_source("records", records), tmp_path)
        return list(runtime.cached_dataset(path, reader_config=ReaderConfig(shuffle=False)))

    return write_and_read


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"memoryview"),
        memoryview(b"a longer one")[2:8],
        array.array("i", [1, 2, 3]),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.empty(0),
        np.float64(1.5),
    ],
    ids=lambda data: type(data).__name__,
)
def test_any_contiguous_buffer_is_a_payload(written: Written, data: Any) -> None:
    (sample,) = written(CacheInput(data, {}))
    assert type(sample.data) is bytes
    assert sample.data == memoryview(data).tobytes()


def test_a_read_only_map_is_a_payload(written: Written) -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:4] = b"head"
        (sample,) = written(CacheInput(mapped, {}))
    assert sample.data == b"head" + bytes(4092)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (False, False),
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (1.5, 1.5),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (5e-324, 5e-324),
        ("", ""),
        ("text", "text"),
        ("ünï\0cödé 数字 😀", "ünï\0cödé 数字 😀"),
        (None, None),
        (np.bool_(True), True),
        (np.int8(-5), -5),
        (np.uint64(2**63 - 1), 2**63 - 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(-2.5), -2.5),
        (np.str_("numpy text"), "numpy text"),
    ],
    ids=repr,
)
def test_metadata_values_come_back_as_plain_python(
    written: Written, value: Any, expected: Any
) -> None:
    (sample,) = written(CacheInput(b"", {"value": value}))
    assert sample.metadata == {"value": expected}
    assert type(sample.metadata["value"]) is type(expected)


def test_nan_and_negative_zero_keep_their_bits(written: Written) -> None:
    samples = written(*(CacheInput(b"", {"x": value}) for value in (math.nan, -0.0, 0.0, None)))
    values = [sample.metadata["x"] for sample in samples]
    assert math.isnan(values[0])
    assert [math.copysign(1, value) for value in values[1:3]] == [-1, 1]
    assert values[3] is None


def test_a_sample_carries_its_identity_and_column_order(written: Written) -> None:
    samples = written(
        CacheInput(b"first", {"b": 1, "a": "x"}), CacheInput(b"second", {"a": "y", "b": 2})
    )
    assert [list(sample.metadata) for sample in samples] == [["b", "a"], ["b", "a"]]
    assert samples[1].metadata == {"b": 2, "a": "y"}
    assert [sample.sample_id for sample in samples] == [0, 1]
    assert samples[0].cache_id == samples[1].cache_id > 0


def test_records_without_metadata(written: Written) -> None:
    assert [sample.metadata for sample in written(CacheInput(b"a", {}), CacheInput(b"b", {}))] == [
        {},
        {},
    ]


def test_none_leaves_the_type_open_until_the_first_value(written: Written) -> None:
    samples = written(*(CacheInput(b"", {"x": value}) for value in (None, None, "text", None)))
    assert [sample.metadata["x"] for sample in samples] == [None, None, "text", None]


def test_an_exact_integer_goes_into_a_float_column(written: Written) -> None:
    samples = written(*(CacheInput(b"", {"x": value}) for value in (0.5, 3, 2**53)))
    values = [sample.metadata["x"] for sample in samples]
    assert values == [0.5, 3.0, 2.0**53]
    assert all(type(value) is float for value in values)


def test_buffers_and_dicts_are_copied_at_the_yield(
    runtime: DatasetRuntime, tmp_path: Path, write: Callable[..., Path]
) -> None:
    class Reusing:
        name = "reusing"

        def __iter__(self) -> Iterator[CacheInput]:
            buffer = bytearray(8)
            metadata = {"number": 0}
            for number in range(100):
                buffer[:] = number.to_bytes(8, "little")
                metadata["number"] = number
                yield CacheInput(buffer, metadata)

    path = write(Reusing(), tmp_path)
    dataset = runtime.cached_dataset(path, reader_config=ReaderConfig(shuffle=False))
    assert [(int.from_bytes(s.data, "little"), s.metadata["number"]) for s in dataset] == [
        (number, number) for number in range(100)
    ]


@pytest.mark.parametrize(
    "record",
    [
        b"bytes alone",
        {"data": b"", "metadata": {}},
        (b"data",),
        (b"data", {}, 1),
        None,
        5,
    ],
    ids=repr,
)
def test_what_is_no_record_is_refused(
    refused: Callable[..., CacheWriteError], record: object
) -> None:
    failure = refused(CacheInput(b"", {}), record)
    assert isinstance(failure.exception, InvalidRecordError)
    assert "bad source" in failure.message
    assert "sample 1" in failure.message


@pytest.mark.parametrize(
    "data",
    [
        "text",
        5,
        None,
        [1, 2],
        np.arange(10)[::2],
        memoryview(b"0123456789")[::3],
        np.array(["x", None]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_no_contiguous_buffer_is_refused(
    refused: Callable[..., CacheWriteError], data: Any
) -> None:
    failure = refused(CacheInput(b"good", {"x": 1}), CacheInput(data, {"x": 1}))
    assert isinstance(failure.exception, InvalidRecordError)
    assert "bad source" in failure.message
    assert "sample 1" in failure.message
    assert "data" in failure.message


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ([("x", 1)], ["metadata", "list"]),
        (None, ["metadata"]),
        ({5: 1}, ["str", "int"]),
        ({"": 1}, ["is empty"]),
        ({"cache_id": 1}, ["cache_id", "reserved"]),
        ({"sample_id": 1}, ["sample_id", "reserved"]),
        ({"weight": 1.0}, ["weight", "reserved"]),
        ({"x": [1]}, ["x", "list"]),
        ({"x": b"bytes"}, ["x", "bytes"]),
        ({"x": 1j}, ["x", "complex"]),
        ({"x": dt.date(2020, 1, 1)}, ["x", "date"]),
        ({"x": np.datetime64("2020-01-01")}, ["x", "date"]),
        ({"x": np.arange(2)}, ["x", "ndarray"]),
        ({"x": 2**63}, ["x", str(2**63)]),
        ({"x": -(2**63) - 1}, ["x", str(-(2**63) - 1)]),
        ({"x": np.uint64(2**63)}, ["x", str(2**63)]),
        ({"x": "lone surrogate \ud800"}, ["x"]),
    ],
    ids=str,
)
def test_wrong_metadata_is_refused_in_the_first_row(
    refused: Callable[..., CacheWriteError], metadata: Any, words: list[str]
) -> None:
    failure = refused(CacheInput(b"", metadata))
    assert isinstance(failure.exception, InvalidRecordError), failure.message
    for word in ["bad source", "sample 0", *words]:
        assert word in failure.message


@pytest.mark.parametrize(
    ("first", "later", "words"),
    [
        (1, True, ["bool"]),
        (1, 1.5, ["1.5"]),
        (1, "one", ["one"]),
        (True, 1, ["bool"]),
        (True, 0.0, ["bool"]),
        (1.5, True, ["float"]),
        (1.5, "text", ["float", "text"]),
        (1.5, 2**53 + 1, [str(2**53 + 1)]),
        ("text", 1, ["str"]),
        ("text", b"text", ["str"]),
    ],
    ids=repr,
)
def test_a_later_row_of_another_type_is_refused(
    refused: Callable[..., CacheWriteError], first: Any, later: Any, words: list[str]
) -> None:
    failure = refused(
        CacheInput(b"", {"x": first}), CacheInput(b"", {"x": None}), CacheInput(b"", {"x": later})
    )
    assert isinstance(failure.exception, InvalidRecordError), failure.message
    for word in ["bad source", "sample 2", "x", "expected", *words]:
        assert word in failure.message


@pytest.mark.parametrize(
    ("metadata", "word"),
    [({"a": 1}, "b"), ({"a": 1, "b": 2, "c": 3}, "c"), ({"a": 1, "B": 2}, "B"), ({}, "a")],
    ids=repr,
)
def test_a_later_row_with_other_columns_is_refused(
    refused: Callable[..., CacheWriteError], metadata: dict[str, Any], word: str
) -> None:
    failure = refused(CacheInput(b"", {"a": 1, "b": 2}), CacheInput(b"", metadata))
    assert isinstance(failure.exception, InvalidRecordError), failure.message
    for part in ["bad source", "sample 1", word]:
        assert part in failure.message
