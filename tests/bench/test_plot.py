"""The plot holds a curve for each contender, and says what it cannot draw."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dataset_rt_bench import plot
from dataset_rt_bench.cases.iterate import CASE as ITERATE_CASE
from dataset_rt_bench.cases.sizes import CASE
from dataset_rt_bench.cli import main
from dataset_rt_bench.report import to_json
from dataset_rt_bench.session import Outcome, Session
from dataset_rt_bench.timing import Measurement
from dataset_rt_bench.workload import Workload
from tests.bench.test_report import ENVIRONMENT

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing into the repository, should something be drawn that must not be."""
    monkeypatch.chdir(tmp_path)


def session() -> Session:
    outcomes = [
        Outcome(
            CASE,
            Workload(size, 1_000),
            [
                Measurement("dataset_rt", 1_000, (1.0, 2.0, 9.0)),
                Measurement("webdataset, in order", 500, (4.0, 4.0, 4.0)),
            ],
        )
        for size in (1 << 20, 1 << 10)
    ]
    other = replace(outcomes[0], case=ITERATE_CASE)
    return Session(ENVIRONMENT, 3, [other, *outcomes], None)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(to_json(session()))
    return path


def test_curves_are_medians_by_size() -> None:
    curves = plot.curves_of(json.loads(to_json(session())))
    assert list(curves) == ["dataset_rt", "webdataset, in order"]
    assert curves["dataset_rt"].record_bytes == [1 << 10, 1 << 20]
    assert curves["dataset_rt"].samples_per_second == [500.0, 500.0]
    assert curves["webdataset, in order"].megabytes_per_second == [0.128, 131.072]


def test_a_report_is_drawn(report: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / "throughput.png"
    assert main(["plot", str(report), str(image)]) == 0
    assert image.read_bytes().startswith(PNG_SIGNATURE)


def test_a_drawing_names_contenders_and_sizes(report: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / "throughput.svg"
    assert main(["plot", str(report), str(image)]) == 0
    drawing = image.read_text()
    # Text is drawn as shapes; its words stand beside them as comments.
    for text in ("dataset_rt", "webdataset, in order", "1 KiB", "1 MiB", "samples/s"):
        assert f"<!-- {text} -->" in drawing, text


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["plot", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    return captured.err


def test_a_report_without_the_sweep_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(to_json(replace(session(), outcomes=session().outcomes[:1])))
    message = refused([str(path), str(tmp_path / "image.png")], capsys)
    assert "has no figures of the case 'sizes'" in message
    assert "hint: " in message


@pytest.mark.parametrize("content", ["", "[]", "{}", '"text"'])
def test_what_is_no_report_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    assert "cannot be read as a report" in refused([str(path), "image.png"], capsys)


def test_a_report_of_another_version_is_refused(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(report.read_text())
    report.write_text(json.dumps({**document, "version": 1}))
    assert "is a report of version 1, expected 2" in refused([str(report), "image.png"], capsys)


def test_an_unknown_ending_is_refused(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "image.bmp ends in none of .png" in refused([str(report), "image.bmp"], capsys)


def test_missing_matplotlib_is_named_with_the_extra(
    report: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_module(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(plot, "import_module", no_module)
    message = refused([str(report), "image.png"], capsys)
    assert 'hint: install it with `pip install "dataset-rt-bench[plot]"`' in message
