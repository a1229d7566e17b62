"""The package as a whole: light to import, complete in its names, honest about its build."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import dataset_rt
from dataset_rt import _core, exceptions

HEAVY = ["polars", "torch", "pandas", "pyarrow", "tqdm", "dataset_rt_torch"]
# Needed soon by most programs, but not by all, and not by loading workers.
DEFERRED = ["pydantic", "multiprocessing"]


def run(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_import_pulls_in_nothing_heavy() -> None:
    names = [*HEAVY, *DEFERRED]
    script = f"import sys, dataset_rt; print([name for name in {names} if name in sys.modules])"
    assert run(script).strip() == "[]"


def test_names_that_are_imported_late_are_there_and_others_are_not() -> None:
    names = ["ReaderConfig", "ShardCompression", "WriterConfig", "WriterProfilerConfig"]
    script = f"""
import dataset_rt
assert set({names}) <= set(dir(dataset_rt))
assert "pack_arrays" in dir(dataset_rt)
from dataset_rt import *
print([globals()[name] is getattr(dataset_rt, name) for name in {names}])
"""
    assert run(script).strip() == "[True, True, True, True]"
    with pytest.raises(AttributeError, match="no attribute 'WriterConfiguration'"):
        _ = dataset_rt.WriterConfiguration  # type: ignore[attr-defined]


def test_writing_and_reading_pull_in_nothing_heavy() -> None:
    script = f"""
import sys, tempfile
import dataset_rt as drt

class Squares:
    name = "squares"

    def __iter__(self):
        for number in range(10):
            yield drt.CacheInput(str(number).encode(), {{"number": number}})

runtime = drt.DatasetRuntime(num_workers=1)
with tempfile.TemporaryDirectory() as base:
    dataset = runtime.from_cache_sources(Squares(), base).dataset
    dataset.set_weights([1.0] * 10)
    assert len(list(dataset)) == 10
    assert sum(len(batch.metadata["number"]) for batch in dataset.iter_batches(4)) == 10
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run(script).strip() == "[]"


def test_import_starts_no_thread() -> None:
    script = "import os, dataset_rt; print(len(os.listdir('/proc/self/task')))"
    if sys.platform != "linux":
        pytest.skip("counts threads in /proc")
    # NumPy's linear algebra starts threads of its own, so one without the other is the measure.
    environment = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; "
    assert run(environment + script).strip() == "1"


def test_every_public_name_exists_and_is_listed() -> None:
    assert sorted(dataset_rt.__all__) == sorted(set(dataset_rt.__all__))
    for name in dataset_rt.__all__:
        assert getattr(dataset_rt, name) is not None
    public = {
        name
        for name, value in vars(dataset_rt).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public <= set(dataset_rt.__all__)


def test_every_exception_is_public_and_ours() -> None:
    for name, value in vars(exceptions).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert name in dataset_rt.__all__
            assert issubclass(value, dataset_rt.DatasetRtError)


def test_the_version_is_that_of_the_distribution() -> None:
    assert dataset_rt.__version__ == importlib.metadata.version("dataset-rt-core")


def test_every_module_says_what_it_is_for() -> None:
    for module in pkgutil.iter_modules(dataset_rt.__path__, "dataset_rt."):
        documentation = importlib.import_module(module.name).__doc__
        assert documentation, module.name


def test_a_debug_build_warns_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataset_rt import build_profile  # noqa: PLC0415 - reloaded below

    monkeypatch.setattr(_core, "build_profile", "debug")
    with pytest.warns(UserWarning, match="debug build"):
        importlib.reload(build_profile)


def test_public_objects_have_docstrings() -> None:
    undocumented: list[str] = []
    for name in dataset_rt.__all__:
        value: Any = getattr(dataset_rt, name)
        if isinstance(value, type):
            members = {
                member: attribute
                for member, attribute in vars(value).items()
                if not member.startswith("_")
                and (callable(attribute) or isinstance(attribute, property))
            }
            undocumented += [f"{name}.{key}" for key, item in members.items() if not item.__doc__]
            if not value.__doc__:
                undocumented.append(name)
    assert undocumented == []
