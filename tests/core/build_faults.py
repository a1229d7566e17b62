"""Builds that meet their fate: run as a program, it builds in forked children, one per trial.

Forking from a program that has the product loaded but no thread running makes a trial cheap, so
that there can be many. Each child is the leader of a group, and the whole group is killed.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataset_rt import (
    CacheInput,
    CacheWriteSuccess,
    DatasetRuntime,
    ReaderConfig,
    ShardCompression,
    WriterConfig,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUM_SAMPLES = 3000
SAMPLES_PER_SHARD = 150
PAYLOAD_BYTES = 400
PREFETCH_SIZE = 64
COMPRESSION = ShardCompression(algo="lz4")


def payload(name: str, number: int) -> bytes:
    """Return the payload of one sample, which no codec makes smaller."""
    return random.Random(f"{name} {number}").randbytes(PAYLOAD_BYTES)


class Source:
    """A source that writes down every sample that it yields."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log

    def __iter__(self) -> Iterator[CacheInput]:
        return self.records(0)

    def records(self, start: int) -> Iterator[CacheInput]:
        with self.log.open("ab", buffering=0) as log:
            for number in range(start, NUM_SAMPLES):
                log.write(f"{self.name} {number}\n".encode())
                yield CacheInput(payload(self.name, number), {"number": number, "name": self.name})


class ContinuableSource(Source):
    """The same, and it can begin in the middle."""

    def iter_from(self, start: int) -> Iterator[CacheInput]:
        return self.records(start)


class SleepingSource(Source):
    """A source that waits for somebody else for ever."""

    def records(self, start: int) -> Iterator[CacheInput]:
        yield from super().records(start)
        time.sleep(600)


def config(num_processes: int = 0) -> WriterConfig:
    """Return small shards, so that there are many."""
    return WriterConfig(
        max_shard_bytes=SAMPLES_PER_SHARD * PAYLOAD_BYTES,
        shard_compression=COMPRESSION,
        prefetch_size=PREFETCH_SIZE,
        num_processes=num_processes,
    )


def build(base: Path, sources: list[Source], num_processes: int = 0) -> None:
    """Build all sources; they must succeed."""
    results = DatasetRuntime(num_workers=2).write_cache(
        sources, base, writer_config=config(num_processes)
    )
    assert all(isinstance(result, CacheWriteSuccess) for result in results), results


