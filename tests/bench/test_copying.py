"""The limit of copying copies every byte, whatever the sizes and the number of threads."""

import numpy as np
import pytest

from dataset_rt_bench.copying import ParallelCopy


@pytest.mark.parametrize("num_threads", [1, 2, 3])
@pytest.mark.parametrize(("num_bytes", "piece_bytes"), [(100, 7), (96, 32), (5, 5), (1, 1)])
def test_each_piece_is_copied_whole(num_bytes: int, piece_bytes: int, num_threads: int) -> None:
    source = np.arange(num_bytes, dtype=np.uint8)
    copied: list[int] = []

    class Watched(ParallelCopy):
        def _copy_share(self, start: int, stop: int) -> None:
            # One thread after another, and piece by piece, to see what each one writes.
            whole = self.source
            for piece in range(0, num_bytes, piece_bytes):
                self.source = whole[piece : piece + piece_bytes]
                super()._copy_share(start, stop)
                copied.extend(self.buffer[start : min(stop, len(self.source))].tolist())
            self.source = whole

    copy = Watched(source, piece_bytes, num_threads)
    for share in copy.shares:
        copy._copy_share(*share)
    assert sorted(copied) == source.tolist()
    copy.close()


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_the_last_piece_is_left_in_the_buffer(num_threads: int) -> None:
    copy = ParallelCopy(np.arange(100, dtype=np.uint8), 30, num_threads)
    copy.run()
    assert copy.buffer.tolist() == [*range(90, 100), *range(70, 90)]
    copy.close()
