"""From which size on convolutions go by transforms: measured, not counted.

Enters: how many taps there are, and how long the ring is. Leaves: whether transforms are taken. Both are numbers that
stand in the program; the sizes of one call decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ops.butterflies import RADICES
from tesserac.ops.fourier import plan
from tesserac.types.dims import Dim

LEAST_TAPS = ((4096, 4), (16384, 8))
"""By the size of the ring up to which a row holds, from how many taps on transforms are faster: `python -m
benchmarks.crossover` makes this table, `benchmarks/results/crossover-*.md` are what it was made from. Longer rings
are as the last one."""
LEAST_TAPS_OF_PRIMES = ((128, 128), (16384, 32))
"""The same of rings whose size has a prime factor that no step of a transform has."""
LEAST_ROWS = 24
"""From how many rows or columns on a Toeplitz matrix is faster by transforms than as a matrix; from the same page."""


def is_small_matrix(sides: Sequence[Dim]) -> bool:
    """Whether a Toeplitz matrix of these sides is applied as a matrix: they are numbers, and small."""
    return all(side.constant is not None and side.constant < LEAST_ROWS for side in sides)


def pays_to_transform(taps: Dim, size: Dim) -> bool:
    """Whether a circular convolution goes by transforms: as many taps as entries always do, but for the few that are
    known to be few; otherwise both are numbers."""
    if size.constant is None:
        return taps == size
    if taps.constant is None or taps.constant > size.constant:
        return False
    table = LEAST_TAPS if set(plan(size.constant) or [size.constant]) <= set(RADICES) else LEAST_TAPS_OF_PRIMES
    least = next((least for limit, least in table if size.constant <= limit), table[-1][1])
    return taps.constant >= least
