"""Counts what an epoch draws, over all ranks and without reading a payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_rt import _core, arguments
from dataset_rt.exceptions import DatasetRtError
from dataset_rt_torch.partition import Population, weights_of
from dataset_rt_torch.windows import windows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dataset_rt_torch.options import LoaderOptions
    from dataset_rt_torch.worker import OpenSnapshot

_MAX_SHOWN_CLASSES = 20
_MIN_CHUNK_DRAWS = 1 << 20


@dataclass(frozen=True, slots=True)
class ClassCount:
    """How often rows of one class are drawn in an epoch.

    Attributes:
        value: The value in the class column; None where it is null.
        rows: Active rows of the class.
        expected: Draws to expect on average, from the weights.
        actual: Draws of the epoch.
    """

    value: Any
    rows: int
    expected: float
    actual: int


@dataclass(frozen=True, slots=True)
class LoaderAudit:
    """What an epoch of a loader draws, over all ranks; ``str()`` of it is a report.

    Attributes:
        epoch: The number of the epoch.
        samples_per_epoch: Samples that were asked for.
        drawn: Draws of the epoch that reach a rank, padding not counted.
        padded: Further draws that make the ranks even.
        dropped: Draws of the epoch that no rank gets.
        rows: Active rows.
        unweighted_rows: Active rows that are never drawn, because their weight is 0.
        distinct: Rows that are drawn at least once.
        repeated: Draws of rows that the epoch has drawn before.
        missing: Rows that could be drawn and are not.
        class_column: The column that the classes are of, if one was named.
        classes: The counts of each class, in the order of the values.

    Example:
        >>> print(LoaderAudit(0, 10, 9, 0, 1, 20, 5, 8, 1, 7, None, ()))
        epoch 0: 9 of 10 samples drawn, 0 padded, 1 dropped
        20 rows: 8 drawn, 7 missing, 5 of weight 0; 1 draws repeat a row
    """

    epoch: int
    samples_per_epoch: int
    drawn: int
    padded: int
    dropped: int
    rows: int
    unweighted_rows: int
    distinct: int
    repeated: int
    missing: int
    class_column: str | None
    classes: tuple[ClassCount, ...]

    def __str__(self) -> str:
        """Return the counts, and a table of the classes."""
        report = (
            f"epoch {self.epoch}: {self.drawn} of {self.samples_per_epoch} samples drawn, "
            f"{self.padded} padded, {self.dropped} dropped\n"
            f"{self.rows} rows: {self.distinct} drawn, {self.missing} missing, "
            f"{self.unweighted_rows} of weight 0; {self.repeated} draws repeat a row"
        )
        if self.class_column is None:
            return report
        return "\n".join([report, *_table_of(self.class_column, self.classes)])


def audit_epoch(
    native: _core.Dataset,
    opened: OpenSnapshot,
    options: LoaderOptions,
    *,
    seed: int,
    epoch: int,
    class_column: str | None,
    fingerprint: str,
) -> LoaderAudit:
    """Count what an epoch draws over all ranks.

    Args:
        native: The dataset that the loader was made of, for its weights and classes.
        opened: The loader's snapshot.
        options: The loader's options.
        seed: The seed of the stream.
        epoch: The number of the epoch.
        class_column: A column to count the values of.
        fingerprint: The fingerprint of the table that the loader was made of.

    Raises:
        ConfigError: There is no such column.
        DatasetClosedError: The dataset was closed.
        DatasetRtError: The dataset was edited since.
    """
    if native.fingerprint != fingerprint:
        raise DatasetRtError(
            "the dataset was edited after this loader was made, and a loader keeps no metadata, "
            "expected the same table\nhint: make the loader anew, then audit it"
        )
    plan = _plan_of(options, options.topology.rank)
    counts = np.zeros(native.num_rows, np.int64)
    expected = np.zeros(native.num_rows, np.float64)
    weights = weights_of(native)
    if options.partition is None:
        start = epoch * options.samples_per_epoch
        drawn = min(options.samples_per_epoch, plan.samples_per_rank * options.topology.world_size)
        counts += _counts_of(opened.parts[0], start, start + drawn)
        # Without replacement weights are a filter.
        shares = weights if options.order == "weighted" else (weights > 0).astype(np.float64)
        expected += shares / shares.sum() * drawn
    else:
        population = Population(opened.snapshot.path, options.num_parts, seed=seed)
        for part, windows in _windows_by_part(options, seed=seed, epoch=epoch).items():
            restricted = population.restricted_to(part)
            drawn = 0
            for start, stop in windows:
                drawn += stop - start
                np.add.at(counts, restricted.draws(start, stop), 1)
            rows = population.rows_of(part)
            expected[rows] = weights[rows] / weights[rows].sum() * drawn
    can_be_drawn = int(np.count_nonzero(weights > 0))
    drawn, distinct = int(counts.sum()), int(np.count_nonzero(counts))
    return LoaderAudit(
        epoch=epoch,
        samples_per_epoch=options.samples_per_epoch,
        drawn=drawn,
        padded=plan.padded_samples,
        dropped=plan.dropped_samples,
        rows=native.num_rows,
        unweighted_rows=native.num_rows - can_be_drawn,
        distinct=distinct,
        repeated=drawn - distinct,
        missing=can_be_drawn - distinct,
        class_column=class_column,
        classes=()
        if class_column is None
        else _classes_of(native, class_column, counts=counts, expected=expected),
    )


def _plan_of(options: LoaderOptions, rank: int) -> _core.WindowPlan:
    return _core.WindowPlan(
        budget=options.samples_per_epoch,
        batch_size=options.batch_size,
        rank=rank,
        world_size=options.topology.world_size,
        drop_last=options.drop_last,
    )


def _counts_of(native: _core.Dataset, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return how often each row is drawn at these positions."""
    counts = np.zeros(native.num_rows, np.int64)
    chunk = max(native.num_rows, _MIN_CHUNK_DRAWS)
    for chunk_start in range(start, stop, chunk):
        rows = native.draws(chunk_start, min(chunk_start + chunk, stop))
        counts += np.bincount(rows, minlength=native.num_rows)
    return counts


