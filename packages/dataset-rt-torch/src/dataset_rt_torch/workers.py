"""Loading processes: how many there are when the loader may choose, and how each begins."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from dataset_rt import _core
from dataset_rt_torch.distributed import local_world_size
from dataset_rt_torch.failures import StartFailure, as_transform_error, explain
from dataset_rt_torch.worker_death import let_interrupts_through

if TYPE_CHECKING:
    from collections.abc import Callable

# More rarely helps: each process costs a copy of Python and torch, and hands its batches over.
_MAX_AUTOMATIC_WORKERS = 8
# Enough to saturate memory; a machine with a hundred cores has other uses for the rest.
_MAX_AUTOMATIC_THREADS = 8


def shared_parallelism() -> int:
    """Return how many cores this rank may use: affinity and quota, shared among local ranks."""
    return max(_core.available_parallelism() // local_world_size(), 1)


def automatic_num_workers(cores: int) -> int:
    """Return the number of loading processes for so many cores; one core is left to training.

    Example:
        >>> automatic_num_workers(1), automatic_num_workers(4), automatic_num_workers(64)
        (0, 3, 8)
    """
    return min(cores - 1, _MAX_AUTOMATIC_WORKERS)


def automatic_native_num_workers(cores: int, num_workers: int) -> int:
    """Return the number of reader threads of each process that reads.

    Example:
        >>> automatic_native_num_workers(4, 0), automatic_native_num_workers(4, 3)
        (4, 1)
    """
    return max(min(cores // max(num_workers, 1), _MAX_AUTOMATIC_THREADS), 1)


class WorkerStart:
    """What a loading process does before its first batch.

    torch's workers watch their parent from here on. If it was killed while they were still
    importing, they would take the process that adopted them for their parent, and wait for ever.
    """

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        """Remember the user's function, if there is one."""
        self._then = then

    def __call__(self, worker_id: int) -> None:
        """End if the parent is gone, else go on."""
        let_interrupts_through()
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise SystemExit(1)
        if self._then is None:
            return
        try:
            self._then(worker_id)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001
            where = f"worker_init_fn failed in loading worker {worker_id}"
            failure = error
            if not explain(error, where):
                failure = as_transform_error(error, where)
                failure.__cause__ = error
            # Torch would let a thread pickle the exception, and where that fails send nothing.
            worker: Any = get_worker_info()
            worker.dataset.start_failure = StartFailure(failure)
