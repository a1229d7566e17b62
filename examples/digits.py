"""Rebalance rare classes by weight: real handwritten digits, cached once and trained on twice.

The 1,797 digits that scikit-learn ships are cached as arrays, with a margin that leaves room for
shifting them, and with label, ink and split as metadata. Nine tenths of three classes are then
dropped from the training rows by filtering the table. The same small network is trained twice on
what is left, once with equal weights and once with weights that make all classes equally frequent,
and tested on held-out rows.

Needs ``pip install "dataset-rt[torch]" scikit-learn``. Save it and run ``python digits.py``; the
guarded entry point and the module-level transform let spawned loading workers import it.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import dataset_rt as drt

if TYPE_CHECKING:
    import polars as pl

IMAGE_SIZE = 8
MARGIN = 1
BRIGHTEST = 16
NUM_CLASSES = 10
RARE_CLASSES = (1, 8, 9)
SEED = 3
BATCH_SIZE = 64
SAMPLES_PER_EPOCH = 60 * BATCH_SIZE
EPOCHS = 5
NUM_WORKERS = 2


class Digits:
    """All digits as cache records: every fourth one is held out for testing."""

    name = "digits"
    fingerprint = {"records": 1}  # noqa: RUF012 - read once, never changed

    def __iter__(self) -> Iterator[drt.CacheInput]:
        """Yield each image as a packed array, with what a person may want to filter by."""
        # Loading workers import this file too, and they need no scikit-learn.
        from sklearn.datasets import load_digits  # noqa: PLC0415

        bunch = load_digits()
        images, labels = bunch.images.astype(np.uint8), bunch.target
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield drt.CacheInput(
                drt.pack_arrays({"image": np.pad(image, MARGIN)}),
                {
                    "label": label,
                    "ink": image.mean() / BRIGHTEST,
                    "split": "test" if number % 4 == 0 else "train",
                },
            )


def shifted_digit(
    sample: drt.CachedSample, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Decode one record and move its image by up to a pixel, another way at each draw."""
    image = drt.unpack_arrays(sample.data)["image"]
    top, left = rng.integers(0, 2 * MARGIN + 1, size=2)
    shifted = image[top : top + IMAGE_SIZE, left : left + IMAGE_SIZE]
    return to_pixels(shifted), torch.tensor(sample.metadata["label"])


def to_pixels(image: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Return images of any number as brightness from 0 to 1, with one channel."""
    return torch.from_numpy(image.astype(np.float32) / BRIGHTEST).unsqueeze(-3)


def training_rows(table: "pl.DataFrame") -> "pl.DataFrame":
    """Keep the training rows, and of the rare classes only every tenth."""
    import polars as pl  # noqa: PLC0415 - loading workers need no tables

    number_in_class = pl.int_range(pl.len()).over("label")
    is_kept = ~pl.col("label").is_in(RARE_CLASSES) | (number_in_class % 10 == 0)
    return table.filter(pl.col("split") == "train").filter(is_kept)


def balancing_weights(table: "pl.DataFrame") -> "pl.Series":
    """Weigh each row by the inverse of its class's frequency."""
    import polars as pl  # noqa: PLC0415 - as above

    return table.select(weight=1.0 / pl.len().over("label"))["weight"]


def train(dataset: drt.CachedDataset) -> nn.Module:
    """Train a small network on draws from the dataset, the same way for the same table."""
    torch.manual_seed(SEED)
    network = nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, NUM_CLASSES),
    )
    loader = dataset.to_torch_dataloader(
        sample_transform_fn=shifted_digit,
        batch_size=BATCH_SIZE,
        samples_per_epoch=SAMPLES_PER_EPOCH,
        num_workers=NUM_WORKERS,
        native_num_workers=1,
        seed=SEED,
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))
    for _ in range(EPOCHS):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            scheduler.step()
    return network


@dataclass(frozen=True)
class Accuracy:
    """How many held-out digits a network names right: overall, and by class."""

    overall: float
    by_class: tuple[float, ...]

    @property
    def rare(self) -> float:
        """The mean over the rare classes."""
        return sum(self.by_class[label] for label in RARE_CLASSES) / len(RARE_CLASSES)


def evaluate(network: nn.Module, held_out: drt.CachedDataset) -> Accuracy:
    """Test a network on every row of a dataset, read in batches without a DataLoader."""
    is_right = []
    labels = []
    network.eval()
    for batch in held_out.iter_batches(256):
        images = np.stack([drt.unpack_arrays(data)["image"] for data in batch.data])
        centred = images[:, MARGIN:-MARGIN, MARGIN:-MARGIN]
        with torch.inference_mode():
            predicted = network(to_pixels(centred)).argmax(dim=1).numpy()
        labels.append(np.asarray(batch.metadata["label"]))
        is_right.append(predicted == labels[-1])
    right, label = np.concatenate(is_right), np.concatenate(labels)
    by_class = tuple(float(right[label == number].mean()) for number in range(NUM_CLASSES))
    return Accuracy(float(right.mean()), by_class)


@dataclass(frozen=True)
class Comparison:
    """What equal and balancing weights led to, on the same rows."""

    train_rows: Mapping[int, int]
    unweighted: Accuracy
    weighted: Accuracy


def compare(cache_directory: Path) -> Comparison:
    """Cache the digits, thin out the rare classes, and train with and without weights."""
    runtime = drt.DatasetRuntime(num_workers=2)
    match runtime.from_cache_sources(
        Digits(), cache_directory, reader_config=drt.ReaderConfig(seed=SEED)
    ):
        case drt.CacheSourcesDatasetSuccess(dataset=dataset):
            pass
        case failure:
            raise RuntimeError(failure.message)
    table = dataset.get_metadata()

    held_out = runtime.cached_dataset(
        [cache.path for cache in dataset.caches], reader_config=drt.ReaderConfig(shuffle=False)
    )
    held_out.update_metadata(table.filter(split="test"))

    rows = training_rows(table)
    dataset.update_metadata(rows)
    unweighted = evaluate(train(dataset), held_out)
    dataset.set_weights(balancing_weights(rows))
    weighted = evaluate(train(dataset), held_out)
    return Comparison(dict(rows["label"].value_counts().iter_rows()), unweighted, weighted)


def print_table(comparison: Comparison) -> None:
    """Print the accuracy of both networks by class, for the rare classes, and overall."""
    unweighted, weighted = comparison.unweighted, comparison.weighted
    print(f"{'class':<9}{'train rows':>10}{'unweighted':>12}{'weighted':>10}")
    for label in range(NUM_CLASSES):
        name = f"{label} rare" if label in RARE_CLASSES else f"{label}"
        accuracies = f"{unweighted.by_class[label]:>12.3f}{weighted.by_class[label]:>10.3f}"
        print(f"{name:<9}{comparison.train_rows[label]:>10}{accuracies}")
    print(f"{'all rare':<19}{unweighted.rare:>12.3f}{weighted.rare:>10.3f}")
    print(f"{'overall':<19}{unweighted.overall:>12.3f}{weighted.overall:>10.3f}")


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description="Rebalance rare digits by weight.")
    parser.add_argument(
        "--cache-dir", type=Path, default=Path("cache_digits"), help="default: %(default)s"
    )
    options = parser.parse_args()
    # One thread is enough for a network this small, and gives the same sums everywhere.
    torch.set_num_threads(1)
    print_table(compare(options.cache_dir))


if __name__ == "__main__":
    main()