def fork(work: Callable[[], None]) -> int:
    """Run work in a child that leads a group of its own."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    try:
        work()
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException:  # noqa: BLE001 - the parent reads the exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def kill_after(children: list[int], seconds: float, victims: int) -> None:
    """Kill some of the children, with all that they started, and wait for the rest."""
    time.sleep(seconds)
    for child in children[:victims]:
        # It may have finished.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    for child in children:
        _, code = os.waitpid(child, 0)
        survives = child not in children[:victims]
        assert not survives or code == 0, f"child {child} ended with {code}"


def check_content(base: Path, names: list[str]) -> None:
    """Everything is there, exactly, and nothing else is."""
    assert sorted(entry.name for entry in base.iterdir()) == sorted(names)
    with DatasetRuntime(num_workers=1).cached_dataset(
        [base / name for name in names], reader_config=ReaderConfig(shuffle=False)
    ) as dataset:
        samples = list(dataset)
    expected = [(name, number) for name in names for number in range(NUM_SAMPLES)]
    found = [(sample.metadata["name"], sample.metadata["number"]) for sample in samples]
    assert found == expected
    assert all(
        sample.data == payload(name, number)
        for sample, (name, number) in zip(samples, expected, strict=True)
    )


def check_before_rerun(base: Path) -> set[str]:
    """Whatever can be opened is complete; return what is."""
    finished = set()
    # The processes that a killed one had started are nobody's children, and end a moment later.
    deadline = time.monotonic() + 30
    while base.exists() and any(cache.state == "building" for cache in status(base)):
        assert time.monotonic() < deadline, status(base)
        time.sleep(0.01)
    for cache in status(base) if base.exists() else ():
        assert cache.state in ("complete", "abandoned"), cache
        if cache.state == "complete":
            assert cache.samples == NUM_SAMPLES
            assert DatasetRuntime(num_workers=1).verify_cache(cache.path).is_intact
            finished.add(cache.name)
    return finished


def count(log: Path) -> dict[str, int]:
    """Return how many samples each source has yielded so far."""
    yielded: dict[str, int] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        name = line.partition(" ")[0]
        yielded[name] = yielded.get(name, 0) + 1
    return yielded


def trial(folder: Path, kind: str, moment: float) -> dict[str, Any]:
    """Kill one build at a moment (a share of a whole build), then run it again."""
    base, log = folder / "base", folder / "log"
    names = ["a"] if kind in ("single", "continuable", "race") else ["a", "b", "c"]
    source_class = ContinuableSource if kind == "continuable" else Source
    sources = [source_class(name, log) for name in names]
    num_processes = 2 if kind == "processes" else 0
    builders = 4 if kind == "race" else 1
    # The processes of a pool take a while to start, which is part of the build.
    whole_seconds = {"single": 0.15, "continuable": 0.15, "race": 0.3, "multi": 0.4}.get(kind, 2.5)
    children = [fork(lambda: build(base, sources, num_processes)) for _ in range(builders)]
    kill_after(children, moment * whole_seconds, victims=max(1, builders // 2))
    finished = check_before_rerun(base)
    before = count(log)
    rerun = fork(lambda: build(base, sources, num_processes))
    _, code = os.waitpid(rerun, 0)
    assert code == 0
    check_content(base, names)
    after = count(log)
    for name in finished:
        assert after.get(name) == before.get(name), "a finished source was iterated again"
    if kind == "continuable":
        # The unfinished shard, and the records that were on their way to it.
        repeated = after["a"] - NUM_SAMPLES
        assert repeated <= SAMPLES_PER_SHARD + PREFETCH_SIZE, repeated
    return {"kind": kind, "moment": moment, "finished": sorted(finished), "yielded": before}


def interrupt_trial(folder: Path, moment: float, *, is_continuable: bool, sleeps: bool) -> float:
    """Interrupt a build as Ctrl-C would; return how long it took to end."""
    base, log = folder / "base", folder / "log"
    source: Source = SleepingSource("a", log) if sleeps else Source("a", log)
    if is_continuable:
        source = ContinuableSource("a", log)
    child = fork(lambda: build(base, [source]))
    time.sleep(moment)
    os.kill(child, signal.SIGINT)
    interrupted = time.monotonic()
    _, code = os.waitpid(child, 0)
    elapsed = time.monotonic() - interrupted
    ended_before = code == 0 and not sleeps
    assert ended_before or os.waitstatus_to_exitcode(code) == 130, code
    if not ended_before and not is_continuable:
        # The interrupt may have come when the cache was just complete.
        left = [entry.name for entry in base.iterdir()] if base.exists() else []
        assert left in ([], ["a"]), f"the space was not given back: {left}"
        check_before_rerun(base)
    build(base, [type(source)("a", log)] if not sleeps else [Source("a", log)])
    check_content(base, ["a"])
    return elapsed


def main() -> None:
    """Run trials as the arguments say, and write what was seen as JSON."""
    folder, seed, plan = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    chance = random.Random(seed)
    seen: list[Any] = []
    for kind, repeats in plan.items():
        for number in range(repeats):
            place = folder / f"{kind}-{number}"
            place.mkdir()
            if kind in ("interrupt", "interrupt-continuable", "interrupt-sleeping"):
                sleeps = kind == "interrupt-sleeping"
                moment = chance.uniform(0.3, 0.5) if sleeps else chance.uniform(0, 0.2)
                seconds = interrupt_trial(
                    place, moment, is_continuable=kind.endswith("continuable"), sleeps=sleeps
                )
                seen.append({"kind": kind, "moment": moment, "seconds": seconds})
            else:
                seen.append(trial(place, kind, chance.random()))
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
