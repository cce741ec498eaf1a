"""Reads and writes at computed places: each is checked, and a bad one never touches memory.

A thread tests the indices of its own elements. A bad one is put into its status word, which the host looks at; it reads
zero, and is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices, operand_maps
from tesserac.target import flow
from tesserac.target.cpu.elements.gathers import NO_BAD_INDEX
from tesserac.target.llvm_types import I1, I64, Value, const_i64, const_int, vector, zero
from tesserac.target.nvptx.context import Context, Memory, memory_type
from tesserac.target.nvptx.memory.accesses import Elements, Place, all_of, owner, to_memory, to_register
from tesserac.target.nvptx.registers.conversions import convert
from tesserac.target.nvptx.registers.fragments import FOLDS
from tesserac.target.nvptx.registers.scalars import emit_rule
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, memory, scalar_of, text
from tesserac.tile.gpu.products.gathers import coordinates
from tesserac.types.dtype import I64 as INTEGER


@dataclass
class Table:
    """Memory at computed places. `told` has for each computed coordinate the bad index of this thread, if there is
    one, and whether there is."""

    ctx: Context
    memory: Memory
    status: Value | None
    wraps: bool
    told: list[tuple[Value, Value]]

    def checked(self, number: int, index: Value, dim: int, exists: Value) -> tuple[Value, Value]:
        """Computed coordinate `number`, which runs along `dim`: the index counted from the start, and whether there is
        such an element. Without a status it is known to be good."""
        b = self.ctx.b
        if self.status is None:
            return index, exists
        size, found = self.ctx.dim(self.memory.type.dims[dim]), index
        if self.wraps:
            found = b.select(b.icmp("slt", index, const_i64(0)), b.add(index, size), index)
        good = b.icmp("ult", found, size)
        bad = b.binary("and", exists, b.icmp("uge", found, size))
        held, any_bad = self.told[number]
        least = b.maximum_int(index, const_i64(NO_BAD_INDEX + 1))
        self.told[number] = (b.select(bad, least, held), b.binary("or", any_bad, bad))
        return found, b.binary("and", exists, good)

    def tell(self) -> None:
        """Writes the bad indices of this thread."""
        b = self.ctx.b
        for number, (held, any_bad) in enumerate(self.told):
            if self.status is not None and any_bad.number is None:
                flow.if_then(b, any_bad, _storing(self.ctx, held, b.gep(I64, self.status, number)))


def _storing(ctx: Context, value: Value, address: Value) -> Callable[[], None]:
    return lambda: ctx.b.store(value, address, 8)


def table_of(ctx: Context, op: Op, mem: IRValue, at: Sequence[IRValue], rest: Sequence[IRValue]) -> Table:
    checked = op.attrs["bounds"] != "known"
    status = ctx.memories[rest[0]].pointer if checked else None
    computed = sum(isinstance(v.type, FragmentType) for v in at)
    none = (const_i64(0), const_int(I1, 0))
    return Table(ctx, ctx.memories[mem], status, op.attrs["bounds"] == "wrap", [none] * computed)


# --- gather ---------------------------------------------------------------------------------------------------------


def emit_gather(ctx: Context, op: Op) -> None:
    """Neighbours along the last dim are read as a vector where their row is one of the memory."""
    at, layout = coordinates(op), fragment(op.result).layout
    table = table_of(ctx, op, op.operands[0], at, op.operands[1 + len(at) :])
    width, values = _width(ctx, op, table.memory), list[Value]()
    for register in range(0, layout.count, width):
        place, good = _place(ctx, op, table, layout.offsets[register])
        if width == 1:
            values.append(_element(ctx, op, table.memory, place, good))
        else:
            values += _neighbours(ctx, op, table.memory, place, good, layout.offsets[register], width)
    table.tell()
    ctx.fragments[op.result] = values


def _width(ctx: Context, op: Op, mem: Memory) -> int:
    """How many neighbours along the last dim share all coordinates but one, an axis that follows them step by step."""
    ty, maps = fragment(op.result), operand_maps(op)
    dim = len(ty.shape) - 1
    along = [place for place, dims in enumerate(maps) if dim in dims]
    if len(along) != 1 or coordinates(op)[along[0]] not in ctx.axes or mem.strides[along[0]].number != 1:
        return 1
    return min(ty.layout.vector(dim), VECTOR_BYTES * 8 // memory_type(ty.dtype).bits)


def _place(ctx: Context, op: Op, table: Table, offset: dict[int, int]) -> tuple[Value, Value]:
    """Where an element of this thread stands, and whether there is one."""
    b, ty = ctx.b, fragment(op.result)
    good, place, number = _exists(ctx, op, offset), const_i64(0), 0
    for dim, (value, dims) in enumerate(zip(coordinates(op), operand_maps(op), strict=True)):
        index = _coordinate(ctx, ty, value, dims, offset)
        if isinstance(value.type, FragmentType):
            index, good = table.checked(number, index, dim, good)
            number += 1
        place = b.add(place, b.mul(index, table.memory.strides[dim]))
    return place, good


def _element(ctx: Context, op: Op, mem: Memory, place: Value, good: Value) -> Value:
    """The load goes to the first of the memory where there is no element."""
    b, ty = ctx.b, fragment(op.result)
    element = memory_type(ty.dtype)
    address = b.select(good, b.gep(element, mem.pointer, place), mem.pointer)
    loaded = to_register(ctx, b.load(element, address, element.bits // 8, _attributes(ctx, mem)), ty.dtype)
    return b.select(good, loaded, zero(loaded.type))


def _neighbours(
    ctx: Context, op: Op, mem: Memory, place: Value, good: Value, offset: dict[int, int], width: int
) -> list[Value]:
    b, ty = ctx.b, fragment(op.result)
    element, dim = memory_type(ty.dtype), len(ty.shape) - 1
    axis = next(ctx.axes[v] for v, dims in zip(coordinates(op), operand_maps(op), strict=True) if dim in dims)
    room = b.sub(axis.stop, b.add(axis.start, _along(ctx, ty, dim, offset)))
    address, size = b.gep(element, mem.pointer, place), width * element.bits // 8
    low = b.binary("and", b.cast("ptrtoint", address, I64), const_i64(size - 1))
    whole = all_of(ctx, [good, b.icmp("sge", room, const_i64(width)), b.icmp("eq", low, const_i64(0))])

    def at_once() -> list[Value]:
        loaded = b.load(vector(element, width), address, size, _attributes(ctx, mem))
        return [to_register(ctx, b.extract(loaded, i), ty.dtype) for i in range(width)]

    def one_by_one() -> list[Value]:
        present = [b.binary("and", good, b.icmp("sgt", room, const_i64(i))) for i in range(width)]
        return [_element(ctx, op, mem, b.add(place, const_i64(i)), here) for i, here in enumerate(present)]

    return flow.choose(b, whole, at_once, one_by_one)


def _attributes(ctx: Context, mem: Memory) -> str:
    return ctx.invariant() if mem.constant else ""


def _coordinate(
    ctx: Context, ty: FragmentType, value: IRValue, dims: Sequence[int | None], offset: dict[int, int]
) -> Value:
    """A coordinate at one element."""
    if value in ctx.indices:
        return ctx.indices[value]
    if value in ctx.axes:
        return ctx.b.add(ctx.axes[value].start, _along(ctx, ty, dims[0], offset))
    own = fragment(value)
    here = {j: offset.get(d, 0) for j, d in enumerate(dims) if d is not None}
    return convert(ctx.b, ctx.fragments[value][own.layout.register_at(here)], own.dtype, INTEGER)


def _along(ctx: Context, ty: FragmentType, dim: int | None, offset: dict[int, int]) -> Value:
    """How far along a dim of the block an element of this thread is."""
    if dim is None:
        return const_i64(0)
    return ctx.b.add(ctx.coordinates(ty.layout).get(dim, const_i64(0)), const_i64(offset.get(dim, 0)))


def _exists(ctx: Context, op: Op, offset: dict[int, int]) -> Value:
    b, ty, cut = ctx.b, fragment(op.result), indices(op, "bounded")
    axes = op.operands[len(op.operands) - len(cut) :]
    tests = []
    for dim, value in zip(cut, axes, strict=True):
        axis = ctx.axes[value]
        tests.append(b.icmp("slt", b.add(axis.start, _along(ctx, ty, dim, offset)), axis.stop))
    return all_of(ctx, tests)


def emit_index(ctx: Context, op: Op) -> None:
    """One integer, which all threads hold."""
    (value,) = ctx.fragments[op.operands[0]]
    ctx.indices[op.result] = convert(ctx.b, value, fragment(op.operands[0]).dtype, INTEGER)


# --- scatter --------------------------------------------------------------------------------------------------------


def emit_scatter(ctx: Context, op: Op) -> None:
    """A block behind indices that all threads share. Blocks of later iterations are laid out alike, so an element has
    one thread that writes it, in the order of the program."""
    source, target = op.operands[:2]
    rank = len(memory(target).dims)
    at = op.operands[2 : 2 + rank]
    rest = op.operands[2 + rank :]
    there = [ctx.fragments[v][0] for v in rest if isinstance(v.type, FragmentType)]
    table = table_of(ctx, op, target, at, rest[len(there) :])
    good = all_of(ctx, [_fixed(ctx, table, at), *there])
    place = Place(ctx, table.memory, at)
    elements = Elements(place, fragment(source).layout)

    def write() -> None:
        for register, value in enumerate(ctx.fragments[source]):
            exists = elements.exists(register)
            action = _writing(ctx, op, value, elements.address(register))
            flow.if_then(ctx.b, exists, action) if exists.number is None else action()

    flow.if_then(ctx.b, all_of(ctx, [good, owner(ctx, fragment(source).layout, None)]), write)
    table.tell()


def _fixed(ctx: Context, table: Table, at: Sequence[IRValue]) -> Value:
    """Computed coordinates become indices; gives whether all of them are good."""
    good, number = const_int(I1, 1), 0
    for dim, value in enumerate(at):
        if isinstance(value.type, FragmentType):
            (register,) = ctx.fragments[value]
            index = convert(ctx.b, register, fragment(value).dtype, INTEGER)
            ctx.indices[value], good = table.checked(number, index, dim, good)
            number += 1
    return good


def _writing(ctx: Context, op: Op, value: Value, address: Value) -> Callable[[], None]:
    ty, kind = fragment(op.operands[0]), text(op, "kind")
    element = memory_type(ty.dtype)

    def write() -> None:
        new = value
        if kind != "set":
            wide = scalar_of(ty).dtype
            held = to_register(ctx, ctx.b.load(element, address, element.bits // 8), ty.dtype)
            both = [convert(ctx.b, v, ty.dtype, wide) for v in (held, value)]
            new = convert(ctx.b, emit_rule(ctx.b, FOLDS[kind], wide, both), wide, ty.dtype, ty.policy)
        ctx.b.store(to_memory(ctx, new, ty.dtype), address, element.bits // 8)

    return write
