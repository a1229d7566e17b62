"""Every example in a docstring of dataset_rt runs and gives what it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import dataset_rt

MODULES = [
    module.name
    for module in pkgutil.iter_modules(dataset_rt.__path__, "dataset_rt.")
    if module.name != "dataset_rt._core"
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
