"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataset_rt
import dataset_rt_bench
import dataset_rt_torch
from dataset_rt_bench.peers.catalogue import LIBRARIES

# They need libraries of others, which may be missing and take long to import.
LEFT_OUT = tuple(f"dataset_rt_bench.peers.{peer.module}" for peer in LIBRARIES)


def modules() -> Iterator[types.ModuleType]:
    """Yield every Python module of the three packages, but for those left out."""
    for package in (dataset_rt, dataset_rt_torch, dataset_rt_bench):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(("._core", ".__main__", *LEFT_OUT)):
                yield importlib.import_module(found.name)


EXAMPLES = [
    example
    for module in modules()
    for example in doctest.DocTestFinder(exclude_empty=True).find(module)
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_in_a_docstring_runs(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)
