"""Pass `shared_copies`: a block that two products read in two ways is copied once.

    %x = gpu.stage(%q_across, %columns, %i); %s = gpu.dot(%k, %x, ...)
    %y = gpu.stage(%q, %i, %columns);        %dk = gpu.dot(%ds, %y, ...)
  becomes, if both are the same elements of one buffer and lie in shared memory alike,
    %x = gpu.stage(%q_across, %columns, %i); %s = gpu.dot(%k, %x, ...)
    %y = gpu.turned(%x);                     %dk = gpu.dot(%ds, %y, ...)

Units that read panels through descriptors take either dim for that of the terms. The stage is given back when the last
product has read it.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import indices
from tesserac.ir.types import AxisType
from tesserac.tile.dialect import BUFFERS
from tesserac.tile.gpu.model.values import kernel_parameters, memory
from tesserac.tile.gpu.products.gathers import copies_rows
from tesserac.tile.gpu.products.pipeline import staged_layout
from tesserac.types.dims import ONE

Read = tuple[object, ...]
"""All that says which elements a stage has, and how they lie."""


def share_copies(kernel: Op) -> None:
    """Changes the kernel in place."""
    buffers = indices(kernel, BUFFERS) if BUFFERS in kernel.attrs else ()
    numbers = dict(zip(kernel_parameters(kernel), buffers, strict=False))
    first: dict[tuple[Block, Read], Op] = {}
    for load in [op for op in kernel.walk() if op.name == "gpu.stage" and "ring" not in op.attrs]:
        buffer = numbers.get(load.operands[0])
        if buffer is None or load.parent is None or copies_rows(load):
            continue
        other = first.setdefault((load.parent, (buffer, *_read(load))), load)
        if other is not load:
            attrs = {"layout": staged_layout(load)}
            turned = Builder.before(load).value("gpu.turned", (other.result,), load.result.type, attrs)
            load.result.replace_all_uses(turned)
            load.erase()


def by_stride(load: Op) -> list[Value]:
    """The coordinates of a staged block in the order of its memory: those at one place first, the dense one last."""
    return [load.operands[1 + i] for i in stride_order(load)]


def stride_order(load: Op) -> list[int]:
    at, strides = load.operands[1:], memory(load.operands[0]).strides
    return sorted(range(len(at)), key=lambda i: (isinstance(at[i].type, AxisType), strides[i] == ONE))


def _read(load: Op) -> Read:
    mem, order = memory(load.operands[0]), stride_order(load)
    dims = tuple((mem.dims[i], mem.strides[i]) for i in order)
    return (tuple(by_stride(load)), dims, mem.dtype, staged_layout(load).stored)
