"""Pass `interleave`: complex numbers that wait in a workspace between kernels have their parts side by side.

    tile.kernel @a { ^(p, w: memref<[N, 2, 16], strides=[16, 16*N, 1]>): store w[i, 0, j]; store w[i, 1, j] }
    tile.kernel @b { ^(p, re: memref<[16*N]>, im: memref<[16*N + 1, 16*N], strides=[1, 1]>):
        load re[i]; load im[16*N, i] }
  becomes
    tile.kernel @a { ^(p, w: memref<[N, 16, 2], strides=[32, 2, 1]>): store w[i, j, 0]; store w[i, j, 1] }
    tile.kernel @b { ^(p, w: memref<[16*N, 2], strides=[2, 1]>): load w[i, 0]; load w[i, 1] }

Enters: neutral kernels, each launched once, and a host program. A column of few numbers is then whole sectors of
memory, of which each part alone would be half. A workspace that any kernel reaches otherwise, or multiplies or folds,
stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op, Region, Value, clone_op
from tesserac.ir.index import dim_value
from tesserac.ir.types import MemRefType
from tesserac.tile.dialect import grid, kernel_memrefs, memref_type
from tesserac.tile.gpu.layouts.across import only_maps
from tesserac.types.dims import ONE, ZERO, Dim, product

TWO = Dim.const(2)


@dataclass(frozen=True)
class _View:
    """How a kernel sees a workspace: by `dims` and `strides`, without the dim `along` that says which part it is."""

    value: Value
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    along: int | None
    plane: Dim

    def part(self, move: Op) -> int:
        """Of a load or store."""
        if self.along is None:
            return 0
        return 0 if self._offset(move) == ZERO else 1

    def is_read_by(self, move: Op) -> bool:
        """Whether a load or store is of one part."""
        return self.along is None or self._offset(move) in (ZERO, self.plane)

    def _offset(self, move: Op) -> Dim | None:
        assert self.along is not None
        made = _at(move)[self.along].defining_op
        place = made.attrs.get("dim") if made is not None and made.name == "index.dim" else None
        return place * memref_type(self.value).strides[self.along] if isinstance(place, Dim) else None


def interleave(module: Module) -> None:
    """Changes the module in place."""
    kernels = {op.symbol: op for op in module.ops if op.name == "tile.kernel"}
    for host in [op for op in module.ops if op.name != "tile.kernel"]:
        for buffer in [op for op in host.walk() if op.name == "schedule.buffer"]:
            if buffer.attrs["role"] == "workspace":
                _interleave(buffer.result, kernels, module)


def _interleave(workspace: Value, kernels: dict[str, Op], module: Module) -> None:
    launches = list(dict.fromkeys(user for user, _ in workspace.uses))
    names = [launch.attrs.get("kernel") for launch in launches]
    every = [op.attrs.get("kernel") for op in module.walk() if op.name == "tile.launch"]
    if len(launches) < 2 or not all(isinstance(name, str) and every.count(name) == 1 for name in names):
        return
    plane = product(memref_type(workspace).dims).floor_div(TWO)
    taken = [_views(kernels[str(name)], launch, workspace, plane) for name, launch in zip(names, launches, strict=True)]
    if any(views is None for views in taken):
        return
    for name, launch, views in zip(names, launches, taken, strict=True):
        assert views is not None
        kernels[str(name)] = _rewrite(kernels[str(name)], launch, views, workspace)


def _views(kernel: Op, launch: Op, workspace: Value, plane: Dim) -> list[_View] | None:
    """How a kernel sees a workspace, where all its views are of the same numbers, and both parts are reached. Kernels
    that take one operand as several memories are none of these."""
    memories = kernel_memrefs(kernel)
    if len(memories) != len(launch.operands):
        return None
    pairs = zip(memories, launch.operands, strict=True)
    views = [_view(value, plane) for value, operand in pairs if operand is workspace]
    found = [view for view in views if view is not None]
    moves = [(view, user) for view in found for user, _ in view.value.uses]
    alike = len(found) == len(views) and len({(view.dims, view.strides) for view in found}) == 1
    if not alike or not only_maps(kernel) or not all(_is_plain(view, move, kernel) for view, move in moves):
        return None
    return found if {view.part(move) for view, move in moves} == {0, 1} else None


def _is_plain(view: _View, move: Op, kernel: Op) -> bool:
    """Whether an operation only loads or stores a part, once for each program."""
    named = move.name in ("tile.load", "tile.store") and "groups" not in move.attrs
    return named and move.parent is kernel.body and view.is_read_by(move)


def _view(value: Value, plane: Dim) -> _View | None:
    ty = memref_type(value)
    sizes = list(zip(ty.dims, ty.strides, strict=True))
    planes = [i for i, (size, stride) in enumerate(sizes) if (size, stride) in ((TWO, plane), (plane + 1, ONE))]
    if len(planes) > 1 or ty.dtype.bits != 32:
        return None
    along = planes[0] if planes else None
    kept = [pair for i, pair in enumerate(sizes) if i != along]
    dims, strides = (tuple(pair[i] for pair in kept) for i in (0, 1))
    last = sum(((size - 1) * stride for size, stride in kept), ZERO)
    if product(dims) != plane or last + 1 != plane:  # it is all of a part, and nothing of the other
        return None
    return _View(value, dims, tuple(stride * TWO for stride in strides), along, plane)


def _at(move: Op) -> list[Value]:
    return list(move.operands[(2 if move.name == "tile.store" else 1) :])


def _rewrite(kernel: Op, launch: Op, views: Sequence[_View], workspace: Value) -> Op:
    """The kernel with one memory for all views, which takes its place."""
    by_value = {view.value: view for view in views}
    block, values = Block(), dict[Value, Value]()
    for position in kernel.body.args[: len(grid(kernel))]:
        values[position] = block.add_arg(position.type, position.name)
    operands: list[Value] = []
    for value, operand in zip(kernel_memrefs(kernel), launch.operands, strict=True):
        if value not in by_value:
            values[value] = block.add_arg(value.type, value.name)
            operands.append(operand)
        elif value is views[0].value:
            numbers = block.add_arg(_numbers(views[0]), value.name)
            operands.append(workspace)
    launch.set_operands(operands)
    values |= dict.fromkeys(by_value, numbers)
    b = Builder(block, kernel.span)
    for op in kernel.body.ops:
        moved = clone_op(op, values)
        view = next((by_value[v] for v in op.operands if v in by_value), None)
        if view is not None:
            at = [values[v] for i, v in enumerate(_at(op)) if i != view.along]
            memory = moved.operands[: len(op.operands) - len(_at(op))]
            moved.set_operands([*memory, *at, dim_value(b, view.part(op))])
        b.add(moved)
    new = Op(kernel.opdef, (), (), dict(kernel.attrs), [Region(block)], kernel.span)
    body = kernel.parent
    assert body is not None
    body.insert(body.place(kernel), new)
    kernel.erase()
    return new


def _numbers(view: _View) -> MemRefType:
    ty = memref_type(view.value)
    return MemRefType((*view.dims, TWO), ty.dtype, ty.policy, (*view.strides, ONE), space=ty.space)
