"""Adds up where the time of a pass goes, and says what to do about it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataset_rt_torch.workers import shared_parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt_torch.delivery import DeliveredBatch
    from dataset_rt_torch.options import LoaderOptions

_NANOSECONDS = 1e9
# Below this share of waiting nothing that the loader does would make training notably faster.
_MIN_WAIT_SHARE = 0.1
# Workers that are idle for longer than that are not what is waited for.
_MIN_BUSY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """Where the time went that one process spent on making batches.

    Attributes:
        worker: The number of the loading process; None for the training process.
        batches: Batches that it made and the caller got.
        read_seconds: Drawing, reading and verifying. Where samples are transformed one by one it
            is an estimate, from the time of one sample of each batch.
        transform_seconds: ``sample_transform_fn`` or ``batch_transform_fn``.
        collate_seconds: ``collate_fn``.
    """

    worker: int | None
    batches: int
    read_seconds: float
    transform_seconds: float
    collate_seconds: float


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Where the time of a pass went so far; ``str()`` of it is a report.

    Attributes:
        epoch: The number of the epoch.
        batches: Batches that the caller has got.
        elapsed_seconds: From the begin of the pass to the last batch, or to its end.
        wait_seconds: How much of that the caller spent waiting for a batch.
        first_wait_seconds: How much of the waiting was for the first batch, the start of workers
            included.
        processes: The processes that made the batches.
        verdict: What the figures say, in one line.

    Example:
        >>> process = ProcessStats(0, 16, 0.25, 1.5, 0.05)
        >>> print(LoaderStats(3, 16, 4.0, 2.0, 0.5, (process,), "all is well"))
        epoch 3: 16 batches in 4.000 s, 2.000 s of them waiting (50 %), 0.500 s for the first
        process   batches       read  transform    collate
        worker 0       16    0.250 s    1.500 s    0.050 s
        all is well
    """

    epoch: int
    batches: int
    elapsed_seconds: float
    wait_seconds: float
    first_wait_seconds: float
    processes: tuple[ProcessStats, ...]
    verdict: str

    def __str__(self) -> str:
        """Return the figures as a small table, and the verdict."""
        share = _percent(self.wait_seconds, self.elapsed_seconds)
        totals = (
            f"epoch {self.epoch}: {self.batches} batches in {self.elapsed_seconds:.3f} s, "
            f"{self.wait_seconds:.3f} s of them waiting ({share}), "
            f"{self.first_wait_seconds:.3f} s for the first"
        )
        lines = [totals]
        if self.processes:
            lines.append("process   batches       read  transform    collate")
        for process in self.processes:
            name = "main" if process.worker is None else f"worker {process.worker}"
            lines.append(
                f"{name:<9}{process.batches:>8}{process.read_seconds:>9.3f} s"
                f"{process.transform_seconds:>9.3f} s{process.collate_seconds:>9.3f} s"
            )
        return "\n".join([*lines, self.verdict])


class PassTimes:
    """The times of one pass; its iterator adds to them and the loader reports them."""

    def __init__(self, epoch: int, began: int = 0) -> None:
        """Begin a pass.

        Args:
            epoch: The number of the epoch.
            began: The reading of the clock when it was asked for.
        """
        self._epoch = epoch
        self._began = self._newest = began
        self._batches = 0
        self._waited = 0
        self._waited_for_first = 0
        # Batches, and the nanoseconds of reading, transforming and collating, by process.
        self._made: dict[int | None, list[int]] = {}

    def add_wait(self, since: int) -> None:
        """Count that the caller has waited since a reading of the clock until now."""
        self._newest = time.perf_counter_ns()
        self._waited += self._newest - since
        if self._batches == 0:
            self._waited_for_first = self._waited

    def add_batch(self, delivered: DeliveredBatch) -> None:
        """Count a batch that the caller got, and what its making took."""
        self._batches += 1
        made = self._made.setdefault(delivered.worker, [0, 0, 0, 0])
        made[0] += 1
        made[1] += delivered.read_nanoseconds
        made[2] += delivered.transform_nanoseconds
        made[3] += delivered.collate_nanoseconds

    def stats(self, options: LoaderOptions) -> LoaderStats:
        """Return the times so far.

        Args:
            options: The loader's options, for the verdict.
        """
        processes = tuple(
            _process(worker, *self._made[worker])
            for worker in sorted(self._made, key=lambda worker: -1 if worker is None else worker)
        )
        elapsed = (self._newest - self._began) / _NANOSECONDS
        waited = self._waited / _NANOSECONDS
        waited_for_first = self._waited_for_first / _NANOSECONDS
        return LoaderStats(
            epoch=self._epoch,
            batches=self._batches,
            elapsed_seconds=elapsed,
            wait_seconds=waited,
            first_wait_seconds=waited_for_first,
            processes=processes,
            verdict=verdict_of(
                options,
                processes,
                elapsed_seconds=elapsed,
                wait_seconds=waited,
                first_wait_seconds=waited_for_first,
            ),
        )


