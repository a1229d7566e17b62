"""The options of reading and writing, as frozen models that refuse what they do not know."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from dataset_rt import arguments
from dataset_rt.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from pydantic_core import ErrorDetails

_BYTES_PER_UNIT = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
# More would only reserve memory: what is in flight is bounded in bytes as well.
_MAX_PREFETCH_SIZE = 2**20
_MAX_PROCESSES = 1024
_BYTE_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", re.ASCII)


def _byte_size(name: str, value: object) -> int:
    """Return a number of bytes from an int or from text such as ``256MB`` or ``64 MiB``."""
    expected = "expected a positive number of bytes, as an integer or as text like '256MB', '64MiB'"
    if not isinstance(value, str):
        try:
            return arguments.integer(name, value, minimum=1)
        except ConfigError:
            raise ConfigError(f"{name} is {arguments.shown(value)}, {expected}") from None
    match = _BYTE_SIZE.fullmatch(value)
    unit = _BYTES_PER_UNIT.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise ConfigError(f"{name} is {arguments.shown(value)}, {expected}")
    # Decimal, because 1.1GB as a float is a byte off.
    size = Decimal(match[1]) * unit
    if size != size.to_integral_value() or not 1 <= size <= arguments.MAX_INT64:
        raise ConfigError(f"{name} is {arguments.shown(value)}, {expected}")
    return int(size)


def _integer_check(minimum: int, maximum: int) -> Callable[[str, object], int]:
    return lambda name, value: arguments.integer(name, value, minimum=minimum, maximum=maximum)


def _named(check: Callable[[str, object], Any]) -> BeforeValidator:
    return BeforeValidator(lambda value, info: check(str(info.field_name), value))


def _optional(check: Callable[[str, object], Any]) -> BeforeValidator:
    return _named(lambda name, value: None if value is None else check(name, value))


def _integer(minimum: int, maximum: int) -> BeforeValidator:
    return _named(_integer_check(minimum, maximum))


def _choice(*options: str) -> BeforeValidator:
    return _named(lambda name, value: arguments.choice(name, value, options))


_Flag = Annotated[bool, _named(arguments.flag)]


class _Options(BaseModel):
    """What all options share: frozen, strict, and one readable error for a wrong value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - validation is the model's own work
        """Check all options; raise ConfigError with one line for each that is wrong."""
        try:
            super().__init__(**options)
        except ValidationError as error:
            problems = [self._explain(problem) for problem in error.errors(include_url=False)]
            raise ConfigError("\n".join(problems)) from error

    @classmethod
    def _explain(cls, problem: ErrorDetails) -> str:
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, ConfigError):
            message = str(cause)
            return message if message.startswith(cls.__name__) else f"{cls.__name__}: {message}"
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = ", ".join(cls.model_fields)
            return f"{cls.__name__}: option {name!r} is not known, expected one of {known}"
        value = arguments.shown(problem["input"])
        reason = problem["msg"][:1].lower() + problem["msg"][1:]
        return f"{cls.__name__}: {name} is {value}, {reason}"


# "schema" is the contract's name; BaseModel still has a deprecated method of that name, which
# nothing here calls, and warns that the field hides it.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message='Field name "schema"', category=UserWarning)

    class ReaderConfig(_Options):
        """How a dataset draws and reads.

        Attributes:
            seed: The seed of the stream, from 0 to 2**64 - 1.
            shuffle: Draw at random, by weight; False reads the rows in table order.
            replacement: With False a shuffled pass holds every row exactly once; it refuses
                weights that differ, which it would ignore.
            prefetch_size: How many samples are read ahead of the loop; bounded in bytes as well.
            validate_cache: Check the digests of whole files when a cache is opened. The checks
                below go on in any case.
            verify_reads: Check the checksum of every record that is read.
            backend: Where payloads come from. ``"map"`` maps the shards into memory;
                ``"pread"`` reads each record with a system call, which network file systems and
                caches much larger than memory may prefer. The results are the same.
            schema: ``"strict"`` refuses caches whose metadata columns differ; ``"union"`` gives
                nulls for columns that a cache lacks. Types must be the same in both.

        Raises:
            ConfigError: An option is unknown or has a value that is not accepted.

        Example:
            >>> ReaderConfig(seed=42).shuffle
            True
        """

        seed: Annotated[int, _integer(0, arguments.MAX_UINT64)] = 0
        shuffle: _Flag = True
        replacement: _Flag = True
        prefetch_size: Annotated[int, _integer(1, _MAX_PREFETCH_SIZE)] = 64
        validate_cache: _Flag = False
        verify_reads: _Flag = True
        backend: Annotated[Literal["map", "pread"], _choice("map", "pread")] = "map"
        schema: Annotated[Literal["strict", "union"], _choice("strict", "union")] = "strict"  # type: ignore[assignment]


