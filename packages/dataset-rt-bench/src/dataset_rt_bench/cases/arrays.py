"""Arrays: shuffled images, 256 at a time, stacked into one array."""

import pickle

import numpy as np

from dataset_rt_bench.cases.batch import BATCH_SIZE, memcpy
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def dataset_rt(workspace: Workspace, workload: Workload, **reader_options: object) -> Contender:
    """``batch.arrays()`` of payloads that ``pack_arrays`` made, checksums verified."""
    dataset = workspace.array_dataset(workload, "pack_arrays", **reader_options)
    start = dataset.state_dict()

    def run() -> int:
        count = 0
        for batch in dataset.iter_batches(BATCH_SIZE):
            count += len(batch.arrays()["image"])
        return count

    def rewind() -> None:
        dataset.load_state_dict(start)

    def delivery() -> Delivery:
        rewind()
        return Delivery.of_first(
            image for batch in dataset.iter_batches(BATCH_SIZE) for image in batch.arrays()["image"]
        )

    return Contender(run, delivery, prepare=rewind, teardown=dataset.close)


def pickle_and_stack(workspace: Workspace, workload: Workload) -> Contender:
    """``pickle.loads`` of views, not copied and not verified, then ``np.stack`` of each array."""
    dataset = workspace.array_dataset(workload, "pickle", verify_reads=False)
    order = np.array(workspace.drawn_order(workload))
    batches = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]

    def stacked(rows: np.ndarray) -> dict[str, np.ndarray]:
        samples = [pickle.loads(view) for view in dataset.rows[rows].views]
        return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(stacked(rows)["image"])
        return count

    def delivery() -> Delivery:
        return Delivery.of_first(image for rows in batches for image in stacked(rows)["image"])

    return Contender(run, delivery, teardown=dataset.close)


CASE = Case(
    name="arrays",
    question=f"shuffled images of bytes with their labels, {BATCH_SIZE} stacked into one array",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": dataset_rt,
        "memcpy": memcpy,
        "pickle.loads + np.stack": pickle_and_stack,
    },
)
