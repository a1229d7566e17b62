"""MosaicML streaming: MDS shards in a local folder."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from streaming import LocalDataset, MDSWriter

import dataset_rt as drt
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

COLUMNS: Final = {"data": "bytes", "record_id": "int", "label": "str", "score": "float64"}


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Write shards of the library's default size, 64 MiB, without compression."""
    del workload
    count = 0
    with MDSWriter(out=str(path), columns=COLUMNS) as writer:
        for record in records:
            writer.write({"data": bytes(record.data), **record.metadata})
            count += 1
    return count


def open_records(path: Path, workload: Workload) -> "MosaicRecords":
    """Open a folder of shards."""
    return MosaicRecords(path, workload.num_records)


class MosaicRecords:
    """Reads samples by number; the library opens a shard anew for each one.

    ``LocalDataset`` is its class for data that is all on this machine, without the downloading
    and the shared memory of ``StreamingDataset``.
    """

    def __init__(self, path: Path, num_records: int) -> None:
        """Read the index."""
        self.dataset: Any = LocalDataset(str(path))
        self.num_records = num_records

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        row = self.dataset[index]
        return row.pop("data"), row

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number."""
        return map(self.sample, indices)

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records."""
        return map(self.sample, range(self.num_records))

    def close(self) -> None:
        """Drop the index; no file is open between two reads."""
        del self.dataset
