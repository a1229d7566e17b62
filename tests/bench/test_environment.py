"""A debug build is refused, and the report says what it was measured on."""

from pathlib import Path

import pytest

from dataset_rt import _core
from dataset_rt_bench.environment import DebugBuildError, describe, require_release_build
from dataset_rt_bench.session import Plan, run_plan
from dataset_rt_bench.workload import row_workload
from dataset_rt_bench.workspace import Workspace


def test_a_debug_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "build_profile", "debug")
    with pytest.raises(DebugBuildError, match="is a debug build, expected a release build"):
        require_release_build()


def test_nothing_is_measured_on_a_debug_build(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace
) -> None:
    monkeypatch.setattr(_core, "build_profile", "debug")
    plan = Plan(
        cases=[], record_workloads=[], row_workload=row_workload(10), sweep_workloads=[], repeats=1
    )
    with pytest.raises(DebugBuildError):
        run_plan(plan, workspace)


def test_a_release_build_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "build_profile", "release")
    require_release_build()


def test_the_description_names_versions_and_machine(tmp_path: Path) -> None:
    environment = describe(tmp_path)
    assert environment.versions["dataset-rt-core"] == "0.5.0"
    assert set(environment.versions) >= {"python", "torch", "numpy", "lmdb"}
    assert 1 <= environment.usable_cpus <= environment.logical_cpus
    assert environment.processor
