"""The digits example: weights bring back the accuracy of classes that have become rare."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"
ROW = re.compile(
    r"^(?P<name>\S.*?)\s{2,}(?:(?P<rows>\d+)\s+)?(?P<plain>\d\.\d+)\s+(?P<even>\d\.\d+)$"
)


# Half a minute on an idle machine, most of it spent by workers on importing torch.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, re.Match[str]]:
    """Run the example as a user would, and read the table that it prints."""
    completed = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        cwd=tmp_path_factory.mktemp("digits"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == ""
    matches = [ROW.match(line) for line in completed.stdout.splitlines()[1:]]
    return {match["name"]: match for match in matches if match is not None}


def test_three_classes_keep_a_tenth_of_their_training_rows(
    table: dict[str, re.Match[str]],
) -> None:
    rows = {name: int(match["rows"]) for name, match in table.items() if match["rows"]}
    rare = [count for name, count in rows.items() if name.endswith("rare")]
    common = [count for name, count in rows.items() if not name.endswith("rare")]
    assert len(rare) == 3
    assert len(common) == 7
    assert max(rare) < min(common) / 8


def test_weighted_training_is_accurate_overall(table: dict[str, re.Match[str]]) -> None:
    assert float(table["overall"]["even"]) > 0.95


def test_weights_help_the_rare_classes(table: dict[str, re.Match[str]]) -> None:
    rare = table["all rare"]
    assert float(rare["even"]) > float(rare["plain"])
