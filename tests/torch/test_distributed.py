"""Ranks: which part of each global batch they load, and that they agree on what they load."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import multiprocessing
import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import dataset_rt_torch.distributed
from dataset_rt import ConfigError, DatasetRtError, DatasetRuntime, ReaderConfig
from tests.torch.loading import flat, number_of, numbers_of
from tests.torch.ranks import make_loaders

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event
    from pathlib import Path

    from dataset_rt import CachedDataset

RANK_TIMEOUT_SECONDS = 90


def test_padding_is_marked_in_a_batch(dataset: CachedDataset) -> None:
    loaders = make_loaders(
        dataset,
        2,
        batch_size=3,
        samples_per_epoch=9,
        sample_transform_fn=None,
        batch_transform_fn=lambda batch: (batch.positions.tolist(), batch.is_padding.tolist()),
    )
    assert list(loaders[0]) == [([0, 1, 2], [False] * 3), ([6, 7], [False] * 2)]
    assert list(loaders[1]) == [([3, 4, 5], [False] * 3), ([8, 9], [False, True])]


def test_rank_0_alone_warns_of_padding_and_dropping(dataset: CachedDataset) -> None:
    options: dict[str, Any] = {"batch_size": 2, "samples_per_epoch": 9, "world_size": 2, "seed": 1}
    with pytest.warns(UserWarning, match=r"each of 2 ranks gets 5 samples .*, 1 of all these"):
        dataset.to_torch_dataloader(rank=0, **options)
    with pytest.warns(UserWarning, match=r"each of 2 ranks gets 4 samples .*, 1 samples are drop"):
        dataset.to_torch_dataloader(rank=0, drop_last=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.to_torch_dataloader(rank=1, **options)
        dataset.to_torch_dataloader(rank=1, drop_last=True, **options)
        dataset.to_torch_dataloader(rank=0, **{**options, "samples_per_epoch": 8})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rank": 0}, "rank is given without world_size, expected both or neither"),
        ({"world_size": 2}, "world_size is given without rank, expected both or neither"),
        ({"rank": 2, "world_size": 2}, "rank is 2, expected an integer from 0 to 1"),
        ({"rank": 0, "world_size": 0}, "world_size is 0, expected an integer from 1"),
        ({"rank": 0, "world_size": 2}, "seed is 'random' with an explicit world_size of 2"),
    ],
)
def test_ranks_that_make_no_sense_are_refused(
    dataset: CachedDataset, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        dataset.to_torch_dataloader(**options)


class Remembering(logging.Handler):
    """Keeps warnings, and tells another process of the first."""

    def __init__(self, told: Event) -> None:
        super().__init__(logging.WARNING)
        self.told = told
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.told.set()


def run_rank(rank: int, meeting_file: str, cache: str, outcomes: Queue[Any], waited: Event) -> None:
    """Build several loaders on one rank of a real process group and report what came of each."""
    import torch.distributed as dist  # noqa: PLC0415 - only in processes of their own

    dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=rank, world_size=2)
    dataset = DatasetRuntime(num_workers=1).cached_dataset(
        cache, reader_config=ReaderConfig(seed=42)
    )
    cases: dict[str, dict[str, Any]] = {
        "same": {"seed": 42},
        "random seed": {},
        "other batch": {"seed": 42, "batch_size": 4 + rank},
        "fault on one rank": {"seed": 42, "samples_per_epoch": 24 if rank == 0 else 0},
        "explicit rank": {"seed": 42, "rank": 0, "world_size": 1, "batch_size": 8 + rank},
    }
    outcome: dict[str, Any] = {}
    for name, options in cases.items():
        try:
            loader: Any = dataset.to_torch_dataloader(
                **{
                    "batch_size": 4,
                    "samples_per_epoch": 24,
                    "sample_transform_fn": number_of,
                    "num_workers": 0,
                    **options,
                }
            )
        except ConfigError as error:
            outcome[name] = str(error)
        else:
            outcome[name] = (loader.seed, numbers_of(loader))
    if rank == 1:
        waited.wait(RANK_TIMEOUT_SECONDS)
    else:
        # The notice comes from a thread of its own while this rank waits for the other one.
        logging.getLogger("dataset_rt.loader").addHandler(handler := Remembering(waited))
        dataset_rt_torch.distributed.NOTICE_SECONDS = 0.01
    dataset.to_torch_dataloader(seed=42, num_workers=0)
    if rank == 0:
        outcome["notice"] = handler.messages
    dataset.set_weights([1.0 + rank] + [1.0] * (len(dataset) - 1))
    try:
        dataset.to_torch_dataloader(seed=42, num_workers=0)
    except ConfigError as error:
        outcome["other table"] = str(error)
    outcomes.put((rank, outcome))
    dist.destroy_process_group()


def run_ranks(target: Any, world_size: int, meeting_file: Path, cache: Path) -> list[Any]:
    """Run a function in a process for each rank, and return what each put into the queue."""
    context = multiprocessing.get_context("forkserver")
    queue = context.Queue()
    arguments = (str(meeting_file), str(cache), queue, context.Event())
    processes = [
        context.Process(target=target, args=(rank, *arguments), daemon=True)
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    by_rank = dict(queue.get(timeout=RANK_TIMEOUT_SECONDS) for _ in processes)
    for process in processes:
        process.join(RANK_TIMEOUT_SECONDS)
        assert process.exitcode == 0
    return [by_rank[rank] for rank in range(world_size)]


@pytest.fixture(scope="module")
def outcomes(
    write_numbers: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What each of two ranks of a gloo process group reported."""
    meeting_file = tmp_path_factory.mktemp("ranks") / "meeting"
    return run_ranks(run_rank, 2, meeting_file, write_numbers(50))


