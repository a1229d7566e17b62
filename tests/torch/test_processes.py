"""The loader among processes, threads and signals: whole programs, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.torch.loading import flat, number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataset_rt import CachedDataset

PROGRAM_SECONDS = 150

HAS_WHOLE_COUNTS = os.environ.get("DATASET_RT_WHOLE_COUNTS") == "1"
"""Whether to use as many loaders and epochs as a long job does, which takes minutes."""

MANY_LOADERS, MANY_PASSES, MANY_FRESH_PASSES = (500, 300, 300) if HAS_WHOLE_COUNTS else (150, 40, 5)
# Without torch, which takes seconds to import: programs that start none of our processes need none.
OPEN = """
import sys, time
from dataset_rt import DatasetRuntime

dataset = DatasetRuntime(num_workers=1).cached_dataset(sys.argv[1])
"""


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text)
    return path


WITHOUT_GUARD = """
with open(sys.argv[2], "a") as runs:
    print("run", file=runs)
for batch in dataset.to_torch_dataloader(batch_size=10, num_workers=1):
    print("batch")
"""


def test_a_missing_main_guard_is_explained_once(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    ended = subprocess.run(
        [sys.executable, program(tmp_path, OPEN + WITHOUT_GUARD), write_numbers(50), runs],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    assert "expected training to be under a main guard\nhint: move it into a f" in ended.stderr
    assert ended.stdout == ""
    # The worker ran the script again, and started no others.
    assert len(runs.read_text().splitlines()) == 2


OTHER_STARTER = """
import multiprocessing

def nothing():
    pass

multiprocessing.set_start_method("spawn", force=True)
if __name__ == "__main__":
    process = multiprocessing.Process(target=nothing)
    process.start()
    process.join()
    sys.exit(process.exitcode)
for batch in dataset.to_torch_dataloader(batch_size=10, num_workers=1):
    print("batch")
"""


def test_a_missing_main_guard_is_explained_by_processes_that_no_loader_started(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, program(tmp_path, OPEN + OTHER_STARTER), write_numbers(50)],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert "WorkerError: loading workers run the main script again, and this" in ended.stderr
    assert ended.stdout == ""


INTERRUPTED = """
import signal

# Whoever started the tests may ignore interrupts, as shells do for jobs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

def wait(sample):
    if sys.argv[2] == "waiting" and sample.sample_id >= 4:
        print("ready", flush=True)
        time.sleep(600)
    return 0

