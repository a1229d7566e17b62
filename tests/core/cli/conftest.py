"""Caches and a way to run commands for the tests of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import CacheWriteError, DatasetRuntime, WriterConfig
from dataset_rt.cli import main
from tests.core.cli.running import FailingSource, Outcome, records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process."""

    def run_main(*arguments: object) -> Outcome:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run_main


@pytest.fixture(scope="session")
def pets(
    tmp_path_factory: pytest.TempPathFactory, list_source: Any, write: Callable[..., Path]
) -> Path:
    """One cache of forty samples in a directory of its own; no test changes it."""
    base = tmp_path_factory.mktemp("cli")
    return write(list_source("pets ü", list(records()), fingerprint={"version": 3}), base)


@pytest.fixture
def fresh_cache(tmp_path: Path, list_source: Any, write: Callable[..., Path]) -> Path:
    """A cache that a test may damage."""
    return write(list_source("fresh", list(records())), tmp_path / "base")


@pytest.fixture
def abandoned_base(runtime: DatasetRuntime, tmp_path: Path) -> Path:
    """A directory with a build that was given up after some complete shards."""
    base = tmp_path / "abandoned"
    # A short window, so that most samples are in complete shards when the source fails.
    config = WriterConfig(max_shard_bytes=1000, prefetch_size=4)
    (result,) = runtime.write_cache(FailingSource(), base, writer_config=config)
    assert isinstance(result, CacheWriteError)
    return base
