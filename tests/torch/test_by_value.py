"""Functions and classes of the main script in spawned workers, as a user's script has them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCRIPT = """
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


def test_classes_of_a_script_work_in_spawned_workers(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    finished = run([script, write_numbers(50), "spawn"])
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
