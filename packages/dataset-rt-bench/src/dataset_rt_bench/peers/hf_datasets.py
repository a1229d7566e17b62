"""Hugging Face datasets: a mapped Arrow file, one column for payloads and one per metadatum."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from datasets import Dataset, Features, Value
from datasets.arrow_writer import ArrowWriter

import dataset_rt as drt
from dataset_rt_bench.peers.chunks import chunks, records_per_chunk
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Buffer

COLUMNS: Final = {"data": "binary", "record_id": "int64", "label": "string", "score": "float64"}


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Write one Arrow file, in record batches of the size that the library writes by itself.

    That is 1,000 rows, but no more than 16 MiB, as a person with large payloads would choose.
    """
    features = Features({name: Value(kind) for name, kind in COLUMNS.items()})
    batch_size = min(1_000, max(1, (16 << 20) // workload.record_bytes))
    count = 0
    with ArrowWriter(path=str(path), features=features, writer_batch_size=batch_size) as writer:
        for record in records:
            writer.write({"data": bytes(record.data), **record.metadata})
            count += 1
        writer.finalize()
    return count


def open_records(path: Path, workload: Workload) -> "HfRecords":
    """Map an Arrow file."""
    return HfRecords(path, workload.record_bytes)


class HfRecords:
    """Reads rows of one mapped Arrow file.

    A list of rows at a time is the fastest way to read in any order: a fifth of the time that
    rows one by one take, and ``select`` makes rows one by one slower still.
    """

    def __init__(self, path: Path, record_bytes: int) -> None:
        """Map the file."""
        self.dataset: Any = Dataset.from_file(str(path))
        self.tables: Any = self.dataset.with_format("arrow", columns=["data"])
        self.record_bytes = record_bytes

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        row = self.dataset[index]
        return row.pop("data"), row

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number, a list of rows at a time."""
        for chunk in chunks(indices, self.record_bytes):
            yield from _rows(self.dataset[list(chunk)])

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records in batches."""
        for columns in self.dataset.iter(batch_size=records_per_chunk(self.record_bytes)):
            yield from _rows(columns)

    def gather(self, indices: Sequence[int]) -> Any:  # noqa: ANN401 - an Arrow array
        """Return the payloads of some records as one Arrow array."""
        return self.tables[list(indices)]["data"].combine_chunks()

    def payloads_of(self, gathered: Any) -> "Iterator[Buffer]":  # noqa: ANN401 - an Arrow array
        """Iterate over the payloads of an Arrow array."""
        return (value.as_buffer() for value in gathered)

    def close(self) -> None:
        """Drop the dataset, and with it the map."""
        del self.dataset, self.tables


def _rows(columns: dict[str, list[Any]]) -> Iterator[Sample]:
    names = list(COLUMNS)[1:]
    for payload, *metadata in zip(*(columns[name] for name in COLUMNS), strict=True):
        yield payload, dict(zip(names, metadata, strict=True))
