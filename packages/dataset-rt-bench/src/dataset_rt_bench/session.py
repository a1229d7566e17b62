"""Runs the chosen cases on the chosen workloads and collects their measurements."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dataset_rt_bench.cases.contender import Case, Contender, Scale
from dataset_rt_bench.environment import Environment, describe, load_average, require_release_build
from dataset_rt_bench.timing import Measurement, measure
from dataset_rt_bench.unavailable import UnavailableError
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


@dataclass(frozen=True)
class Outcome:
    """The measurements of one case on one workload, one per contender.

    Attributes:
        case: What was asked.
        workload: How much was handled.
        measurements: Of each contender that took part.
        skipped: Why the others did not, by name.
    """

    case: Case
    workload: Workload
    measurements: list[Measurement]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> Measurement:
        """The measurement that ratios are about."""
        (found,) = (each for each in self.measurements if each.contender == self.case.subject)
        return found


@dataclass(frozen=True)
class Session:
    """All outcomes of one run, with what they were measured on.

    Attributes:
        environment: The machine and the build.
        repeats: How many timed runs stand behind each median.
        outcomes: In the order in which the cases ran.
        load_average_after: When the last case had ended; high figures at the begin or the end
            mean that other processes took part in the result.
    """

    environment: Environment
    repeats: int
    outcomes: list[Outcome]
    load_average_after: float | None


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        cases: Which cases.
        record_workloads: For cases that differ in record size.
        row_workload: For cases that differ in the number of rows.
        sweep_workloads: For cases that go through many record sizes.
        repeats: How many timed runs of each contender.
    """

    cases: Sequence[Case]
    record_workloads: Sequence[Workload]
    row_workload: Workload
    sweep_workloads: Sequence[Workload]
    repeats: int

    def steps(self) -> list[tuple[Case, Workload]]:
        """Return each case with each of its workloads."""
        workloads: dict[Scale, Sequence[Workload]] = {
            "record_size": self.record_workloads,
            "row_count": [self.row_workload],
            "size_sweep": self.sweep_workloads,
        }
        return [(case, workload) for case in self.cases for workload in workloads[case.scale]]


def run_plan(
    plan: Plan, workspace: Workspace, report_progress: Callable[[str], None] = lambda _: None
) -> Session:
    """Measure everything in the plan.

    Args:
        plan: What to run.
        workspace: Where data is prepared and written.
        report_progress: Is told the title of each step before it begins.

    Raises:
        DebugBuildError: The native module is a debug build.
        UnequalWorkError: Contenders of a case delivered different data.
    """
    require_release_build()
    environment = describe(workspace.directory)
    outcomes = []
    steps = plan.steps()
    for number, (case, workload) in enumerate(steps, start=1):
        report_progress(f"[{number}/{len(steps)}] {case.name}, {workload.title}")
        outcomes.append(run_case(case, workload, workspace, plan.repeats))
    return Session(environment, plan.repeats, outcomes, load_average())


def run_case(case: Case, workload: Workload, workspace: Workspace, repeats: int) -> Outcome:
    """Set up all contenders of a case, measure them side by side, and tear them down.

    Contenders that are not available are left out, and named in the outcome with the reason.
    """
    contenders: dict[str, Contender] = {}
    skipped: dict[str, str] = {}
    try:
        for name, set_up in case.contenders.items():
            try:
                contenders[name] = set_up(workspace, workload)
            except UnavailableError as error:
                skipped[name] = str(error)
        measurements = measure(contenders, repeats) if case.subject in contenders else []
        return Outcome(case, workload, measurements, skipped)
    finally:
        for contender in contenders.values():
            contender.teardown()
        # Loading workers end with their loader; they must not run into the next case.
        contenders.clear()
        gc.collect()
