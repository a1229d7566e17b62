"""Unpack cached training dictionaries in spawned PyTorch loading workers."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import torch
from pydantic import TypeAdapter
from typing_extensions import TypedDict

import dataset_rt as drt


class TrainingRecord(TypedDict):
    """Describe the Python dictionary packed into each cache payload."""

    features: list[float]
    target: int


RECORD_ADAPTER = TypeAdapter(TrainingRecord)


class TrainingSamples:
    """Pack complete records while keeping targets queryable as metadata."""

    name = "training_records_v1"

    def __iter__(self) -> Iterator[drt.CacheInput]:
        """Serialize one preprocessed dictionary at a time."""
        for index in range(32):
            record = TrainingRecord(features=[index / 32, 1.0], target=index % 2)
            yield drt.CacheInput(
                data=pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL),
                metadata={"target": record["target"]},
            )


def decode(sample: drt.CachedSample) -> tuple[torch.Tensor, torch.Tensor]:
    """Unpack and validate a record before Torch collates a bounded CPU batch."""
    record = RECORD_ADAPTER.validate_python(pickle.loads(sample.data))
    features = torch.tensor(record["features"])
    target = torch.tensor(record["target"], dtype=torch.long)
    return features, target


def main() -> None:
    """Construct a fixed loader topology and consume one finite sample budget."""
    runtime = drt.DatasetRuntime(num_workers=2)
    result = runtime.from_cache_sources(
        TrainingSamples(),
        Path("cache_torch"),
        reader_config=drt.ReaderConfig(seed=42, shuffle=True),
    )
    match result:
        case drt.CacheSourcesDatasetSuccess(dataset=dataset):
            pass
        case failure:
            raise RuntimeError(failure)

    loader = dataset.to_torch_dataloader(
        sample_transform_fn=decode,
        batch_size=8,
        samples_per_epoch=32,
        num_workers=2,
        native_num_workers=1,
        shuffle=True,
        seed=42,
        multiprocessing_context="spawn",
    )
    for features, targets in loader:
        print(features.shape, targets.shape)


if __name__ == "__main__":
    main()
