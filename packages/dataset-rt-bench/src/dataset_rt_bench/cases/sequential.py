"""Sequential: whole samples in the order in which they are stored."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from dataset_rt_bench.cases import iterate, peer_reads
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

READ_BYTES: Final = 1 << 20


def numpy_array(workspace: Workspace, workload: Workload) -> Contender:
    """``row.tobytes()`` for each row of a memory map, no metadata, no checksums."""
    records = memmap_peer.plain_array(memmap_peer.map_records(workspace.memmap(workload), workload))

    def run() -> int:
        count = 0
        for row in records:
            row.tobytes()
            count += 1
        return count

    return Contender(run, lambda: Delivery.of_first(row.tobytes() for row in records))


def read_file(workspace: Workspace, workload: Workload) -> Contender:
    """Read the bare payloads from the page cache into one buffer, 1 MiB at a time: the limit."""
    path = workspace.memmap(workload)
    buffer = memoryview(bytearray(READ_BYTES))

    def run() -> int:
        total_bytes = 0
        with path.open("rb", buffering=0) as file:
            while read_bytes := file.readinto(buffer):
                total_bytes += read_bytes
        return total_bytes // workload.record_bytes

    def payloads() -> Iterator[bytes]:
        with path.open("rb") as file:
            while payload := file.read(workload.record_bytes):
                yield payload

    return Contender(run, lambda: Delivery.of_first(payloads()))


CASE = Case(
    name="sequential",
    question="whole samples with metadata in stored order, one by one",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": partial(iterate.dataset_rt, shuffle=False),
        "file.readinto": read_file,
        "numpy array": numpy_array,
        **peer_reads.in_order(),
    },
)
