"""ArrayRecord: one file of values that hold metadata and payload, as loaders on JAX read them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

import dataset_rt as drt
from dataset_rt_bench.peers.chunks import chunks, records_per_chunk
from dataset_rt_bench.peers.packing import pack, payload_start, unpack
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Buffer

WRITER_OPTIONS: Final = "group_size:1,uncompressed"
"""Groups of one record, as random access asks for; random bytes do not get smaller."""

RANDOM_ACCESS: Final = "readahead_buffer_size:0,max_parallelism:0"
"""What the library's documentation names for random access."""

MANY_AT_ONCE: Final = "readahead_buffer_size:0"
"""The same with the library's threads, which a list of records keeps busy: twice as fast there."""


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Write one file."""
    del workload
    count = 0
    writer = ArrayRecordWriter(str(path), WRITER_OPTIONS)
    try:
        for record in records:
            writer.write(pack(record))
            count += 1
    finally:
        writer.close()
    return count


def open_records(path: Path, workload: Workload) -> "ArrayRecords":
    """Open a file with one reader per way of reading."""
    return ArrayRecords(path, workload.record_bytes)


class ArrayRecords:
    """Reads values of one file, with the options that suit each way of reading."""

    def __init__(self, path: Path, record_bytes: int) -> None:
        """Open the readers; each keeps the index of the file in memory."""
        self.one_by_one: Any = ArrayRecordReader(str(path), RANDOM_ACCESS)
        self.many_at_once: Any = ArrayRecordReader(str(path), MANY_AT_ONCE)
        self.from_the_start: Any = ArrayRecordReader(str(path))
        self.record_bytes = record_bytes

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        (value,) = self.one_by_one.read([index])
        return unpack(value)

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number, a list of records at a time."""
        for chunk in chunks(indices, self.record_bytes):
            yield from map(unpack, self.many_at_once.read(list(chunk)))

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records, a stretch of them at a time."""
        reader = self.from_the_start
        num_records = reader.num_records()
        length = records_per_chunk(self.record_bytes)
        for start in range(0, num_records, length):
            yield from map(unpack, reader.read(start, min(start + length, num_records)))

    def gather(self, indices: Sequence[int]) -> Any:  # noqa: ANN401 - a list of values
        """Return the values of some records as a list, metadata in front of each payload."""
        return self.many_at_once.read(list(indices))

    def payloads_of(self, gathered: Any) -> "Iterator[Buffer]":  # noqa: ANN401 - a list of values
        """Iterate over the payloads in such a list."""
        return (memoryview(value)[payload_start(value) :] for value in gathered)

    def close(self) -> None:
        """Close the readers."""
        for reader in (self.one_by_one, self.many_at_once, self.from_the_start):
            reader.close()
