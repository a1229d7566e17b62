"""Describes the machine and the build that figures were measured with; refuses a debug build."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from dataset_rt import _core
from dataset_rt_bench.peers.catalogue import LIBRARIES

PACKAGES: Final = ("dataset-rt-core", "dataset-rt-torch", "torch", "numpy", "lmdb", "polars")


class DebugBuildError(RuntimeError):
    """The native module was built without optimisation, so that its times say nothing."""


@dataclass(frozen=True)
class Environment:
    """What a figure depends on apart from the code under test.

    Attributes:
        build_profile: How the native module was compiled.
        versions: Of Python and the packages that take part.
        operating_system: Kernel name and release.
        processor: The model name of the CPU.
        logical_cpus: How many the machine has.
        usable_cpus: How many affinity and quotas leave to this process.
        memory_bytes: Of the machine, or None where it cannot be asked.
        file_system: Type of the file system that the benchmark works on, where known.
        load_average: Over one minute, when the benchmark began, or None where there is none.
    """

    build_profile: str
    versions: dict[str, str]
    operating_system: str
    processor: str
    logical_cpus: int
    usable_cpus: int
    memory_bytes: int | None
    file_system: str | None
    load_average: float | None


def require_release_build() -> None:
    """Raise an error if the native module is a debug build.

    Raises:
        DebugBuildError: It is one.
    """
    if _core.build_profile != "release":
        raise DebugBuildError(
            f"dataset_rt._core is a {_core.build_profile} build, expected a release build\n"
            "hint: install dataset-rt from a wheel, or build it with `maturin develop --release`"
        )


def describe(directory: Path) -> Environment:
    """Collect the facts about this process and the file system of ``directory``.

    Example:
        >>> describe(Path()).usable_cpus >= 1
        True
    """
    return Environment(
        build_profile=_core.build_profile,
        versions={
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
            **{
                peer.distribution: installed
                for peer in LIBRARIES
                if (installed := peer.installed_version()) is not None
            },
        },
        operating_system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        logical_cpus=os.cpu_count() or 1,
        usable_cpus=_core.available_parallelism(),
        memory_bytes=_memory_bytes(),
        file_system=_file_system(directory.resolve()),
        load_average=load_average(),
    )


def load_average() -> float | None:
    """Return how many processes wanted to run, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _file_system(directory: Path) -> str | None:
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = None
    longest = -1
    for line in lines:
        _, mount_point, kind, *_ = line.split(" ")
        # Octal escapes stand for blanks in the table of mounts.
        point = Path(mount_point.replace("\\040", " "))
        # A later mount on the same point hides an earlier one.
        if directory.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = kind, len(point.parts)
    return found
