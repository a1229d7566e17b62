"""The plain values that go into a cache and come out of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from typing_extensions import Buffer

MetadataValue: TypeAlias = Union[bool, int, float, str, "np.generic", None]
"""What one metadata field may hold; a NumPy scalar counts as the Python value it stands for."""


class CacheInput(NamedTuple):
    """One record as a source yields it.

    Both fields are copied when the record is taken from the source, so a source may fill the same
    buffer and the same dict again for its next record.

    Attributes:
        data: The payload: bytes, bytearray, memoryview or any other C-contiguous buffer, such as
            a NumPy array. It may be empty.
        metadata: Field names with values of type bool, int, float, str or None, or NumPy scalars
            of these. The first record of a source fixes the names and types for all of it.

    Example:
        >>> CacheInput(data=b"payload", metadata={"label": 3})
        CacheInput(data=b'payload', metadata={'label': 3})
    """

    data: Buffer
    metadata: Mapping[str, MetadataValue]


class CachedSample(NamedTuple):
    """One record as a dataset gives it.

    Attributes:
        data: The payload, byte for byte as the source gave it.
        metadata: The stored fields in the order of the source; a null is None. It always comes
            from the cache: what ``update_metadata`` changed stays in the table.
        cache_id: The id of the cache, derived from its source's name.
        sample_id: The number of the record in its cache, from 0.

    Example:
        >>> sample = CachedSample(b"payload", {"label": 3}, cache_id=17, sample_id=0)
        >>> sample.metadata["label"]
        3
    """

    data: bytes
    metadata: dict[str, Any]
    cache_id: int
    sample_id: int


class CacheInfo(NamedTuple):
    """One cache of a dataset.

    Attributes:
        id: The stable id of the cache, as in the ``cache_id`` column of the metadata table.
        name: The name of the source it was written from.
        path: Its directory.
        samples: How many samples it holds.

    Example:
        >>> from pathlib import Path
        >>> CacheInfo(id=17, name="digits", path=Path("cache/digits"), samples=1797).samples
        1797
    """

    id: int
    name: str
    path: Path
    samples: int
