"""``loader.audit()``: what it counts is what the ranks together are given."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from dataset_rt import ConfigError, DatasetClosedError, DatasetRtError
from dataset_rt_torch import ClassCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataset_rt import CachedDataset

ORDERS: dict[str, dict[str, Any]] = {
    "weighted": {},
    "permutation": {"replacement": False},
    "sequential": {"shuffle": False},
    "split": {"worker_partition": "split", "num_workers": 2, "multiprocessing_context": "fork"},
}


def make_loader(dataset: CachedDataset, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dataset.to_torch_dataloader(
            **{
                "batch_size": 4,
                "seed": 42,
                "num_workers": 0,
                "batch_transform_fn": lambda batch: (
                    batch.rows.tolist(),
                    batch.is_padding.tolist(),
                ),
                **options,
            }
        )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("samples_per_epoch", [7, 64])
@pytest.mark.parametrize("world_size", [1, 3])
def test_counts_are_those_of_the_batches_of_all_ranks(
    dataset: CachedDataset, order: str, drop_last: bool, samples_per_epoch: int, world_size: int
) -> None:
    loaders = [
        make_loader(
            dataset,
            rank=rank,
            world_size=world_size,
            samples_per_epoch=samples_per_epoch,
            drop_last=drop_last,
            **ORDERS[order],
        )
        for rank in range(world_size)
    ]
    for epoch in range(2):
        audit = loaders[-1].audit("number")
        rows: Counter[int] = Counter()
        padded = 0
        for loader in loaders:
            for batch_rows, is_padding in loader:
                padded += sum(is_padding)
                rows.update(
                    row for row, pads in zip(batch_rows, is_padding, strict=True) if not pads
                )
        assert audit.epoch == epoch
        assert (audit.drawn, audit.padded) == (rows.total(), padded)
        assert audit.dropped == samples_per_epoch - audit.drawn
        assert (audit.distinct, audit.repeated) == (len(rows), rows.total() - len(rows))
        assert (audit.rows, audit.unweighted_rows, audit.missing) == (50, 0, 50 - len(rows))
        assert [(count.value, count.rows, count.actual) for count in audit.classes] == [
            (row, 1, rows[row]) for row in range(50)
        ]
        assert sum(count.expected for count in audit.classes) == pytest.approx(audit.drawn)


def test_expected_counts_follow_the_weights(skewed: CachedDataset) -> None:
    audit = make_loader(skewed, samples_per_epoch=4900).audit("number")
    for count in audit.classes:
        assert count.expected == pytest.approx(4 * count.value)
    assert audit.unweighted_rows == 1
    assert audit.distinct + audit.missing == 49


def test_expected_counts_of_a_split_follow_the_weights_within_a_part(
    dataset: CachedDataset,
) -> None:
    dataset.set_weights([50.0] + [1.0] * 49)
    audit = make_loader(dataset, samples_per_epoch=1480, **ORDERS["split"]).audit("number")
    # The heavy row has 50 of the 74 of its part; ones have 1 of 74 there and 1 of 25 elsewhere.
    assert audit.classes[0].expected == pytest.approx(500)
    others = Counter(round(count.expected, 1) for count in audit.classes[1:])
    assert others == {10.0: 24, 29.6: 25}


def test_weights_that_only_filter_expect_equal_counts(dataset: CachedDataset) -> None:
    dataset.set_weights([0.0, 2.0] * 25)
    audit = make_loader(dataset, replacement=False, samples_per_epoch=50).audit("number")
    assert {count.expected for count in audit.classes} == {0.0, 2.0}
    assert {count.actual for count in audit.classes} == {0, 2}


def test_an_epoch_can_be_chosen(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, shuffle=False, samples_per_epoch=10)
    audit = loader.audit("number", epoch=2)
    assert [count.value for count in audit.classes if count.actual] == list(range(20, 30))
    assert loader.audit().epoch == 0
    with pytest.raises(ConfigError, match="epoch is -1"):
        loader.audit(epoch=-1)


def test_columns_of_the_table_alone_and_nulls_are_classes(dataset: CachedDataset) -> None:
    table = dataset.get_metadata()
    dataset.update_metadata(
        table.with_columns(kind=pl.Series([None if n % 5 == 0 else "ab"[n % 2] for n in range(50)]))
    )
    audit = make_loader(dataset, shuffle=False).audit("kind")
    assert audit.classes == (
        ClassCount("a", 20, 20.0, 20),
        ClassCount("b", 20, 20.0, 20),
        ClassCount(None, 10, 10.0, 10),
    )


def test_the_report_shows_the_first_classes(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, shuffle=False, samples_per_epoch=10)
    lines = str(loader.audit("number")).splitlines()
    assert lines[:4] == [
        "epoch 0: 10 of 10 samples drawn, 0 padded, 0 dropped",
        "50 rows: 10 drawn, 40 missing, 0 of weight 0; 0 draws repeat a row",
        "number  rows  expected  actual",
        "0          1       0.2       1",
    ]
    assert lines[-1] == "and 30 more"
    assert len(str(loader.audit()).splitlines()) == 2


def test_an_unknown_column_is_refused(dataset: CachedDataset) -> None:
    with pytest.raises(ConfigError, match="class_column is 'label', expected 'cache_id' or "):
        make_loader(dataset).audit("label")


def test_an_edited_or_closed_dataset_is_refused(
    open_numbers: Callable[..., CachedDataset],
) -> None:
    dataset = open_numbers()
    loader = make_loader(dataset)
    dataset.set_weights([1.0] + [0.0] * 49)
    with pytest.raises(DatasetRtError, match="the dataset was edited after this loader was made"):
        loader.audit()
    loader = make_loader(dataset)
    dataset.close()
    with pytest.raises(DatasetClosedError):
        loader.audit()
