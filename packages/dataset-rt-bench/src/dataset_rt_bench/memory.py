"""Measures how much memory a piece of work takes at its peak, beyond what the process had."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Final

STATUS: Final = Path("/proc/self/status")
RESET_PEAK: Final = "5"
"""What clears the high-water mark, as proc(5) says of clear_refs."""


def peak_growth_bytes(work: Callable[[], object]) -> int | None:
    """Run some work and return how far resident memory rose above where it began.

    Returns:
        The bytes, or None where the system does not tell.
    """
    gc.collect()
    _return_free_memory()
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return None
    before = _kibibytes("VmRSS")
    work()
    return max(0, _kibibytes("VmHWM") - before) << 10


def _return_free_memory() -> None:
    """Give back what the allocator holds for later, or work would grow into that unseen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _kibibytes(field: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise KeyError(field)
