"""The file that ``dump_config`` writes: which caches, how they are read, and the edited table."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataset_rt import arguments
from dataset_rt.exceptions import CacheIOError, CachePermissionError, ConfigError, CorruptCacheError
from dataset_rt.records import CacheInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt.config import ReaderConfig

FILE_FORMAT = "dataset_rt.dataset"
FILE_VERSION = 1
DEFAULT_NAME = "dataset.json"
_DIGEST_DIGITS = 16

_FIELD_TYPES = {"reader_config": dict, "epoch_len": int, "caches": list, "fingerprint": str}
_CACHE_TYPES = {"id": int, "name": str, "path": str, "samples": int}


@dataclass(frozen=True)
class DatasetDescription:
    """What a dataset file says.

    Attributes:
        reader_config: How to draw and read.
        epoch_len: How many draws one epoch has.
        caches: The caches in order, with absolute paths.
        fingerprint: The fingerprint of the active table.
        table_path: The saved table; None where the active table is that of the caches.
    """

    reader_config: ReaderConfig
    epoch_len: int
    caches: tuple[CacheInfo, ...]
    fingerprint: str
    table_path: Path | None = None


def file_path(path: str) -> Path:
    """Return the path of the dataset file: the one given, or ``dataset.json`` in a directory."""
    given = Path(path)
    return given / DEFAULT_NAME if given.is_dir() else given


def write_description(
    path: Path, description: DatasetDescription, write_table: Callable[[Path], None] | None
) -> None:
    """Write a dataset file, and the active table beside it if it needs one.

    The name of the table depends on its content, so that the file that is replaced keeps its own:
    whatever interrupts this, the file is the old one or the new one, each with its table.

    Args:
        path: The absolute path of the file.
        description: What to write; ``table_path`` is filled in here.
        write_table: Writes the table to the path it is given; None where there is none to write.

    Raises:
        CacheIOError: A file cannot be written.
    """
    with _readable_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        outdated = _outdated_table(path)
        table_path = None if write_table is None else _publish_table(path, write_table)
        content = _as_json(replace(description, table_path=table_path), path.parent)
        try:
            with _temporary(path) as temporary:
                temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
                _replace(temporary, path)
        except BaseException:
            if table_path is not None and table_path != outdated:
                table_path.unlink(missing_ok=True)
            raise
        if outdated is not None and outdated != table_path:
            outdated.unlink(missing_ok=True)


def read_description(path: Path) -> DatasetDescription:
    """Read a dataset file.

    Raises:
        CacheIOError: The file cannot be read.
        ConfigError: The file is not one that ``dump_config`` wrote.
    """
    from dataset_rt.config import ReaderConfig  # noqa: PLC0415 - pydantic is slow to import

    with _readable_errors("read", path):
        text = path.read_bytes()
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}), expected a file of dump_config") from error
    if not isinstance(content, dict) or content.get("format") != FILE_FORMAT:
        raise ConfigError(f"{path} is no dataset file, expected one that dump_config wrote")
    if content.get("version") != FILE_VERSION:
        raise ConfigError(
            f"{path} has version {arguments.shown(content.get('version'))}, "
            f"this release reads version {FILE_VERSION}"
        )
    _check_fields(path, content, _FIELD_TYPES)
    for item in content["caches"]:
        _check_fields(path, item, _CACHE_TYPES)
    try:
        reader_config = ReaderConfig(**content["reader_config"])
        epoch_len = arguments.integer("epoch_len", content["epoch_len"], minimum=1)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    directory = path.resolve().parent
    return DatasetDescription(
        reader_config=reader_config,
        epoch_len=epoch_len,
        caches=tuple(
            CacheInfo(
                id=item["id"],
                name=item["name"],
                # Normalised as text, which is right because the directory is resolved.
                path=Path(os.path.normpath(directory / item["path"])),
                samples=item["samples"],
            )
            for item in content["caches"]
        ),
        fingerprint=content["fingerprint"],
        table_path=_table_path(path, content),
    )


def read_table(path: Path) -> bytes:
    """Read the table that a dataset file names, whose name holds the digest of its content.

    Raises:
        CacheIOError: The file cannot be read.
        CorruptCacheError: It is not what ``dump_config`` wrote.
    """
    with _readable_errors("read", path):
        content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]
    expected = Path(path.stem).suffix.removeprefix(".")
    if found != expected:
        raise CorruptCacheError(f"{path} has digest {found}, its name says {expected}")
    return content


def _check_fields(path: Path, content: object, types: dict[str, type]) -> None:
    for name, kind in types.items():
        value = content.get(name) if isinstance(content, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(
                f"{path}: {name} is {arguments.shown(value)}, "
                "expected a value that dump_config wrote"
            )


def _as_json(description: DatasetDescription, directory: Path) -> dict[str, Any]:
    table_path = description.table_path
    return {
        "format": FILE_FORMAT,
        "version": FILE_VERSION,
        "reader_config": description.reader_config.model_dump(mode="json"),
        "epoch_len": description.epoch_len,
        "caches": [
            {
                "id": cache.id,
                "name": cache.name,
                "path": _relative_path(cache.path, directory),
                "samples": cache.samples,
            }
            for cache in description.caches
        ],
        "table": None if table_path is None else table_path.name,
        "fingerprint": description.fingerprint,
    }


def _relative_path(cache: Path, directory: Path) -> str:
    # The cache itself may be a symlink and stays one; the folders above it are resolved, because
    # the system resolves ".." physically.
    resolved = cache.parent.resolve() / cache.name
    try:
        return Path(os.path.relpath(resolved, directory.resolve())).as_posix()
    except ValueError:
        # Another drive: there is no relative path.
        return str(cache)


def _table_path(path: Path, content: dict[str, Any]) -> Path | None:
    table = content.get("table")
    if table is None:
        return None
    # Only a file beside it, because dump_config removes the table of the file that it replaces.
    if isinstance(table, str) and Path(table).name == table and table.endswith(".arrow"):
        return path.with_name(table)
    raise ConfigError(f"{path}: table is {arguments.shown(table)}, expected a file name or null")


def _outdated_table(path: Path) -> Path | None:
    """Return the table that the file about to be replaced names, if it is a dataset file."""
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and content.get("format") == FILE_FORMAT:
            return _table_path(path, content)
    except (FileNotFoundError, ValueError):
        # There is none, or it is something else, which names no table of ours.
        return None
    return None


def _publish_table(path: Path, write_table: Callable[[Path], None]) -> Path:
    with _temporary(path.with_suffix(".arrow")) as temporary:
        write_table(temporary)
        with temporary.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        published = path.with_name(f"{path.stem}.{digest[:_DIGEST_DIGITS]}.arrow")
        _replace(temporary, published)
    return published


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Give a path beside the given one, where nothing is left at the end."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _replace(temporary: Path, path: Path) -> None:
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    temporary.replace(path)


@contextlib.contextmanager
def _readable_errors(operation: str, path: Path) -> Iterator[None]:
    try:
        yield
    except CacheIOError:
        raise
    except OSError as error:
        kind = CachePermissionError if isinstance(error, PermissionError) else CacheIOError
        reason = f"cannot {operation} the dataset file: {error.strerror or error}"
        raise kind(error.errno, reason, str(error.filename or path)) from error
