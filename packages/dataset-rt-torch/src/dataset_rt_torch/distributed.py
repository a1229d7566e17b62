"""Finds this process's rank, and makes sure that all ranks build the same loader."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from dataset_rt import arguments
from dataset_rt.exceptions import ConfigError, DatasetRtError
from dataset_rt_torch.notices import warn_of_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOTICE_SECONDS = 30.0
"""After how long a rank says that it waits for the others."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Which part of each global batch this process loads.

    Attributes:
        rank: The number of this process, from 0.
        world_size: How many processes share each global batch.
        is_collective: Whether the ranks are those of the default process group, so that they can
            talk to each other.
        is_explicit: Whether the caller named them.
    """

    rank: int
    world_size: int
    is_collective: bool
    is_explicit: bool = False


def resolve_topology(rank: object, world_size: object) -> Topology:
    """Return the explicit rank and world size, or those of torch.distributed, or a lone process.

    Explicit values win: in tensor or pipeline parallel training several processes load the same
    part, so the process group's own rank would be wrong.

    Raises:
        ConfigError: Only one of the two is given, or the rank is not below the world size.

    Example:
        >>> resolve_topology(1, 4)
        Topology(rank=1, world_size=4, is_collective=False, is_explicit=True)
    """
    if rank is None and world_size is None:
        if dist.is_available() and dist.is_initialized():
            size = dist.get_world_size()
            return Topology(dist.get_rank(), size, is_collective=size > 1)
        return Topology(0, 1, is_collective=False)
    if rank is None or world_size is None:
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ConfigError(f"{given} is given without {missing}, expected both or neither")
    size = arguments.integer("world_size", world_size, minimum=1)
    return Topology(
        arguments.integer("rank", rank, minimum=0, maximum=size - 1),
        size,
        is_collective=False,
        is_explicit=True,
    )


def check_still_holds(topology: Topology) -> None:
    """Refuse a pass over a loader that was made before the ranks of this process were known.

    Raises:
        ConfigError: A process group exists now, and the loader would give all data to every rank.
    """
    if topology.is_explicit or topology.world_size > 1 or not dist.is_available():
        return
    if dist.is_initialized() and dist.get_world_size() > 1:
        raise ConfigError(
            f"this loader was made before torch.distributed had its {dist.get_world_size()} ranks, "
            "so each would load everything, expected it to be made afterwards\n"
            "hint: make it after init_process_group, or pass rank=0, world_size=1 if each rank is "
            "to load everything"
        )


def local_world_size() -> int:
    """Return how many ranks share this machine, as torchrun states in ``LOCAL_WORLD_SIZE``."""
    stated = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(int(stated), 1) if stated.isascii() and stated.isdigit() else 1


def agree_on_seed(topology: Topology, facts: Mapping[str, Any], seed: int) -> int:
    """Make sure that the facts are the same on all ranks, and return the seed of rank 0.

    Args:
        topology: This rank; nothing is exchanged unless it is collective.
        facts: What must be equal on all ranks, by name.
        seed: The seed this rank would take alone.

    Raises:
        ConfigError: Ranks differ, or another rank called `report_fault`.
        DatasetRtError: Another rank ended or cannot be reached.
    """
    if not topology.is_collective:
        return seed
    gathered = _gather(topology, (facts, seed, None))
    faults = [
        f"rank {rank}: {fault}" for rank, (_, _, fault) in enumerate(gathered) if fault is not None
    ]
    if faults:
        raise ConfigError("\n".join(["another rank could not build its loader", *faults]))
    differing = differences_of_ranks([facts for facts, _, _ in gathered])
    if differing:
        raise ConfigError(
            "\n".join(["ranks build different loaders, expected the same on all ranks", *differing])
        )
    first_seed: int = gathered[0][1]
    return first_seed


def report_fault(topology: Topology, fault: BaseException) -> None:
    """Tell the other ranks that this one raises, or they would wait for it in `agree_on_seed`."""
    if topology.is_collective:
        _gather(topology, ({}, 0, f"{type(fault).__name__}: {fault}"))


def _gather(topology: Topology, own: tuple[Any, ...]) -> list[Any]:
    # A loader that only one rank builds, as for evaluation, would wait until the group's timeout.
    notice = threading.Timer(NOTICE_SECONDS, warn_of_waiting, (topology.world_size,))
    notice.daemon = True
    notice.start()
    try:
        gathered: list[Any] = [None] * topology.world_size
        dist.all_gather_object(gathered, own)
    except RuntimeError as error:
        raise DatasetRtError(
            f"the {topology.world_size} ranks cannot compare their loaders: {error}\n"
            "hint: find the rank that ended first, or does not answer"
        ) from error
    finally:
        notice.cancel()
    return gathered


def differences_of_ranks(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe each fact on which ranks differ, one line each, ranks of one value together.

    Example:
        >>> differences_of_ranks([{"seed": 1}, {"seed": 2}, {"seed": 1}])
        ['seed: 1 on rank 0, 2; 2 on rank 1']
    """
    lines = []
    for name in facts[0]:
        ranks_by_value: dict[str, list[str]] = {}
        for rank, own in enumerate(facts):
            ranks_by_value.setdefault(repr(own.get(name)), []).append(str(rank))
        if len(ranks_by_value) > 1:
            shown = "; ".join(
                f"{value} on rank {', '.join(ranks)}" for value, ranks in ranks_by_value.items()
            )
            lines.append(f"{name}: {shown}")
    return lines
