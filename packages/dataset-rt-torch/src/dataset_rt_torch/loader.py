"""The DataLoader over windows of a stream: exact, resumable, the same for any worker count."""

from __future__ import annotations

import time
import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils.data import DataLoader

from dataset_rt import _core, arguments
from dataset_rt.exceptions import StateMismatchError
from dataset_rt_torch.audit import LoaderAudit, audit_epoch
from dataset_rt_torch.by_value import ByValue
from dataset_rt_torch.collate import Collation, parameters_given, tensors_of
from dataset_rt_torch.distributed import agree_on_seed, check_still_holds, report_fault
from dataset_rt_torch.iterator import LoaderIterator, PassProgress, keep_until_gone
from dataset_rt_torch.notices import logger, report, warn_of_counts, warn_of_repeat
from dataset_rt_torch.options import LoaderArguments, check_options, topology_of
from dataset_rt_torch.readahead import ReadAhead
from dataset_rt_torch.snapshot import Snapshot
from dataset_rt_torch.state import LoaderIdentity, Resumption, from_state, to_state
from dataset_rt_torch.stats import LoaderStats, PassTimes
from dataset_rt_torch.windows import WindowSampler
from dataset_rt_torch.worker import OpenSnapshot, WindowDataset, content_of
from dataset_rt_torch.worker_death import (
    explained,
    has_dead_worker,
    have_only_left,
    refuse_to_start_in_a_starting_worker,
    starting_workers,
)
from dataset_rt_torch.worker_signals import WatchedWorkers, watching_new_workers
from dataset_rt_torch.workers import WorkerStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt.dataset import CachedDataset
    from dataset_rt_torch.options import LoaderOptions
    from dataset_rt_torch.windows import Window


# The last position of a stream is the one before this.
_NUM_POSITIONS = 2**63 - 2


def make_dataloader(dataset: CachedDataset, **options: Any) -> CachedDataLoader:  # noqa: ANN401
    """Build the loader that ``CachedDataset.to_torch_dataloader`` returns.

    Args:
        dataset: The dataset; the loader keeps a snapshot of it as it is now.
        **options: The keyword arguments of ``to_torch_dataloader``, which documents them.

    Raises:
        ConfigError: An argument has a wrong type or value, or ranks differ in theirs.
        WeightError: The order cannot honour the weights of the table.
        TypeError: An argument does not exist.

    Example:
        >>> import tempfile
        >>> from dataset_rt import CacheInput, DatasetRuntime
        >>> class Squares:
        ...     name = "squares"
        ...
        ...     def __iter__(self):
        ...         for number in range(10):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> runtime = DatasetRuntime(num_workers=1)
        >>> with tempfile.TemporaryDirectory() as base:
        ...     dataset = runtime.from_cache_sources(Squares(), base).dataset
        ...     loader = make_dataloader(
        ...         dataset,
        ...         batch_size=4,
        ...         shuffle=False,
        ...         num_workers=0,
        ...         sample_transform_fn=lambda sample: int(sample.data),
        ...     )
        ...     for squares in loader:
        ...         print(squares)
        tensor([0, 1, 4, 9])
        tensor([16, 25, 36, 49])
        tensor([64, 81])
    """
    given = LoaderArguments(**options)
    topology = topology_of(given)
    native = dataset._native  # noqa: SLF001
    try:
        checked = check_options(
            given, default_samples_per_epoch=native.epoch_len, topology=topology
        )
        # Before any work, because this is where a function that cannot be sent is refused.
        collation = _collation_of(checked)
        worker_init = _function_of(checked, "worker_init_fn")
    except Exception as error:
        report_fault(topology, error)
        raise
    seed = agree_on_seed(topology, _facts_of(checked, native), checked.seed)
    return CachedDataLoader(native, checked, seed, collation, worker_init)


