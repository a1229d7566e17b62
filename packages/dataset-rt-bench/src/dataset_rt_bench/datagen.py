"""Makes the records that every contender is given: the same bytes in every run, at little cost."""

import pickle
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

import dataset_rt as drt
from dataset_rt_bench.workload import Workload

BLOCK_BYTES: Final = 16 << 20
"""Payloads are slices of one random block, so making one costs a slice and not its bytes."""

STRIDE: Final = 7_919
"""A prime, so that the slices of neighbouring records begin far apart and all differ."""

LABELS: Final = tuple(f"class_{number:04d}" for number in range(1_000))
GENERATOR_VERSION: Final = 1
"""Part of every prepared file's name: raise it when records change."""


@lru_cache(maxsize=2)
def random_block(num_bytes: int = BLOCK_BYTES) -> bytes:
    """Return the random bytes that all payloads are cut from.

    Example:
        >>> random_block(4) == random_block(4)
        True
    """
    return np.random.default_rng(20_240_229).bytes(num_bytes)


def payloads(workload: Workload) -> Iterator[memoryview]:
    """Yield the payload of each record, without copying it.

    Example:
        >>> [len(payload) for payload in payloads(Workload(3, 2))]
        [3, 3]
    """
    record_bytes = workload.record_bytes
    block = memoryview(random_block(max(BLOCK_BYTES, 2 * record_bytes)))
    span = len(block) - record_bytes
    for record_id in range(workload.num_records):
        start = record_id * STRIDE % span
        yield block[start : start + record_bytes]


def row_weights(num_rows: int) -> npt.NDArray[np.float64]:
    """Return weights of 1 and 2, as where one class of two is drawn more often.

    Example:
        >>> row_weights(5).tolist()
        [2.0, 1.0, 1.0, 2.0, 2.0]
    """
    generator = np.random.default_rng(20_240_229)
    return generator.integers(1, 3, size=num_rows).astype(np.float64)


class BenchmarkSource:
    """The records of a workload as a cache source, with an int, a str and a float column.

    Example:
        >>> record = next(iter(BenchmarkSource(Workload(8, 1))))
        >>> record.metadata
        {'record_id': 0, 'label': 'class_0000', 'score': 0.0}
    """

    def __init__(self, workload: Workload) -> None:
        """Remember which records to make."""
        self.workload = workload
        self.name = f"records-{workload.slug}-v{GENERATOR_VERSION}"

    def __len__(self) -> int:
        """Return the number of records."""
        return self.workload.num_records

    def __iter__(self) -> Iterator[drt.CacheInput]:
        """Yield payload and metadata of each record."""
        num_labels = len(LABELS)
        for record_id, payload in enumerate(payloads(self.workload)):
            yield drt.CacheInput(
                payload,
                {
                    "record_id": record_id,
                    "label": LABELS[record_id % num_labels],
                    "score": record_id * 0.5,
                },
            )


Codec = Literal["pack_arrays", "pickle"]
"""How a dictionary of arrays becomes a payload."""


class ArraySource:
    """Images of one size with their labels as a cache source: each a dictionary of arrays.

    Example:
        >>> record = next(iter(ArraySource(Workload(8, 1), "pickle")))
        >>> sorted(pickle.loads(record.data))
        ['image', 'label']
    """

    def __init__(self, workload: Workload, codec: Codec) -> None:
        """Remember which arrays to make, and how they are encoded."""
        self.workload = workload
        self.codec = codec
        self.name = f"arrays-{codec}-{workload.slug}-v{GENERATOR_VERSION}"

    def __len__(self) -> int:
        """Return the number of records."""
        return self.workload.num_records

    def __iter__(self) -> Iterator[drt.CacheInput]:
        """Yield each image with its label, and no metadata."""
        for record_id, payload in enumerate(payloads(self.workload)):
            arrays = {
                "image": np.frombuffer(payload, dtype=np.uint8),
                "label": np.array(record_id),
            }
            if self.codec == "pack_arrays":
                yield drt.CacheInput(drt.pack_arrays(arrays), {})
            else:
                yield drt.CacheInput(pickle.dumps(arrays, protocol=5), {})
