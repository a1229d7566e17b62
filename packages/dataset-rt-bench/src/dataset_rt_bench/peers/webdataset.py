"""WebDataset: tar files with two members per record, which can only be read in order."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import webdataset as wds

import dataset_rt as drt
from dataset_rt_bench.peers.records import Sample
from dataset_rt_bench.workload import Workload

MAX_SHARD_BYTES: Final = 256 << 20


def write(path: Path, records: Iterable[drt.CacheInput], workload: Workload) -> int:
    """Write tar files of up to 256 MiB: payloads as they are, metadata as JSON."""
    del workload
    path.mkdir()
    count = 0
    pattern = str(path / "%06d.tar")
    # A whole number of seconds: fractions would need one more header for each member, which makes
    # reading twice as slow.
    options: Any = {"maxsize": MAX_SHARD_BYTES, "mtime": 0, "verbose": 0}
    with wds.ShardWriter(pattern, **options) as writer:
        for record in records:
            writer.write(
                {
                    "__key__": f"{count:09d}",
                    "bin": bytes(record.data),
                    "json": json.dumps(dict(record.metadata)).encode(),
                }
            )
            count += 1
    return count


def open_records(path: Path, workload: Workload) -> "WebRecords":
    """Make a pipeline over the tar files of a folder."""
    del workload
    return WebRecords(path)


class WebRecords:
    """Streams the tar files one after another, without shuffling."""

    def __init__(self, path: Path) -> None:
        """List the tar files."""
        shards = sorted(str(shard) for shard in path.glob("*.tar"))
        self.dataset: Any = wds.WebDataset(shards, shardshuffle=False)

    def in_order(self) -> Iterator[Sample]:
        """Iterate over all records."""
        for sample in self.dataset:
            yield sample["bin"], json.loads(sample["json"])

    def close(self) -> None:
        """Drop the pipeline; files are open during a pass only."""
        del self.dataset
