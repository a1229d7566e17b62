"""Every exception that DatasetRT raises, in plain Python so that it pickles across processes."""


class DatasetRtError(Exception):
    """Base of all errors of DatasetRT.

    Each leaf also inherits the builtin that people would catch for the same fault.
    """


class ConfigError(DatasetRtError, ValueError):
    """An option has a value that is not accepted."""


class SourceNameError(DatasetRtError, ValueError):
    """A source has a name that cannot be a directory, or that collides with another source."""


class InvalidRecordError(DatasetRtError, ValueError):
    """A source yielded a record that the cache cannot hold, or that differs from the first one."""


class StaleCacheError(DatasetRtError, ValueError):
    """A finished cache was written from another fingerprint than its source has now."""


class BuilderProcessError(DatasetRtError, RuntimeError):
    """A process that built a cache ended without a result."""


class CacheNotFoundError(DatasetRtError, FileNotFoundError):
    """A path holds no complete cache."""


class CacheIOError(DatasetRtError, OSError):
    """The operating system refused to read or write; has ``errno`` and ``filename``."""


class CachePermissionError(CacheIOError, PermissionError):
    """The operating system denied access; has ``errno`` and ``filename``."""


class CorruptCacheError(DatasetRtError, ValueError):
    """A cache holds other bytes than were written, or a file of it is missing or cut short."""


class UnsupportedCacheError(DatasetRtError, ValueError):
    """A cache was written in a format version, or with a feature, that this release cannot read."""


class SchemaMismatchError(DatasetRtError, ValueError):
    """Caches that should form one dataset have different metadata columns or one identity."""


class MetadataTableError(DatasetRtError, ValueError):
    """A table given to ``update_metadata`` lacks columns, or has wrong types or unknown rows."""


class WeightError(DatasetRtError, ValueError):
    """Weights cannot be drawn by.

    They are negative, not finite or all zero, are not one per row, or differ where the order
    ignores them.
    """


class SampleNotFoundError(DatasetRtError, KeyError):
    """No sample has the ``(cache_id, sample_id)`` that was asked for."""

    def __str__(self) -> str:
        """Return the message itself; ``KeyError`` would show its repr."""
        return str(self.args[0]) if self.args else ""


class PositionError(DatasetRtError, IndexError):
    """A row number or stream position lies outside its range."""


class DatasetClosedError(DatasetRtError, ValueError):
    """A dataset was used after ``close()``."""


class TransformError(DatasetRtError):
    """A user's transform raised an exception whose class cannot be rebuilt in this process."""


class StateMismatchError(DatasetRtError, ValueError):
    """A saved state belongs to another table, seed, order, budget or batch."""
