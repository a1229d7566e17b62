"""Lance: a dataset with a column for payloads and one per metadatum."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa

import dataset_rt as drt
from dataset_rt_bench.peers.chunks import chunks, records_per_chunk
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Buffer

SCHEMA: Final = pa.schema(
    [
        # Random bytes do not get smaller; trying to compress them would only cost time.
        pa.field("data", pa.large_binary(), metadata={"lance-encoding:compression": "none"}),
        pa.field("record_id", pa.int64()),
        pa.field("label", pa.string()),
        pa.field("score", pa.float64()),
    ]
)


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Write a dataset from record batches, in the library's stable storage version."""
    count = 0

    def batches() -> Iterator[Any]:
        nonlocal count
        rows: list[dict[str, Any]] = []
        for record in records:
            rows.append({"data": bytes(record.data), **record.metadata})
            count += 1
            if len(rows) == records_per_chunk(workload.record_bytes):
                yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    lance.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches()), str(path))
    return count


def open_records(path: Path, workload: Workload) -> "LanceRecords":
    """Open a dataset."""
    return LanceRecords(path, workload.record_bytes)


class LanceRecords:
    """Reads rows with ``take``, many in one call where the order is known beforehand.

    One call has a fixed cost of half a millisecond, so rows one by one are slow whatever their
    size.
    """

    def __init__(self, path: Path, record_bytes: int) -> None:
        """Open the dataset."""
        self.dataset: Any = lance.dataset(str(path))
        self.record_bytes = record_bytes

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        (sample,) = _rows(self.dataset.take([index]))
        return sample

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number, a list of rows at a time."""
        for chunk in chunks(indices, self.record_bytes):
            yield from _rows(self.dataset.take(list(chunk)))

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records in batches, which the library reads ahead."""
        for batch in self.dataset.to_batches(batch_size=records_per_chunk(self.record_bytes)):
            yield from _rows(batch)

    def gather(self, indices: Sequence[int]) -> Any:  # noqa: ANN401 - an Arrow array
        """Return the payloads of some records as one Arrow array."""
        return self.dataset.take(list(indices), columns=["data"])["data"]

    def payloads_of(self, gathered: Any) -> "Iterator[Buffer]":  # noqa: ANN401 - an Arrow array
        """Iterate over the payloads of an Arrow array."""
        return (value.as_buffer() for value in gathered)

    def close(self) -> None:
        """Drop the dataset."""
        del self.dataset


def _rows(table: Any) -> Iterator[Sample]:  # noqa: ANN401 - a table or a record batch
    for row in table.to_pylist():
        yield row.pop("data"), row
