"""A program for an installation without torch: writes, reads, weights, asks for a loader."""

import json
import sys
from collections.abc import Iterator

import numpy as np

import dataset_rt as drt


class Digits:
    """Yield eight records whose payload is their own number."""

    name = "digits"

    def __iter__(self) -> Iterator[drt.CacheInput]:
        """Yield one record after the other."""
        for number in range(8):
            yield drt.CacheInput(data=str(number).encode(), metadata={"number": number})


def main() -> None:
    """Print what happened as one JSON object."""
    result = drt.DatasetRuntime(num_workers=1).from_cache_sources(
        Digits(), "caches", reader_config=drt.ReaderConfig(seed=1, shuffle=True)
    )
    if not isinstance(result, drt.CacheSourcesDatasetSuccess):
        raise TypeError(result)
    dataset = result.dataset
    payloads = sorted(dataset.rows[row].data.decode() for row in range(len(dataset.rows)))

    weights = np.zeros(8)
    weights[[2, 5]] = 1.0
    dataset.set_weights(weights)
    drawn_rows = sorted({int(row) for row in dataset.draws(0, 100)})

    error: BaseException | None = None
    try:
        dataset.to_torch_dataloader(batch_size=4)
    except ImportError as raised:
        error = raised
    report = {
        "payloads": payloads,
        "drawn_rows": drawn_rows,
        "error_type": type(error).__name__,
        "error_message": str(error),
    }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