class CachedDataLoader(DataLoader[Any]):
    """A ``torch.utils.data.DataLoader`` over windows of a dataset's stream.

    Each pass is the next window of the stream. A pass begins when an iterator is made; a loop that
    is broken off is not continued by the next one.

    Attributes:
        seed: The seed of the stream.
        samples_per_epoch: Samples of an epoch over all ranks.
        rank: The number of this process.
        world_size: How many processes share each global batch.

    Example:
        >>> import tempfile
        >>> from dataset_rt import CacheInput, DatasetRuntime
        >>> class Squares:
        ...     name = "squares"
        ...
        ...     def __iter__(self):
        ...         for number in range(10):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> runtime = DatasetRuntime(num_workers=1)
        >>> with tempfile.TemporaryDirectory() as base:
        ...     dataset = runtime.from_cache_sources(Squares(), base).dataset
        ...     options = {
        ...         "batch_size": 4,
        ...         "num_workers": 0,
        ...         "seed": 42,
        ...         "sample_transform_fn": lambda sample: sample.metadata["number"],
        ...     }
        ...     whole = dataset.to_torch_dataloader(**options)
        ...     begun = iter(whole)
        ...     first = next(begun)
        ...     state = whole.state_dict()
        ...     resumed = dataset.to_torch_dataloader(**options)
        ...     resumed.load_state_dict(state)
        ...     rest = [batch.tolist() for batch in resumed]
        ...     rest == [batch.tolist() for batch in begun]
        True
    """

    # Hugging Face Accelerate would deal the batches out to its processes once more. With the first
    # mark `prepare` gives the loader back as it is; with the second `save_state` and `load_state`
    # take its state along.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    def __init__(
        self,
        native: _core.Dataset,
        options: LoaderOptions,
        seed: int,
        collation: Collation,
        worker_init: Callable[[int], Any] | None,
    ) -> None:
        """Export the snapshot and set torch's loader up; `make_dataloader` checks the arguments."""
        topology = options.topology
        self._native = native
        self.seed = seed
        self.samples_per_epoch = options.samples_per_epoch
        self.rank = topology.rank
        self.world_size = topology.world_size
        self._options = options
        self._identity = LoaderIdentity(
            order=options.order,
            samples_per_epoch=options.samples_per_epoch,
            batch_size=options.batch_size,
            world_size=topology.world_size,
            num_parts=options.num_parts,
            drop_last=options.drop_last,
            fingerprint=native.fingerprint,
            caches=tuple((cache_id, name, samples) for cache_id, name, _, samples in native.caches),
        )
        plan = _core.WindowPlan(
            budget=options.samples_per_epoch,
            batch_size=options.batch_size,
            rank=topology.rank,
            world_size=topology.world_size,
            drop_last=options.drop_last,
        )
        warn_of_counts(plan, options)
        self._sampler = WindowSampler(
            plan,
            seed=seed,
            batch_size=options.batch_size,
            drop_last=options.drop_last,
            num_parts=1 if options.partition is None else options.partition.parts_per_rank,
        )
        snapshot = Snapshot.export(
            native,
            options.work_dir,
            seed=seed,
            shuffle=options.shuffle,
            replacement=options.replacement,
            partition=options.partition,
        )
        self._windows = WindowDataset(
            OpenSnapshot(snapshot, options.native_num_workers),
            content=content_of(options),
            num_samples=options.samples_per_epoch,
        )
        # The pass that the next iterator makes.
        self._next_epoch = 0
        self._first_batch = 0
        self._counts_epochs = not options.repeats_first_window
        self._has_passed = False
        self._has_warned_of_repeat = False
        self._progress = PassProgress(0, 0)
        self._times = PassTimes(0)
        self._newest: weakref.ref[LoaderIterator] | None = None
        self._keeper: weakref.finalize[Any, Any] | None = None
        has_workers = options.num_workers > 0
        super().__init__(
            self._windows,
            batch_sampler=self._sampler,  # type: ignore[arg-type]
            num_workers=options.num_workers,
            collate_fn=collation,  # type: ignore[arg-type]
            pin_memory=options.pin_memory,
            # Without workers there is nothing to wait for, and torch would refuse these.
            timeout=options.timeout_seconds if has_workers else 0,
            worker_init_fn=WorkerStart(worker_init) if has_workers else worker_init,
            multiprocessing_context=options.multiprocessing_context if has_workers else None,
            prefetch_factor=options.prefetch_factor if has_workers else None,
            persistent_workers=options.persistent_workers,
            **options.dataloader_kwargs,
        )
        report(
            f"{len(self)} batches of {options.batch_size} per epoch on rank {self.rank} of "
            f"{self.world_size}, {options.order} order, num_workers={options.num_workers}, "
            f"native_num_workers={options.native_num_workers}, "
            f"prefetch_factor={options.prefetch_factor}, snapshot at {snapshot.path}",
            verbose=options.verbose,
        )

    def __iter__(self) -> LoaderIterator:  # type: ignore[override]
        """Begin a pass: the next window of the stream, or the one that was chosen.

        Raises:
            ConfigError: A process group exists that did not when the loader was made.
            WorkerError: A persistent worker died since the last pass.
        """
        began = time.perf_counter_ns()
        check_still_holds(self._options.topology)
        if self.num_workers > 0:
            refuse_to_start_in_a_starting_worker()
        epoch, first_batch = self._next_epoch, self._first_batch
        if not self._counts_epochs and self._has_passed and not self._has_warned_of_repeat:
            self._has_warned_of_repeat = True
            warn_of_repeat(epoch, self._options)
        if self.persistent_workers and self._newest is not None:
            newest = self._newest()
            if newest is not None and newest.is_running:
                newest.supersede()
        made: list[ReadAhead] = []

        def read_ahead(windows: Iterator[Window]) -> ReadAhead:
            made.append(
                ReadAhead(
                    windows,
                    self._windows.begin,
                    depth=self._options.prefetch_factor,
                    first_batch=first_batch,
                )
            )
            return made[-1]

        self._refuse_dead_workers()
        self._sampler.move_to(epoch, first_batch)
        with (
            self._sampler.passing(read_ahead if self.num_workers == 0 else None),
            starting_workers(inherit_from_here=self._options.starts_workers_itself),
            watching_new_workers() if self.num_workers > 0 else nullcontext(),
        ):
            batches = super().__iter__()
        if self.persistent_workers and self._keeper is None:
            self._keeper = keep_until_gone(self, batches)
        self._first_batch = 0
        self._has_passed = True
        if self._counts_epochs:
            self._next_epoch = epoch + 1
        self._sampler.move_to(self._next_epoch, 0)
        self._progress = PassProgress(epoch, first_batch)
        self._times = PassTimes(epoch, began)
        self._times.add_wait(began)
        iterator = LoaderIterator(
            batches,
            self._progress,
            self._times,
            num_batches=len(self),
            read_ahead=made[-1] if made else None,
            workers=WatchedWorkers(batches) if self.num_workers > 0 else None,
            timeout_seconds=self.timeout,
            when_broken=self._discard_workers,
        )
        self._newest = weakref.ref(iterator)
        return iterator

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "a loader cannot be pickled or copied: it owns a snapshot and workers of this process\n"
            "hint: pass state_dict() on, and make a loader of the dataset where it is used"
        )

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; later passes count on from it.

        A pass that is underway goes on, and a state still says how far it has come.

        Args:
            epoch: The number of the epoch, from 0.

        Raises:
            ConfigError: The number is negative or none, or the stream ends before that epoch does.
        """
        largest = _NUM_POSITIONS // self.samples_per_epoch - 1
        chosen = arguments.integer("epoch", epoch, minimum=0, maximum=largest)
        newest = None if self._newest is None else self._newest()
        progress = self._progress
        self._begin_at(chosen, 0)
        if newest is not None and newest.is_running:
            self._progress = progress
        self._counts_epochs = True

    def state_dict(self) -> dict[str, Any]:
        """Return where the caller is: after the last batch that it got.

        Batches that workers have made ahead do not count. After the last batch of a pass it is the
        start of the next one. All ranks save, or need, the same state. The values are plain Python,
        so ``torch.save`` and ``torch.load(weights_only=True)`` take it.

        Raises:
            StateMismatchError: The pass is underway with ``in_order=False``, where the batches that
                the caller got are no prefix of the epoch.
        """
        epoch, batch = self._progress.epoch, self._progress.next_batch
        if batch >= len(self):
            epoch, batch = self._next_epoch, self._first_batch
        elif batch > 0 and not getattr(self, "in_order", True):
            raise StateMismatchError(
                f"{batch} of {len(self)} batches are out with in_order=False, expected a state to "
                "be taken between epochs or with in_order=True"
            )
        return to_state(
            self._identity,
            Resumption(self.seed, epoch, batch, counts_epochs=self._counts_epochs),
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass continue after the last batch that a state counts.

        The worker count may be another one, and so may the number of ranks as long as the global
        batch is the same. A loader built with ``seed="random"`` takes over the seed of the state.

        Args:
            state: What `state_dict` returned.

        Raises:
            StateMismatchError: The state belongs to another table, seed, order, budget or global
                batch; lists every difference.
        """
        expected_seed = None if self._options.seed_is_random else self.seed
        resumption = from_state(
            state, self._identity, expected_seed=expected_seed, num_batches=len(self)
        )
        if resumption.seed != self.seed:
            self._adopt_seed(resumption.seed)
        if not self._options.repeats_first_window:
            self._counts_epochs = True
        else:
            self._counts_epochs = resumption.counts_epochs
        self._begin_at(resumption.epoch, resumption.batch)

    def stats(self) -> LoaderStats:
        """Return where the time of the newest pass went so far, in this process and in workers.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, DatasetRuntime
            >>> class Squares:
            ...     name = "squares"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(str(number**2).encode(), {"number": number})
            >>> runtime = DatasetRuntime(num_workers=1)
            >>> with tempfile.TemporaryDirectory() as base:
            ...     dataset = runtime.from_cache_sources(Squares(), base).dataset
            ...     loader = dataset.to_torch_dataloader(batch_size=4, num_workers=0)
            ...     for _batch in loader:
            ...         pass
            ...     loader.stats().batches
            3
        """
        return self._times.stats(self._options)

    def audit(self, class_column: str | None = None, *, epoch: int | None = None) -> LoaderAudit:
        """Count what an epoch draws, over all ranks, without reading a payload.

        Every rank can do this alone. The dataset must be as it was when the loader was made.

        Args:
            class_column: A metadata column; its values are counted, against what the weights let
                one expect.
            epoch: The number of the epoch; None takes that of the next pass.

        Raises:
            ConfigError: There is no such column or epoch.
            DatasetRtError: The dataset was edited or closed since.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, DatasetRuntime
            >>> class Animals:
            ...     name = "animals"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(b"", {"kind": "cat" if number % 5 else "owl"})
            >>> runtime = DatasetRuntime(num_workers=1)
            >>> with tempfile.TemporaryDirectory() as base:
            ...     dataset = runtime.from_cache_sources(Animals(), base).dataset
            ...     dataset.set_weights([4.0, 1.0, 1.0, 1.0, 1.0] * 2)
            ...     loader = dataset.to_torch_dataloader(
            ...         batch_size=4, samples_per_epoch=1000, seed=1, num_workers=0
            ...     )
            ...     print(loader.audit("kind"))
            epoch 0: 1000 of 1000 samples drawn, 0 padded, 0 dropped
            10 rows: 10 drawn, 0 missing, 0 of weight 0; 990 draws repeat a row
            kind  rows  expected  actual
            cat      8     500.0     498
            owl      2     500.0     502
        """
        chosen = self._next_epoch if epoch is None else arguments.integer("epoch", epoch, minimum=0)
        return audit_epoch(
            self._native,
            self._windows.opened,
            self._options,
            seed=self.seed,
            epoch=chosen,
            class_column=class_column,
            fingerprint=self._identity.fingerprint,
        )

    def check_worker_number_rationality(self) -> None:
        """Log, where torch would warn, that there are more workers than cores.

        The number is the caller's own choice, and batches are the same for any number.
        """
        cores = _core.available_parallelism()
        if self.num_workers > cores:
            logger.info("num_workers=%d on %d available cores", self.num_workers, cores)

    def _begin_at(self, epoch: int, batch: int) -> None:
        self._next_epoch = epoch
        self._first_batch = batch
        self._has_passed = False
        self._sampler.move_to(epoch, batch)
        self._progress = PassProgress(epoch, batch)

    def _adopt_seed(self, seed: int) -> None:
        self._discard_workers()
        self._windows.reseed(seed, self._options)
        self._sampler.seed = seed
        self.seed = seed

    def _refuse_dead_workers(self) -> None:
        """Say why a persistent worker died since the last pass, as torch would wait for it."""
        if self._iterator is None or not has_dead_worker(self._iterator):
            return
        if have_only_left(self._iterator):
            # Ctrl-C broke the last pass off.
            self._discard_workers()
            return
        explanation = explained(RuntimeError(), self._iterator, 0)
        if explanation is not None:
            self._discard_workers()
            try:
                raise explanation
            finally:
                # Its traceback holds this frame.
                del explanation

    def _discard_workers(self) -> None:
        """Drop persistent workers; the next pass starts new ones."""
        newest = self._newest() if self._newest is not None else None
        if newest is not None and self.persistent_workers and newest.is_running:
            newest.supersede()
        self._iterator = None
        if self._keeper is not None:
            self._keeper.detach()
            self._keeper = None


def _facts_of(options: LoaderOptions, native: _core.Dataset) -> dict[str, Any]:
    """Return what must be the same on all ranks."""
    return {
        "samples_per_epoch": options.samples_per_epoch,
        "batch_size": options.batch_size,
        "drop_last": options.drop_last,
        "order": options.order,
        "seed": "random" if options.seed_is_random else options.seed,
        "consumers that divide the population": options.num_parts,
        "sampler_version": _core.sampler_version,
        "active table": native.fingerprint,
    }


def _collation_of(options: LoaderOptions) -> Collation:
    sample_transform = options.sample_transform_fn
    return Collation(
        sample_transform=_function_of(options, "sample_transform_fn"),
        batch_transform=tensors_of
        if options.stacks_arrays
        else _function_of(options, "batch_transform_fn"),
        collate=_function_of(options, "collate_fn"),
        prefetch_factor=options.prefetch_factor,
        given=frozenset() if sample_transform is None else parameters_given(sample_transform),
    )


def _function_of(options: LoaderOptions, name: str) -> Callable[..., Any] | None:
    """Return a function as the processes of the loader need it."""
    function: Callable[..., Any] | None = getattr(options, name)
    if function is None or not options.sends_functions:
        return function
    return ByValue(function, name)
