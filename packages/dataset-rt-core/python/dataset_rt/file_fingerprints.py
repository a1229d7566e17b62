"""A fingerprint of input files, for sources whose records are made from them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dataset_rt import arguments
from dataset_rt.exceptions import CacheIOError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


def fingerprint_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    content: bool = False,
) -> dict[str, dict[str, int | str]]:
    """Return a fingerprint of files: the size of each, and when it was changed or what is in it.

    Args:
        paths: Files and directories; of a directory, all files below it, but not behind links to
            directories.
        content: Read the files and take the SHA-256 digest of what is in them. Otherwise the time
            of the last change stands for it, which costs nothing but changes when files are copied.

    Returns:
        One entry per file, under its path relative to the directory that all of the given paths
        have in common, so that a tree that moves as a whole keeps its fingerprint. It is a JSON
        value, for the ``fingerprint`` of a source, alone or beside a version number.

    Raises:
        ConfigError: An argument is of the wrong type, or there is no file.
        CacheIOError: A file is missing or cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "labels.csv").write_text("a,b")
        ...     fingerprint = fingerprint_files(folder, content=True)
        >>> fingerprint["labels.csv"]["size"]
        3
    """
    arguments.flag("content", content)
    given = [Path(path) for path in arguments.paths("paths", paths)]
    try:
        files = sorted({file for path in given for file in _files(path)})
        if not files:
            raise ConfigError(f"paths is {arguments.shown(paths)}, which holds no file")
        root = os.path.commonpath([path if path.is_dir() else path.parent for path in given])
        return {file.relative_to(root).as_posix(): _entry(file, content=content) for file in files}
    except OSError as error:
        raise CacheIOError(
            error.errno, f"cannot fingerprint: {error.strerror}", error.filename
        ) from error


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    # Unlike a search by pattern, a walk tells of directories that cannot be read.
    return (
        Path(folder) / name for folder, _, names in os.walk(path, onerror=_raise) for name in names
    )


def _raise(error: OSError) -> NoReturn:
    raise error


def _entry(file: Path, *, content: bool) -> dict[str, int | str]:
    found = file.stat()
    if not content:
        return {"size": found.st_size, "modified_ns": found.st_mtime_ns}
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"size": found.st_size, "sha256": digest}
