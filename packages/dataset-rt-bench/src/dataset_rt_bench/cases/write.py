"""Write: all records of one generator, from the first record to data that survives a power cut."""

import os
from collections.abc import Iterator
from pathlib import Path

import dataset_rt as drt
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.datagen import BenchmarkSource
from dataset_rt_bench.peers import lmdb as lmdb_peer
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace, remove


class Output:
    """The directory that all contenders write to in turn, so that there is one output at a time."""

    def __init__(self, workspace: Workspace) -> None:
        """Leave the directory to the first run."""
        self.workspace = workspace
        self.directory = workspace.scratch_directory / "write"

    @property
    def path(self) -> Path:
        """Where the records go."""
        return self.directory / "records"

    def clear(self) -> None:
        """Drop the last output, so that its pages are not written back during the next run."""
        self.remove()
        self.directory.mkdir(parents=True)
        os.sync()

    def remove(self) -> None:
        """Remove the directory."""
        remove(self.directory)


def dataset_rt(workspace: Workspace, workload: Workload) -> Contender:
    """``runtime.write_cache``: payloads, metadata, checksums; synced and published."""
    source = BenchmarkSource(workload)
    output = Output(workspace)

    def run() -> int:
        (result,) = workspace.runtime.write_cache(source, output.path)
        match result:
            case drt.CacheWriteSuccess():
                return workload.num_records
            case failure:
                raise RuntimeError(failure.message)

    def delivery() -> Delivery:
        reader_config = drt.ReaderConfig(shuffle=False)
        with workspace.runtime.cached_dataset(
            [output.path / source.name], reader_config=reader_config
        ) as dataset:
            return Delivery.of(sample.data for sample in dataset)

    return Contender(run, delivery, prepare=output.clear, teardown=output.remove)


def lmdb(workspace: Workspace, workload: Workload) -> Contender:
    """``put`` of payload and metadata in one transaction, whose commit syncs."""
    output = Output(workspace)

    def run() -> int:
        return lmdb_peer.write(output.path, BenchmarkSource(workload), workload)

    def delivery() -> Delivery:
        records = lmdb_peer.LmdbRecords(output.path, workload.record_bytes)
        try:
            return Delivery.of(records.payload(index) for index in range(workload.num_records))
        finally:
            records.close()

    return Contender(run, delivery, prepare=output.clear, teardown=output.remove)


def _file(workspace: Workspace, workload: Workload, *, durable: bool) -> Contender:
    output = Output(workspace)

    def run() -> int:
        return memmap_peer.write(output.path, BenchmarkSource(workload), durable=durable)

    def payloads() -> Iterator[bytes]:
        with output.path.open("rb") as file:
            while payload := file.read(workload.record_bytes):
                yield payload

    return Contender(
        run, lambda: Delivery.of(payloads()), prepare=output.clear, teardown=output.remove
    )


def file_write(workspace: Workspace, workload: Workload) -> Contender:
    """A bare loop of buffered ``file.write`` of payloads, which leaves syncing to the system."""
    return _file(workspace, workload, durable=False)


def file_write_and_sync(workspace: Workspace, workload: Workload) -> Contender:
    """The same loop with an ``fsync`` at the end, as durable as the others."""
    return _file(workspace, workload, durable=True)


CASE = Case(
    name="write",
    question="records from one generator to disk",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": dataset_rt,
        "lmdb": lmdb,
        "file.write": file_write,
        "file.write + fsync": file_write_and_sync,
    },
)
