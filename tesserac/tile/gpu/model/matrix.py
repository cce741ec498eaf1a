"""Matrix units: how the threads of a block share one product, and how its operands lie in shared memory.

Enters: the shape and element type of a `tile.dot` and what may run it. Leaves: a `MatrixUnit`: the accumulator's
register layout and the shared-memory layouts of both operands. The three units:

    fma     any number; each thread a piece of up to 8 x 16 in chains, operands in plain rows
    mma     bf16, f16; `mma.sync` m16n8k16 of one warp, operands in 128-byte panels, swizzled, read by ldmatrix
    wgmma   bf16, f16; m64nNk16 of four warps, operands read from the same panels through descriptors

Both take bytes where the terms of both operands are neighbours in memory, 32 of them at a time: fp8, whose sums are
`promote.py`'s, and i8, which are summed in i32.

Note [Banks of registers]
    Registers lie in two banks, by whether their number is even, and each gives one number in a cycle. A multiply-add
    reads three, so it takes one cycle only if it shares a factor with the one before it, which is kept then, and its
    other factor and its sum lie in different banks. A vector of four factors lies in both banks by turns. Of a vector
    of rows, times a column after the other, the sums may do so too, the other way round: the assembler finds that.
    Of a vector of terms of one row, all rows have the factors of one term in one bank, of the next term in the other,
    and half of all multiply-adds take two cycles wherever the sums lie: on an H200 1.36 cycles each, as counted in the
    machine code, where those of rows take 1.12. So words of both operands are kept with terms as rows, whatever their
    memory has: a copy turns those that lie otherwise, four bytes at a time.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import Bit, Layout, bits_below, ends_of, matrix_layout
from tesserac.tile.gpu.model.shared import PANEL_BYTES, SharedLayout
from tesserac.types.dtype import BF16, F16, FP8_E4M3, FP8_E5M2, I8, DType

MMA_REGISTERS: tuple[Bit, ...] = ((1, 1), (0, 8))
MMA_LANES: tuple[Bit, ...] = ((1, 2), (1, 4), (0, 1), (0, 2), (0, 4))
FMA_REGISTERS: tuple[Bit, ...] = ((1, 1), (1, 2))
FMA_LANES: tuple[Bit, ...] = ((0, 1), (1, 4), (1, 8), (1, 16), (0, 2))
"""Half a warp reads 128 bytes of B, and two rows of A. Neighbours read the same words of B, every second lane the same
of A: only so does the hardware give vectors of 16 bytes to half a warp at once, and not to a quarter."""
FMA_ACROSS_REGISTERS: tuple[Bit, ...] = ((1, 8), (1, 16))
FMA_ACROSS_LANES: tuple[Bit, ...] = ((0, 1), (1, 1), (1, 2), (1, 4), (0, 2))
"""Where terms of B are neighbours in memory: half a warp reads vectors of them in eight neighbouring columns. Rows are
in the lanes where the other products have them: what is known of a row goes from one to the other in registers."""
ROW_PAD = 16
"""Bytes between rows of which several are read at once, or written, as where eight lanes of a copy write eight rows:
what they want then lies in banks of its own."""
FMA_PART = (4, 32)
FMA_TURNED_REGISTERS: tuple[Bit, ...] = ((1, 1), (1, 2), (0, 1), (0, 2))
FMA_TURNED_LANES: tuple[Bit, ...] = ((0, 4), (1, 4), (1, 8), (1, 16), (0, 8))
FMA_TURNED_PART = (16, 32)
"""Where terms are the rows of both operands: see Note [Banks of registers]."""
MMA_PART = (16, 16)
ROWS, COLUMNS = "rows", "columns"
"""What the warps of a program share out of the results of its products. Rows: what is known of one stays in a warp.
Columns, where there are too few rows for that: warps tell each other."""
WARPGROUP = 4
MAX_WGMMA_COLUMNS = 256
TERM_BYTES = 32
"""Those of the terms of one instruction, whatever their type."""
BYTES = (FP8_E4M3, FP8_E5M2, I8)
WORD_BYTES = 4


@dataclass(frozen=True)
class MatrixUnit:
    """`k` terms per instruction; `warps` that hold the accumulator. `turned`: terms are the rows of both operands."""

    name: str
    k: int
    warps: int
    turned: bool = False


register_attribute("matrix_unit", MatrixUnit)

FMA = "fma"
MMA = "mma"
WGMMA = "wgmma"


def matrix_unit(name: str, dtype: DType, warps: int) -> MatrixUnit:
    """The unit called `name` for elements of `dtype`, shared by `warps` warps."""
    if name == FMA and dtype.kind in "fiu":
        return MatrixUnit(FMA, 1, warps)
    if name in (MMA, WGMMA) and dtype in (BF16, F16, *BYTES):
        return MatrixUnit(name, TERM_BYTES // dtype.bytes, warps)
    raise LoweringError(f"matrix unit {name} does not multiply {dtype.name}")


def accumulator_layout(unit: MatrixUnit, shape: tuple[int, int], across: bool = False, share: str = "") -> Layout:
    """How the threads hold an accumulator of this shape. `across`: the terms of B are neighbours in memory. `share`:
    what warps share out, where it is not for this to choose."""
    said = {ROWS: [(unit.warps, 1)], COLUMNS: [(1, unit.warps)]}.get(share)
    if unit.turned:
        grid = min(_warp_grids(unit.warps, shape, FMA_TURNED_PART), key=lambda g: (_held(shape, g), -g[0]))
        return matrix_layout(shape, FMA_TURNED_REGISTERS, FMA_TURNED_LANES, FMA_TURNED_PART, grid)
    if unit.name == FMA:
        # Terms of A are read in vectors and those of B one by one, so of two equal shapes the wider is better.
        grids = said or _warp_grids(unit.warps, shape, FMA_PART)
        grid = min(grids, key=lambda g: (_edge(shape, g), -g[0]))
        registers, lanes = (FMA_ACROSS_REGISTERS, FMA_ACROSS_LANES) if across else (FMA_REGISTERS, FMA_LANES)
        return matrix_layout(shape, registers, lanes, FMA_PART, grid)
    if unit.name == MMA:
        grids = said or _warp_grids(unit.warps, shape, MMA_PART)
        grid = min(grids, key=lambda g: (_edge(shape, g), g[0]))
        return matrix_layout(shape, MMA_REGISTERS, MMA_LANES, (16, 8), grid)
    return _wgmma_layout(unit, shape)


def is_turned(unit: MatrixUnit, shape: tuple[int, int], dtype: DType) -> bool:
    """Whether terms had better be the rows of both operands of a product of this shape, by threads that multiply by
    themselves: of words, of which every warp has a part of enough rows and columns."""
    return unit.name == FMA and dtype.bytes == WORD_BYTES and bool(_grids(unit.warps, shape, FMA_TURNED_PART))


def _warp_grids(warps: int, shape: tuple[int, int], part: tuple[int, int]) -> list[tuple[int, int]]:
    """The ways to lay warps out over rows and columns in which each has at least a part of this size."""
    fitting = _grids(warps, shape, part)
    if not fitting:
        raise LoweringError(f"a block of {list(shape)} is too small for {warps} warps")
    return fitting


def _grids(warps: int, shape: tuple[int, int], part: tuple[int, int]) -> list[tuple[int, int]]:
    choices = [(rows, warps // rows) for rows in (1, 2, 4, 8, 16) if warps % rows == 0]
    return [g for g in choices if shape[0] // g[0] >= part[0] and shape[1] // g[1] >= part[1]]


def _held(shape: tuple[int, int], grid: tuple[int, int]) -> int:
    """What a thread reads of both operands for one term: least where its part is square."""
    rows, columns = (size // part for size, part in zip(shape, FMA_TURNED_PART, strict=True))
    return rows // grid[0] + columns // grid[1]


def _edge(shape: tuple[int, int], grid: tuple[int, int]) -> int:
    """What a warp reads of both operands for one term: least where its part is square."""
    return shape[0] // grid[0] + shape[1] // grid[1]


def _wgmma_layout(unit: MatrixUnit, shape: tuple[int, int]) -> Layout:
    groups = unit.warps // WARPGROUP
    if shape[0] != 64 * groups or not 8 <= shape[1] <= MAX_WGMMA_COLUMNS:
        raise LoweringError(f"wgmma needs 64 rows for each of {groups} warp groups, not a block of {list(shape)}")
    if shape[1] % 8:
        raise LoweringError(f"wgmma has columns by eight, not {shape[1]} of them")
    registers = (*MMA_REGISTERS, *bits_below(1, 8, shape[1]))
    return Layout(registers, MMA_LANES, tuple(bits_below(0, 16, shape[0])), ends_of(shape))


def operand_layout(
    unit: MatrixUnit, shape: tuple[int, int], dtype: DType, position: int, transposed: bool = False
) -> SharedLayout:
    """How a block of the left (`position` 0) or right operand is kept in shared memory; `transposed` if its memory has
    columns side by side."""
    if unit.turned:
        return _turned_layout(shape, dtype, position, transposed)
    element, columns = dtype.bytes, shape[0] if transposed else shape[1]
    if unit.name == FMA:
        pad = ROW_PAD if position == 0 or transposed else 0
        return SharedLayout(shape, element, columns, False, transposed, pad)
    return SharedLayout(shape, element, min(columns, PANEL_BYTES // element), True, transposed)


def _turned_layout(shape: tuple[int, int], dtype: DType, position: int, across: bool) -> SharedLayout:
    """With the terms as rows, padded where a copy turns the block: memory has it otherwise."""
    left = position == 0
    pad = ROW_PAD if left != across else 0
    return SharedLayout(shape, dtype.bytes, shape[0] if left else shape[1], False, left, pad)
