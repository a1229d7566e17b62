"""Public names of the package, which are imported when they are used."""

from __future__ import annotations

import pytest

import dataset_rt_torch
from dataset_rt_torch import deferred


def test_all_public_names_are_there() -> None:
    assert sorted(deferred._MODULES) == sorted(dataset_rt_torch.__all__)
    assert set(dataset_rt_torch.__all__) <= set(dir(dataset_rt_torch))
    for name in dataset_rt_torch.__all__:
        assert getattr(dataset_rt_torch, name).__name__ == name


def test_other_names_are_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'dataset_rt_torch' has no attribute 'Loader'"):
        dataset_rt_torch.Loader  # type: ignore[attr-defined]  # noqa: B018
