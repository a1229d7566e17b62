"""Map-style datasets over the peers, for PyTorch's own DataLoader.

They are apart from the peers themselves, so that cases without a loader do not import PyTorch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from dataset_rt_bench.peers import memmap
from dataset_rt_bench.peers.lmdb import LmdbRecords
from dataset_rt_bench.workload import Workload


class MemmapDataset(Dataset[Any]):
    """A map-style dataset over the file; each loading worker maps it for itself."""

    def __init__(self, path: Path, workload: Workload, transform: Callable[[bytes], Any]) -> None:
        """Remember what to map; nothing is opened before the first record is asked for."""
        self.path = path
        self.workload = workload
        self.transform = transform
        self.records: memmap.Records | None = None

    def __len__(self) -> int:
        """Return the number of records."""
        return self.workload.num_records

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - whatever the transform makes
        """Return the transformed payload of one record."""
        if self.records is None:
            self.records = memmap.plain_array(memmap.map_records(self.path, self.workload))
        return self.transform(self.records[index].tobytes())

    def __getstate__(self) -> dict[str, Any]:
        """Leave the map behind when the dataset is sent to a worker."""
        return {**self.__dict__, "records": None}


class LmdbDataset(Dataset[Any]):
    """A map-style dataset over the environment; each loading worker opens it for itself."""

    def __init__(self, path: Path, workload: Workload, transform: Callable[[bytes], Any]) -> None:
        """Remember what to open; nothing is opened before the first record is asked for."""
        self.path = path
        self.workload = workload
        self.transform = transform
        self.records: LmdbRecords | None = None

    def __len__(self) -> int:
        """Return the number of records."""
        return self.workload.num_records

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - whatever the transform makes
        """Return the transformed payload of one record."""
        if self.records is None:
            self.records = LmdbRecords(self.path, self.workload.record_bytes)
        return self.transform(self.records.payload(index))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the environment behind when the dataset is sent to a worker."""
        return {**self.__dict__, "records": None}

    def close(self) -> None:
        """Close the environment, if it was opened in this process."""
        if self.records is not None:
            self.records.close()
            self.records = None
