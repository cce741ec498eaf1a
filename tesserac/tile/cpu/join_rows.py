"""Loops over the rows of a tile, one after the other, become one loop: what is computed of a row stays near.

    loop r: top[r] = max of x[r, :]                       loop r: top = max of x[r, :]
    loop r: sum[r] = sum of p[r, i] = exp(x[r, i] - ..)   ==>     sum = sum of p[0, i] = exp(x[r, i] - ..)
    loop r: y[r, :] = p[r, :] / sum[r]                            y[r, :] = p[0, :] / sum

Enters: a kernel of CPU tiles, whose nests each walk all rows of a block. Leaves: neighbouring loops over the same rows
as one, where what one writes and another reads lies in the row that both are at. Scratch that only lives in one row has
room for one row, and one number of a row is a value: a block of any number of rows costs what a row costs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.index import constant_index
from tesserac.ir.types import MemRefType
from tesserac.tile.cpu.tiles import compute_type
from tesserac.types.dims import ONE, ZERO, Dim

_LOOPS = ("cpu.loop", "cpu.vector_loop", "cpu.fold")
_ACCESSES = ("cpu.load", "cpu.store")
Places = dict[Value, list[tuple[Value, ...]]]
"""Where memory is read or written, one set of coordinates for each access."""


def join_rows(body: Block) -> None:
    """Joins the loops of a kernel's body, and of all loops in it."""
    for block in [body, *(region.block for op in _all(body) for region in op.regions)]:
        _join_block(block)
    for loop in [op for op in body.ops if op.name == "cpu.loop"]:
        _keep_rows(loop)


def _all(body: Block) -> Iterator[Op]:
    for op in body.ops:
        yield from op.walk()


def _join_block(block: Block) -> None:
    place = 0
    while place < len(block.ops):
        first = block.ops[place]
        second = _next_loop(block, place) if _is_plain(first) else None
        if second is None or not _join(first, second):
            place += 1


def _next_loop(block: Block, place: int) -> Op | None:
    """The loop behind another one, with nothing between them that has to stay between."""
    first, written = block.ops[place], None
    for op in block.ops[place + 1 :]:
        if _is_plain(op):
            return op
        if op.name == "cpu.load":
            written = written or {user.operands[1] for user in first.walk() if user.name == "cpu.store"}
        if not op.opdef.pure and (op.name != "cpu.load" or op.operands[0] in (written or ())):
            return None
    return None


def _is_plain(op: Op) -> bool:
    return op.name == "cpu.loop" and not op.results


def _join(first: Op, second: Op) -> bool:
    """Puts the body of the first loop before that of the second; False where the order of what they do would show."""
    if not _are_over_the_same(first, second) or not _are_apart(first, second):
        return False
    row, other = second.body.args[0], first.body.args[0]
    other.replace_all_uses(row)
    first.body.terminator.erase()
    moved = list(first.body.ops)
    for position, op in enumerate(moved):
        op.detach()
        second.body.insert(position, op)
    first.erase()
    _join_block(second.body)
    return True


def _are_over_the_same(first: Op, second: Op) -> bool:
    return first.operands == second.operands and first.attrs == second.attrs


def _are_apart(first: Op, second: Op) -> bool:
    """Whether rows do not meet: memory that one loop writes is accessed by both at the row that they are at."""
    found = [_accesses(loop) for loop in (first, second)]
    if found[0] is None or found[1] is None:
        return False
    (reads, writes), (later_reads, later_writes) = found[0], found[1]
    rows = first.body.args[0], second.body.args[0]
    shared = (set(writes) & (set(later_reads) | set(later_writes))) | (set(reads) & set(later_writes))
    return all(
        _same_row(reads.get(memory, []) + writes.get(memory, []), later_reads.get(memory, []) + later, rows)
        for memory in shared
        for later in [later_writes.get(memory, [])]
    )


def _accesses(loop: Op) -> tuple[Places, Places] | None:
    """What a loop reads and writes; None where it does something else with memory."""
    reads, writes = Places(), Places()
    for op in loop.walk():
        if op.name == "cpu.load":
            reads.setdefault(op.operands[0], []).append(op.operands[1:])
        elif op.name == "cpu.store":
            writes.setdefault(op.operands[1], []).append(op.operands[2:])
        elif not (op.opdef.pure or op.opdef.terminator or op.name in _LOOPS):
            return None
    return reads, writes


def _same_row(first: list[tuple[Value, ...]], second: list[tuple[Value, ...]], rows: tuple[Value, Value]) -> bool:
    """Whether all places are in the row of their loop, along one dim and counted from one start."""
    for dim in range(len(first[0])):
        starts = {_start(places[dim], rows[0]) for places in first} | {_start(p[dim], rows[1]) for p in second}
        if len(starts) == 1 and None not in starts:
            return True
    return False


def _start(place: Value, row: Value) -> Value | Dim | None:
    """Where rows are counted from, if a coordinate is a row of a loop."""
    if place is row:
        return ZERO
    made = place.defining_op
    if made is None or made.name != "index.add" or row not in made.operands:
        return None
    start = made.operands[0] if made.operands[1] is row else made.operands[1]
    return None if start is row else start


# ------------------------------------------------------------------------------------------------- room for one row


def _keep_rows(loop: Op) -> None:
    """Scratch of which a loop of the kernel reads only what it has written in the same round holds one row."""
    for memory in _scratch_of(loop):
        dim = _row_dim(memory, loop)
        if dim is None:
            continue
        _shorten(memory, dim, loop)
        if isinstance(memory.type, MemRefType) and memory.type.dims == (ONE,):
            _as_value(memory, loop)


def _scratch_of(loop: Op) -> list[Value]:
    accessed = (op.operands[0 if op.name == "cpu.load" else 1] for op in loop.walk() if op.name in _ACCESSES)
    made = {memory: memory.defining_op for memory in dict.fromkeys(accessed)}
    return [memory for memory, op in made.items() if op is not None and op.name == "cpu.scratch"]


def _row_dim(memory: Value, loop: Op) -> int | None:
    """The dim of scratch along which all that access it are at the row of the loop."""
    inside, row = set(loop.walk()), loop.body.args[0]
    alone = all(user in inside and user.name in _ACCESSES for user, _ in memory.uses)
    if constant_index(loop.operands[0]) != 0 or not alone:
        return None
    places = [user.operands[position + 1 :] for user, position in memory.uses]
    return next((dim for dim in range(len(places[0])) if all(place[dim] is row for place in places)), None)


def _shorten(memory: Value, dim: int, loop: Op) -> None:
    old = memory.type
    assert isinstance(old, MemRefType)
    dims = tuple(ONE if d == dim else size for d, size in enumerate(old.dims))
    memory.type = MemRefType(dims, old.dtype, old.policy, space=old.space)
    for user, position in list(memory.uses):
        user.set_operand(position + 1 + dim, loop.operands[0])


def _is_rounded(memory: Value) -> bool:
    assert isinstance(memory.type, MemRefType)
    return compute_type(memory.type).dtype != memory.type.dtype


def _as_value(memory: Value, loop: Op) -> None:
    """One number that is stored once in a round, before all that load it, needs no memory."""
    stores = [user for user, _ in memory.uses if user.name == "cpu.store"]
    loads = [user for user, _ in memory.uses if user.name == "cpu.load"]
    if len(stores) != 1 or stores[0].parent is not loop.body:
        return
    [store] = stores
    if _is_rounded(memory):
        return
    for load in loads:
        load.result.replace_all_uses(store.operands[0])
        load.erase()
    store.erase()
