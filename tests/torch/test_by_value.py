"""Functions and classes of the main script in spawned workers, as a user's script has them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.torch.loading import FAST_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataset_rt import CachedDataset

SCRIPT = """
import multiprocessing
import sys
from typing import NamedTuple

from dataset_rt import DatasetRuntime

SCALE = 1


class Pair(NamedTuple):
    number: int
    scaled: int


class RefusedError(Exception):
    def __init__(self, number, *, reason):
        super().__init__(f"{reason}: {number}")


def pair_of(sample):
    number = sample.metadata["number"]
    if number == 4:
        raise RefusedError(number, reason="four")
    return Pair(number, number * SCALE)


if __name__ == "__main__":
    SCALE = 10
    multiprocessing.get_context("forkserver").set_forkserver_preload(["torch", "dataset_rt_torch"])

    class Guarded(NamedTuple):
        number: int

    def guarded(sample):
        return Guarded(sample.metadata["number"])

    dataset = DatasetRuntime(num_workers=1).cached_dataset(sys.argv[1])

    def make_loader(transform):
        return dataset.to_torch_dataloader(
            batch_size=2, samples_per_epoch=6, shuffle=False, seed=1, sample_transform_fn=transform,
            collate_fn=list, num_workers=1, multiprocessing_context=sys.argv[2],
        )

    iterator = iter(make_loader(pair_of))
    assert next(iterator) == [Pair(0, 0), Pair(1, 10)]
    assert next(iterator) == [Pair(2, 20), Pair(3, 30)]
    try:
        next(iterator)
    except RefusedError as error:
        print("refused", str(error).split(" (")[0])
    batch = next(iter(make_loader(guarded)))
    assert [type(item) for item in batch] == [Guarded, Guarded], batch
    print("done")
"""

INPUT = """
import sys

from dataset_rt import ConfigError, DatasetRuntime

dataset = DatasetRuntime(num_workers=1).cached_dataset(sys.argv[1])
print("auto", dataset.to_torch_dataloader(sample_transform_fn=lambda sample: 1).num_workers)
try:
    dataset.to_torch_dataloader(num_workers=1)
except ConfigError as error:
    print(error)
"""


def run(arguments: list[object], text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("main", ["script", "no file"])
def test_classes_of_the_main_module_work_in_workers(
    write_numbers: Callable[[int], Path], tmp_path: Path, main: str
) -> None:
    if main == "script":
        script = tmp_path / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        finished = run([script, write_numbers(50), "spawn"])
    else:
        # As in a notebook, whose main module workers cannot import.
        finished = run(["-c", SCRIPT, write_numbers(50), "forkserver"])
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == ["refused four: 4", "done"]


def test_a_script_on_standard_input_is_told_to_use_a_file(
    write_numbers: Callable[[int], Path],
) -> None:
    finished = run(["-", write_numbers(50)], INPUT)
    assert finished.stderr == ""
    first, second, third = finished.stdout.splitlines()
    assert first == "auto 0"
    assert second.startswith("num_workers is 1 in a script without a file (<stdin>), expected 0")
    assert third == "hint: save the script in a file and run that file"


MODULE = """
from tests.torch.loading import number_of

FACTOR = 7


class OddError(Exception):
    pass


def scaled(sample):
    number = number_of(sample)
    if number == 3:
        raise OddError("three")
    return number * FACTOR
"""


def test_functions_of_a_module_that_workers_cannot_import_go_by_value(
    dataset: CachedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "loaded_by_path.py"
    file.write_text(MODULE, encoding="utf-8")
    specification = importlib.util.spec_from_file_location("loaded_by_path", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "loaded_by_path", module)
    specification.loader.exec_module(module)

    iterator = iter(
        dataset.to_torch_dataloader(
            batch_size=2,
            shuffle=False,
            sample_transform_fn=module.scaled,
            num_workers=1,
            **FAST_WORKERS,
        )
    )
    assert next(iterator).tolist() == [0, 7]
    with pytest.raises(module.OddError, match="three"):
        next(iterator)
