"""The asv suite can be discovered, and its configuration builds what it measures."""

import subprocess
import sys
from pathlib import Path

from asv.config import Config  # type: ignore[import-untyped]

from dataset_rt_bench.cases.registry import CASES

ROOT = Path(__file__).parents[2]


def test_configuration_is_valid() -> None:
    config = Config.load(str(ROOT / "asv.conf.json"))
    assert (ROOT / config.benchmark_dir / "__init__.py").is_file()
    assert config.environment_type == "virtualenv"


def test_each_case_has_a_history() -> None:
    folder = ROOT / "packages" / "dataset-rt-bench" / "benchmarks"
    suite = "\n".join(path.read_text() for path in sorted(folder.glob("bench_*.py")))
    for name in CASES:
        assert f"``{name}``" in suite, name


def test_asv_accepts_all_benchmarks() -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "asv", "check", "-E", "existing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "No problems found" in completed.stdout
