"""``dataset-rt stats`` counts sizes and values without reading payloads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dataset_rt import CacheInput, ShardCompression, WriterConfig
from tests.core.cli.running import NUM_SAMPLES, PAYLOADS, Outcome, damage_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_stats_counts_payload_sizes(run: Callable[..., Outcome], pets: Path) -> None:
    document = run("stats", pets, "--json").document
    sizes = document["payload_sizes"]
    payloads = [len(payload) for payload in PAYLOADS]
    assert (sizes["smallest_bytes"], sizes["largest_bytes"]) == (0, max(payloads))
    assert sizes["mean_bytes"] == sum(payloads) / len(payloads)
    assert sizes["stored_as_is"] == NUM_SAMPLES
    expected = {0: 1, 1: 0, 2: 0, 4: 3, 8: 8, 16: 16, 32: 12}
    assert {bar["from_bytes"]: bar["count"] for bar in sizes["histogram"]} == expected


def test_stats_counts_the_values_of_columns(run: Callable[..., Outcome], pets: Path) -> None:
    document = run("stats", pets, "--json").document
    columns = {column["name"]: column for column in document["columns"]}
    assert list(columns) == ["label", "number", "half", "even", "nothing"]
    assert columns["label"]["counts"] == [
        {"value": "dog", "count": 20},
        {"value": "cat", "count": 10},
        {"value": "owl\x1b[31m", "count": 10},
    ]
    assert columns["even"]["counts"] == [
        {"value": True, "count": 20},
        {"value": False, "count": 10},
    ]
    assert columns["even"]["nulls"] == 10
    number = columns["number"]
    assert (number["smallest"], number["largest"], number["values"]) == (0, 39, 40)
    # Forty values are too many to show unasked.
    assert "counts" not in number
    half = columns["half"]
    assert (half["smallest"], half["largest"], half["nans"]) == (0.5, 19.5, 4)
    assert (columns["nothing"]["nulls"], columns["nothing"]["values"]) == (40, 0)


def test_stats_counts_the_column_that_is_asked_for(run: Callable[..., Outcome], pets: Path) -> None:
    document = run("stats", pets, "--json", "--column", "number", "--top", 3).document
    (column,) = document["columns"]
    assert column["counts"] == [{"value": value, "count": 1} for value in (0, 1, 2)]
    assert column["other_count"] == 37


def test_stats_draws_bars_in_proportion(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("stats", pets, "--column", "label")
    assert outcome.status == 0
    assert outcome.output.endswith(
        "label (str): 3 values\n"
        "value          samples  share\n"
        f"'dog'               20  50.0%  {'█' * 40}\n"
        f"'cat'               10  25.0%  {'█' * 20}\n"
        f"'owl\\x1b[31m'       10  25.0%  {'█' * 20}\n"
    )


def test_stats_says_how_compression_did(
    run: Callable[..., Outcome], tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    config = WriterConfig(shard_compression=ShardCompression(algo="lz4"))
    source = list_source("mixed", [CacheInput(b"a" * 1000, {}), CacheInput(os.urandom(1000), {})])
    path = write(source, tmp_path, writer_config=config)
    document = run("stats", path, "--json").document
    assert document["payload_sizes"]["stored_as_is"] == 1
    assert document["payload_sizes"]["histogram"] == [{"from_bytes": 512, "count": 2}]
    output = run("stats", path).output
    assert "lz4; 1 stored as they are" in output
    assert f"ratio {2000 / document['stored_bytes']:.2f}\n" in output


def test_stats_reads_no_payload(run: Callable[..., Outcome], fresh_cache: Path) -> None:
    damage_sample(fresh_cache, 3)
    assert run("stats", fresh_cache, "--json").status == 0


def test_stats_counts_across_stretches_of_rows(
    run: Callable[..., Outcome], pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("stats", pets, "--json").document
    monkeypatch.setattr("dataset_rt.cli.columns._ROWS_AT_A_TIME", 7)
    assert run("stats", pets, "--json").document == whole


def test_stats_gives_up_counting_where_values_are_too_many(
    run: Callable[..., Outcome], pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataset_rt.cli.columns._COUNTED_BY_DEFAULT", 10)
    columns = {
        column["name"]: column for column in run("stats", pets, "--json").document["columns"]
    }
    assert (columns["number"]["values"], columns["number"]["more_values_than"]) == (None, 10)
    assert columns["label"]["values"] == 3
    assert "number (int): more than 10 values, from 0 to 39\n" in run("stats", pets).output


def test_stats_of_an_unknown_column_names_those_there_are(
    run: Callable[..., Outcome], pets: Path
) -> None:
    outcome = run("stats", pets, "--column", "colour")
    assert outcome.status == 2
    assert outcome.errors == (
        f"error: {pets} has no column colour\n"
        "hint: its columns are label, number, half, even, nothing\n"
    )
