"""Exceptions: the builtin that people would catch, and a safe way across processes."""

from __future__ import annotations

import pickle

import pytest

from dataset_rt import DatasetRtError, exceptions

ALL = [
    value
    for value in vars(exceptions).values()
    if isinstance(value, type) and issubclass(value, DatasetRtError)
]


@pytest.mark.parametrize("kind", ALL)
def test_every_exception_crosses_processes(kind: type[DatasetRtError]) -> None:
    error = kind("what was found, what was expected\nhint: what to do")
    error.add_note("sample 7")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error) == "what was found, what was expected\nhint: what to do"
    assert again.__notes__ == ["sample 7"]


@pytest.mark.parametrize("kind", [exceptions.CacheIOError, exceptions.CachePermissionError])
def test_errors_of_the_system_keep_number_and_file(kind: type[exceptions.CacheIOError]) -> None:
    again = pickle.loads(pickle.dumps(kind(28, "cannot write: no space left", "/some/file")))
    assert (again.errno, again.strerror, again.filename) == (
        28,
        "cannot write: no space left",
        "/some/file",
    )


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (exceptions.ConfigError, ValueError),
        (exceptions.CorruptCacheError, ValueError),
        (exceptions.CacheNotFoundError, FileNotFoundError),
        (exceptions.CacheIOError, OSError),
        (exceptions.CachePermissionError, PermissionError),
        (exceptions.SampleNotFoundError, KeyError),
        (exceptions.PositionError, IndexError),
    ],
)
def test_the_builtin_catches_it_too(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)
    assert issubclass(kind, DatasetRtError)
