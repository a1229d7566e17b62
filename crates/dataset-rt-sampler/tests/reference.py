# ruff: noqa: INP001 (a script beside the Rust tests, not a package)
"""A second implementation of the draws, in plain Python; prints the golden vectors of the tests.

It follows the documentation, not the Rust code, and uses whole numbers of any size, so that the two
agree only if both are right. `python tests/reference.py > tests/it/golden_vectors.rs` writes them
(`cargo fmt` then breaks the long lines).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

MASK_32 = 2**32 - 1
FULL = 2**64

WEIGHTED_DRAW = 1
PERMUTATION_ROUND_KEYS = 2
PERMUTATION_SHUFFLE = 3
SHUFFLE_LIMIT = 64


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Return one block of Philox4x32-10."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK_32, (p0 >> 32) ^ c3 ^ k1, p0 & MASK_32
        k0, k1 = (k0 + 0x9E3779B9) & MASK_32, (k1 + 0xBB67AE85) & MASK_32
    return [c0, c1, c2, c3]


def numbers(seed: int, position: int, purpose: int, block: int) -> tuple[int, int]:
    """Return the two 64-bit numbers of one block."""
    counter = (position & MASK_32, position >> 32, purpose, block)
    w0, w1, w2, w3 = philox(counter, (seed & MASK_32, seed >> 32))
    return w0 | w1 << 32, w2 | w3 << 32


def weighted(
    seed: int, population: int, table: Sequence[tuple[int, int]] | None, position: int
) -> int:
    """Return the row of the weighted order."""
    bits, coin = numbers(seed, position, WEIGHTED_DRAW, 0)
    bucket = bits * population // FULL
    if table is None:
        return bucket
    threshold, alias = table[bucket]
    return bucket if coin < threshold else alias


def permutation(seed: int, population: int, position: int) -> int:
    """Return the row of the permutation order."""
    pass_number, index = divmod(position, population)
    if population <= SHUFFLE_LIMIT:
        rows = list(range(population))
        for last in range(population - 1, 0, -1):
            bits = numbers(seed, pass_number, PERMUTATION_SHUFFLE, last // 2)[last % 2]
            other = bits * (last + 1) // FULL
            rows[last], rows[other] = rows[other], rows[last]
        return rows[index]
    bits = (population - 1).bit_length()
    left_bits, right_bits = bits // 2, bits - bits // 2
    keys = [
        key
        for block in range(6)
        for key in numbers(seed, pass_number, PERMUTATION_ROUND_KEYS, block)
    ]

    def mix(half: int, key: int, bits: int) -> int:
        mixed = (half ^ key) * 0xFF51AFD7ED558CCD % FULL
        mixed = (mixed ^ mixed >> 32) * 0xC4CEB9FE1A85EC53 % FULL
        return mixed >> (64 - bits)

    row = index
    while True:
        left, right = row >> right_bits, row & ((1 << right_bits) - 1)
        for number in range(0, 12, 2):
            left ^= mix(right, keys[number], left_bits)
            right ^= mix(left, keys[number + 1], right_bits)
        row = left << right_bits | right
        if row < population:
            return row


def units(weights: Sequence[float]) -> list[int]:
    """Return the units of each row: exactly 2^64 per row in all."""
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    # The sum, rounded up to 64 bits; then rows / sum, rounded down to 64 bits.
    exponent = 0
    while total / Fraction(2) ** exponent >= FULL:
        exponent += 1
    while total / Fraction(2) ** exponent < FULL // 2:
        exponent -= 1
    rounded_sum = -(-total // Fraction(2) ** exponent) * Fraction(2) ** exponent
    scale = len(weights) / rounded_sum
    exponent = 0
    while scale / Fraction(2) ** exponent >= FULL:
        exponent += 1
    while scale / Fraction(2) ** exponent < FULL // 2:
        exponent -= 1
    scale = scale // Fraction(2) ** exponent * Fraction(2) ** exponent
    result = [int(weight * scale * FULL) for weight in exact]
    bonus, rest = divmod(len(weights) * FULL - sum(result), sum(weight > 0 for weight in weights))
    result = [unit + bonus * (weight > 0) for unit, weight in zip(result, weights, strict=True)]
    result[weights.index(max(weights))] += rest
    return result


def alias_table(weights: Sequence[float]) -> list[tuple[int, int]]:
    """Return (threshold, alias) per row by the sweeping construction."""
    left = units(weights)
    table = [(0, row) for row in range(len(weights))]
    lights = [row for row, unit in enumerate(left) if unit < FULL]
    heavies = [row for row, unit in enumerate(left) if unit >= FULL]
    heavy = heavies.pop(0)
    while lights or heavies:
        if left[heavy] >= FULL and lights:
            light = lights.pop(0)
            table[light] = (left[light], heavy)
            left[heavy] -= FULL - left[light]
        else:
            following = heavies.pop(0)
            if left[heavy] < FULL:
                table[heavy] = (left[heavy], following)
                left[following] -= FULL - left[heavy]
            heavy = following
    return table


SEEDS = (0, 42, 2**64 - 1)
STARTS = (0, 2**32 - 2, 2**63 - 4)
POPULATIONS = (1, 2, 3, 64, 65, 1_000, 2**32 + 1, 2**63)
WEIGHTS = (
    (1.0, 2.0, 3.0, 4.0),
    (0.1, 0.0, 0.7, 0.3, 0.0, 1.9),
    (1e-300, 1e300, 5e-324, 2.5e299, 0.0),
    (3e-323, 5e-324, 1e-323),
)


def order_vectors(draw: Callable[[int, int, int], int]) -> Iterator[str]:
    """Give four draws each for all seeds, populations and starts, as lines of Rust."""
    for seed, population, start in product(SEEDS, POPULATIONS, STARTS):
        rows = [draw(seed, population, start + step) for step in range(4)]
        yield f"    ({seed}, {population}, {start}, {rows}),"


def weighted_vectors() -> Iterator[str]:
    """Give eight weighted draws each for all weights, seeds and starts, as lines of Rust."""
    for weights, seed, start in product(WEIGHTS, SEEDS, STARTS):
        table = alias_table(weights)
        rows = [weighted(seed, len(weights), table, start + step) for step in range(8)]
        yield f"    (&{list(weights)}, {seed}, {start}, {rows}),"


def table_vectors() -> Iterator[str]:
    """Give the weight table of all weights, as lines of Rust."""
    for weights in WEIGHTS:
        table = ", ".join(f"({threshold:#x}, {alias})" for threshold, alias in alias_table(weights))
        yield f"    (&{list(weights)}, &[{table}]),"


def main() -> None:
    """Print all vectors as a Rust module."""
    lines = [
        "//! Draws and tables as `reference.py` computes them; written by that script.",
        "",
        "/// (seed, population, first position, rows)",
        "pub(crate) const PERMUTATION: &[(u64, u64, u64, [u64; 4])] = &[",
        *order_vectors(permutation),
        "];",
        "",
        "/// (seed, population, first position, rows)",
        "pub(crate) const EVEN_WEIGHTED: &[(u64, u64, u64, [u64; 4])] = &[",
        *order_vectors(
            lambda seed, population, position: weighted(seed, population, None, position)
        ),
        "];",
        "",
        "/// (weights, seed, first position, rows)",
        "pub(crate) const WEIGHTED: &[(&[f64], u64, u64, [u64; 8])] = &[",
        *weighted_vectors(),
        "];",
        "",
        "/// The (threshold, alias) pairs of a table.",
        "type Entries = &'static [(u64, u64)];",
        "",
        "/// (weights, entries)",
        "pub(crate) const TABLES: &[(&[f64], Entries)] = &[",
        *table_vectors(),
        "];",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
