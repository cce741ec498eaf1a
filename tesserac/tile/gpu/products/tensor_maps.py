"""What tensor copies are told: how the memory of a staged block lies, and how much of it one copy brings."""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices
from tesserac.ir.types import AxisType
from tesserac.schedule.costs.tiles import MOST_ROWS
from tesserac.tile.gpu.model.shared import ATOM_ROWS, tensor_box
from tesserac.tile.gpu.model.types import TensorMapType
from tesserac.tile.gpu.model.values import kernel_parameters, memory
from tesserac.tile.gpu.products.pipeline import staged_layout
from tesserac.tile.gpu.products.shared_copies import stride_order


def copied_box(kernel: Op, load: Op) -> tuple[int, int]:
    """What one tensor copy brings: all rows of a panel, of a left operand those that there are, in whole units of the
    swizzle. What its stage has in the others meets only rows of the result that are not there either."""
    layout = staged_layout(load)
    rows, columns = tensor_box(layout)
    mem, axes = memory(load.operands[0]), [isinstance(v.type, AxisType) for v in load.operands[1:]]
    there = kernel.attrs.get(MOST_ROWS, mem.dims[axes.index(True)].constant)
    users = [(user.name, place) for user, place in load.result.uses]
    if layout.transposed or users != [("gpu.dot", 0)] or not isinstance(there, int):
        return rows, columns
    return min(rows, -(-there // ATOM_ROWS) * ATOM_ROWS), columns


def tensor_map(kernel: Op, load: Op) -> Value:
    """A new argument: how tensor copies read the memory of a staged block."""
    source = load.operands[0]
    mem = memory(source)
    order = stride_order(load)
    dims, strides = (tuple(sizes[i] for i in order) for sizes in (mem.dims, mem.strides))
    ty = TensorMapType(dims, strides, mem.dtype, mem.policy, copied_box(kernel, load))
    kernel.attrs["mapped"] = (*indices(kernel, "mapped"), kernel_parameters(kernel).index(source))
    return kernel.body.add_arg(ty, f"{source.name}_map")
