"""The list of peers with a format of their own; each is imported when it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal, cast

from dataset_rt_bench.peers.records import PeerModule
from dataset_rt_bench.unavailable import UnavailableError


@dataclass(frozen=True)
class Peer:
    """One format, and the library behind it.

    Attributes:
        name: As in reports.
        module: The module of this folder that writes and reads it.
        distribution: What provides it, as ``pip`` names it.
        access: Whether records come in stored order only, also by number, or many in one call.
        is_slow: A record takes tens of microseconds or more, so that a part of an epoch is enough
            to time.
    """

    name: str
    module: str
    distribution: str
    access: Literal["in order", "by number", "in batches"]
    is_slow: bool = True

    def load(self) -> PeerModule:
        """Import the module.

        Raises:
            UnavailableError: The library is not installed, or cannot be imported.
        """
        if self.installed_version() is None:
            raise UnavailableError(f"{self.distribution} is not installed")
        try:
            module = import_module(f"dataset_rt_bench.peers.{self.module}")
        except ImportError as error:
            raise UnavailableError(f"{self.distribution} cannot be imported: {error}") from error
        return cast("PeerModule", module)

    def installed_version(self) -> str | None:
        """Return the version of the library, or None where it is not installed.

        Example:
            >>> LMDB.installed_version() is not None
            True
        """
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None


LMDB: Final = Peer("lmdb", "lmdb", "lmdb", "by number", is_slow=False)
WEBDATASET: Final = Peer("webdataset", "webdataset", "webdataset", "in order")
LIBRARIES: Final = (
    Peer("hf datasets", "hf_datasets", "datasets", "in batches"),
    Peer("lance", "lance", "pylance", "in batches"),
    Peer("array_record", "array_record", "array-record", "in batches"),
    Peer("mosaicml streaming", "mosaicml", "mosaicml-streaming", "by number"),
    WEBDATASET,
)
"""The peers that come with the extra ``peers``."""

PEERS: Final[Mapping[str, Peer]] = {peer.name: peer for peer in (LMDB, *LIBRARIES)}
