"""Both parts of complex numbers at once: where a kernel reads or writes the one, it does so with the other.

    %re = gpu.load(%x, %i, 0)                one access of 8 bytes for each number, the test of its place included;
    ...                              ->      LLVM joins two of 4 only where neither stands behind a test
    %im = gpu.load(%x, %i, 1)

Enters: loads and stores whose memory holds numbers of two parts. The first load of two brings both, the last store of
two writes both. All others are left to `words`.
"""

from __future__ import annotations

from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.ir.types import IndexType
from tesserac.target import flow
from tesserac.target.llvm_types import Value, const_i64, zero
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.memory import words
from tesserac.target.nvptx.memory.accesses import Elements, Place, all_of, owner, store_vector
from tesserac.tile.gpu.model.touched import written_memory
from tesserac.tile.gpu.model.values import fragment

PARTS = 2


def emit_load(ctx: Context, op: Op) -> None:
    parts = _parts(ctx, op)
    if parts is None:
        words.emit_load(ctx, op)
    elif _comes_before(op, parts):
        values = _load_both(ctx, op, parts.index(op))
        for i, part in enumerate(parts):
            ctx.fragments[part.result] = values[i::PARTS]


def emit_store(ctx: Context, op: Op) -> None:
    parts = _parts(ctx, op)
    if parts is None:
        words.emit_store(ctx, op)
    elif not _comes_before(op, parts):
        _store_both(ctx, parts)


def _comes_before(op: Op, parts: tuple[Op, Op]) -> bool:
    (other,) = (part for part in parts if part is not op)
    body = op.parent
    assert body is not None
    return body.place(op) < body.place(other)


def _parts(ctx: Context, op: Op) -> tuple[Op, Op] | None:
    """The accesses of the first and the second part of the same numbers, of which `op` is one, and between which
    nothing else happens to their memory."""
    memory, *at = op.operands[_first(op) :]
    if not at or not ctx.memories[memory].paired or op.parent is not ctx.kernel.body:
        return None
    if op.name == "gpu.load":
        is_touched = any(memory in written_memory(other) for other in ctx.kernel.walk())
    else:
        is_touched = any(user.name != "gpu.store" for user, _ in memory.uses)
    accesses = [user for user, _ in memory.uses if user.name == op.name and _goes_with(user, op)]
    by_part = {constant_index(access.operands[-1]): access for access in accesses}
    if is_touched or len(accesses) != PARTS or set(by_part) != set(range(PARTS)):
        return None
    return by_part[0], by_part[1]


def _first(op: Op) -> int:
    """Where the memory stands among operands."""
    return 0 if op.name == "gpu.load" else 1


def _goes_with(other: Op, op: Op) -> bool:
    """Whether two accesses are of the same numbers, held in the same way."""
    first = _first(op)
    types = [fragment(access.operands[0] if first else access.result) for access in (op, other)]
    places = zip(op.operands[first:-1], other.operands[first:-1], strict=True)
    same = all(_is_same(a, b) for a, b in places)
    return same and other.parent is op.parent and types[0] == types[1] and op.attrs == other.attrs


def _is_same(left: IRValue, right: IRValue) -> bool:
    number = constant_index(left) if isinstance(left.type, IndexType) else None
    return left is right or (number is not None and number == constant_index(right))


def _load_both(ctx: Context, op: Op, part: int) -> list[Value]:
    """The parts of each element in turns, where `op` loads one of them. Those of an element that does not exist are
    zero; what is read instead is the first number of the memory."""
    ty, mem = fragment(op.result), ctx.memories[op.operands[0]]
    place = Place(ctx, mem, op.operands[1:])
    elements = Elements(place, ty.layout)
    attributes = ctx.invariant() if mem.constant else ""

    def both(address: Value) -> list[Value]:
        """LLVM makes one access of them, by the cache for constant memory, which a vector of two would miss."""
        second = ctx.b.gep(place.element, address, const_i64(1))
        sides = ((address, PARTS * place.bytes), (second, place.bytes))
        return [ctx.b.load(place.element, side, alignment, attributes) for side, alignment in sides]

    def number(register: int) -> Value:
        return ctx.b.gep(place.element, elements.address(register), const_i64(-part))

    def whole() -> list[Value]:
        return [value for register in range(ty.layout.count) for value in both(number(register))]

    def tested() -> list[Value]:
        elements.forget()
        found: list[Value] = []
        for register in range(ty.layout.count):
            exists = elements.exists(register)
            there = both(ctx.b.select(exists, number(register), mem.pointer))
            found += [ctx.b.select(exists, value, zero(value.type)) for value in there]
        return found

    inside = all_of(ctx, place.inside())
    return whole() if inside.number else flow.choose(ctx.b, inside, whole, tested)


def _store_both(ctx: Context, parts: tuple[Op, Op]) -> None:
    source, target, *at = parts[0].operands
    layout, place = fragment(source).layout, Place(ctx, ctx.memories[target], at)
    elements = Elements(place, layout)
    numbers = list(zip(*(ctx.fragments[part.operands[0]] for part in parts), strict=True))

    def store(register: int) -> None:
        store_vector(ctx, list(numbers[register]), elements.address(register), place.bytes)

    def whole() -> None:
        for register in range(layout.count):
            store(register)

    def tested() -> None:
        elements.forget()
        for register in range(layout.count):
            flow.if_then(ctx.b, elements.exists(register), partial(store, register))

    def write() -> None:
        inside = all_of(ctx, place.inside())
        whole() if inside.number else flow.if_else(ctx.b, inside, whole, tested)

    writes = owner(ctx, layout, parts[0].attrs.get("team"))
    write() if writes.number else flow.if_then(ctx.b, writes, write)
