"""The command line measures what is asked for, and writes Markdown and JSON."""

import json
import re
from pathlib import Path

import pytest

from dataset_rt import _core
from dataset_rt_bench.cli import main

TINY = ["--quick", "--repeats", "2", "--sizes", "64x300", "--rows", "1_500"]


@pytest.fixture(autouse=True)
def release_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test the command line whatever the build: nothing here is about speed."""
    monkeypatch.setattr(_core, "build_profile", "release")


def test_quick_run_writes_markdown_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_path = tmp_path / "report.json"
    cases = ["iterate", "batch", "loader", "write", "open"]
    status = main(
        [
            *[*TINY, "--cases", *cases, "--directory", str(tmp_path / "work")],
            *["--json", str(json_path), "--markdown", str(tmp_path / "report.md")],
        ]
    )
    assert status == 0

    markdown = capsys.readouterr().out
    assert (tmp_path / "report.md").read_text() == markdown
    assert re.search(r"^- build: release$", markdown, re.MULTILINE)
    titles = re.findall(r"^### (\S+), (.+)$", markdown, re.MULTILINE)
    assert titles == [(case, "8 B x 1,500" if case == "open" else "64 B x 300") for case in cases]
    assert re.search(r"^\| lmdb \| [\d,]+ \| [\d,]+ \| \d+\.\d\d \| ", markdown, re.MULTILINE)

    document = json.loads(json_path.read_text())
    assert [outcome["case"] for outcome in document["outcomes"]] == cases
    subject, *others = document["outcomes"][0]["contenders"]
    assert subject["name"] == document["outcomes"][0]["subject"]
    assert len(subject["seconds"]) == 2
    assert {other["name"] for other in others} >= {"numpy array", "numpy memmap", "lmdb"}
    assert all(other["ratio"]["of_medians"] > 0 for other in others)


def test_a_directory_keeps_prepared_data(tmp_path: Path) -> None:
    main([*TINY, "--cases", "open", "--directory", str(tmp_path)])
    assert len(list((tmp_path / "caches").iterdir())) == 2


def test_a_debug_build_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_core, "build_profile", "debug")
    assert main([*TINY, "--directory", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: dataset_rt._core is a debug build")
    assert "hint: " in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases", "nothing"], "invalid choice: 'nothing'"),
        (["--sizes", "big"], "size 'big' is not of the form 1KiBx200000"),
        (["--repeats", "0"], "'0' is not a positive integer"),
        (["--rows", "many"], "'many' is not a positive integer"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err
