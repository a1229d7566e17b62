"""What the tests of the benchmark share: one workspace, so that data is prepared once."""

from pathlib import Path

import pytest

from dataset_rt_bench.workspace import Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(Path(tmp_path_factory.mktemp("bench")))
