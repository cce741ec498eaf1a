"""Shared-memory layouts of staged operands, and what the hardware must be told about them.

A block is cut into panels of columns; a panel is stored row after row. In a swizzled layout the 16-byte chunks inside
each 1024 bytes are permuted by an exclusive or, so that eight rows of one column of chunks lie in eight different
groups of banks. It is the permutation that tensor copies call 128B: address bits 4 to 6 ^= bits 7 to 9; of rows of 64
bytes 64B, bits 4 and 5 ^= bits 7 and 8. So one formula serves plain copies, ldmatrix, tensor copies and wgmma
descriptors.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.tile.gpu.model.errors import LoweringError

PANEL_BYTES = 128
CHUNK_BYTES = 16
ATOM_BYTES = 1024
"""Eight rows of a panel: the unit after which the swizzle repeats."""
ATOM_ROWS = 8
SWIZZLES = {128: 1, 64: 2}
"""How descriptors call the permutation of panels of so many bytes."""


@dataclass(frozen=True)
class SharedLayout:
    """One stage of a block of `shape` elements of `element` bytes, in panels `panel` columns wide, `pad` bytes between
    its rows. A block that is `transposed` is kept with its dims exchanged, as its memory has them. Behind one with
    `ones` there is a panel of them: more columns of a product, in which each row is summed."""

    shape: tuple[int, int]
    element: int
    panel: int
    swizzled: bool
    transposed: bool = False
    pad: int = 0
    ones: bool = False

    @property
    def stored(self) -> SharedLayout:
        """The same memory, seen with the dims that it has."""
        return replace(self, shape=self.shape[::-1], transposed=False) if self.transposed else self

    @property
    def row_bytes(self) -> int:
        return self.panel * self.element + self.pad

    @property
    def panel_bytes(self) -> int:
        return self.stored.shape[0] * self.row_bytes

    @property
    def filled_bytes(self) -> int:
        """What copies bring."""
        return self.panel_bytes * (self.stored.shape[1] // self.panel)

    @property
    def bytes(self) -> int:
        return self.filled_bytes + (self.panel_bytes if self.ones else 0)

    def offset(self, row: int, column: int) -> int:
        """The byte where an element lies."""
        if self.transposed:
            row, column = column, row
        panel, inside = divmod(column, self.panel)
        plain = panel * self.panel_bytes + row * self.row_bytes + inside * self.element
        return swizzle(plain, self.swizzle_bits) if self.swizzled else plain

    @property
    def swizzle_bits(self) -> int:
        """The address bits that change."""
        return HALF_SWIZZLE if self.row_bytes == PANEL_BYTES // 2 else WHOLE_SWIZZLE


register_attribute("shared_layout", SharedLayout)


WHOLE_SWIZZLE, HALF_SWIZZLE = 0x70, 0x30


def swizzle(offset: int, bits: int = WHOLE_SWIZZLE) -> int:
    return offset ^ (offset >> 3 & bits)


@dataclass(frozen=True)
class Descriptor:
    """What wgmma must know of an operand besides its address: byte distances, and whether k is the slow dim.

    `leading` is the distance between panels, `stride` between groups of eight rows. `steps` is where each block of 16
    terms begins. `panel` are the bytes of a row of a panel.
    """

    leading: int
    stride: int
    steps: tuple[int, ...]
    transposed: bool
    panel: int = PANEL_BYTES

    @property
    def constant_bits(self) -> int:
        """The 64-bit descriptor without the address: distances in units of 16 bytes, and the swizzle."""
        return (self.leading >> 4) << 16 | (self.stride >> 4) << 32 | SWIZZLES[self.panel] << 62


def descriptor(layout: SharedLayout, k_dim: int, k: int) -> Descriptor:
    """The descriptor of an operand whose terms run along `k_dim`, `k` of them per instruction."""
    if layout.transposed:
        return descriptor(layout.stored, 1 - k_dim, k)
    if not layout.swizzled or layout.row_bytes not in (SWIZZLES if k_dim == 0 else (PANEL_BYTES,)):
        raise LoweringError("wgmma reads operands from 128-byte panels")
    if k_dim == 1:
        # The swizzle of a row depends on its number alone, so the terms of a row go on in the next panel.
        places = (divmod(first, layout.panel) for first in range(0, layout.shape[1], k))
        steps = tuple(panel * layout.panel_bytes + inside * layout.element for panel, inside in places)
        return Descriptor(CHUNK_BYTES, ATOM_BYTES, steps, False)
    row = layout.row_bytes
    steps = tuple(first * row for first in range(0, layout.shape[0], k))
    return Descriptor(layout.panel_bytes, ATOM_ROWS * row, steps, True, row)


def tensor_box(layout: SharedLayout) -> tuple[int, int]:
    """The block that one tensor copy fills: all rows of one panel."""
    return layout.stored.shape[0], layout.panel
