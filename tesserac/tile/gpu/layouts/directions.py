"""How blocks lie in memory, and which unit multiplies them: asked by `layouts`, before anything has a place.

Enters: operations of a tile kernel. Leaves: what follows from the strides of the memory that they read or write.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.ir.types import AxisType
from tesserac.tile.dialect import memref_type, tile_type
from tesserac.tile.gpu.layouts.asynchronous import is_narrow
from tesserac.tile.gpu.layouts.row_copies import is_staged_gather, staged_rows
from tesserac.tile.gpu.layouts.variants import Variant
from tesserac.tile.gpu.model.matrix import FMA, MatrixUnit, is_turned, matrix_unit
from tesserac.types.dims import ONE, Dim

TWO = Dim.const(2)


def dot_unit(dot: Op, variant: Variant) -> MatrixUnit:
    """What multiplies: the unit of the variant where it takes these numbers."""
    dtype, (rows, columns) = tile_type(dot.operands[0]).dtype, tile_type(dot.result).shape
    unit = matrix_unit(variant.unit if is_narrow(dot) else FMA, dtype, variant.warps)
    turned = is_turned(unit, (rows, columns), dtype) and not variant.share and _are_turned(dot)
    return replace(unit, turned=True) if turned else unit


def _are_turned(dot: Op) -> bool:
    """Whether copies can turn both operands: those of the only product of a kernel, dense in one dim."""
    return _is_alone(dot) and all(_is_dense(value.defining_op) for value in dot.operands[:2])


def _is_alone(dot: Op) -> bool:
    kernel = dot.parent.parent_op if dot.parent is not None else None
    while kernel is not None and kernel.name != "tile.kernel":
        kernel = kernel.parent.parent_op if kernel.parent is not None else None
    return kernel is not None and sum(op.name == "tile.dot" for op in kernel.walk()) == 1


def _is_dense(load: Op | None) -> bool:
    if load is None or load.name != "tile.load":
        return False
    strides = _block_strides(load)
    return len(strides) == 2 and ONE in strides


def takes_every_second(op: Op) -> bool:
    """Whether a block is a part of numbers of two, such as the real one of complex numbers: its elements make no
    vectors, and lanes that hold one each reach whole lines of memory."""
    if op.name not in ("tile.load", "tile.store"):
        return False
    return _block_strides(op)[-1:] == [TWO]


def lies_across(move: Op) -> bool:
    """Whether the columns of a loaded or stored block are side by side in memory, and its rows are not."""
    if move.name == "tile.gather":
        return is_staged_gather(move) and staged_rows(move).lies_across
    strides = _block_strides(move)
    return len(strides) == 2 and strides[0] == ONE and strides[1] != ONE


def _block_strides(move: Op) -> list[Dim]:
    """Those of a loaded or stored block."""
    first = 1 if move.name == "tile.store" else 0
    mem, at = memref_type(move.operands[first]), move.operands[first + 1 :]
    return [stride for stride, v in zip(mem.strides, at, strict=True) if isinstance(v.type, AxisType)]
