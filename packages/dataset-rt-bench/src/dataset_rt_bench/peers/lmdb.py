"""An LMDB environment with one value per record, as a person would write it."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import lmdb

import dataset_rt as drt
from dataset_rt_bench.workload import Workload

Metadata = dict[str, int | str | float]

KEY: Final = struct.Struct(">Q")
"""Big-endian, so that the order of keys is the order of records and appending is allowed."""

HEADER: Final = struct.Struct("<qdH")
"""record_id, score and the length of the label, which follows; the payload is the rest."""

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
        put, pack_key, pack_header = transaction.put, KEY.pack, HEADER.pack
        for record in records:
            metadata: Any = record.metadata
            label = metadata["label"].encode()
            header = pack_header(metadata["record_id"], metadata["score"], len(label))
            put(pack_key(count), b"".join((header, label, record.data)), append=True)
            count += 1
    return count


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

    def sample(self, index: int) -> tuple[bytes, Metadata]:
        """Return payload and metadata of one record."""
        value = self.transaction.get(KEY.pack(index))
        record_id, score, label_bytes = HEADER.unpack_from(value)
        start = HEADER.size + label_bytes
        label = str(value[HEADER.size : start], "utf-8")
        payload = value[start:]
        if self.zero_copy:
            payload = bytes(payload)
        return payload, {"record_id": record_id, "label": label, "score": score}

    def close(self) -> None:
        """Close the transaction and the environment."""
        self.transaction.abort()
        self.environment.close()
