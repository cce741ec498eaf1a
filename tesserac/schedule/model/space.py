"""How a launch's operations reach memory along the axes of its space.

Enters: a `schedule.launch`. Leaves: one `Reach` per read of an input by an operation and per result written: the
strides along each axis of the space. From these follow which axes are one run in memory and what a kernel's argument
looks like.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices, operand_maps, tensor_type
from tesserac.ir.indexed import gather_source
from tesserac.ir.lines import LINES, lines_out
from tesserac.ir.types import MemRefType, row_major
from tesserac.schedule.dialect import launch_loops, launch_place, launch_places, launch_space, memory
from tesserac.schedule.model.access import Digits, Dims, access_through, grouped_access, merged_stride, view_source
from tesserac.types.dims import ONE, ZERO, Dim

TABLES = {"form.gather": 1, "form.runs": 2}
"""How many of a form's first operands are read at computed places."""


@dataclass(frozen=True)
class Reach:
    """The launch operand `operand`, seen from the space: `offset` plus one stride per axis (0 where it does not vary).
    `computed` are the sizes and strides of dims that are read at places which indices say. `panels` memory has no
    strides of its own. Where `digits` has several dims of memory for an axis, its index is that of all of them."""

    operand: int
    offset: Dim
    strides: Dims
    panels: bool = False
    computed: tuple[tuple[Dim, Dim], ...] = ()
    digits: tuple[tuple[int, Digits], ...] = ()

    def stride(self, axes: tuple[int, ...], space: Dims) -> Dim | None:
        """The stride of neighbouring axes walked as one; None if they are not one run here."""
        if all(self.strides[a] == ZERO for a in axes):
            return ZERO
        return merged_stride([space[a] for a in axes], [self.strides[a] for a in axes])


def followed_axes(op: Op, place: tuple[int, ...], position: int) -> tuple[int | None, ...]:
    """The axis of the space that each dim of an operand follows; none for a unit dim that stretches."""
    match op.name:
        case "form.map" | "form.lines":
            return tuple(None if i is None else place[i] for i in operand_maps(op)[position])
        case "form.gather":
            own = operand_maps(op)[position - 1] if position else gather_source(op)
            return tuple(None if i is None else place[i] for i in own)
        case "form.runs":
            return (None, *place[1:]) if position == 0 else (None,) if position == 1 else (place[0],)
        case "form.scatter":
            return operand_maps(op)[position - 2] if position > 1 else tuple(range(tensor_type(op.operands[1]).rank))
        case "form.reduce" | "form.scan" | "form.sort":
            return tuple(range(tensor_type(op.operands[0]).rank))
        case "form.accumulate":
            return place
        case "form.contract":
            return indices(op, ("lhs", "rhs")[position])
    raise AssertionError(f"{op.name} has no place in a space")


def read_reach(launch: Op, op: Op, position: int) -> Reach | None:
    """How an operation reads an operand from the launch's inputs; None if the launch computes it."""
    base, views = view_source(op.operands[position])
    if base.owner is not launch.body or (op.name == "form.scatter" and position == 0):
        return None
    rank = len(launch_space(launch))
    if memory(launch.operands[base.index]).layout != "strided":
        return Reach(base.index, ZERO, (ZERO,) * rank, panels=True)
    access = access_through(views, base)
    if access is None and op.name == "form.contract":
        return _grouped(op, position, base.index, rank)
    assert access is not None, "the normal form leaves only views that have strides"
    place = launch_place(launch, op)
    strides = [ZERO] * rank
    dims, axes = tensor_type(op.operands[position]).dims, followed_axes(op, place, position)
    for axis, stride, dim in zip(axes, access.strides, dims, strict=True):
        if axis is not None and dim != ONE:
            strides[axis] = strides[axis] + stride  # an axis followed twice is a diagonal
    is_table = op.name == LINES or position < TABLES.get(op.name, 0)
    computed = [(d, s) for a, d, s in zip(axes, dims, access.strides, strict=True) if a is None] if is_table else []
    return Reach(base.index, access.offset, tuple(strides), computed=tuple(computed))


def _grouped(contract: Op, position: int, operand: int, rank: int) -> Reach:
    """How a product reads an operand in groups of dims (`direct.py`)."""
    found = grouped_access(contract.operands[position])
    assert found is not None, "only what can be read in groups is left without strides"
    offset, groups = found
    strides, digits = [ZERO] * rank, dict[int, Digits]()
    for axis, group in zip(indices(contract, ("lhs", "rhs")[position]), groups, strict=True):
        digits[axis] = group
        strides[axis] = group[-1][1]
    several = tuple((axis, group) for axis, group in digits.items() if len(group) > 1)
    return Reach(operand, offset, tuple(strides), digits=several)


