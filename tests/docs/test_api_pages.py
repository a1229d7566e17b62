"""Every public name has its place in the API pages."""

import re
from types import ModuleType

import pytest

import dataset_rt
import dataset_rt_torch
from tests.docs.pages import ROOT

PACKAGES = (dataset_rt, dataset_rt_torch)
API_TEXT = "\n".join(page.read_text() for page in sorted(ROOT.glob("docs/api/*.md")))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_documented(package: ModuleType) -> None:
    missing = [name for name in package.__all__ if not re.search(rf"`{name}\b", API_TEXT)]
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_has_a_docstring(package: ModuleType) -> None:
    public = [name for name in package.__all__ if not name.startswith("__")]
    missing = [name for name in public if not (getattr(package, name).__doc__ or "").strip()]
    assert missing == []


def test_every_method_of_a_dataset_is_documented() -> None:
    methods = [name for name in vars(dataset_rt.CachedDataset) if not name.startswith("_")]
    missing = [name for name in methods if not re.search(rf"`(CachedDataset\.)?{name}\b", API_TEXT)]
    assert missing == []
