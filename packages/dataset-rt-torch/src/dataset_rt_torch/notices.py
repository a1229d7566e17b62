"""What a loader tells its user: warnings on rank 0 where they are due, and a log line."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataset_rt._core import WindowPlan
    from dataset_rt_torch.options import LoaderOptions

logger = logging.getLogger("dataset_rt.loader")


def warn_of_counts(plan: WindowPlan, options: LoaderOptions) -> None:
    """Warn where an epoch holds other samples than were asked for."""
    topology = options.topology
    if topology.rank != 0:
        return
    requested = options.samples_per_epoch
    global_batch_size = options.batch_size * topology.world_size
    effective = (
        f"each of {topology.world_size} ranks gets {plan.samples_per_rank} samples in "
        f"{plan.num_batches} batches"
    )
    if plan.num_batches == 0:
        _warn(
            f"samples_per_epoch={requested} with drop_last=True fills no batch of "
            f"{global_batch_size}, so an epoch has no batches"
        )
    elif topology.world_size > 1 and plan.padded_samples > 0:
        _warn(
            f"samples_per_epoch={requested} does not divide by {topology.world_size} ranks: "
            f"{effective}, {plan.padded_samples} of all these samples are padding"
        )
    elif topology.world_size > 1 and plan.dropped_samples > 0:
        _warn(
            f"samples_per_epoch={requested} does not divide by the global batch of "
            f"{global_batch_size}: {effective}, {plan.dropped_samples} samples are dropped"
        )


def warn_of_repeat(epoch: int, options: LoaderOptions) -> None:
    """Warn that a pass repeats the one before it."""
    if options.topology.rank == 0:
        _warn(
            f"persistent_workers=False repeats the window of epoch {epoch} in every pass\n"
            "hint: call set_epoch(epoch) before each pass, or use persistent_workers='auto'"
        )


def warn_of_waiting(world_size: int) -> None:
    """Log that this rank waits for the others to build the same loader."""
    logger.warning(
        "waiting for all %d ranks to build this loader\n"
        "hint: pass rank=0, world_size=1 where only one rank builds it",
        world_size,
    )


def report(message: str, *, verbose: bool) -> None:
    """Log a message; print it on stderr if it was asked for and logging would not show it."""
    logger.info(message)
    if verbose and not (logger.isEnabledFor(logging.INFO) and logger.hasHandlers()):
        sys.stderr.write(f"{logger.name}: {message}\n")


def _warn(message: str) -> None:
    """Warn at the line of the caller's own code."""
    level = 1
    frame = sys._getframe()  # noqa: SLF001
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_ours(module_name: str) -> bool:
    return module_name.partition(".")[0] in ("dataset_rt", "dataset_rt_torch")
