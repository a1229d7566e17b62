"""The loader's arguments: their defaults, and what each one means once it is checked."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.context import BaseContext
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from dataset_rt import arguments
from dataset_rt.exceptions import ConfigError
from dataset_rt_torch.distributed import resolve_topology
from dataset_rt_torch.importable import main_path
from dataset_rt_torch.partition import Partition
from dataset_rt_torch.workers import (
    automatic_native_num_workers,
    automatic_num_workers,
    shared_parallelism,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from dataset_rt_torch.distributed import Topology

_START_METHODS = ("spawn", "fork", "forkserver")
_TORCH_ONLY = ("dataset", "sampler", "batch_sampler")
_DEFAULT_PREFETCH_FACTOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderArguments:
    """The keyword arguments of ``to_torch_dataloader``, as a caller gives them."""

    batch_size: int = 1
    sample_transform_fn: Callable[..., Any] | None = None
    batch_transform_fn: Callable[..., Any] | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    shuffle: bool = True
    replacement: bool = True
    seed: int | Literal["random"] = "random"
    samples_per_epoch: int | None = None
    worker_partition: Literal["replicate", "split"] | None = None
    num_workers: int | Literal["auto"] = "auto"
    native_num_workers: int | Literal["auto"] = "auto"
    drop_last: bool = False
    pin_memory: bool = False
    timeout: float = 0
    multiprocessing_context: str | BaseContext | None = "spawn"
    worker_init_fn: Callable[[int], Any] | None = None
    prefetch_factor: int | Literal["auto"] | None = "auto"
    persistent_workers: bool | Literal["auto"] = "auto"
    work_dir: str | os.PathLike[str] | None = None
    rank: int | None = None
    world_size: int | None = None
    decode: Literal["arrays"] | None = None
    verbose: bool = False
    dataloader_kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderOptions:
    """The checked arguments of a loader, with every automatic value decided.

    Attributes:
        batch_size: Samples per batch on this rank.
        sample_transform_fn: Called with each sample.
        batch_transform_fn: Called with each batch, in place of any per-sample work.
        collate_fn: Makes a batch of a list of samples.
        stacks_arrays: Whether a batch is the stacked arrays of its payloads.
        shuffle: Whether rows are drawn at random.
        replacement: Whether a drawn row may be drawn again at once.
        seed: The seed of the stream on this rank, fresh if it was to be random.
        seed_is_random: Whether the caller left the seed open.
        samples_per_epoch: Samples of an epoch over all ranks.
        num_workers: Loading processes.
        native_num_workers: Reader threads in each process that reads.
        drop_last: Whether a last, smaller global batch is left out.
        pin_memory: Whether torch copies tensors into pinned memory.
        timeout_seconds: How long to wait for a batch from workers; 0 for ever.
        multiprocessing_context: How workers are started; None for Python's default.
        starts_workers_itself: Whether workers are started by this process, and inherit from it.
        sends_functions: Whether workers get the functions by pickling.
        worker_init_fn: Called in each worker with its number.
        prefetch_factor: Batches ahead per worker, or in the background without workers.
        persistent_workers: Whether workers outlive an epoch.
        repeats_first_window: Whether every pass is the same window of the stream.
        work_dir: Where the snapshot is made; None for the system's temporary directory.
        topology: This rank.
        partition: The parts that consumers draw from; None where all draw from all rows.
        verbose: Whether the choices made are printed.
        dataloader_kwargs: Further arguments of torch's loader.
    """

    batch_size: int
    sample_transform_fn: Callable[..., Any] | None
    batch_transform_fn: Callable[..., Any] | None
    collate_fn: Callable[..., Any] | None
    stacks_arrays: bool
    shuffle: bool
    replacement: bool
    seed: int
    seed_is_random: bool
    samples_per_epoch: int
    num_workers: int
    native_num_workers: int
    drop_last: bool
    pin_memory: bool
    timeout_seconds: float
    multiprocessing_context: str | BaseContext | None
    starts_workers_itself: bool
    sends_functions: bool
    worker_init_fn: Callable[[int], Any] | None
    prefetch_factor: int
    persistent_workers: bool
    repeats_first_window: bool
    work_dir: str | None
    topology: Topology
    partition: Partition | None
    verbose: bool
    dataloader_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> str:
        """The name of the order in which the stream visits rows."""
        if not self.shuffle:
            return "sequential"
        return "weighted" if self.replacement else "permutation"

    @property
    def num_parts(self) -> int:
        """Parts of the population over all ranks; 1 where it is not divided."""
        return 1 if self.partition is None else self.partition.num_parts


def check_options(
    given: LoaderArguments, *, default_samples_per_epoch: int, topology: Topology
) -> LoaderOptions:
    """Check every argument and decide what was left open.

    Args:
        given: The arguments as the caller gave them.
        default_samples_per_epoch: The dataset's own epoch length.
        topology: This rank.

    Raises:
        ConfigError: An argument has a wrong type or value, or two of them exclude each other.
    """
    for name in ("sample_transform_fn", "batch_transform_fn", "collate_fn", "worker_init_fn"):
        _check_callable(name, getattr(given, name))
    _check_functions_agree(given)
    _check_decode(given)
    seed, seed_is_random = _seed(given.seed, topology)
    context, start_method = _context(given.multiprocessing_context)
    num_workers = _num_workers(given, start_method)
    shuffle = arguments.flag("shuffle", given.shuffle)
    replacement = arguments.flag("replacement", given.replacement)
    persistent_workers = _persistent_workers(given, num_workers)
    return LoaderOptions(
        batch_size=arguments.integer("batch_size", given.batch_size, minimum=1),
        sample_transform_fn=given.sample_transform_fn,
        batch_transform_fn=given.batch_transform_fn,
        collate_fn=given.collate_fn,
        stacks_arrays=given.decode is not None,
        shuffle=shuffle,
        replacement=replacement,
        seed=seed,
        seed_is_random=seed_is_random,
        samples_per_epoch=default_samples_per_epoch
        if given.samples_per_epoch is None
        else arguments.integer("samples_per_epoch", given.samples_per_epoch, minimum=1),
        num_workers=num_workers,
        native_num_workers=_native_num_workers(given.native_num_workers, num_workers),
        drop_last=arguments.flag("drop_last", given.drop_last),
        pin_memory=arguments.flag("pin_memory", given.pin_memory),
        timeout_seconds=_timeout_seconds(given.timeout),
        multiprocessing_context=context,
        # Processes of a fork server inherit from the server, which others may use too.
        starts_workers_itself=num_workers > 0 and start_method != "forkserver",
        sends_functions=num_workers > 0 and start_method != "fork",
        worker_init_fn=given.worker_init_fn,
        prefetch_factor=_prefetch_factor(given.prefetch_factor),
        persistent_workers=persistent_workers,
        repeats_first_window=num_workers > 0 and not persistent_workers,
        work_dir=None if given.work_dir is None else arguments.path("work_dir", given.work_dir),
        topology=topology,
        partition=_partition(
            given.worker_partition,
            topology,
            num_workers,
            draws_by_weight=shuffle and replacement,
        ),
        verbose=arguments.flag("verbose", given.verbose),
        dataloader_kwargs=_dataloader_kwargs(given.dataloader_kwargs),
    )


def topology_of(given: LoaderArguments) -> Topology:
    """Return the rank that the arguments or torch.distributed give to this process."""
    return resolve_topology(given.rank, given.world_size)


def _check_callable(name: str, value: object) -> None:
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is {arguments.shown(value)}, expected a function or None")


def _check_functions_agree(given: LoaderArguments) -> None:
    if given.batch_transform_fn is None:
        return
    for name in ("sample_transform_fn", "collate_fn", "decode"):
        if getattr(given, name) is not None:
            raise ConfigError(
                f"batch_transform_fn and {name} are both given, expected one of them: "
                "what batch_transform_fn returns is the batch itself"
            )


def _check_decode(given: LoaderArguments) -> None:
    if given.decode is None:
        return
    arguments.choice("decode", given.decode, ("arrays",))
    for name in ("sample_transform_fn", "collate_fn"):
        if getattr(given, name) is not None:
            raise ConfigError(
                f"decode and {name} are both given, expected one of them: "
                "what decode makes of the payloads is the batch itself"
            )


def _seed(value: object, topology: Topology) -> tuple[int, bool]:
    if not isinstance(value, str):
        return arguments.integer("seed", value, minimum=0, maximum=arguments.MAX_UINT64), False
    if value != "random":
        raise ConfigError(f"seed is {arguments.shown(value)}, expected an integer or 'random'")
    if topology.world_size > 1 and not topology.is_collective:
        raise ConfigError(
            f"seed is 'random' with an explicit world_size of {topology.world_size}, expected an "
            "integer that is the same on all ranks"
        )
    return secrets.randbits(64), True


def _partition(
    value: object, topology: Topology, num_workers: int, *, draws_by_weight: bool
) -> Partition | None:
    """Return the parts of the population, or None where it is not divided.

    Only draws by weight with replacement need parts. In the other orders the windows of a pass
    hold different rows already, whoever loads them.
    """
    if value is None or arguments.choice("worker_partition", value, ("replicate", "split")) != (
        "split"
    ):
        return None
    partition = Partition(topology.rank, topology.world_size, max(num_workers, 1))
    return partition if draws_by_weight and partition.num_parts > 1 else None


def _context(value: object) -> tuple[str | BaseContext | None, str]:
    """Return what torch is given, and the name of the start method."""
    if isinstance(value, BaseContext):
        return value, str(value.get_start_method())
    if value is None or value == "inherit":
        return None, str(multiprocessing.get_start_method())
    name = arguments.choice("multiprocessing_context", value, (*_START_METHODS, "inherit"))
    if name not in multiprocessing.get_all_start_methods():
        available = ", ".join(multiprocessing.get_all_start_methods())
        raise ConfigError(
            f"multiprocessing_context is {name!r}, expected one that this system has: {available}"
        )
    return name, name


def _num_workers(given: LoaderArguments, start_method: str) -> int:
    is_daemonic = multiprocessing.current_process().daemon
    path = main_path()
    imports_nothing = start_method != "fork" and path is not None and not path.is_file()
    if _is_automatic("num_workers", given.num_workers):
        has_python_work = any(
            (given.sample_transform_fn, given.batch_transform_fn, given.collate_fn)
        )
        if is_daemonic or imports_nothing or not has_python_work:
            return 0
        return automatic_num_workers(shared_parallelism())
    num_workers = arguments.integer("num_workers", given.num_workers, minimum=0)
    if num_workers > 0 and is_daemonic:
        raise ConfigError(
            f"num_workers is {num_workers} in a daemonic process, expected 0 or 'auto': such a "
            "process, as those of multiprocessing.Pool are, must not start others"
        )
    if num_workers > 0 and imports_nothing:
        raise ConfigError(
            f"num_workers is {num_workers} in a script without a file ({path}), expected 0: "
            f"{start_method}ed workers import the main script\n"
            "hint: save the script in a file and run that file"
        )
    return num_workers


def _native_num_workers(value: object, num_workers: int) -> int:
    if _is_automatic("native_num_workers", value):
        return automatic_native_num_workers(shared_parallelism(), num_workers)
    return arguments.integer("native_num_workers", value, minimum=1)


def _persistent_workers(given: LoaderArguments, num_workers: int) -> bool:
    if _is_automatic("persistent_workers", given.persistent_workers):
        return num_workers > 0
    persistent = arguments.flag("persistent_workers", given.persistent_workers)
    if persistent and num_workers == 0:
        if given.num_workers != "auto":
            raise ConfigError("persistent_workers is True with num_workers=0, expected 'auto'")
        return False
    return persistent


def _prefetch_factor(value: object) -> int:
    if value is None or _is_automatic("prefetch_factor", value):
        return _DEFAULT_PREFETCH_FACTOR
    return arguments.integer("prefetch_factor", value, minimum=1)


def _timeout_seconds(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not math.isfinite(value)
        or value < 0
    ):
        raise ConfigError(
            f"timeout is {arguments.shown(value)}, expected a number of seconds, 0 for no limit"
        )
    return float(value)


def _is_automatic(name: str, value: object) -> bool:
    if not isinstance(value, str):
        return False
    if value != "auto":
        raise ConfigError(f"{name} is {arguments.shown(value)}, expected a number or 'auto'")
    return True


def _dataloader_kwargs(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(
            f"dataloader_kwargs is {arguments.shown(value)}, expected a mapping of argument names"
        )
    explicit = {argument.name for argument in dataclasses.fields(LoaderArguments)}
    for name in value:
        if name in explicit:
            raise ConfigError(
                f"dataloader_kwargs has {name!r}, expected that as an argument of its own"
            )
        if name in _TORCH_ONLY:
            raise ConfigError(
                f"dataloader_kwargs has {name!r}, expected none of {', '.join(_TORCH_ONLY)}: "
                "the loader makes these itself"
            )
    return dict(value)
