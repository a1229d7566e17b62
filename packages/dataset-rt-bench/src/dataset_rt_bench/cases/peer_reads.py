"""Contenders that read records of a peer: one after another, by number, in order, in batches."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice

from dataset_rt_bench.cases.contender import MAX_COMPARED, Contender, Delivery, SetUp
from dataset_rt_bench.peers.catalogue import PEERS, Peer
from dataset_rt_bench.peers.records import BatchedRecords, IndexedRecords, OrderedRecords, Sample
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def _counted(
    samples: Callable[[], Iterable[Sample]], compared: Callable[[], Iterable[Sample]]
) -> tuple[Callable[[], int], Callable[[], Delivery]]:
    def run() -> int:
        count = 0
        for _ in samples():
            count += 1
        return count

    return run, lambda: Delivery.of_first(payload for payload, _ in compared())


def _iterated(workspace: Workspace, workload: Workload, peer: Peer) -> Contender:
    records: IndexedRecords = workspace.peer(peer, workload)
    order = workspace.drawn_order(workload)
    read = order[:MAX_COMPARED] if peer.is_slow else order
    run, delivery = _counted(
        lambda: records.samples(read), lambda: records.samples(read[:MAX_COMPARED])
    )
    return Contender(run, delivery, teardown=records.close)


def _in_order(workspace: Workspace, workload: Workload, peer: Peer) -> Contender:
    records: OrderedRecords = workspace.peer(peer, workload)
    most = MAX_COMPARED if peer.is_slow else None
    run, delivery = _counted(lambda: islice(records.in_order(), most), records.in_order)
    return Contender(run, delivery, teardown=records.close)


def _by_number(workspace: Workspace, workload: Workload, peer: Peer) -> Contender:
    records: IndexedRecords = workspace.peer(peer, workload)
    order = workspace.drawn_order(workload)[:MAX_COMPARED]

    def run() -> int:
        read_sample = records.sample
        count = 0
        for index in order:
            read_sample(index)
            count += 1
        return count

    def delivery() -> Delivery:
        return Delivery.of(records.sample(index)[0] for index in order)

    return Contender(run, delivery, teardown=records.close)


def _in_batches(workspace: Workspace, workload: Workload, peer: Peer, batch_size: int) -> Contender:
    records: BatchedRecords = workspace.peer(peer, workload)
    order = workspace.drawn_order(workload)[:MAX_COMPARED]
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(records.gather(rows))
        return count

    def delivery() -> Delivery:
        return Delivery.of(
            payload for rows in batches for payload in records.payloads_of(records.gather(rows))
        )

    return Contender(run, delivery, teardown=records.close)


def iterated() -> Mapping[str, SetUp]:
    """Return contenders that read drawn samples one after another, in the fastest way they have."""
    return {
        peer.name: partial(_iterated, peer=peer)
        for peer in PEERS.values()
        if peer.access != "in order"
    }


def in_order() -> Mapping[str, SetUp]:
    """Return contenders that read samples from the first one on."""
    return {peer.name: partial(_in_order, peer=peer) for peer in PEERS.values()}


def by_number() -> Mapping[str, SetUp]:
    """Return contenders that read drawn samples each in a call of its own."""
    return {
        peer.name: partial(_by_number, peer=peer)
        for peer in PEERS.values()
        if peer.access != "in order"
    }


def in_batches(batch_size: int) -> Mapping[str, SetUp]:
    """Return contenders that read drawn payloads many in one call."""
    return {
        peer.name: partial(_in_batches, peer=peer, batch_size=batch_size)
        for peer in PEERS.values()
        if peer.access == "in batches"
    }
