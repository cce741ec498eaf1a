"""The blocks of a dim that is cut into blocks of one size: all but the last are whole.

Enters: the size of a dim and that of a block. Leaves: ranges of numbers of blocks, each with the size that they have.
"""

from __future__ import annotations

from tesserac.types.dims import ZERO, Dim


def block_parts(over: Dim, size: int) -> list[tuple[Dim, Dim, Dim]]:
    """From the first block that is whole to behind the last, and the one that is left, if any; each with its size."""
    whole = over.floor_div(size)
    parts = [(ZERO, whole, Dim.const(size)), (whole, over.ceil_div(size), over.mod(size))]
    return [(first, last, block) for first, last, block in parts if first != last]