class ShardCompression(_Options):
    """How payloads are compressed in the shards, each record by itself.

    A record that does not become smaller is stored as it is.

    Attributes:
        algo: ``"none"`` stores payloads as they are; ``"lz4"`` is the fastest to read;
            ``"zstd"`` makes smaller shards.
        level: The level of zstd, from -7 (fast) to 22 (small); None is its default, 3. The others
            have no levels.
        dictionary: With zstd, train a dictionary on the first records (up to 4 MiB) if they are
            small, 8 KiB at most on average, and use it for all records of the cache if it saves
            at least 5 % on records that it was not trained on.

    Raises:
        ConfigError: An option is unknown or has a value that is not accepted.

    Example:
        >>> ShardCompression(algo="zstd", level=9).level
        9
    """

    algo: Annotated[Literal["none", "lz4", "zstd"], _choice("none", "lz4", "zstd")] = "none"
    level: Annotated[int | None, _optional(_integer_check(-7, 22))] = None
    dictionary: _Flag = True

    @model_validator(mode="after")
    def _refuse_level_without_zstd(self) -> ShardCompression:
        if self.level is not None and self.algo != "zstd":
            raise ConfigError(
                f"level is {self.level}, expected None, as algo {self.algo!r} has no levels"
            )
        return self


class WriterProfilerConfig(_Options):
    """Whether and where to write down how long the parts of each build took.

    Attributes:
        enabled: Measure; three readings of the clock a record.
        path: The JSON file to write, replaced by each call of ``write_cache``.

    Raises:
        ConfigError: An option is unknown or has a value that is not accepted.

    Example:
        >>> WriterProfilerConfig(enabled=True, path="profile.json").enabled
        True
    """

    enabled: _Flag = False
    path: Annotated[str | None, _optional(arguments.path)] = None

    @model_validator(mode="after")
    def _require_path(self) -> WriterProfilerConfig:
        if self.enabled and self.path is None:
            raise ConfigError("path is None, expected the JSON file to write, as enabled is True")
        return self

    if TYPE_CHECKING:

        def __init__(  # noqa: D107 - the attributes are described above
            self, *, enabled: bool = ..., path: str | PathLike[str] | None = ...
        ) -> None: ...


class WriterConfig(_Options):
    """How caches are written.

    Attributes:
        max_shard_bytes: The largest size of one shard file: a number of bytes, or text such as
            ``"256MB"`` or ``"64MiB"``. It counts bytes as they are stored. A larger record gets a
            shard of its own.
        shard_compression: How payloads are compressed.
        prefetch_size: How many records may wait between the source and the files; bounded in
            bytes as well.
        num_processes: Iterate up to this many sources at once, each in a process of its own; 0
            iterates them one after another in this process.
        show_progress: Show bars on standard error: ``"auto"`` in a terminal or notebook only.
        validate_cache: Check the digests of whole files of every cache once it is complete,
            also of one that is reused.
        on_stale: What to do where a finished cache was written from another fingerprint than its
            source has now: ``"error"`` makes it that source's error, ``"rebuild"`` writes the
            cache anew (the old one can be opened until the new one is complete), ``"reuse"``
            takes the old one.
        profiler: Whether and where to write down how long the parts of each build took.

    Raises:
        ConfigError: An option is unknown or has a value that is not accepted.

    Example:
        >>> WriterConfig(max_shard_bytes="64MiB").max_shard_bytes
        67108864
    """

    max_shard_bytes: Annotated[int, _named(_byte_size)] = 256 * 10**6
    shard_compression: ShardCompression = ShardCompression()
    prefetch_size: Annotated[int, _integer(1, _MAX_PREFETCH_SIZE)] = 256
    num_processes: Annotated[int, _integer(0, _MAX_PROCESSES)] = 0
    show_progress: Annotated[Literal["auto"] | bool, _named(arguments.flag_or_auto)] = "auto"
    validate_cache: _Flag = False
    on_stale: Annotated[
        Literal["error", "rebuild", "reuse"], _choice("error", "rebuild", "reuse")
    ] = "error"
    profiler: WriterProfilerConfig = WriterProfilerConfig()

    if TYPE_CHECKING:
        # The field reads as an int but is given as either, which a field type cannot say.
        def __init__(  # noqa: D107 - the attributes are described above
            self,
            *,
            max_shard_bytes: int | str = ...,
            shard_compression: ShardCompression = ...,
            prefetch_size: int = ...,
            num_processes: int = ...,
            show_progress: bool | Literal["auto"] = ...,
            validate_cache: bool = ...,
            on_stale: Literal["error", "rebuild", "reuse"] = ...,
            profiler: WriterProfilerConfig = ...,
        ) -> None: ...
