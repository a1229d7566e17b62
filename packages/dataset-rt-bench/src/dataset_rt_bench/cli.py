"""The command line of the portable benchmark: its arguments, and nothing else."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from dataset_rt_bench import __version__
from dataset_rt_bench.cases.registry import CASES
from dataset_rt_bench.environment import DebugBuildError
from dataset_rt_bench.plot import PlotError, draw_report
from dataset_rt_bench.report import to_json, to_markdown
from dataset_rt_bench.session import Plan, run_plan
from dataset_rt_bench.timing import DEFAULT_REPEATS
from dataset_rt_bench.workload import (
    MANY_ROWS,
    QUICK_MANY_ROWS,
    QUICK_RECORD_WORKLOADS,
    QUICK_SWEEP_WORKLOADS,
    RECORD_WORKLOADS,
    SWEEP_WORKLOADS,
    Workload,
    parse_workload,
    row_workload,
)
from dataset_rt_bench.workspace import Workspace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, or draw an earlier report; return the exit status.

    Args:
        arguments: The command line without the program's name; None takes that of the process.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["plot"]:
        return _plot(arguments[1:])
    return _measure(_parser().parse_args(arguments))


def _measure(options: argparse.Namespace) -> int:
    plan = Plan(
        cases=[CASES[name] for name in options.cases],
        record_workloads=options.sizes
        or (QUICK_RECORD_WORKLOADS if options.quick else RECORD_WORKLOADS),
        row_workload=row_workload(
            options.rows or (QUICK_MANY_ROWS if options.quick else MANY_ROWS)
        ),
        sweep_workloads=options.sizes
        or (QUICK_SWEEP_WORKLOADS if options.quick else SWEEP_WORKLOADS),
        repeats=options.repeats,
    )
    with ExitStack() as stack:
        directory = options.directory or Path(
            stack.enter_context(TemporaryDirectory(prefix="dataset-rt-bench-"))
        )
        try:
            session = run_plan(plan, Workspace(directory), _print_progress)
        except DebugBuildError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    markdown = to_markdown(session)
    sys.stdout.write(markdown)
    if options.markdown is not None:
        options.markdown.write_text(markdown, encoding="utf-8")
    if options.json is not None:
        options.json.write_text(to_json(session), encoding="utf-8")
    return 0


def _plot(arguments: Sequence[str]) -> int:
    options = _plot_parser().parse_args(arguments)
    try:
        draw_report(options.report, options.image)
    except PlotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _print_progress(title: str) -> None:
    print(title, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dataset-rt-bench",
        description="Measure DatasetRT side by side with what people use instead of it.",
        epilog="Figures are ratios between contenders of one run; seconds differ between machines. "
        "`dataset-rt-bench plot REPORT IMAGE` draws a JSON report of the case `sizes`.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="use small data: a first impression in a minute"
    )
    parser.add_argument(
        "--cases",
        nargs="+",
        choices=sorted(CASES),
        default=list(CASES),
        metavar="CASE",
        help=f"which cases to run (default: all of {', '.join(CASES)})",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=_workload,
        metavar="SIZE",
        help="payload size x records, such as 1KiBx200000, for the cases about record size "
        "and for the case `sizes`",
    )
    parser.add_argument(
        "--rows",
        type=_positive,
        metavar="N",
        help="how many rows `many` is, for the cases about the number of rows",
    )
    parser.add_argument(
        "--repeats",
        type=_positive,
        default=DEFAULT_REPEATS,
        metavar="N",
        help="timed runs of each contender (default: %(default)s)",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the printed report to a file"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times as JSON")
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="work here and keep prepared data for the next run (default: a temporary directory)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _plot_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dataset-rt-bench plot",
        description="Draw throughput against record size, from a JSON report of the case `sizes`.",
    )
    parser.add_argument("report", type=Path, help="what `--json` wrote")
    parser.add_argument("image", type=Path, help="the file to draw to: .png, .svg or .pdf")
    return parser


def _workload(text: str) -> Workload:
    try:
        return parse_workload(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number
