"""Writes measurements down: a Markdown report for people, JSON for programs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from dataset_rt_bench.goals import fact_limit, goal, rate_goal
from dataset_rt_bench.session import Outcome, Session
from dataset_rt_bench.timing import Measurement, ratio

JSON_VERSION: Final = 2


def to_markdown(session: Session) -> str:
    """Return the report as Markdown, one table per case and workload."""
    blocks = [_environment_lines(session), *(_outcome_lines(each) for each in session.outcomes)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def to_json(session: Session) -> str:
    """Return all times, medians and ratios as JSON."""
    document = {
        "version": JSON_VERSION,
        "environment": asdict(session.environment),
        "load_average_after": session.load_average_after,
        "repeats": session.repeats,
        "outcomes": [_outcome_document(outcome) for outcome in session.outcomes],
    }
    return json.dumps(document, indent=2) + "\n"


def _environment_lines(session: Session) -> list[str]:
    environment = session.environment
    versions = ", ".join(f"{name} {number}" for name, number in environment.versions.items())
    system = [
        environment.operating_system,
        environment.processor,
        f"{environment.usable_cpus} of {environment.logical_cpus} CPUs usable",
    ]
    if environment.memory_bytes is not None:
        system.append(f"{environment.memory_bytes / (1 << 30):.0f} GiB memory")
    if environment.file_system is not None:
        system.append(environment.file_system)
    load = f"{_load(environment.load_average)} before, {_load(session.load_average_after)} after"
    reading = (
        "ratio = how many times as fast as the contender the first one is "
        "(ratio of the medians; the range is over the repeats)"
    )
    return [
        f"- build: {environment.build_profile}",
        f"- versions: {versions}",
        f"- system: {', '.join(system)}",
        f"- load average: {load}",
        f"- {session.repeats} interleaved repeats; {reading}",
    ]


def _load(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _outcome_lines(outcome: Outcome) -> list[str]:
    case, workload = outcome.case, outcome.workload
    lines = [
        f"### {case.name}, {workload.title}",
        "",
        f"{case.question[:1].upper()}{case.question[1:]}.",
    ]
    if outcome.measurements:
        facts = _fact_names(outcome)
        columns = ["contender", *_rate_columns(outcome), *facts, "ratio", "range", "goal"]
        lines += [
            "",
            _row(columns),
            _row(["---", *["---:"] * (len(columns) - 1)]),
            *(_row(cells) for cells in _contender_cells(outcome, facts)),
        ]
    if outcome.skipped:
        reasons = (f"{name} ({reason})" for name, reason in outcome.skipped.items())
        lines += ["", f"Skipped: {'; '.join(reasons)}."]
    return lines


def _fact_names(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(fact for each in outcome.measurements for fact in each.facts))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _moves_bytes(outcome: Outcome) -> bool:
    """Whether bytes per second say anything: not where payloads are tiny on purpose."""
    return outcome.case.scale != "row_count"


def _rate_columns(outcome: Outcome) -> list[str]:
    rate = f"{outcome.case.item}/s"
    return [rate, "MB/s"] if _moves_bytes(outcome) else [rate]


def _contender_cells(outcome: Outcome, facts: list[str]) -> Iterator[list[str]]:
    for measurement in outcome.measurements:
        rate = measurement.items_per_second
        cells = [measurement.contender, f"{rate:,.0f}"]
        if _moves_bytes(outcome):
            cells.append(f"{rate * outcome.workload.record_bytes / 1e6:,.0f}")
        cells += [
            f"{measurement.facts[fact]:,.1f}" if fact in measurement.facts else "" for fact in facts
        ]
        yield cells + _ratio_cells(outcome, measurement)


def _ratio_cells(outcome: Outcome, measurement: Measurement) -> list[str]:
    if measurement.contender == outcome.case.subject:
        return ["", "", _verdict_on_subject(outcome)]
    found = ratio(outcome.subject, measurement)
    wanted = goal(outcome.case.name, measurement.contender, outcome.workload.record_bytes)
    verdict = ""
    if wanted is not None:
        verdict = f"{wanted:.2f} {_met(found.of_medians >= wanted)}"
    return [f"{found.of_medians:.2f}", f"{found.lowest:.2f} to {found.highest:.2f}", verdict]


def _verdict_on_subject(outcome: Outcome) -> str:
    case, subject = outcome.case.name, outcome.subject
    verdicts = []
    wanted = rate_goal(case, outcome.workload.record_bytes)
    if wanted is not None:
        verdicts.append(f"{wanted:,.0f}/s {_met(subject.items_per_second >= wanted)}")
    for fact, value in subject.facts.items():
        limit = fact_limit(case, fact)
        if limit is not None:
            # As it is shown: the rest of the process moves as well.
            is_met = round(value, 1) <= limit
            verdicts.append(f"at most {limit:g} {fact} {_met(is_met)}")
    return ", ".join(verdicts)


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "case": outcome.case.name,
        "question": outcome.case.question,
        "item": outcome.case.item,
        "record_bytes": outcome.workload.record_bytes,
        "num_records": outcome.workload.num_records,
        "subject": outcome.case.subject,
        "contenders": [
            _contender_document(outcome, measurement) for measurement in outcome.measurements
        ],
        "skipped": dict(outcome.skipped),
    }


def _contender_document(outcome: Outcome, measurement: Measurement) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": measurement.contender,
        "items": measurement.items,
        "seconds": list(measurement.seconds),
        "median_seconds": measurement.median_seconds,
        "facts": dict(measurement.facts),
    }
    if measurement.contender != outcome.case.subject:
        document["ratio"] = asdict(ratio(outcome.subject, measurement))
        document["goal"] = goal(
            outcome.case.name, measurement.contender, outcome.workload.record_bytes
        )
    return document
