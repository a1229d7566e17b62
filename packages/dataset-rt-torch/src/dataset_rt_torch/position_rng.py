"""Random number generators of single stream positions, for transforms that augment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence, SeedSequence

if TYPE_CHECKING:
    import numpy.typing as npt

_WORDS_OF_KEY = 2


class _PositionSeed(ISpawnableSeedSequence):
    """Makes seed and position the key of a Philox generator as they are.

    ``Philox(key=...)`` would first ask the system for entropy, which takes several times as long
    as all the rest, and nothing could be spawned from such a generator.
    """

    def __init__(self, seed: int, position: int) -> None:
        self._seed = seed
        self._position = position
        self._others: SeedSequence | None = None

    def generate_state(
        self, n_words: int, dtype: npt.DTypeLike = np.uint32
    ) -> npt.NDArray[np.uint32 | np.uint64]:
        if n_words == _WORDS_OF_KEY and dtype is np.uint64:
            return np.array([self._seed, self._position], dtype=np.uint64)
        return self._for_others().generate_state(n_words, dtype)  # type: ignore[arg-type]

    def spawn(self, n_children: int) -> list[SeedSequence]:  # type: ignore[override]
        return self._for_others().spawn(n_children)

    def _for_others(self) -> SeedSequence:
        if self._others is None:
            self._others = SeedSequence([self._seed, self._position])
        return self._others


def rng_of_position(seed: int, position: int) -> np.random.Generator:
    """Return the random number generator of one stream position.

    The pair is the key of a counter-based generator, so generators of different positions are
    independent, and each is the same for any number of workers and ranks. So is what is spawned
    from it.

    Example:
        >>> int(rng_of_position(seed=42, position=7).integers(1000))
        306
    """
    seed_of_position = _PositionSeed(seed, position)
    # NumPy takes everything that implements this interface; its stubs do not say so.
    return np.random.Generator(np.random.Philox(seed_of_position))  # type: ignore[arg-type]
