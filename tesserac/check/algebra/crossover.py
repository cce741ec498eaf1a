"""From which size on convolutions go by transforms: measured, not counted.

Enters: how many taps there are, and how long the ring is. Leaves: whether transforms are taken. Both are numbers that
stand in the program; the sizes of one call decide nothing.
"""

from __future__ import annotations

from tesserac.types.dims import Dim

LEAST_TAPS = ((64, 16), (256, 16), (1024, 16), (4096, 16), (16384, 24))
"""By the size of the ring up to which a row holds, from how many taps on transforms are faster: `python -m
benchmarks.crossover` makes this table, `benchmarks/results/crossover-aarch64.md` is what it was made from. Longer rings
are as the last one."""


def pays_to_transform(taps: Dim, size: Dim) -> bool:
    """Whether a circular convolution goes by transforms: as many taps as entries always do, but for the few that are
    known to be few; otherwise both are numbers."""
    if size.constant is None:
        return taps == size
    if taps.constant is None or taps.constant > size.constant:
        return False
    least = next((least for limit, least in LEAST_TAPS if size.constant <= limit), LEAST_TAPS[-1][1])
    return taps.constant >= least
