"""An LMDB environment with one value per record, as a person would write it."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import lmdb

import dataset_rt as drt
from dataset_rt_bench.peers.packing import HEADER, pack, unpack
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

KEY: Final = struct.Struct(">Q")
"""Big-endian, so that the order of keys is the order of records and appending is allowed."""

ZERO_COPY_FROM_BYTES: Final = 16 << 10
"""From this payload size on, LMDB is asked for a buffer: one copy then instead of two.

For smaller values a ``bytes`` of the whole value is the faster way, by about a tenth.
"""


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Put all records in one transaction and return how many there were.

    The commit syncs the file, so the records are on disk when the call returns.
    """
    # Each large value takes whole pages; the file is sparse, so a generous limit costs nothing.
    map_size = 2 * workload.num_records * (workload.record_bytes + 4096) + (64 << 20)
    count = 0
    with (
        lmdb.open(str(path), map_size=map_size) as environment,
        environment.begin(write=True) as transaction,
    ):
        put, pack_key = transaction.put, KEY.pack
        for record in records:
            put(pack_key(count), pack(record), append=True)
            count += 1
    return count


def open_records(path: Path, workload: Workload) -> "LmdbRecords":
    """Open an environment for reading."""
    return LmdbRecords(path, workload.record_bytes)


class LmdbRecords:
    """Reads records of one environment, with the fastest options for warm random reads."""

    def __init__(self, path: Path, record_bytes: int) -> None:
        """Open the environment and one transaction that all reads share."""
        self.environment = lmdb.open(
            str(path), readonly=True, lock=False, readahead=False, max_readers=1
        )
        self.zero_copy = record_bytes >= ZERO_COPY_FROM_BYTES
        begin: Any = self.environment.begin
        self.transaction = begin(buffers=self.zero_copy)

    def payload(self, index: int) -> bytes:
        """Return the payload of one record."""
        value = self.transaction.get(KEY.pack(index))
        label_bytes = HEADER.unpack_from(value)[2]
        payload = value[HEADER.size + label_bytes :]
        return bytes(payload) if self.zero_copy else payload

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        value = self.transaction.get(KEY.pack(index))
        # As ``unpack`` does it, but in place: one more call for each record would be felt here.
        record_id, score, label_bytes = HEADER.unpack_from(value)
        start = HEADER.size + label_bytes
        label = str(value[HEADER.size : start], "utf-8")
        payload = value[start:]
        if self.zero_copy:
            payload = bytes(payload)
        return payload, {"record_id": record_id, "label": label, "score": score}

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number."""
        return map(self.sample, indices)

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records with a cursor."""
        return map(unpack, self.transaction.cursor().iternext(keys=False, values=True))

    def close(self) -> None:
        """Close the transaction and the environment."""
        self.transaction.abort()
        self.environment.close()
