"""Pass `pairs`: which memory of a kernel holds complex numbers, whose two parts lie side by side.

    %p = schedule.parts(%x) : memref<[B, 1024, 2], f32>
    tile.launch(%p, %y) @k                     the kernel k says {pairs = [0]}

Numbers begin at multiples of their size, which the memory of their parts alone does not tell; so both parts of a number
are read and written at once.
"""

from __future__ import annotations

from collections import defaultdict

from tesserac.ir.core import Module, Op, Value, tuple_of
from tesserac.tile.dialect import kernel_memrefs, memref_type
from tesserac.tile.gpu.model.values import kernel_parameters
from tesserac.types.dims import ONE, ZERO, Dim

PAIRS = "pairs"
TWO = Dim.const(2)


def mark_pairs(module: Module) -> None:
    """Changes the kernels of the module in place."""
    launches: dict[object, list[Op]] = defaultdict(list)
    for op in (op for host in module.ops if host.name != "tile.kernel" for op in host.walk()):
        if op.name == "tile.launch":
            launches[op.attrs["kernel"]].append(op)
    for kernel in module.ops:
        if kernel.name == "tile.kernel":
            mine = launches[kernel.symbol]
            found = [place for place, value in enumerate(kernel_memrefs(kernel)) if _has_parts(value)]
            pairs = tuple(p for p in found if mine and all(_is_of_parts(op, p) for op in mine))
            if pairs:
                kernel.attrs[PAIRS] = pairs


def is_paired(kernel: Op, parameter: Value) -> bool:
    """Of a kernel in the GPU dialect."""
    return kernel_parameters(kernel).index(parameter) in tuple_of(kernel.attrs.get(PAIRS, ()), int)


def _has_parts(value: Value) -> bool:
    """Whether the last dim is that of parts, and all others go by whole numbers."""
    ty = memref_type(value)
    even = all(stride.mod(TWO) == ZERO for stride in ty.strides[:-1])
    return bool(ty.dims) and ty.dims[-1] == TWO and ty.strides[-1] == ONE and even


def _is_of_parts(launch: Op, place: int) -> bool:
    if place >= len(launch.operands):
        return False
    made = launch.operands[place].defining_op
    is_workspace = made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "workspace"
    return is_workspace or (made is not None and made.name == "schedule.parts")
