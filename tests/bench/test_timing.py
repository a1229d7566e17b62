"""Contenders are run in turn, and compared only where they did the same work."""

import itertools
import time

import pytest

from dataset_rt_bench.cases.contender import Contender, Delivery
from dataset_rt_bench.timing import Measurement, Ratio, UnequalWorkError, measure, ratio


class Recorder:
    """Contenders that write down what is done with them, in one common list."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def contender(self, name: str, payload: bytes = b"same") -> Contender:
        def run() -> int:
            self.calls.append(f"run {name}")
            return 1

        def prepare() -> None:
            self.calls.append(f"prepare {name}")

        def finish() -> None:
            self.calls.append(f"finish {name}")

        return Contender(run, lambda: Delivery.of([payload]), prepare=prepare, finish=finish)

    @property
    def runs(self) -> list[str]:
        return [call.removeprefix("run ") for call in self.calls if call.startswith("run ")]


def test_repeats_are_interleaved_and_begin_with_another_contender_each_time() -> None:
    recorder = Recorder()
    measure({name: recorder.contender(name) for name in "abc"}, repeats=3)
    assert recorder.runs == ["a", "b", "c", *"abc", *"bca", *"cab"]


def test_each_run_is_prepared_and_finished() -> None:
    recorder = Recorder()
    measure({"a": recorder.contender("a")}, repeats=2)
    assert recorder.calls == ["prepare a", "run a", "finish a"] * 3


def test_a_limit_is_timed_without_a_delivery() -> None:
    contenders = {
        "a": Contender(lambda: 2, lambda: Delivery.of([b"a", b"b"])),
        "limit": Contender(lambda: 1, None),
    }
    assert [each.items for each in measure(contenders, repeats=1)] == [2, 1]


def test_facts_are_asked_for_once() -> None:
    answers = iter([{"peak": 1.5}])
    contender = Contender(lambda: 1, None, facts=lambda: next(answers))
    (measurement,) = measure({"a": contender}, repeats=3)
    assert measurement.facts == {"peak": 1.5}


def test_only_the_run_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def run() -> int:
        spend(2.0)
        return 10

    contender = Contender(run, lambda: Delivery.of([]), lambda: spend(100.0), lambda: spend(50.0))
    (measurement,) = measure({"a": contender}, repeats=2)
    assert measurement == Measurement("a", items=10, seconds=(2.0, 2.0))


def test_contenders_that_deliver_different_data_are_refused() -> None:
    recorder = Recorder()
    contenders = {"a": recorder.contender("a"), "b": recorder.contender("b", payload=b"other")}
    with pytest.raises(UnequalWorkError, match=r"'b' delivered .* but 'a' delivered"):
        measure(contenders, repeats=1)


def test_a_contender_that_changes_its_work_is_refused() -> None:
    counts = itertools.count(5)
    contender = Contender(lambda: next(counts), lambda: Delivery.of([]))
    with pytest.raises(UnequalWorkError, match="'a' handled 6 items in repeat 0, expected 5"):
        measure({"a": contender}, repeats=1)


def test_a_run_without_repeats_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats is 0, expected at least 1"):
        measure({}, repeats=0)


def test_the_ratio_says_how_many_times_as_fast_the_subject_is() -> None:
    subject = Measurement("subject", items=10, seconds=(1.0, 2.0, 1.0))
    other = Measurement("other", items=10, seconds=(4.0, 4.0, 3.0))
    assert ratio(subject, other) == Ratio(of_medians=4.0, lowest=2.0, highest=4.0)


def test_the_ratio_is_per_item() -> None:
    subject = Measurement("subject", items=20, seconds=(1.0,))
    other = Measurement("other", items=10, seconds=(1.0,))
    assert ratio(subject, other).of_medians == 2.0
