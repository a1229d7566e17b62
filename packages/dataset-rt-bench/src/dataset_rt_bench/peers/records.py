"""What every format that DatasetRT is compared with can do: protocols, and no code."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import dataset_rt as drt
from dataset_rt_bench.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Buffer

Metadata = dict[str, int | str | float]
Sample = tuple[bytes, Metadata]


class OrderedRecords(Protocol):
    """Records that can be read from the first to the last."""

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records as they are stored."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class IndexedRecords(OrderedRecords, Protocol):
    """Records that can be read by number."""

    def sample(self, index: int) -> Sample:
        """Return payload and metadata of one record."""
        ...

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Iterate over records by number, in the way that the library is fastest at."""
        ...


class BatchedRecords(IndexedRecords, Protocol):
    """Records of which many can be read in one call."""

    def gather(self, indices: Sequence[int]) -> Any:  # noqa: ANN401 - whatever the library gives
        """Return the payloads of some records in the library's own container."""
        ...

    def payloads_of(self, gathered: Any) -> "Iterator[Buffer]":  # noqa: ANN401 - as above
        """Iterate over the payloads in such a container."""
        ...


class PeerModule(Protocol):
    """What each module about a peer has at its top."""

    def write(self, path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
        """Write all records and return how many there were."""
        ...

    def open_records(self, path: Path, workload: Workload) -> Any:  # noqa: ANN401 - one of the above
        """Open what was written."""
        ...
