"""A file of fixed-size records read through NumPy's memory map, as a person would write it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dataset_rt as drt
from dataset_rt_bench.workload import Workload

Records = npt.NDArray[np.uint8]


def write(path: Path, records: Iterable[drt.CacheInput], *, durable: bool) -> int:
    """Write payloads back to back with buffered writes and return how many there were.

    Metadata has no place in such a file and is left out. With ``durable`` the file is on disk
    when the call returns, as after the two other ways of writing.
    """
    count = 0
    with path.open("wb") as file:
        write_payload = file.write
        for record in records:
            write_payload(record.data)
            count += 1
        if durable:
            file.flush()
            os.fsync(file.fileno())
    return count


def map_records(path: Path, workload: Workload) -> np.memmap[Any, np.dtype[np.uint8]]:
    """Map the file as an array with one row per record."""
    shape = (workload.num_records, workload.record_bytes)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)


def plain_array(mapped: np.memmap[Any, np.dtype[np.uint8]]) -> Records:
    """View the map as a plain array, whose rows cost a third of what rows of ``np.memmap`` cost.

    Indexing ``np.memmap`` builds an object of that subclass for each row, in Python code.
    """
    return np.asarray(mapped)
