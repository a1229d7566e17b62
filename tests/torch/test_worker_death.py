"""Loading workers that die, hang or cannot start: one exception says which, why, and what to do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from torch.utils.data import DataLoader

from dataset_rt import DatasetRtError
from dataset_rt_torch import WorkerError, WorkerTimeoutError
from dataset_rt_torch.worker_death import explained
from tests.torch.loading import flat, number_of, numbers_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt import CachedDataset, CachedSample


def make_loader(dataset: CachedDataset, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 5,
            "shuffle": False,
            "num_workers": 2,
            "multiprocessing_context": "fork",
            **options,
        }
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGKILL, r"was killed by SIGKILL, likely out of memory\nhint: use fewer workers"),
        (signal.SIGBUS, r"was killed by SIGBUS, likely out of shared memory: /dev/shm has "),
        (signal.SIGSEGV, r"was killed by SIGSEGV, so native code that it called has crashed\n"),
        (signal.SIGTERM, r"was killed by SIGTERM, expected it to live as long as its loader"),
    ],
)
def test_a_killed_worker_is_an_error_that_names_the_signal(
    dataset: CachedDataset, number: signal.Signals, message: str
) -> None:
    def die(sample: CachedSample) -> int:
        if sample.metadata["number"] == 37:
            # Torch and pytest handle some of these signals; the default action is to die.
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
            os.kill(os.getpid(), number)
        return number_of(sample)

    loader = make_loader(dataset, sample_transform_fn=die)
    with pytest.raises(
        WorkerError, match=r"^loading worker 1 \(process \d+\) " + message
    ) as caught:
        list(loader)
    assert isinstance(caught.value, (DatasetRtError, RuntimeError))
    assert caught.value.__context__ is None, "torch's own words would only repeat it"


def test_a_worker_that_exits_is_an_error_that_names_its_status(dataset: CachedDataset) -> None:
    def leave(_sample: CachedSample) -> int:
        os._exit(3)

    with pytest.raises(WorkerError, match=r"loading worker [01] .* exited with status 3, expected"):
        next(iter(make_loader(dataset, sample_transform_fn=leave)))


def exit_without_complaint(_sample: CachedSample) -> int:
    raise SystemExit


def interrupt(_sample: CachedSample) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("leave", [exit_without_complaint, interrupt])
def test_a_worker_that_leaves_in_order_is_an_error_too(dataset: CachedDataset, leave: Any) -> None:
    with pytest.raises(
        WorkerError, match=r"loading worker [01] .* exited with status 0, expected"
    ) as caught:
        next(iter(make_loader(dataset, sample_transform_fn=leave)))
    assert "raise an exception" in str(caught.value)


def test_workers_that_an_interrupt_ended_are_replaced(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, sample_transform_fn=process_of, persistent_workers=True)
    workers = {int(batch[0]) for batch in loader}
    for worker in workers:
        os.kill(worker, signal.SIGINT)
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    assert workers.isdisjoint(int(batch[0]) for batch in loader)


def test_a_hanging_worker_is_an_error_after_the_timeout(dataset: CachedDataset) -> None:
    def hang(sample: CachedSample) -> int:
        # Longer than the timeout, and short enough for the worker to leave by itself.
        time.sleep(2.5)
        return number_of(sample)

    loader = make_loader(dataset, sample_transform_fn=hang, num_workers=1, timeout=1, batch_size=1)
    with pytest.raises(
        WorkerTimeoutError, match="no batch came from 1 loading workers within 1 seconds"
    ) as caught:
        next(iter(loader))
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("persistent_workers", [True, False])
def test_after_a_death_the_loader_starts_new_workers(
    dataset: CachedDataset, tmp_path: Path, persistent_workers: bool
) -> None:
    poison = tmp_path / "poison"
    poison.touch()

    def die_once(sample: CachedSample) -> int:
        # Not at once: torch hears of a death only after it has started all workers.
        if poison.exists() and sample.metadata["number"] >= 30:
            os._exit(1)
        return number_of(sample)

    loader = make_loader(
        dataset, sample_transform_fn=die_once, persistent_workers=persistent_workers
    )
    loader.set_epoch(0)
    with pytest.raises(WorkerError):
        list(loader)
    poison.unlink()
    loader.set_epoch(0)
    assert flat(numbers_of(loader)) == list(range(50))


def kill(process_id: int) -> None:
    """Kill a process, and return after the system has told us of its death."""
    os.kill(process_id, signal.SIGKILL)
    os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)


def process_of(_sample: CachedSample) -> int:
    return os.getpid()


def test_a_death_while_the_model_computes_is_an_error_of_the_next_batch(
    dataset: CachedDataset,
) -> None:
    iterator = iter(make_loader(dataset, sample_transform_fn=process_of))
    kill(int(next(iterator)[0]))
    computed = sum(range(1000))
    with pytest.raises(WorkerError, match="was killed by SIGKILL") as caught:
        next(iterator)
    assert computed == 499_500
    assert caught.value.__context__ is None
    assert list(iterator) == []


def test_a_death_between_passes_is_an_error_of_the_next_pass(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, sample_transform_fn=process_of, persistent_workers=True)
    workers = {int(batch[0]) for batch in loader}
    kill(workers.pop())
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        iter(loader)
    assert workers.isdisjoint(int(batch[0]) for batch in loader)


def test_a_death_in_one_loader_is_no_error_of_another_that_is_waited_for(
    dataset: CachedDataset,
) -> None:
    broken = iter(make_loader(dataset, sample_transform_fn=process_of))
    victim = int(next(broken)[0])

    def kill_victim(sample: CachedSample) -> int:
        if sample.metadata["number"] == 37:
            os.kill(victim, signal.SIGKILL)
        return number_of(sample)

    whole = make_loader(dataset, sample_transform_fn=kill_victim)
    assert flat(numbers_of(whole)) == list(range(50))
    os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        next(broken)


def test_a_death_is_an_error_in_a_thread_that_waits(dataset: CachedDataset) -> None:
    iterator = iter(make_loader(dataset, sample_transform_fn=process_of))
    kill(int(next(iterator)[0]))
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(WorkerError, match="was killed by SIGKILL"),
    ):
        threads.submit(next, iterator).result()


def test_torchs_own_loaders_hear_of_deaths_as_before(dataset: CachedDataset) -> None:
    next(iter(make_loader(dataset)))
    plain: DataLoader[int] = DataLoader(
        range(10),  # type: ignore[arg-type]
        num_workers=1,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    list(plain)
    assert plain._iterator is not None
    (worker,) = plain._iterator._workers  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="is killed by signal: Killed") as caught:
        kill(worker.pid)
    assert not isinstance(caught.value, WorkerError)


def test_an_error_of_a_transform_that_looks_like_torchs_stays_itself(
    dataset: CachedDataset,
) -> None:
    def fail(_sample: CachedSample) -> int:
        raise RuntimeError("DataLoader timed out after 3 seconds")

    with pytest.raises(RuntimeError, match="timed out after 3 seconds") as caught:
        next(iter(make_loader(dataset, sample_transform_fn=fail, timeout=60)))
    assert type(caught.value) is RuntimeError


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError(104, "reset by peer")])
def test_half_a_batch_of_a_dying_worker_is_explained_by_its_death(error: Exception) -> None:
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=signal.pause)
    worker.start()
    # Dies while it is being waited for.
    killing = threading.Thread(target=worker.kill)
    killing.start()
    batches = SimpleNamespace(_workers=[worker])
    explanation = explained(error, batches, timeout_seconds=0)
    killing.join()
    worker.join()
    assert "was killed by SIGKILL" in str(explanation)


def test_other_errors_of_torch_stay_as_they_are() -> None:
    batches = SimpleNamespace(_workers=[])
    assert explained(KeyError("x"), batches, timeout_seconds=1) is None
    assert explained(RuntimeError("x"), batches, timeout_seconds=1) is None
