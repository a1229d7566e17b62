"""The directory that benchmarks work in: prepared data, written once and used by all cases."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dataset_rt as drt
from dataset_rt_bench.datagen import (
    GENERATOR_VERSION,
    ArraySource,
    BenchmarkSource,
    Codec,
    row_weights,
)
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.peers.catalogue import LMDB, Peer
from dataset_rt_bench.workload import Workload

ORDER_SEED = 7
"""The seed of every shuffled dataset here; peers read in the order that it draws."""


class Workspace:
    """Prepares data below one directory, and reuses what an earlier run left there complete.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as directory:
        ...     dataset = Workspace(Path(directory)).dataset(Workload(8, 100))
        ...     len(dataset)
        100
    """

    def __init__(self, directory: Path) -> None:
        """Create the directory where it does not exist yet."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.runtime = drt.DatasetRuntime()

    def cache(self, workload: Workload) -> Path:
        """Return the path of a DatasetRT cache of the workload."""
        return self._cache_of(BenchmarkSource(workload))

    def dataset(self, workload: Workload, **reader_options: object) -> drt.CachedDataset:
        """Open the cache of the workload, shuffled by weight unless options say otherwise."""
        return _weighted(self.unweighted_dataset(workload, **reader_options))

    def unweighted_dataset(self, workload: Workload, **reader_options: object) -> drt.CachedDataset:
        """Open the cache of the workload with equal weights, for cases that are about weights."""
        return self._open(self.cache(workload), reader_options)

    def array_dataset(
        self, workload: Workload, codec: Codec, **reader_options: object
    ) -> drt.CachedDataset:
        """Open a cache of arrays, each as large as a payload of the workload, in the same order."""
        return _weighted(self._open(self._cache_of(ArraySource(workload, codec)), reader_options))

    def drawn_order(self, workload: Workload) -> list[int]:
        """Return the records of the first epoch of ``dataset(workload)``, for peers to read."""
        with self.dataset(workload) as dataset:
            order: list[int] = dataset.draws(0, workload.num_records).tolist()
        return order

    def memmap(self, workload: Workload) -> Path:
        """Return the path of a file of fixed-size records."""

        def write(path: Path) -> None:
            memmap_peer.write(path, BenchmarkSource(workload), durable=False)

        return self._written_once("memmap", workload, write)

    def lmdb(self, workload: Workload) -> Path:
        """Return the path of an LMDB environment."""
        return self._peer_path(LMDB, workload)

    def peer(self, peer: Peer, workload: Workload) -> Any:  # noqa: ANN401 - the peer's own class
        """Open the records of the workload in the format of a peer.

        Raises:
            UnavailableError: Its library is not installed.
        """
        module = peer.load()
        return module.open_records(self._peer_path(peer, workload), workload)

    @property
    def scratch_directory(self) -> Path:
        """Where output goes that is thrown away; each case has a directory of its own in it."""
        return self.directory / "scratch"

    def _cache_of(self, source: BenchmarkSource | ArraySource) -> Path:
        (result,) = self.runtime.write_cache(source, self.directory / "caches")
        match result:
            case drt.CacheWriteSuccess(path=path):
                return path
            case failure:
                raise RuntimeError(f"cannot prepare {source.name}: {failure.message}")

    def _open(self, path: Path, reader_options: dict[str, object]) -> drt.CachedDataset:
        reader_config = drt.ReaderConfig.model_validate({"seed": ORDER_SEED, **reader_options})
        return self.runtime.cached_dataset([path], reader_config=reader_config)

    def _peer_path(self, peer: Peer, workload: Workload) -> Path:
        module = peer.load()

        def write(path: Path) -> None:
            module.write(path, BenchmarkSource(workload), workload)

        return self._written_once(peer.module, workload, write)

    def _written_once(self, kind: str, workload: Workload, write: Callable[[Path], None]) -> Path:
        """Write under a temporary name and rename, so that what exists is complete."""
        path = self.directory / kind / f"records-{workload.slug}-v{GENERATOR_VERSION}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.partial")
            remove(partial)
            write(partial)
            partial.rename(path)
        return path


def _weighted(dataset: drt.CachedDataset) -> drt.CachedDataset:
    if dataset.reader_config.shuffle and dataset.reader_config.replacement:
        dataset.set_weights(row_weights(len(dataset)))
    return dataset


def remove(path: Path) -> None:
    """Remove a file or a directory tree, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
