"""The way to PyTorch: what to install where it is missing, and that options arrive as given."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest

from dataset_rt import CachedDataset

METHODS = ["to_torch_dataloader", "to_torch_dataset", "to_torch_iterable_dataset"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", ["dataset_rt_torch", "torch"])
def test_without_pytorch_the_message_says_what_to_install(
    numbers: CachedDataset, monkeypatch: pytest.MonkeyPatch, method: str, missing: str
) -> None:
    monkeypatch.delitem(sys.modules, "dataset_rt_torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(missing)])
    with pytest.raises(ImportError, match=r'hint: pip install "dataset-rt\[torch\]"') as caught:
        getattr(numbers, method)()
    assert caught.value.name == missing


def test_a_broken_installation_shows_as_it_is(
    numbers: CachedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "dataset_rt_torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent("cloudpickle")])
    with pytest.raises(ModuleNotFoundError, match="cloudpickle"):
        numbers.to_torch_dataset()


def test_every_option_is_handed_over(
    numbers: CachedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: dict[str, Any] = {}

    def make_dataloader(dataset: CachedDataset, **options: Any) -> str:
        received.update(options, dataset=dataset)
        return "loader"

    module: Any = ModuleType("dataset_rt_torch")
    module.make_dataloader = make_dataloader
    monkeypatch.setitem(sys.modules, "dataset_rt_torch", module)
    loader: Any = numbers.to_torch_dataloader(batch_size=8, seed=3)
    assert loader == "loader"
    signature = inspect.signature(CachedDataset.to_torch_dataloader).parameters
    defaults = {name: parameter.default for name, parameter in signature.items() if name != "self"}
    assert received == {**defaults, "batch_size": 8, "seed": 3, "dataset": numbers}
    assert all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY
        for name, parameter in signature.items()
        if name != "self"
    )


class Absent:
    """Finds dataset_rt_torch as a module that needs another one, which is absent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        assert name == "dataset_rt_torch"
        raise ModuleNotFoundError(f"No module named {self.name!r}", name=self.name)
