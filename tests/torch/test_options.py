"""The loader's arguments: each wrong one is refused with its name, automatic ones are decided."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import ConfigError, WeightError
from tests.torch.loading import FAST_WORKERS, number_of, numbers_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt import CachedDataset


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_size": 0}, "batch_size is 0, expected an integer from 1"),
        ({"batch_size": True}, "batch_size is True, expected an integer from 1"),
        ({"batch_size": 2.0}, "batch_size is 2.0, expected an integer from 1"),
        ({"samples_per_epoch": 0}, "samples_per_epoch is 0, expected an integer from 1"),
        ({"seed": -1}, "seed is -1, expected an integer from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed is 18446744073709551616, expected an integer from 0"),
        ({"seed": "fixed"}, "seed is 'fixed', expected an integer or 'random'"),
        ({"seed": None}, "seed is None, expected an integer from 0"),
        ({"shuffle": 1}, "shuffle is 1, expected True or False"),
        ({"replacement": "no"}, "replacement is 'no', expected True or False"),
        ({"drop_last": None}, "drop_last is None, expected True or False"),
        ({"pin_memory": 0}, "pin_memory is 0, expected True or False"),
        ({"verbose": "yes"}, "verbose is 'yes', expected True or False"),
        ({"num_workers": -1}, "num_workers is -1, expected an integer from 0"),
        ({"num_workers": "all"}, "num_workers is 'all', expected a number or 'auto'"),
        ({"num_workers": False}, "num_workers is False, expected an integer from 0"),
        ({"native_num_workers": 0}, "native_num_workers is 0, expected an integer from 1"),
        ({"native_num_workers": "x"}, "native_num_workers is 'x', expected a number or 'auto'"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0, expected an integer from 1"),
        ({"persistent_workers": 1}, "persistent_workers is 1, expected True or False"),
        (
            {"persistent_workers": True, "num_workers": 0},
            "persistent_workers is True with num_workers=0, expected 'auto'",
        ),
        ({"timeout": -1}, "timeout is -1, expected a number of seconds"),
        ({"timeout": float("nan")}, "timeout is nan, expected a number of seconds"),
        ({"timeout": "1s"}, "timeout is '1s', expected a number of seconds"),
        ({"multiprocessing_context": "thread"}, "multiprocessing_context is 'thread', expected"),
        ({"multiprocessing_context": 3}, "multiprocessing_context is 3, expected 'spawn' or"),
        ({"sample_transform_fn": "decode"}, "sample_transform_fn is 'decode', expected a function"),
        ({"collate_fn": 1}, "collate_fn is 1, expected a function or None"),
        ({"worker_init_fn": []}, r"worker_init_fn is \[\], expected a function or None"),
        (
            {"batch_transform_fn": len, "sample_transform_fn": len},
            "batch_transform_fn and sample_transform_fn are both given",
        ),
        (
            {"batch_transform_fn": len, "collate_fn": len},
            "batch_transform_fn and collate_fn are both given",
        ),
        ({"worker_partition": "all"}, "worker_partition is 'all', expected 'replicate' or 'split'"),
        ({"decode": "pickle"}, "decode is 'pickle', expected 'arrays'"),
        (
            {"decode": "arrays", "collate_fn": list},
            "decode and collate_fn are both given, expected one of them",
        ),
        ({"work_dir": 3}, "work_dir is 3, expected a path"),
        ({"dataloader_kwargs": ["in_order"]}, "dataloader_kwargs is .*, expected a mapping"),
        ({"dataloader_kwargs": {"batch_size": 2}}, "dataloader_kwargs has 'batch_size', expected"),
        ({"dataloader_kwargs": {"seed": 2}}, "dataloader_kwargs has 'seed', expected that as an"),
        ({"dataloader_kwargs": {"dataset": 2}}, "dataloader_kwargs has 'dataset', expected none"),
        ({"dataloader_kwargs": {"sampler": 2}}, "dataloader_kwargs has 'sampler', expected none"),
        ({"dataloader_kwargs": {"batch_sampler": 2}}, "dataloader_kwargs has 'batch_sampler'"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(
    dataset: CachedDataset, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        dataset.to_torch_dataloader(**options)


def test_torch_judges_further_arguments(dataset: CachedDataset) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        dataset.to_torch_dataloader(dataloader_kwargs={"no_such_option": 1})


def test_weights_that_the_order_would_ignore_are_refused(skewed: CachedDataset) -> None:
    with pytest.raises(WeightError):
        skewed.to_torch_dataloader(replacement=False, num_workers=0)


def test_torch_options_of_workers_may_stay_without_workers(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        num_workers=0,
        prefetch_factor=4,
        persistent_workers=False,
        timeout=5,
        multiprocessing_context="spawn",
        worker_init_fn=print,
        batch_size=25,
    )
    assert len(list(loader)) == 2


@pytest.mark.parametrize("context", ["fork", "forkserver", "inherit", "object"])
def test_workers_start_in_any_context(dataset: CachedDataset, context: str) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=25,
        shuffle=False,
        sample_transform_fn=number_of,
        num_workers=1,
        multiprocessing_context=multiprocessing.get_context("forkserver")
        if context == "object"
        else context,
    )
    assert numbers_of(loader) == [list(range(25)), list(range(25, 50))]


def test_worker_init_fn_runs_in_each_worker(dataset: CachedDataset) -> None:
    def remember(worker: int) -> None:
        import os  # noqa: PLC0415

        os.environ["DATASET_RT_TEST_WORKER"] = str(worker)

    def remembered(_sample: Any) -> str:
        import os  # noqa: PLC0415

        return os.environ["DATASET_RT_TEST_WORKER"]

    loader = dataset.to_torch_dataloader(
        batch_size=25,
        sample_transform_fn=remembered,
        worker_init_fn=remember,
        num_workers=2,
        **FAST_WORKERS,
    )
    assert [set(batch) for batch in loader] == [{"0"}, {"1"}]


@pytest.mark.parametrize(
    ("cores", "local_ranks", "num_workers", "native_num_workers"),
    [(1, 1, 0, 1), (4, 1, 3, 1), (16, 2, 7, 1), (64, 1, 8, 8), (2, 8, 0, 1)],
)
def test_automatic_counts_share_the_cores_among_local_ranks(  # noqa: PLR0917
    dataset: CachedDataset,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    local_ranks: int,
    num_workers: int,
    native_num_workers: int,
) -> None:
    monkeypatch.setattr("dataset_rt._core.available_parallelism", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(local_ranks))
    loader: Any = dataset.to_torch_dataloader(sample_transform_fn=number_of, **FAST_WORKERS)
    assert loader.num_workers == num_workers
    assert loader._options.native_num_workers == native_num_workers


def test_automatic_workers_need_something_to_do(
    dataset: CachedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataset_rt._core.available_parallelism", lambda: 8)
    assert dataset.to_torch_dataloader().num_workers == 0


def test_choices_are_logged_and_not_printed(
    dataset: CachedDataset, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="dataset_rt.loader"):
        dataset.to_torch_dataloader(batch_size=8, num_workers=0, native_num_workers=3)
    assert "7 batches of 8" in caplog.text
    assert "num_workers=0, native_num_workers=3" in caplog.text
    assert capsys.readouterr() == ("", "")


def test_verbose_prints_the_choices(
    dataset: CachedDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset.to_torch_dataloader(batch_size=8, num_workers=0, verbose=True)
    assert "dataset_rt.loader: 7 batches of 8" in capsys.readouterr().err


def test_work_dir_is_made_and_holds_the_snapshot(dataset: CachedDataset, tmp_path: Path) -> None:
    work_dir = tmp_path / "a" / "b"
    loader = dataset.to_torch_dataloader(num_workers=0, work_dir=work_dir)
    assert len(list(work_dir.iterdir())) == 1
    del loader
    assert list(work_dir.iterdir()) == []


def test_a_daemonic_process_loads_by_itself(
    dataset: CachedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    monkeypatch.setitem(configuration, "daemon", True)
    monkeypatch.setattr("dataset_rt_torch.options.shared_parallelism", lambda: 4)
    loader = dataset.to_torch_dataloader(sample_transform_fn=number_of)
    assert loader.num_workers == 0
    with pytest.raises(ConfigError, match="num_workers is 2 in a daemonic process, expected 0 or"):
        dataset.to_torch_dataloader(num_workers=2)


def test_a_loader_is_neither_pickled_nor_copied(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"^a loader cannot be pickled or copied: it owns"):
            attempt(loader)