def write_reach(launch: Op, number: int) -> Reach:
    """How the launch writes result `number`."""
    yielded, _ = view_source(launch.body.terminator.operands[number])
    op = yielded.defining_op
    assert op is not None, "the normal form computes every result"
    operand = len(launch.body.args) + number
    space, place = launch_space(launch), launch_place(launch, op)
    mem = memory(launch.operands[operand])
    if mem.layout != "strided":
        return Reach(operand, ZERO, (ZERO,) * len(space), panels=True)
    if op.name == "form.scatter":
        return _scattered(op, operand, mem, len(space))
    if op.name == LINES:
        return _lined(op, operand, mem, len(space))
    strides = [ZERO] * len(space)
    for axis, stride in zip(place, written_strides(mem, tensor_type(yielded).dims), strict=True):
        strides[axis] = stride if space[axis] != ONE else ZERO
    return Reach(operand, ZERO, tuple(strides))


def _scattered(op: Op, operand: int, mem: MemRefType, rank: int) -> Reach:
    """How a scatter reaches the memory that it changes: along the axes it follows, and at computed places."""
    strides, computed = [ZERO] * rank, list[tuple[Dim, Dim]]()
    for dim, stride, axis in zip(mem.dims, mem.strides, gather_source(op), strict=True):
        if axis is None:
            computed.append((dim, stride))
        else:
            strides[axis] = stride
    return Reach(operand, ZERO, tuple(strides), computed=tuple(computed))


def _lined(op: Op, operand: int, mem: MemRefType, rank: int) -> Reach:
    """How a form of lines reaches what it writes: along the space, and at every place of a line."""
    strides, lines, dims = [ZERO] * rank, list[tuple[Dim, Dim]](), tensor_type(op.result).dims
    for dim, stride, axis in zip(dims, written_strides(mem, dims), lines_out(op), strict=True):
        if axis is None:
            lines.append((dim, stride))
        elif dim != ONE:
            strides[axis] = stride
    return Reach(operand, ZERO, tuple(strides), computed=tuple(lines))


def written_strides(mem: MemRefType, dims: Dims) -> Dims:
    """The strides of the memory for each dim of a value, which may be a reshape of what the memory says it holds."""
    if mem.contiguous:
        return row_major(dims)
    real = iter([stride for dim, stride in zip(mem.dims, mem.strides, strict=True) if dim != ONE])
    return tuple(ZERO if dim == ONE else next(real) for dim in dims)


def reaches(launch: Op) -> list[Reach]:
    """Every read and write of memory in the launch."""
    found: list[Reach] = []
    for op in computing(launch):
        for position in range(len(op.operands)):
            reach = read_reach(launch, op, position)
            found.extend([reach] if reach is not None else [])
    return found + [write_reach(launch, i) for i in range(len(launch.body.terminator.operands))]


def computing(launch: Op) -> list[Op]:
    """The operations of the body that compute; views only say where to read."""
    return [op for op in launch.body.ops[:-1] if op.name != "form.view"]


def positions_used(launch: Op) -> set[int]:
    """Axes of the space whose position a body asks for: they cannot be walked as part of a longer one."""
    used: set[int] = set()
    places = launch_places(launch)
    for op, place in zip(launch.body.ops[:-1], places, strict=True):
        for inner in op.body.ops if op.name == "form.map" else ():
            axis = inner.attrs.get("axis")
            if inner.name == "scalar.index" and isinstance(axis, int):
                used.add(place[axis])
    return used


def yielded_op(value: Value) -> Op:
    """The form that computes a yielded value, below the reshapes that only rename its dims."""
    op = view_source(value)[0].defining_op
    assert op is not None
    return op


def shared_loop(launch: Op, found: list[Reach]) -> int | None:
    """A loop outside of others along which several programs would read the same of some operand, such as a table for
    all sequences of a batch."""
    space, loops = launch_space(launch), launch_loops(launch)
    inner = [reach for reach in found if reach.stride(loops[-1].axes, space) not in (None, ZERO)]
    same = (i for i in range(len(loops) - 2) if any(reach.stride(loops[i].axes, space) == ZERO for reach in inner))
    return next(same, None)