def _windows_by_part(
    options: LoaderOptions, *, seed: int, epoch: int
) -> dict[int, list[tuple[int, int]]]:
    """Return the positions, padding left out, that are drawn from each part over all ranks."""
    windows: dict[int, list[tuple[int, int]]] = {}
    parts_per_rank = 1 if options.partition is None else options.partition.parts_per_rank
    for rank in range(options.topology.world_size):
        plan = _plan_of(options, rank)
        for window in windows_of(plan, seed=seed, epoch=epoch, num_parts=parts_per_rank):
            if window.start < window.padding_from:
                part = rank * parts_per_rank + window.part
                windows.setdefault(part, []).append((window.start, window.padding_from))
    return windows


def _classes_of(
    native: _core.Dataset,
    class_column: str,
    *,
    counts: npt.NDArray[np.int64],
    expected: npt.NDArray[np.float64],
) -> tuple[ClassCount, ...]:
    table = native.metadata_table()
    arguments.choice("class_column", class_column, tuple(table.column_names))
    # Polars takes long to import, and is only needed here.
    import polars as pl  # noqa: PLC0415

    from dataset_rt.metadata import frame_of_table  # noqa: PLC0415

    rows = pl.DataFrame(
        {
            "value": frame_of_table(table)[class_column],
            "expected": expected,
            "actual": counts,
        }
    )
    classes = rows.group_by("value").agg(
        pl.len().alias("rows"), pl.col("expected").sum(), pl.col("actual").sum()
    )
    return tuple(
        ClassCount(**count)
        for count in classes.sort("value", nulls_last=True).iter_rows(named=True)
    )


def _table_of(class_column: str, classes: tuple[ClassCount, ...]) -> Iterator[str]:
    shown = classes[:_MAX_SHOWN_CLASSES]
    cells = [
        (class_column, "rows", "expected", "actual"),
        *(
            (str(count.value), str(count.rows), f"{count.expected:.1f}", str(count.actual))
            for count in shown
        ),
    ]
    widths = [max(len(row[place]) for row in cells) for place in range(4)]
    for name, *numbers in cells:
        aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *aligned])
    if len(classes) > len(shown):
        yield f"and {len(classes) - len(shown)} more"
