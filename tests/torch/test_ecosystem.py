"""Trainers and launchers of others: they take the loader as it is, or are told that they cannot."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils.data import DataLoader

from dataset_rt import ConfigError, DatasetRuntime
from tests.torch.loading import number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import Queue
    from pathlib import Path

    from dataset_rt import CachedDataset

RANK_SECONDS = 90


def make_loader(dataset: CachedDataset, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 8,
            "seed": 1,
            "sample_transform_fn": number_of,
            "num_workers": 0,
            **options,
        }
    )


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_the_protocol_of_stateful_loaders_is_spoken(dataset: CachedDataset) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    loader = make_loader(dataset)
    assert isinstance(loader, Stateful)
    assert isinstance(loader, torchdata.Stateful)
    # Its loader, used the same way, is the measure of what the calls mean.
    makers: dict[str, Callable[[], Any]] = {
        "ours": lambda: make_loader(dataset, shuffle=False),
        "theirs": lambda: torchdata.StatefulDataLoader(list(range(50)), batch_size=8),
    }
    for kind, make in makers.items():
        saving, resumed = make(), make()
        batches = iter(saving)
        first = [next(batches).tolist() for _ in range(3)]
        resumed.load_state_dict(saving.state_dict())
        rest = [batch.tolist() for batch in resumed]
        whole = [list(range(start, min(start + 8, 50))) for start in range(0, 50, 8)]
        assert first + rest == whole, kind


def test_a_loader_made_of_the_parts_of_another_is_refused(dataset: CachedDataset) -> None:
    loader = make_loader(dataset)
    copy: DataLoader[Any] = DataLoader(
        loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn
    )
    with pytest.raises(ConfigError, match="expected the loader itself to be iterated"):
        iter(copy)
    assert len(numbers_of(loader)) == 7


def test_accelerate_takes_the_loader_and_its_state(dataset: CachedDataset, tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = make_loader(dataset)
    assert accelerator.prepare(loader) is loader
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    accelerator.save_state(tmp_path / "checkpoint")
    expected = numbers_of(batches) + numbers_of(loader)
    accelerator.free_memory()
    resumed = accelerator.prepare(make_loader(dataset))
    accelerator.load_state(tmp_path / "checkpoint")
    assert numbers_of(resumed) + numbers_of(resumed) == expected
    with pytest.raises(ConfigError, match="with load_state_dict to begin within an epoch"):
        next(iter(accelerate.skip_first_batches(loader, 2)))
    accelerator.free_memory()


def run_accelerated(rank: int, port: int, cache: Path, outcomes: Queue[Any]) -> None:
    """Train on one rank of Accelerate, as a launcher of its would start it."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    from accelerate import Accelerator  # noqa: PLC0415 - it looks at the environment

    dataset = DatasetRuntime(num_workers=1).cached_dataset(cache)
    options = {"batch_size": 6, "samples_per_epoch": 48}
    early = make_loader(dataset, **options)
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(make_loader(dataset, **options))
    together = [accelerator.gather(batch).tolist() for batch in loader]
    try:
        next(iter(early))
    except ConfigError as error:
        outcomes.put((len(loader), together, str(error)))
    accelerator.end_training()


def test_two_processes_of_accelerate_share_the_batches_once(
    write_numbers: Callable[[int], Path], open_numbers: Callable[..., CachedDataset]
) -> None:
    pytest.importorskip("accelerate")
    context = multiprocessing.get_context("forkserver")
    outcomes: Queue[Any] = context.Queue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        context.Process(
            target=run_accelerated, args=(rank, port, write_numbers(50), outcomes), daemon=True
        )
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    found = [outcomes.get(timeout=RANK_SECONDS) for _ in ranks]
    for process in ranks:
        process.join(RANK_SECONDS)
        assert process.exitcode == 0
    drawn = open_numbers(seed=1).draws(0, 48).tolist()
    for num_batches, together, early in found:
        assert num_batches == 4
        assert [number for batch in together for number in batch] == drawn
        assert early.startswith("this loader was made before torch.distributed had its 2 ranks, so")


# Of the installed PyTorch, not of anything that is done here.
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_lightning_resumes_within_an_epoch_by_its_own_loop_state(
    dataset: CachedDataset, tmp_path: Path, num_workers: int
) -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    callbacks = pytest.importorskip("pytorch_lightning.callbacks")

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def training_step(self, batch: torch.Tensor, _batch_index: int) -> torch.Tensor:
            self.seen.append(batch.tolist())
            squares: torch.Tensor = self.layer(batch[:, None].float()).square()
            return squares.mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1e-9)

    def fit(max_epochs: int, checkpoint: Path | None = None) -> list[list[int]]:
        model = Model()
        saving = callbacks.ModelCheckpoint(
            tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1
        )
        trainer = lightning.Trainer(
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=checkpoint is None,
            callbacks=[saving] if checkpoint is None else [],
            max_epochs=max_epochs,
        )
        loader = make_loader(dataset, num_workers=num_workers, multiprocessing_context="fork")
        trainer.fit(model, loader, ckpt_path=checkpoint)
        return model.seen

    passes = make_loader(dataset)
    expected = [batch for _ in range(3) for batch in numbers_of(passes)]
    assert fit(max_epochs=2) == expected[:14]
    # Within the first epoch, at its exact end, within the second.
    for step in (3, 7, 10):
        assert fit(max_epochs=3, checkpoint=tmp_path / f"step={step}.ckpt") == expected[step:]