def test_ranks_of_a_process_group_share_the_global_batches(
    outcomes: list[dict[str, Any]], dataset: CachedDataset
) -> None:
    (_, first), (_, second) = (outcome["same"] for outcome in outcomes)
    assert [len(batch) for batch in first] == [4, 4, 4]
    together = flat(itertools.chain.from_iterable(zip(first, second, strict=True)))
    assert together == dataset.draws(0, 24).tolist()


def test_ranks_agree_on_a_random_seed(outcomes: list[dict[str, Any]]) -> None:
    (first_seed, _), (second_seed, _) = (outcome["random seed"] for outcome in outcomes)
    assert first_seed == second_seed


def test_different_options_are_refused_on_all_ranks(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert "ranks build different loaders" in outcome["other batch"]
        assert "batch_size: 4 on rank 0; 5 on rank 1" in outcome["other batch"]


def test_different_tables_are_refused_on_all_ranks(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert "active table: " in outcome["other table"]


def test_a_fault_of_one_rank_is_raised_on_all(outcomes: list[dict[str, Any]]) -> None:
    first, second = (outcome["fault on one rank"] for outcome in outcomes)
    assert first.splitlines()[0] == "another rank could not build its loader"
    assert "rank 1: ConfigError: samples_per_epoch is 0" in first
    assert second.startswith("samples_per_epoch is 0")


def test_explicit_ranks_win_over_the_process_group(outcomes: list[dict[str, Any]]) -> None:
    for rank, outcome in enumerate(outcomes):
        _, batches = outcome["explicit rank"]
        assert len(batches[0]) == 8 + rank
        assert len(flat(batches)) == 24


def test_a_rank_that_waits_for_the_others_says_so(outcomes: list[dict[str, Any]]) -> None:
    assert outcomes[0]["notice"][0].startswith("waiting for all 2 ranks to build this loader")


def run_rank_of_three(
    rank: int, meeting_file: str, cache: str, outcomes: Queue[Any], _waited: Event
) -> None:
    """Train on an uneven budget, compare other tables, then lose the last rank."""
    import torch.distributed as dist  # noqa: PLC0415 - only in processes of their own

    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting_file}",
        rank=rank,
        world_size=3,
        timeout=dt.timedelta(seconds=RANK_TIMEOUT_SECONDS / 2),
    )
    dataset = DatasetRuntime(num_workers=1).cached_dataset(
        cache, reader_config=ReaderConfig(seed=42)
    )

    def make_loader(**options: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = dataset.to_torch_dataloader(
                batch_size=4,
                seed=42,
                samples_per_epoch=50,
                sample_transform_fn=number_of,
                **options,
            )
        outcome["warnings"] = [str(warning.message) for warning in caught]
        return loader

    outcome: dict[str, Any] = {}
    loader = make_loader(num_workers=0)
    outcome["length"] = len(loader)
    outcome["epochs"] = [numbers_of(loader) for _ in range(2)]
    weighted = outcome.pop("warnings")
    dataset.set_weights([1.0] * 49 + [1.0 + rank // 2])
    try:
        make_loader(num_workers=0)
    except ConfigError as error:
        outcome["other table"] = str(error)
    outcomes.put((rank, {**outcome, "warnings": weighted}))
    outcomes.close()
    outcomes.join_thread()
    if rank == 2:
        # Dies without a word while the others build their next loader.
        os._exit(0)
    try:
        make_loader(num_workers=0)
    except DatasetRtError as error:
        os._exit(0 if "the 3 ranks cannot compare their loaders" in str(error) else 2)
    os._exit(1)


def test_three_ranks_with_an_uneven_budget_other_tables_and_a_death(
    write_numbers: Callable[[int], Path], tmp_path: Path, dataset: CachedDataset
) -> None:
    # That the exit codes are 0 says that the ranks which were left raised and did not hang.
    outcomes = run_ranks(run_rank_of_three, 3, tmp_path / "meeting", write_numbers(50))
    # 50 = 4 * 12 + 2, and of the last global batch each rank gets one sample.
    assert [outcome["length"] for outcome in outcomes] == [5, 5, 5]
    for epoch in range(2):
        batches = [outcome["epochs"][epoch] for outcome in outcomes]
        together = flat(itertools.chain.from_iterable(zip(*batches, strict=True)))
        assert together == dataset.draws(epoch * 50, epoch * 50 + 51).tolist()
    assert [len(outcome["warnings"]) for outcome in outcomes] == [1, 0, 0]
    assert "1 of all these samples are padding" in outcomes[0]["warnings"][0]
    for outcome in outcomes:
        assert "on rank 0, 1; " in outcome["other table"]
