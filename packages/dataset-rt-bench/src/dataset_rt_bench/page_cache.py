"""Puts files out of the system's page cache, so that the next read of them comes from the disk."""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from dataset_rt_bench.unavailable import UnavailableError


def files_below(path: Path) -> list[Path]:
    """Return a file itself, or all files below a directory.

    Example:
        >>> [path.name for path in files_below(Path(__file__))]
        ['page_cache.py']
    """
    return sorted(found for found in path.rglob("*") if found.is_file()) or [path]


def drop(paths: Iterable[Path]) -> None:
    """Write files back to the disk and ask the system to forget their pages.

    Pages that a process has mapped stay: close what maps the files first.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            # Only clean pages can be dropped.
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def require_droppable(paths: list[Path]) -> None:
    """Drop files and see whether that had an effect.

    Raises:
        UnavailableError: The system or the file system keeps the pages.
    """
    if not hasattr(os, "posix_fadvise"):
        raise UnavailableError("this system cannot drop files from its page cache")
    drop(paths)
    kept = sum(resident_bytes(path) for path in paths)
    total = sum(path.stat().st_size for path in paths)
    # Single pages may come back at once, by what else the system does.
    if kept > max(total // 20, 64 * mmap.PAGESIZE):
        raise UnavailableError(
            f"the page cache keeps {kept:,} of {total:,} bytes of the files; are they in memory "
            "(tmpfs), or mapped by another process?"
        )


def resident_bytes(path: Path) -> int:
    """Return how much of a file is in the page cache.

    Raises:
        OSError: The system does not tell.
    """
    size = path.stat().st_size
    if size == 0:
        return 0
    # A private map, because ctypes takes the address of writable memory only; nothing is written.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
        start = ctypes.c_char.from_buffer(mapped)
        try:
            address = ctypes.c_void_p(ctypes.addressof(start))
            library = ctypes.CDLL(None, use_errno=True)
            failed = library.mincore(address, ctypes.c_size_t(size), pages)
            if failed:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            # The map cannot be closed while something looks into it.
            del start
    return sum(page & 1 for page in pages) * mmap.PAGESIZE
