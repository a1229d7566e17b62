"""Reader and writer options: defaults, accepted forms, and the message for each wrong value."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dataset_rt import ConfigError, DatasetRtError, ReaderConfig, ShardCompression, WriterConfig


def test_reader_defaults_are_those_of_the_contract() -> None:
    assert ReaderConfig().model_dump() == {
        "seed": 0,
        "shuffle": True,
        "replacement": True,
        "prefetch_size": 64,
        "validate_cache": False,
        "verify_reads": True,
        "backend": "map",
        "schema": "strict",
    }


def test_writer_defaults_are_those_of_the_contract() -> None:
    config = WriterConfig()
    assert config.max_shard_bytes == 256_000_000
    assert config.shard_compression == ShardCompression(algo="none")
    assert config.validate_cache is False
    assert config.num_processes == 0
    assert config.show_progress == "auto"
    assert config.on_stale == "error"
    assert config.profiler.enabled is False


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, 1),
        ("1", 1),
        ("10B", 10),
        ("256MB", 256_000_000),
        ("64MiB", 64 << 20),
        (" 64 mib ", 64 << 20),
        ("1.1GB", 1_100_000_000),
        ("0.5KiB", 512),
        ("2 TB", 2 * 10**12),
        (np.int64(7), 7),
    ],
)
def test_shard_size_accepts_numbers_and_text(size: Any, expected: int) -> None:
    assert WriterConfig(max_shard_bytes=size).max_shard_bytes == expected


@pytest.mark.parametrize(
    "size",
    [0, -1, "0MB", "-1MB", "", "MB", "12 parsecs", "1.5B", "1e6", True, 1.5, None, "9999999TiB"],
)
def test_shard_size_refuses_what_is_no_size(size: Any) -> None:
    with pytest.raises(ConfigError, match=r"WriterConfig: max_shard_bytes is .*expected .*'256MB'"):
        WriterConfig(max_shard_bytes=size)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.uint64(2**64 - 1), np.int32(3)])
def test_seed_takes_any_unsigned_64_bit_number(seed: Any) -> None:
    assert ReaderConfig(seed=seed).seed == int(seed)
    assert type(ReaderConfig(seed=seed).seed) is int


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
        ("seed", 1.0),
        ("seed", "1"),
        ("seed", None),
        ("shuffle", 1),
        ("shuffle", "yes"),
        ("replacement", None),
        ("prefetch_size", 0),
        ("prefetch_size", -5),
        ("prefetch_size", 2.5),
        ("prefetch_size", 2**40),
        ("validate_cache", 0),
        ("verify_reads", "no"),
        ("backend", "ftp"),
        ("backend", None),
        ("schema", "loose"),
        ("schema", None),
    ],
)
def test_reader_refuses_wrong_values_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"ReaderConfig: {option} is .*expected") as caught:
        ReaderConfig(**{option: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("prefetch_size", 0, "prefetch_size is 0, expected an integer from 1"),
        ("validate_cache", 1, "validate_cache is 1, expected True or False"),
        ("shard_compression", {"algo": "snappy"}, "algo is 'snappy', expected 'none' or 'lz4' or"),
        ("shard_compression", "lz4", "shard_compression is 'lz4'"),
        ("shard_compression", {"levels": 3}, "option 'levels' is not known"),
        ("on_stale", "ignore", "on_stale is 'ignore', expected 'error' or 'rebuild' or 'reuse'"),
        ("num_processes", -1, "num_processes is -1, expected an integer from 0"),
        ("show_progress", 1, "show_progress is 1, expected True or False or 'auto'"),
        ("profiler", {"enabled": True}, "path is None, expected the JSON file to write"),
    ],
)
def test_writer_refuses_wrong_values_by_name(option: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WriterConfig(**{option: value})


@pytest.mark.parametrize("config", [ReaderConfig, WriterConfig, ShardCompression])
def test_unknown_options_are_refused_with_the_known_ones(config: Any) -> None:
    with pytest.raises(ConfigError, match="option 'shufle' is not known, expected one of"):
        config(shufle=True)


def test_all_wrong_options_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ReaderConfig(seed=-1, shuffle="no", nonsense=1)  # type: ignore[call-arg, arg-type]
    assert [line.split()[1] for line in str(caught.value).splitlines()] == [
        "seed",
        "shuffle",
        "option",
    ]


def test_a_wrong_option_is_a_value_error_of_the_product() -> None:
    with pytest.raises(DatasetRtError):
        ReaderConfig(seed=-1)
    with pytest.raises(ValueError, match="seed"):
        ReaderConfig(seed=-1)


def test_options_are_frozen_and_compare_by_value() -> None:
    config = ReaderConfig(seed=3)
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 4  # type: ignore[misc]
    assert config == ReaderConfig(seed=3)
    assert hash(config) == hash(ReaderConfig(seed=3))


@pytest.mark.parametrize("config", [ReaderConfig(seed=3, schema="union"), WriterConfig()])
def test_options_survive_pickling(config: Any) -> None:
    assert pickle.loads(pickle.dumps(config)) == config
