"""Building caches in this process: what is finished, whose turn it is, what failed."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shlex
import threading
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dataset_rt import _core
from dataset_rt.exceptions import (
    CacheIOError,
    CachePermissionError,
    ConfigError,
    CorruptCacheError,
    DatasetRtError,
    StaleCacheError,
    UnsupportedCacheError,
)
from dataset_rt.fingerprints import canonical_json, differences
from dataset_rt.results import CacheWriteError, CacheWriteResult, CacheWriteSuccess
from dataset_rt.sources import can_continue, fingerprint_of, records_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dataset_rt.config import WriterConfig
    from dataset_rt.progress import WriteProgress
    from dataset_rt.records import CacheInput
    from dataset_rt.sources import NamedSource

_logger = logging.getLogger("dataset_rt.writer")
_POLL_SECONDS = 0.05
_SILENT_SECONDS = 1.0

# The builds that the code of a thread is called from.
_own_builds = threading.local()


class BuildPlan(NamedTuple):
    """Where and how to build."""

    base_path: str
    config: WriterConfig
    num_threads: int


class Outcome(NamedTuple):
    """The result of one source, and how the build went if there was one."""

    result: CacheWriteResult
    figures: dict[str, int | float] | None = None


def prepare_base(base_path: str) -> None:
    """Make the directory of caches, which may exist.

    Raises:
        CacheIOError: It cannot be made.
    """
    try:
        Path(base_path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = CachePermissionError if isinstance(error, PermissionError) else CacheIOError
        reason = "is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise kind(
            error.errno, f"cannot make the directory of caches: {reason}", base_path
        ) from error


def write_all(
    plan: BuildPlan, sources: Sequence[NamedSource], progress: WriteProgress
) -> list[Outcome]:
    """Build what is missing, one source after another, and give an outcome for each in order.

    A source that another process is building waits until the others are done, so that processes
    with the same list share the work.
    """
    outcomes: dict[str, Outcome] = {}
    for waits in (False, True):
        for named in sources:
            if named.name in outcomes:
                continue
            outcome = write_one(plan, named, progress.of_source(named.name), waits=waits)
            if outcome is not None:
                outcomes[named.name] = outcome
                progress.finish(named.name)
    return [outcomes[named.name] for named in sources]


def write_one(
    plan: BuildPlan,
    named: NamedSource,
    report: Callable[[int, int], None] | None,
    *,
    waits: bool,
) -> Outcome | None:
    """Build the cache of one source unless it is finished.

    Returns:
        None if another process is building it and ``waits`` is False.

    Raises:
        CachePermissionError: The directory of caches cannot be written to.
    """
    # Only Exception: KeyboardInterrupt and SystemExit end the whole call.
    try:
        fingerprint = fingerprint_of(named.source)
        path = _finished_cache(plan, named, fingerprint)
    except Exception as error:  # noqa: BLE001 - whatever a source raises is its result
        return Outcome(failure(named.name, error))
    if path is not None:
        return Outcome(CacheWriteSuccess(named.name, Path(path)))
    _require_writable(plan.base_path)
    try:
        _refuse_own_build(plan.base_path, named.name)
        lock = _lock(plan.base_path, named.name, waits=waits)
        if lock is None:
            return None
        try:
            # Whoever held the lock before may have finished the cache.
            path = _finished_cache(plan, named, fingerprint)
            if path is not None:
                return Outcome(CacheWriteSuccess(named.name, Path(path)))
            with _as_own_build(plan.base_path, named.name):
                built = _build(plan, named, fingerprint, lock, report)
        finally:
            lock.release()
    except Exception as error:  # noqa: BLE001 - same
        _raise_hidden_interrupt(error)
        return Outcome(failure(named.name, error, base_path=plan.base_path))
    return Outcome(CacheWriteSuccess(named.name, Path(built.path)), _figures(built))


def failure(name: str, error: Exception, *, base_path: str | None = None) -> CacheWriteError:
    """Return the result of a source that failed, with what of it is kept."""
    text = _text_of(error)
    if isinstance(error, DatasetRtError):
        message = text if f'source "{name}"' in text else f"source {name!r}: {text}"
    else:
        reason = f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__
        message = f"source {name!r} raised {reason}{_origin(error)}"
    kept = "" if base_path is None else _kept(base_path, name)
    return CacheWriteError(name, message + kept, exception=error)


def _raise_hidden_interrupt(error: Exception) -> None:
    """Raise the Ctrl-C or exit during whose handling a source raised something else."""
    context = error.__context__
    while context is not None:
        if isinstance(context, KeyboardInterrupt | SystemExit):
            raise context from None
        context = context.__context__


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - __str__ is the source's own code
        return f"(its message cannot be had: {type(second).__qualname__})"


def reclaim_useless(base_path: str) -> None:
    """Remove what dead builds left and nothing can continue, where that is possible."""
    try:
        _core.reclaim_builds(base_path, continuable_too=False)
    except OSError as error:
        # Finished caches are reused from read-only media; then the leftovers stay as well.
        _logger.debug("cannot remove abandoned builds in %s: %s", base_path, error)


def _finished_cache(plan: BuildPlan, named: NamedSource, fingerprint: str | None) -> str | None:
    try:
        existing = _core.existing_cache(plan.base_path, named.name)
    except (CorruptCacheError, UnsupportedCacheError) as error:
        raise type(error)(f"{error}\nhint: remove the directory to have it written anew") from None
    if existing is None:
        return None
    # Both in one canonical form: the manifest may spell a number in another way.
    cached = (
        None if existing.fingerprint is None else canonical_json(json.loads(existing.fingerprint))
    )
    if fingerprint is None or cached == fingerprint:
        return existing.path
    if plan.config.on_stale == "reuse":
        _logger.info("cache %s is stale and reused, as on_stale is 'reuse'", existing.path)
        return existing.path
    if plan.config.on_stale == "rebuild":
        return None
    raise StaleCacheError(
        f"cache {existing.path} was written from another fingerprint than its source has now\n"
        f"{differences(cached, fingerprint)}\n"
        'hint: WriterConfig(on_stale="rebuild") writes it anew, on_stale="reuse" takes it as it is'
    )


def _require_writable(base_path: str) -> None:
    # Asked only where something is to be built: finished caches are reused from read-only media.
    if not Path(base_path).is_dir() or os.access(
        base_path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        return
    raise CachePermissionError(
        errno.EACCES, "cannot write to the directory of caches: permission denied", base_path
    )


@contextlib.contextmanager
def _as_own_build(base_path: str, name: str) -> Iterator[None]:
    builds: set[tuple[str, str]] = _own_builds.__dict__.setdefault("builds", set())
    build = (os.path.realpath(base_path), name)
    builds.add(build)
    try:
        yield
    finally:
        builds.discard(build)


def _refuse_own_build(base_path: str, name: str) -> None:
    """Refuse to wait for a build that cannot go on before this call returns."""
    if (os.path.realpath(base_path), name) in _own_builds.__dict__.get("builds", ()):
        raise ConfigError(
            f"cache {name!r} was asked for by the source that is just being written to it"
        )


def _lock(base_path: str, name: str, *, waits: bool) -> _core.BuildLock | None:
    """Return the right to build a cache, or None if another has it and ``waits`` is False."""
    started = time.monotonic()
    told_of: tuple[int | None, str | None] | None = None
    while True:
        attempt = _core.try_lock_build(base_path, name)
        if isinstance(attempt, _core.BuildLock):
            return attempt
        if not waits:
            return None
        holder = (attempt.process, attempt.host)
        if holder != told_of and time.monotonic() - started >= _SILENT_SECONDS:
            told_of = holder
            _logger.warning(
                "waiting for process %s on %s, which is building cache %r in %s",
                attempt.process or "(unknown)",
                attempt.host or "this or another machine",
                name,
                base_path,
            )
        time.sleep(_POLL_SECONDS)


def _build(
    plan: BuildPlan,
    named: NamedSource,
    fingerprint: str | None,
    lock: _core.BuildLock,
    report: Callable[[int, int], None] | None,
) -> _core.BuildReport:
    opened: list[Iterator[CacheInput]] = []
    kept = _kept_samples(plan.base_path, named.name)

    def records(start: int) -> Iterable[CacheInput]:
        if start > 0:
            _logger.info("cache %r continues at sample %d", named.name, start)
        elif kept:
            _logger.warning(
                "cache %r begins anew: what an earlier build kept of it, %d samples, has another "
                "fingerprint, compression, shard size or source",
                named.name,
                kept,
            )
        opened.append(records_from(named.source, start))
        return opened[0]

    config = plan.config
    with _closing(opened):
        return _core.build_cache(
            lock,
            named.name,
            records,
            fingerprint=fingerprint,
            max_shard_bytes=config.max_shard_bytes,
            prefetch_size=config.prefetch_size,
            compression=config.shard_compression.algo,
            level=config.shard_compression.level,
            dictionary=config.shard_compression.algo == "zstd"
            and config.shard_compression.dictionary,
            threads=plan.num_threads,
            is_resumable=can_continue(named.source),
            is_profiled=config.profiler.enabled,
            progress=report,
        )


@contextlib.contextmanager
def _closing(opened: Sequence[Iterator[CacheInput]]) -> Iterator[None]:
    """Close generators when a build fails.

    The traceback of a failure keeps its frames and with them a suspended generator, whose open
    files would wait until the result is dropped.
    """
    try:
        yield
    except BaseException as error:
        for iterator in opened:
            if isinstance(iterator, Generator):
                try:
                    iterator.close()
                except BaseException as second:  # noqa: BLE001 - the first one is the cause
                    error.add_note(f"closing the source then raised {second!r}")
        raise


def _figures(report: _core.BuildReport) -> dict[str, int | float]:
    """Return what a build counted and timed, as it stands in a profile."""
    return {
        "samples": report.samples,
        "continued_samples": report.continued_samples,
        "payload_bytes": report.payload_bytes,
        # In the thread that iterates the source, one after another.
        "source_seconds": report.source_seconds,
        "extraction_seconds": report.extract_seconds,
        "waiting_seconds": report.wait_seconds,
        "finish_seconds": report.finish_seconds,
        "total_seconds": report.total_seconds,
        # In threads of their own, at the same time; compression is the sum over its threads.
        "compression_seconds": report.encode_seconds,
        "digest_seconds": report.digest_seconds,
        "disk_write_seconds": report.write_seconds,
        "disk_sync_seconds": report.sync_seconds,
    }


def _kept_samples(base_path: str, name: str) -> int:
    try:
        builds = _core.list_builds(base_path)
    except OSError:
        return 0
    return max((build.kept_samples for build in builds if build.name == name), default=0)


def _kept(base_path: str, name: str) -> str:
    kept = _kept_samples(base_path, name)
    if not kept:
        return ""
    return (
        f"\n{kept} samples in complete shards are kept, and the next build continues there\n"
        f"hint: `dataset-rt gc {shlex.quote(base_path)}` removes them"
    )


def _origin(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename == __file__:
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})"
