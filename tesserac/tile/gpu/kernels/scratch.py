"""Pass `scratch`: a program's scratch goes to shared memory, or to its own row of a workspace in global memory.

    %p = gpu.scratch() : memref<[N], f32, local>
    gpu.store(%t, %p, %cols)
  becomes, where it fits,
    %p = gpu.alloc() : memref<[N], f32, shared>
  and otherwise, with a new argument %p: memref<[M, N], f32, global> and one row per program,
    %row = gpu.program() : index
    gpu.store(%t, %p, %row, %cols)
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, tuple_of
from tesserac.ir.forms import indices, operand_maps
from tesserac.ir.types import INDEX, MemRefType
from tesserac.tile.dialect import EXCHANGED
from tesserac.tile.gpu.model.values import kernel_grid, memory
from tesserac.types.dims import product


def place_scratch(kernel: Op, place: str) -> None:
    """Changes the kernel in place; `place` is `shared` or `workspace`."""
    for op in list(kernel.walk()):
        if op.name == "gpu.scratch":
            _to_shared(op) if place == "shared" else _to_workspace(kernel, op)


def exchanged_rooms(kernel: Op) -> tuple[int, ...]:
    """The arguments of a kernel that are workspace in which threads read what others have written."""
    return tuple_of(kernel.attrs.get(EXCHANGED, ()), int)


def _to_shared(op: Op) -> None:
    ty = replace(memory(op.result), space="shared")
    room = Builder.before(op).value("gpu.alloc", (), ty, hint=op.result.name)
    op.result.replace_all_uses(room)
    op.erase()
    for view in [user for user, _ in room.uses if user.name == "gpu.view"]:
        ty = replace(memory(view.result), space="shared")
        view.result.replace_all_uses(Builder.before(view).value("gpu.view", (room,), ty, hint=view.result.name))
        view.erase()


def _to_workspace(kernel: Op, op: Op) -> None:
    """The new argument goes behind the memory the launch passes: see `kernel_workspaces`."""
    local = memory(op.result)
    programs = product(kernel_grid(kernel))
    room = kernel.body.add_arg(MemRefType((programs, *local.dims), local.dtype, local.policy), op.result.name)
    row = Builder.before(kernel.body.ops[0]).value("gpu.program", (), INDEX, hint="row")
    if op.attrs.get(EXCHANGED) is True:
        kernel.attrs[EXCHANGED] = (*exchanged_rooms(kernel), room.index)
    for user, position in list(op.result.uses):
        operands = list(user.operands)
        operands[position : position + 1] = [room, row]
        _count_dim(user, position)
        user.set_operands(operands)
    op.erase()


def _count_dim(user: Op, position: int) -> None:
    """What an operation says of dims of its memory, which has one more before them."""
    if user.name == "gpu.gather":
        user.attrs["maps"] = ((), *operand_maps(user))
    elif user.name == "gpu.sort":
        given, made = indices(user, "dims")
        rank = len(memory(user.operands[0]).dims)
        places = {0: (given + 1, made), 1 + rank: (given, made + 1)}
        user.attrs["dims"] = places.get(position, (given, made))
