"""Looking after a directory of caches: what is in it, what is damaged, what can go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dataset_rt import _core, arguments
from dataset_rt.exceptions import CacheIOError, CacheNotFoundError, DatasetRtError

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class CacheStatus:
    """One finished, running or abandoned cache.

    Attributes:
        name: The name of the source; for an abandoned build that does not say, its directory's.
        path: The directory of the cache, or of its build.
        state: ``"complete"``; ``"building"`` while the process that writes it lives;
            ``"abandoned"`` if that process is gone; ``"damaged"`` if the manifest cannot be read.
        samples: How many samples the cache has. Of a build: how many are in complete shards, from
            which a source with ``iter_from`` continues.
        payload_bytes: Bytes of all payloads; 0 for builds.
        stored_bytes: Bytes of all shards; of a build, of everything in its directory.
        message: Who is building, or what is damaged.

    Example:
        >>> from pathlib import Path
        >>> CacheStatus("digits", Path("cache/digits"), "complete", 1797, 115008, 115008).state
        'complete'
    """

    name: str
    path: Path
    state: Literal["complete", "building", "abandoned", "damaged"]
    samples: int
    payload_bytes: int
    stored_bytes: int
    message: str = ""


@dataclass(frozen=True)
class Damage:
    """One thing in a cache that is not as it was written.

    Attributes:
        sample: The number of the sample, or None where it is a whole file.
        message: What was found and expected, and in which file.

    Example:
        >>> Damage(sample=3, message="damaged sample 3 in shards/000000.bin").sample
        3
    """

    sample: int | None
    message: str


@dataclass(frozen=True)
class CacheVerification:
    """What a full scan of a cache found.

    Attributes:
        name: The name of the source.
        path: The directory of the cache.
        samples: How many samples were read, which are all.
        read_bytes: Bytes of all files.
        damages: Everything that is not as it was written: files first, then samples in order.

    Example:
        >>> from pathlib import Path
        >>> CacheVerification("digits", Path("cache/digits"), 1797, 150000, ()).is_intact
        True
    """

    name: str
    path: Path
    samples: int
    read_bytes: int
    damages: tuple[Damage, ...]

    @property
    def is_intact(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damages


def status(base: str | os.PathLike[str]) -> tuple[CacheStatus, ...]:
    """List what is in a directory of caches, in order of name.

    Args:
        base: The directory that was given to ``write_cache``.

    Raises:
        ConfigError: ``base`` is no path.
        CacheNotFoundError: The directory does not exist.
        CacheIOError: The directory cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as base:
        ...     status(base)
        ()
    """
    base_path = Path(arguments.path("base", base))
    found = [_of_build(build) for build in _list_builds(base_path)]
    for entry in _entries(base_path):
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        cache = _of_cache(entry)
        if cache is not None:
            found.append(cache)
    return tuple(sorted(found, key=lambda cache: (cache.name, cache.state)))


def remove_abandoned(base: str | os.PathLike[str]) -> tuple[CacheStatus, ...]:
    """Remove what dead builds left in a directory of caches, and say what that was.

    Finished caches and builds whose process lives are left alone. Builds remove what they cannot
    use by themselves; this also removes complete shards that a source with ``iter_from`` would
    continue from.

    Args:
        base: The directory that was given to ``write_cache``.

    Raises:
        ConfigError: ``base`` is no path.
        CacheNotFoundError: The directory does not exist.
        CacheIOError: Something cannot be removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as base:
        ...     remove_abandoned(base)
        ()
    """
    base_path = Path(arguments.path("base", base))
    _entries(base_path)
    removed = _core.reclaim_builds(str(base_path), continuable_too=True)
    return tuple(_of_build(build) for build in removed)


def _entries(base_path: Path) -> list[Path]:
    try:
        return sorted(base_path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        raise CacheNotFoundError(f"{base_path} is no directory of caches") from None
    except OSError as error:
        raise CacheIOError(
            error.errno, f"cannot read the directory of caches: {error.strerror}", str(base_path)
        ) from error


def _list_builds(base_path: Path) -> list[_core.BuildStatus]:
    _entries(base_path)
    return _core.list_builds(str(base_path))


def _of_build(build: _core.BuildStatus) -> CacheStatus:
    path = Path(build.path)
    message = ""
    if build.process is not None:
        tense = "is built" if build.is_active else "was built"
        message = f"{tense} by process {build.process} on {build.host}"
    return CacheStatus(
        name=build.name or path.name,
        path=path,
        state="building" if build.is_active else "abandoned",
        samples=build.kept_samples,
        payload_bytes=0,
        stored_bytes=build.bytes,
        message=message,
    )


def _of_cache(path: Path) -> CacheStatus | None:
    try:
        # By path: a cache that was moved may be in a directory that no source could be named after.
        cache = _core.cache_at(str(path))
    except DatasetRtError as error:
        return CacheStatus(path.name, path, "damaged", 0, 0, 0, str(error))
    if cache is None:
        return None
    return CacheStatus(
        cache.name, path, "complete", cache.samples, cache.payload_bytes, cache.stored_bytes
    )