def verdict_of(
    options: LoaderOptions,
    processes: Sequence[ProcessStats],
    *,
    elapsed_seconds: float,
    wait_seconds: float,
    first_wait_seconds: float,
) -> str:
    """Say in one line whether the model waits for the loader, for what, and what may help.

    Args:
        options: The loader's options.
        processes: What the processes spent their time on.
        elapsed_seconds: How long the pass has taken.
        wait_seconds: How long the caller has waited.
        first_wait_seconds: How long it has waited for the first batch.
    """
    if not processes:
        return "no batch has been handed out yet"
    share = _percent(wait_seconds, elapsed_seconds)
    finding = f"the model waits for the loader {share} of the time"
    if wait_seconds < _MIN_WAIT_SHARE * elapsed_seconds:
        return f"{finding}: the loader keeps up"
    return f"{finding}; most of it is " + _cause_of(
        options,
        processes,
        elapsed_seconds=elapsed_seconds,
        is_for_first=first_wait_seconds > wait_seconds / 2,
    )


def _cause_of(
    options: LoaderOptions,
    processes: Sequence[ProcessStats],
    *,
    elapsed_seconds: float,
    is_for_first: bool,
) -> str:
    if is_for_first:
        if options.num_workers > 0:
            return "the start of the workers: it counts less the longer they are kept"
        return "the first batch: it counts less in a longer epoch"
    seconds = {
        "read": sum(process.read_seconds for process in processes),
        "transform": sum(process.transform_seconds for process in processes),
        "collate": sum(process.collate_seconds for process in processes),
    }
    if sum(seconds.values()) < _MIN_BUSY_SHARE * elapsed_seconds * options.num_workers:
        return (
            "the way from the workers, which are mostly idle: return less per batch, or use fewer "
            "workers; num_workers=0 has no such way"
        )
    return _advice_on(max(seconds, key=lambda phase: seconds[phase]), options)


def _advice_on(phase: str, options: LoaderOptions) -> str:
    if phase == "read":
        return "reading: raise native_num_workers, or look at the storage"
    takes_batches = options.batch_transform_fn is not None or options.stacks_arrays
    if phase == "collate":
        name = "collate_fn"
    else:
        name = "batch_transform_fn" if takes_batches else "sample_transform_fn"
    cores = shared_parallelism()
    if options.num_workers < cores - 1:
        return f"{name}: add workers (num_workers is {options.num_workers}, of {cores} cores)"
    whole_batches = "" if takes_batches else ", or take whole batches with batch_transform_fn"
    return f"{name}: make it cheaper{whole_batches} (all of {cores} cores are in use)"


def _process(
    worker: int | None, batches: int, read: int, transform: int, collate: int
) -> ProcessStats:
    # The estimated part of reading was taken off transforming; over few batches it may be off.
    overestimated = min(transform, 0)
    return ProcessStats(
        worker=worker,
        batches=batches,
        read_seconds=(read + overestimated) / _NANOSECONDS,
        transform_seconds=(transform - overestimated) / _NANOSECONDS,
        collate_seconds=collate / _NANOSECONDS,
    )


def _percent(part: float, whole: float) -> str:
    return f"{round(100 * part / whole) if whole > 0 else 0} %"
