"""Sources: one or many, and names that are checked before any file exists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    CacheInput,
    CacheSource,
    CacheWriteError,
    CacheWriteSuccess,
    ConfigError,
    DatasetRuntime,
    SourceNameError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORD = CacheInput(b"data", {"label": 1})


class WithoutName:
    def __iter__(self) -> Iterator[CacheInput]:
        yield RECORD


class WithoutIteration:
    name = "no records"


class Named(WithoutName):
    name = "named"


class Proxy:
    """Forwards its name to another object, as wrappers do."""

    def __init__(self, wrapped: Named) -> None:
        self._wrapped = wrapped

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._wrapped, attribute)

    def __iter__(self) -> Iterator[CacheInput]:
        return iter(self._wrapped)


def test_the_protocol_is_checked_at_run_time() -> None:
    assert isinstance(Named(), CacheSource)
    assert not isinstance(WithoutName(), CacheSource)


@pytest.mark.parametrize("collect", [list, tuple, iter, lambda sources: (s for s in sources)])
def test_any_iterable_of_sources_is_accepted(
    runtime: DatasetRuntime,
    tmp_path: Path,
    list_source: Callable[..., Any],
    collect: Callable[[list[Any]], Any],
) -> None:
    sources = [list_source(name, [RECORD]) for name in ("b", "a", "c")]
    results = runtime.write_cache(collect(sources), tmp_path)
    assert [result.source_name for result in results] == ["b", "a", "c"]


def test_one_source_is_accepted_as_it_is(runtime: DatasetRuntime, tmp_path: Path) -> None:
    assert runtime.write_cache(Named(), tmp_path) == (
        CacheWriteSuccess("named", tmp_path / "named"),
    )


def test_a_name_may_come_from_getattr(runtime: DatasetRuntime, tmp_path: Path) -> None:
    (result,) = runtime.write_cache(Proxy(Named()), tmp_path)
    assert result == CacheWriteSuccess("named", tmp_path / "named")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "sources is empty, expected at least one source"),
        (None, r"sources is None.*expected a source \(an object with name and __iter__\)"),
        (5, "sources is 5"),
        ("path", "sources is 'path'"),
        ({"a": Named()}, "sources is {"),
        (WithoutName(), "sources is .*WithoutName.*it has no name"),
        (WithoutIteration(), "sources is .*WithoutIteration.*it has no __iter__"),
        ([RECORD], r"sources is \[CacheInput.*it has no name"),
        (Named, r"sources is the class Named.*\n.*hint: pass an instance, Named\(\)"),
        ([Named(), Named], r"sources\[1\] is the class Named"),
        ([Named(), "x"], r"sources\[1\] is 'x' \(a str\), expected a source"),
        ([Named(), WithoutIteration()], r"sources\[1\].*it has no __iter__"),
    ],
)
def test_what_is_no_source_is_refused_with_its_index(
    runtime: DatasetRuntime, tmp_path: Path, sources: Any, message: str
) -> None:
    base = tmp_path / "base"
    with pytest.raises(ConfigError, match=message):
        runtime.write_cache(sources, base)
    assert not base.exists()


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "/absolute",
        "a\\b",
        "nul\0byte",
        "line\nbreak",
        "CON",
        "nul.txt",
        " space",
        "dot.",
        "x" * 256,
        "ä" * 128,
    ],
)
def test_unsafe_names_are_refused_before_any_file_exists(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any], name: str
) -> None:
    base = tmp_path / "base"
    sources = [list_source("good", [RECORD]), list_source(name, [RECORD])]
    with pytest.raises(SourceNameError, match=r"sources\[1\]"):
        runtime.write_cache(sources, base)
    assert not base.exists()


@pytest.mark.parametrize("name", [None, 5, b"bytes", Path("path")])
def test_names_of_another_type_are_refused(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any], name: Any
) -> None:
    with pytest.raises(ConfigError, match=r"sources\.name is .*expected a str"):
        runtime.write_cache(list_source(name, [RECORD]), tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("digits", "digits"),
        ("digits", "DIGITS"),
        ("strasse", "straße"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAF\u00c9", "cafe\u0301"),
    ],
)
def test_colliding_names_are_refused_naming_both(
    runtime: DatasetRuntime,
    tmp_path: Path,
    list_source: Callable[..., Any],
    first: str,
    second: str,
) -> None:
    sources = [list_source("other", [RECORD]), list_source(first, []), list_source(second, [])]
    with pytest.raises(SourceNameError, match=r"sources\[1\] and sources\[2\] are named"):
        runtime.write_cache(sources, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain", "with space", "ünïcode-数字", "a.b", "x" * 255])
def test_safe_names_become_directories(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any], name: str
) -> None:
    (result,) = runtime.write_cache(list_source(name, [RECORD]), tmp_path)
    assert result == CacheWriteSuccess(name, tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_names_are_normalised(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    (result,) = runtime.write_cache(list_source("cafe\u0301", [RECORD]), tmp_path)
    assert result == CacheWriteSuccess("caf\u00e9", tmp_path / "caf\u00e9")


@pytest.mark.parametrize(
    ("fingerprint", "message"),
    [
        ({"a": {1, 2}}, r"fingerprint\['a'\] is \{1, 2\}"),
        (lambda: 1, "fingerprint is a method, expected a JSON value"),
        (float("inf"), "fingerprint is inf"),
    ],
)
def test_a_fingerprint_that_is_no_json_is_the_source_s_own_fault(
    runtime: DatasetRuntime,
    tmp_path: Path,
    list_source: Callable[..., Any],
    fingerprint: Any,
    message: str,
) -> None:
    bad = list_source("bad", [RECORD], fingerprint=fingerprint)
    failure, success = runtime.write_cache([bad, Named()], tmp_path)
    assert isinstance(failure, CacheWriteError)
    assert isinstance(failure.exception, ConfigError)
    assert isinstance(success, CacheWriteSuccess)
    with pytest.raises(ConfigError, match=message):
        raise failure.exception


def test_a_name_that_is_no_text_is_refused(runtime: DatasetRuntime, tmp_path: Path) -> None:
    source = Named()
    source.name = "broken \ud800"
    with pytest.raises(SourceNameError, match="lone surrogate"):
        runtime.write_cache(source, tmp_path / "base")
    assert not (tmp_path / "base").exists()