def main():
    loader = dataset.to_torch_dataloader(
        batch_size=4, shuffle=False, sample_transform_fn=wait,
        num_workers=int(sys.argv[3]), multiprocessing_context=sys.argv[4],
    )
    if sys.argv[2] == "starting":
        print("ready", flush=True)
    for batch in loader:
        if sys.argv[2] == "training":
            print("ready", flush=True)
            time.sleep(600)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("moment", "num_workers", "context"),
    [
        ("starting", 1, "spawn"),
        ("waiting", 2, "fork"),
        ("training", 0, "fork"),
    ],
)
def test_an_interrupt_is_one_traceback(
    write_numbers: Callable[[int], Path],
    tmp_path: Path,
    moment: str,
    num_workers: int,
    context: str,
) -> None:
    # In a session of its own, so that all its processes can be interrupted as by a terminal.
    with subprocess.Popen(
        [
            sys.executable,
            program(tmp_path, OPEN + INTERRUPTED),
            write_numbers(50),
            moment,
            str(num_workers),
            context,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            os.killpg(running.pid, signal.SIGINT)
            _, shown = running.communicate(timeout=PROGRAM_SECONDS)
        finally:
            running.kill()
    assert running.returncode == -signal.SIGINT
    assert shown.count("Traceback") == 1, shown
    assert shown.endswith("KeyboardInterrupt\n")


SMALL_SHARED_MEMORY = """
import torch

def large(sample):
    return torch.ones(1 << 20, dtype=torch.uint8)

def large_batch(batch):
    return [torch.ones(16 << 20, dtype=torch.uint8)]

for function in ({"sample_transform_fn": large}, {"batch_transform_fn": large_batch}):
    try:
        for batch in dataset.to_torch_dataloader(
            batch_size=16, num_workers=2, timeout=30, multiprocessing_context="fork", **function
        ):
            pass
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_small_shared_memory_is_an_error_that_says_how_much_is_needed(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    in_small_memory = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"',
        "sh",
    ]
    try:
        subprocess.run([*in_small_memory, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets nobody mount a small /dev/shm")
    ended = subprocess.run(
        [
            *in_small_memory,
            sys.executable,
            program(tmp_path, OPEN + SMALL_SHARED_MEMORY),
            write_numbers(50),
        ],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    messages = [line for line in ended.stdout.splitlines() if "Error" in line]
    assert len(messages) == 2, ended.stdout + ended.stderr
    for message in messages:
        assert message.startswith(
            "SharedMemoryError no room in shared memory for a batch of 16.0 MiB: /dev/shm has "
        )
        assert "expected room for 64.0 MiB, which is 2 batches of each of 2 workers" in message


def make_loader(dataset: CachedDataset, num_workers: int, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 10,
            "seed": 42,
            "sample_transform_fn": number_of,
            "num_workers": num_workers,
            "multiprocessing_context": "fork",
            **options,
        }
    )


def test_workers_can_be_forked_after_native_threads_have_run(dataset: CachedDataset) -> None:
    expected = [sample.metadata["number"] for sample in dataset]
    assert flat(numbers_of(make_loader(dataset, 0, native_num_workers=2))) == expected
    assert flat(numbers_of(make_loader(dataset, 2, native_num_workers=2))) == expected


def test_two_loaders_with_workers_at_once_do_not_disturb_each_other(
    dataset: CachedDataset,
) -> None:
    first, second = make_loader(dataset, 2), make_loader(dataset, 2, seed=7)
    alone = [numbers_of(first), numbers_of(second)]
    first.set_epoch(0)
    second.set_epoch(0)
    together = list(zip(numbers_of(first), numbers_of(second), strict=True))
    assert [list(batches) for batches in zip(*together, strict=True)] == alone


def test_a_loader_within_the_loop_of_another_works(dataset: CachedDataset) -> None:
    training, evaluation = make_loader(dataset, 1), make_loader(dataset, 1, shuffle=False)
    for _batch in training:
        evaluation.set_epoch(0)
        assert flat(numbers_of(evaluation)) == list(range(50))


class Belongings:
    """How much a process has of what could pile up."""

    def __init__(self, temporary: Path) -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        self.descriptors = len(list(Path("/proc/self/fd").iterdir()))
        self.threads = len(list(Path("/proc/self/task").iterdir()))
        self.children = len(children.read_text().split())
        # Torch and multiprocessing unlink shared memory at once; what is mapped still tells.
        self.shared_memory = Path("/proc/self/maps").read_text().count(" /dev/shm/")
        self.files = len(list(temporary.iterdir()))

    def more_than(self, before: Belongings) -> dict[str, int]:
        """Return what there is more of."""
        return {
            name: number - vars(before)[name]
            for name, number in vars(self).items()
            if number > vars(before)[name]
        }


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, which is empty."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux tells what a process has")
@pytest.mark.parametrize(
    ("num_loaders", "num_passes", "num_workers", "persistent_workers"),
    [
        (MANY_LOADERS, 1, 0, "auto"),
        (1, MANY_PASSES, 2, True),
        (1, MANY_FRESH_PASSES, 2, False),
        (10, 1, 2, True),
    ],
    ids=["loaders", "passes", "fresh workers", "loaders with workers"],
)
@pytest.mark.timeout(3600 if HAS_WHOLE_COUNTS else 120)
def test_nothing_piles_up(  # noqa: PLR0917
    dataset: CachedDataset,
    temporary: Path,
    num_loaders: int,
    num_passes: int,
    num_workers: int,
    persistent_workers: Any,
) -> None:
    def use(passes: int) -> None:
        loader = make_loader(dataset, num_workers, persistent_workers=persistent_workers)
        for epoch in range(passes):
            loader.set_epoch(epoch)
            for _batch in loader:
                if num_passes == 1:
                    break

    use(min(num_passes, 2))
    before = Belongings(temporary)
    for _ in range(num_loaders):
        use(num_passes)
    # A thread that reads ahead ends by itself once nobody takes what it reads.
    for _ in range(10_000):
        if not Belongings(temporary).more_than(before):
            break
        os.sched_yield()
    assert Belongings(temporary).more_than(before) == {}
