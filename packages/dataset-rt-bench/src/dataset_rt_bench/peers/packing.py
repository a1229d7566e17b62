"""One value that holds metadata and payload of a record, for formats that store plain bytes."""

import struct
from typing import TYPE_CHECKING, Any, Final

import dataset_rt as drt
from dataset_rt_bench.peers.records import Sample

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER: Final = struct.Struct("<qdH")
"""record_id, score and the length of the label, which follows; the payload is the rest."""


def pack(record: drt.CacheInput) -> bytes:
    """Return metadata and payload as one value."""
    metadata: Any = record.metadata
    label = metadata["label"].encode()
    header = HEADER.pack(metadata["record_id"], metadata["score"], len(label))
    return b"".join((header, label, record.data))


def payload_start(value: "Buffer") -> int:
    """Return where the payload begins in a value."""
    label_bytes: int = HEADER.unpack_from(value)[2]
    return HEADER.size + label_bytes


def unpack(value: bytes | memoryview) -> Sample:
    """Return payload and metadata of a value, copied out of it.

    Example:
        >>> metadata = {"record_id": 3, "label": "cat", "score": 0.5}
        >>> unpack(pack(drt.CacheInput(b"abc", metadata))) == (b"abc", metadata)
        True
    """
    record_id, score, label_bytes = HEADER.unpack_from(value)
    start = HEADER.size + label_bytes
    label = str(value[HEADER.size : start], "utf-8")
    # Of a slice that is bytes already, bytes() makes no second copy.
    return bytes(value[start:]), {"record_id": record_id, "label": label, "score": score}
