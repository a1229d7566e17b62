"""Sizes: samples and batches over many record sizes, for the plot of throughput."""

from dataclasses import replace

from dataset_rt_bench.cases import batch, iterate, peer_reads
from dataset_rt_bench.cases.contender import Case, Contender
from dataset_rt_bench.peers.catalogue import WEBDATASET
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def webdataset_in_order(workspace: Workspace, workload: Workload) -> Contender:
    """The one peer without random access, in its stored order: not the same records."""
    contender = peer_reads.in_order()[WEBDATASET.name](workspace, workload)
    return replace(contender, delivery=None)


CASE = Case(
    name="sizes",
    question="shuffled samples over record sizes",
    item="samples",
    scale="size_sweep",
    subject="dataset_rt",
    contenders={
        "dataset_rt": iterate.dataset_rt,
        "dataset_rt, batches": batch.dataset_rt,
        "numpy array": iterate.numpy_array,
        **peer_reads.iterated(),
        f"{WEBDATASET.name}, in order": webdataset_in_order,
    },
)
