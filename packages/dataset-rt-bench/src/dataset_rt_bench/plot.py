"""Draws throughput against record size for all contenders, from a report in JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dataset_rt_bench.cases.sizes import CASE
from dataset_rt_bench.report import JSON_VERSION
from dataset_rt_bench.workload import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg", ".pdf")
OWN_COLOR: Final = "black"


class PlotError(RuntimeError):
    """A plot cannot be drawn; the message says why."""


@dataclass
class Curve:
    """The median rate of one contender at each record size.

    Example:
        >>> Curve([1_000], [2_000_000.0]).megabytes_per_second
        [2000.0]
    """

    record_bytes: list[int] = field(default_factory=list)
    samples_per_second: list[float] = field(default_factory=list)

    @property
    def megabytes_per_second(self) -> list[float]:
        """The same rates in payload bytes."""
        pairs = zip(self.record_bytes, self.samples_per_second, strict=True)
        return [size * rate / 1e6 for size, rate in pairs]


def draw_report(report_path: Path, image_path: Path) -> None:
    """Draw a report that ``--json`` wrote.

    Raises:
        PlotError: The report cannot be read or has no curves, the image's name has no known ending,
            or matplotlib is not installed.
    """
    if image_path.suffix.lower() not in SUFFIXES:
        raise PlotError(f"{image_path} ends in none of {', '.join(SUFFIXES)}")
    document = _read(report_path)
    curves = curves_of(document)
    if not curves:
        raise PlotError(
            f"{report_path} has no figures of the case {CASE.name!r}\n"
            f"hint: measure them with `--cases {CASE.name} --json {report_path}`"
        )
    figure = _figure(curves, _subtitle(document))
    figure.savefig(image_path, dpi=150)


def curves_of(document: Mapping[str, Any]) -> dict[str, Curve]:
    """Return the curves in a report, by contender."""
    curves: dict[str, Curve] = {}
    outcomes = [outcome for outcome in document["outcomes"] if outcome["case"] == CASE.name]
    for outcome in sorted(outcomes, key=lambda outcome: outcome["record_bytes"]):
        for contender in outcome["contenders"]:
            curve = curves.setdefault(contender["name"], Curve())
            curve.record_bytes.append(outcome["record_bytes"])
            curve.samples_per_second.append(contender["items"] / contender["median_seconds"])
    return curves


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = document["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlotError(f"{path} cannot be read as a report: {error}") from error
    if found != JSON_VERSION:
        raise PlotError(f"{path} is a report of version {found}, expected {JSON_VERSION}")
    return document


def _subtitle(document: Mapping[str, Any]) -> str:
    environment = document["environment"]
    return (
        f"{environment['processor']}, {environment['usable_cpus']} CPUs, warm page cache, "
        f"medians of {document['repeats']} interleaved runs; dataset_rt verifies checksums"
    )


def _figure(curves: Mapping[str, Curve], subtitle: str) -> "Figure":
    try:
        figure_module = import_module("matplotlib.figure")
    except ImportError as error:
        raise PlotError(
            f"matplotlib cannot be imported: {error}\n"
            'hint: install it with `pip install "dataset-rt-bench[plot]"`'
        ) from error
    figure: Figure = figure_module.Figure(figsize=(11, 5.4), layout="constrained")
    figure.suptitle(
        f"Shuffled samples with metadata, one by one; dashed: batches, or stored order\n{subtitle}",
        fontsize=10,
    )
    left, right = figure.subplots(1, 2)
    for name, curve in curves.items():
        style = _style(name)
        left.plot(curve.record_bytes, curve.megabytes_per_second, label=name, **style)
        right.plot(curve.record_bytes, curve.samples_per_second, label=name, **style)
    sizes = sorted({size for curve in curves.values() for size in curve.record_bytes})
    _set_axes(left, sizes, "payload MB/s")
    _set_axes(right, sizes, "samples/s")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return figure


def _style(name: str) -> dict[str, Any]:
    """Set DatasetRT off from the others, and dash what is not samples in shuffled order."""
    is_own = name.startswith(CASE.subject)
    style: dict[str, Any] = {
        "marker": "o",
        "markersize": 4,
        "linewidth": 2.4 if is_own else 1.4,
        "linestyle": "--" if "," in name else "-",
        "zorder": 3 if is_own else 2,
    }
    if is_own:
        style["color"] = OWN_COLOR
    return style


def _set_axes(axes: "Axes", sizes: list[int], label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [format_bytes(size) for size in sizes], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("payload of a record")
    axes.set_ylabel(label)
    axes.grid(visible=True, which="major", alpha=0.3)
