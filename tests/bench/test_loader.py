"""What the cases about loaders measure beside the time of whole epochs."""

import multiprocessing
import os

import torch

from dataset_rt_bench.cases import loader
from dataset_rt_bench.cases.batch import BATCH_SIZE
from dataset_rt_bench.session import run_case
from dataset_rt_bench.workload import Workload, row_workload
from dataset_rt_bench.workspace import Workspace


def test_the_first_batch_comes_from_new_workers_each_time(workspace: Workspace) -> None:
    # As in the test of loaders with workers.
    preload = ["torch", "dataset_rt_torch", "dataset_rt_bench.cases.loader"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    others = set(multiprocessing.active_children())
    case = loader.start_case(loader.Workers(1, start_method="forkserver"))
    measurements = run_case(case, row_workload(5_000), workspace, repeats=1).measurements
    assert [each.items for each in measurements] == [BATCH_SIZE] * 2
    # Even an empty Python takes some.
    assert all(each.facts[loader.PRIVATE_MEMORY] > 1 for each in measurements)
    assert set(multiprocessing.active_children()) <= others


def test_private_memory_grows_with_what_a_process_keeps() -> None:
    before = loader.private_mebibytes(os.getpid())
    kept = torch.ones(64 << 20, dtype=torch.uint8)
    grown = loader.private_mebibytes(os.getpid()) - before
    assert grown > 0.9 * kept.nbytes / (1 << 20)


def test_batches_are_transformed_as_their_samples_are(workspace: Workspace) -> None:
    with workspace.dataset(Workload(record_bytes=100, num_records=5)) as dataset:
        batch = dataset.rows[:]
        expected = [loader.first_bytes_of_sample(sample) for sample in batch.samples]
        assert torch.equal(loader.first_bytes_of_batch(batch), torch.stack(expected))
