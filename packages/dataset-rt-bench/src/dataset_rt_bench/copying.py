"""Plain memcpy in several threads: the limit of everything that copies payloads out of a map."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt


class ParallelCopy:
    """Copies an array piece by piece into one buffer, each piece by all threads together.

    Every thread goes through all pieces and copies its own share of each, so threads do not wait
    for one another. The pieces lie side by side, the best case for the memory: there is nothing
    to look up and nothing to verify.

    Example:
        >>> source = np.arange(10, dtype=np.uint8)
        >>> copy = ParallelCopy(source, piece_bytes=4, num_threads=2)
        >>> copy.run()
        >>> copy.buffer.tolist()
        [8, 9, 6, 7]
        >>> copy.close()
    """

    def __init__(self, source: npt.NDArray[np.uint8], piece_bytes: int, num_threads: int) -> None:
        """Start the threads' pool."""
        self.source = source
        self.buffer = np.empty(piece_bytes, dtype=np.uint8)
        self.pool = ThreadPoolExecutor(num_threads)
        bounds = [piece_bytes * number // num_threads for number in range(num_threads + 1)]
        self.shares = list(pairwise(bounds))

    def run(self) -> None:
        """Copy everything once."""
        for copied in [self.pool.submit(self._copy_share, *share) for share in self.shares]:
            copied.result()

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()

    def _copy_share(self, start: int, stop: int) -> None:
        source, buffer, total_bytes = self.source, self.buffer, len(self.source)
        for piece in range(0, total_bytes, len(buffer)):
            # Copying between arrays of one type is a memcpy, without the GIL.
            part = source[piece + start : min(piece + stop, total_bytes)]
            buffer[start : start + len(part)] = part
