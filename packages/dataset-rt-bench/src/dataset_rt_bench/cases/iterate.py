"""Iterate: whole shuffled samples, one by one."""

from dataset_rt_bench.cases import peer_reads
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def dataset_rt(workspace: Workspace, workload: Workload, **reader_options: object) -> Contender:
    """``for sample in dataset``: payload and metadata, checksums verified."""
    dataset = workspace.dataset(workload, **reader_options)
    start = dataset.state_dict()

    def run() -> int:
        count = 0
        for _ in dataset:
            count += 1
        return count

    def rewind() -> None:
        dataset.load_state_dict(start)

    def delivery() -> Delivery:
        rewind()
        return Delivery.of_first(sample.data for sample in dataset)

    return Contender(run, delivery, prepare=rewind, teardown=dataset.close)


def numpy_memmap(workspace: Workspace, workload: Workload) -> Contender:
    """The loop as first written: ``bytes(memmap[i])``, no metadata, no checksums."""
    mapped = memmap_peer.map_records(workspace.memmap(workload), workload)
    order = workspace.drawn_order(workload)

    def run() -> int:
        count = 0
        for index in order:
            bytes(mapped[index])
            count += 1
        return count

    return Contender(run, lambda: Delivery.of_first(bytes(mapped[index]) for index in order))


def numpy_array(workspace: Workspace, workload: Workload) -> Contender:
    """The same loop at its fastest: the map viewed as a plain array, ``array[i].tobytes()``."""
    records = memmap_peer.plain_array(memmap_peer.map_records(workspace.memmap(workload), workload))
    order = workspace.drawn_order(workload)

    def run() -> int:
        count = 0
        for index in order:
            records[index].tobytes()
            count += 1
        return count

    return Contender(run, lambda: Delivery.of_first(records[index].tobytes() for index in order))


CASE = Case(
    name="iterate",
    question="whole shuffled samples with metadata, one by one",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": dataset_rt,
        "numpy array": numpy_array,
        "numpy memmap": numpy_memmap,
        **peer_reads.iterated(),
    },
)
