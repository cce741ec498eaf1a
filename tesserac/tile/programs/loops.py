"""Loops over the blocks of a dim in a tile program: chains that go on from block to block.

What such a loop carries changes by a product over its block, by a sum of it, or by a maximum or minimum with something
of the block:

    acc = ldexp(acc, a) + ldexp(p @ v, b)       a chain: tile.dot(ldexp(p, b), v, ldexp(acc, a))
    s = s + sum(x)                              tile.reduce of a block of 512, which the aligned tree adds to others
    m = maximum(m, mc)                          as it stands

Powers of two commute with the rounding of every step, so the chain has the bits of one product over the whole dim with
terms of the final scale. A contraction is cut into segments, which the aligned tree puts together: the value of a
segment is all that the loop carries, and two neighbours become one as a block joins what came before it, with the right
one's values in the place of the block's. A segment of sums is one block.
Sums beside products are those of `programs/lanes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.kernels import Cut, block_loop
from tesserac.ir.types import INDEX, ScalarType, TensorType, TileType
from tesserac.numerics.order import CONTRACTION, REDUCTION, Chain
from tesserac.schedule.programs.blocks import products_of
from tesserac.tile.bodies import finished
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.joins import (
    Joined,
    begins_late,
    below_unit_views,
    joined,
    joined_late,
    neutral,
    remember_part,
    shaped,
)
from tesserac.tile.programs.lanes import empty_lanes, folded_lanes, has_lanes, next_lanes, require_floats
from tesserac.tile.programs.masked_blocks import Bound, bounds_of
from tesserac.tile.programs.parts import multiplied
from tesserac.tile.programs.steps import build_steps
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import BOOL, I64

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

Fill = Callable[[Value, list[Value]], list[Value]]


@dataclass(frozen=True)
class Ends:
    """Where what counts of a dim begins, if not at its first index, and where it ends. `kept` holds of all before the
    end."""

    low: Value | None
    high: Value
    kept: frozenset[Bound] = frozenset()


Walk = Callable[["Program", Op, Cut, list[Joined], Value, Ends, list[Value]], list[Value]]
"""Ascending blocks from an index to the end, and what they carry on."""


def build_loop(program: Program, op: Op, value: Value) -> Value:
    """All that a loop over blocks gives; the one that was asked for."""
    cut = block_loop(op)
    if cut is None:
        build_steps(program, op)
        return _found(program, value)
    if cut.block in program.axes:
        raise NoTiles("a loop over blocks inside another one over the same")
    _make_invariants(program, op)
    if cut.block in program.meant:
        return _one_by_one(program, op, cut, value)
    joins = [joined(program, op, cut, position) for position in range(len(op.results))]
    inits, late = [program.value(v) for v in op.operands[2:]], begins_late(op, joins)
    inits = [neutral(program, *pair) for pair in zip(joins, inits, strict=True)] if late else inits
    segment = _segment(joins, beside := _sums_beside_products(op, joins))
    _admit_sums(program, cut, joins, beside)
    ends, walk = _ends(program, op, cut), partial(_halves, segment or 0) if beside else _chain
    if segment is None or _fits_segment(cut, segment):
        totals = walk(program, op, cut, joins, program.size(0), ends, inits)
    else:
        totals = _tree(program, op, cut, joins, segment, ends, inits, walk)
    rows = zip(op.results, totals, joins, strict=True)
    done = [v if j.product is None else finished(program.builder, "sum", v, tensor_type(r)) for r, v, j in rows]
    for result, value_ in zip(op.results, joined_late(program, op, joins, done) if late else done, strict=True):
        program.remember(result, value_)
    return _found(program, value)


def _found(program: Program, value: Value) -> Value:
    found = program.known(value)
    if found is None:
        raise NoTiles("rows that a loop writes and that are read again")
    return found


def _one_by_one(program: Program, op: Op, cut: Cut, value: Value) -> Value:
    """A loop over blocks that are meant: what one makes of what is carried is made as it stands, in order."""
    inits = [program.value(v) for v in op.operands[2:]]
    joins = [Joined(yielded) for yielded in op.body.terminator.operands]
    totals = _chain(program, op, cut, joins, program.size(0), Ends(None, program.size(cut.over)), inits)
    for result, total in zip(op.results, totals, strict=True):
        program.remember(result, total)
    return _found(program, value)


def _ends(program: Program, loop: Op, cut: Cut) -> Ends:
    """The part of a dim that masks let count: none before the first, nothing from the second on."""
    low: Value | None = None
    high, kept = program.size(cut.over), set[Bound]()
    for bound in bounds_of(loop, cut.block):
        shift = bound.shift + Dim.sym(str(loop.attrs["counter"])) * cut.block
        other = None if bound.other is None else program.axes.get(bound.other)
        shift = shift if other is None else shift - other.said
        given = None if bound.given is None else _given(program, bound.given, bound)
        unknown = (bound.other is not None and other is None) or (bound.given is not None and given is None)
        if program.varies(shift) or unknown:
            continue
        if bound.upper:
            last = program.size(ONE) if other is None else program.end(other)
            high = index_op(program.builder, "min", high, _plus(program, last, shift, given))
            kept.update([bound] if other is None else [])
        else:
            first = _plus(program, program.size(ZERO) if other is None else other.start, shift, given)
            low = first if low is None else index_op(program.builder, "max", low, first)
    return Ends(low, high, frozenset(kept))


FAR = 1 << 30
"""Beyond any dim, and half of what 32 bits count: a position and a number up to it have a sum of as many bits."""


def _given(program: Program, value: Value, bound: Bound) -> Value | None:
    """What a bound adds to a place: one integer that a program is given; None where it computes it. The sum of a place
    and a number about as large as its type has comes out on the other side of 0: such a number bounds nothing."""
    if not program.is_argument(value):
        return None
    nothing = 2 * FAR if bound.upper else -2 * FAR

    def fill(builder: Builder, args: list[Value]) -> Value:
        own = compute_scalar(TileType((), I64))

        def number(count: int) -> Value:
            return builder.value("scalar.constant", (), own, {"value": count})

        one = args[0] if args[0].type == own else builder.value("scalar.cast", args, own, {"dtype": I64})
        less = builder.value("scalar.sub", (number(0), one), own)
        size = builder.value("scalar.max", (one, less), own)
        near = builder.value("scalar.le", (size, number(FAR)), ScalarType(BOOL))
        return builder.value("scalar.select", (near, less if bound.taken_off else one, number(nothing)), own)

    places = (None,) * tensor_type(value).rank
    found = program.mapped([program.value(value)], [places], TensorType((), I64), fill)
    return program.builder.value("tile.index", (found,), INDEX)


def _plus(program: Program, index: Value, shift: Dim, given: Value | None) -> Value:
    index = index if given is None else index_op(program.builder, "add", index, given)
    return index if shift == ZERO else index_op(program.builder, "add", index, program.size(shift))


def _make_invariants(program: Program, loop: Op) -> None:
    """What a loop reads from around it is made before it, and the axes of dims that its products take whole. What it
    gathers from stays in memory, however large it is."""
    read = [value for op in [*loop.walk()] if op is not loop for value in _read_by(program, op)]
    inside = {value for op in loop.walk() for value in (*op.results, *(a for r in op.regions for a in r.block.args))}
    for value in read:
        if value not in inside and isinstance(value.type, TensorType) and not program.is_argument(value):
            program.value(value)
    for product in products_of(loop):
        for dim in tensor_type(product.result).dims:
            if dim not in program.sizes:
                program.axis(dim)


def _read_by(program: Program, op: Op) -> Sequence[Value]:
    """The tiles that a form reads: of a product of parts those, and of a gather from memory the places alone."""
    parts = program.parts_of_terms(op) if op.name == "form.contract" else []
    if len(parts) > 1:
        return [factor for part in parts for factor in part]
    is_table = op.name == "form.gather" and program.read(op.operands[0]) is not None
    return op.operands[1:] if is_table else op.operands


# ----------------------------------------------------------------------------------------------- what a loop carries


def _admit_sums(program: Program, cut: Cut, joins: list[Joined], beside: bool) -> None:
    """Sums of blocks that are whole blocks of a reduction's order may be made; the aligned tree adds them. Beside
    products blocks may be as wide as the order has lanes."""
    sums = [join.total for join in joins if join.total is not None]
    if beside and has_lanes(program, cut.block):
        require_floats(sums)
        return
    if sums and program.sizes[cut.block] != REDUCTION.block and not _is_one_block(program, cut):
        raise NoTiles(f"a sum over blocks {cut.block} that are not of {REDUCTION.block}")
    program.sums.update(sums)


def _is_one_block(program: Program, cut: Cut) -> bool:
    return cut.over.constant is not None and cut.over.constant <= min(program.sizes[cut.block], REDUCTION.block)


def _sums_beside_products(loop: Op, joins: list[Joined]) -> bool:
    return any(join.total is not None for join in joins) and any(products_of(loop))


def _segment(joins: list[Joined], beside: bool) -> int | None:
    orders = {join.product.attrs["order"] for join in joins if join.product is not None}
    lengths = {(order if isinstance(order, Chain) else CONTRACTION).length for order in orders}
    if any(join.total is not None for join in joins) and not beside:
        return REDUCTION.block
    if len(lengths) > 1 or any(length % REDUCTION.block for length in lengths if beside):
        raise NoTiles("chains of different segments")
    return min(lengths) if lengths else CONTRACTION.length if beside else None


def _fits_segment(cut: Cut, segment: int) -> bool:
    return cut.over.constant is not None and cut.over.constant <= segment


# ----------------------------------------------------------------------------------------------------- what it becomes


def _chain(
    program: Program, loop: Op, cut: Cut, joins: list[Joined], first: Value, ends: Ends, inits: list[Value]
) -> list[Value]:
    """Ascending blocks from `first` to the end; those in which nothing counts are passed over."""
    step = program.sizes[cut.block]
    counter = str(loop.attrs["counter"])

    def fill(start: Value, carried: list[Value]) -> list[Value]:
        program.counters[counter] = (start, step)
        program.enter_axis(cut.block, start, Dim.sym(counter) * cut.block, ends.high)
        program.kept[cut.block] = ends.kept
        for arg, held, join in zip(loop.body.args[1:], carried, joins, strict=True):
            if not join.lanes:
                program.remember(arg, held)
        pairs = zip(joins, loop.body.terminator.operands, carried, strict=True)
        found = [_next(program, join, value, held, cut) for join, value, held in pairs]
        del program.axes[cut.block], program.counters[counter], program.kept[cut.block]
        return found

    return _for(program, loop, first, ends, step, inits, fill)


def _for(
    program: Program, loop: Op, first: Value, ends: Ends, step: int, inits: list[Value], fill: Fill
) -> list[Value]:
    """A loop from `first` to the end that carries what the loop over blocks does."""
    types = [v.type for v in inits]
    body = Block([INDEX, *types], ["i", *(v.name for v in loop.body.args[1:])])
    low = first if ends.low is None else _skipped(program, first, ends.low, step)
    with program.inside(body):
        program.builder.op("tile.yield", fill(body.args[0], body.args[1:]))
    made = program.builder.op("tile.for", (low, ends.high, *inits), types, {"step": step}, (body,))
    return list(made.results)


def _halves(
    length: int,
    program: Program,
    loop: Op,
    cut: Cut,
    joins: list[Joined],
    first: Value,
    ends: Ends,
    inits: list[Value],
) -> list[Value]:
    """Blocks of so many elements in which chains go on, and sums are those of both halves, down to one block of the
    order of sums: see `programs/lanes.py`."""
    if length <= REDUCTION.block:
        return _block_of_sums(program, loop, cut, joins, first, ends, inits)
    half = length // 2
    if cut.over.constant is not None and cut.over.constant <= half:
        return _halves(half, program, loop, cut, joins, first, ends, inits)

    def fill(start: Value, carried: list[Value]) -> list[Value]:
        stop = index_op(program.builder, "add", start, program.size(half))
        high = index_op(program.builder, "min", stop, ends.high)
        begun = [init if join.total else held for join, held, init in zip(joins, carried, inits, strict=True)]
        found = _halves(half, program, loop, cut, joins, start, Ends(ends.low, high, ends.kept), begun)
        rows = zip(joins, loop.body.args[1:], loop.body.terminator.operands, carried, found, strict=True)
        return [_plus_half(program, *row) if row[0].total else row[-1] for row in rows]

    return _for(program, loop, first, ends, half, inits, fill)


def _plus_half(program: Program, join: Joined, arg: Value, value: Value, before: Value, half: Value) -> Value:
    program.remember(arg, before)
    remember_part(program, join, arg, half)
    return program.value(value)


def _block_of_sums(
    program: Program, loop: Op, cut: Cut, joins: list[Joined], first: Value, ends: Ends, inits: list[Value]
) -> list[Value]:
    """One block of the order of sums: what it or its lanes come to beside what chains carry on."""
    if not has_lanes(program, cut.block):
        return _chain(program, loop, cut, joins, first, ends, inits)
    by_lanes = [replace(join, lanes=join.total is not None) for join in joins]
    begun = [
        empty_lanes(program, join.total) if join.total else init for join, init in zip(joins, inits, strict=True)
    ]
    found = _chain(program, loop, cut, by_lanes, first, ends, begun)
    rows = zip(joins, loop.body.args[1:], found, strict=True)
    return [_folded(program, join.total, arg, tile) if join.total else tile for join, arg, tile in rows]


def _folded(program: Program, total: Op, arg: Value, lanes: Value) -> Value:
    """What the lanes of a block of the order fold to, with the dims of size 1 that it is carried with."""
    made = folded_lanes(program, total, lanes)
    return shaped(program, made, tensor_type(total.result), tensor_type(arg))


def _skipped(program: Program, first: Value, low: Value, step: int) -> Value:
    """The start of the last block, of those from `first` on, that does not begin behind `low`."""
    builder, blocks = program.builder, program.size(step)
    ahead = index_op(builder, "max", index_op(builder, "sub", low, first), program.size(0))
    whole = index_op(builder, "mul", index_op(builder, "floor_div", ahead, blocks), blocks)
    return index_op(builder, "add", first, whole)


def _next(program: Program, join: Joined, value: Value, held: Value, cut: Cut) -> Value:
    """What a loop carries on from what it held."""
    if join.lanes:
        assert join.total is not None
        return next_lanes(program, join.total, held, cut.block)
    if join.product is None:
        return program.value(value)
    assert join.before is not None
    left, right = program.factors(join.product)
    factor = program.value(left) if join.scale is None else _scaled(program, left, join.scale)
    result = tensor_type(join.product.result)
    before = shaped(program, program.value(join.before), tensor_type(join.before), result)
    total = multiplied(program.builder, factor, program.value(right), before)
    return shaped(program, total, result, tensor_type(value)) if held.type != total.type else total


def _scaled(program: Program, left: Value, scale: Value) -> Value:
    """The rows of a factor times powers of two; made once for all products that read it."""
    scale = below_unit_views(scale)
    key = ("scaled", left, scale)
    known = program.known(key)
    if known is not None:
        return known
    rows = tuple(0 if d != ONE else None for d in tensor_type(scale).dims)

    def fill(builder: Builder, args: list[Value]) -> Value:
        return builder.value("scalar.ldexp", args, args[0].type)

    tiles = [program.value(left), program.value(scale)]
    return program.remember(key, program.mapped(tiles, [(0, 1), rows], tensor_type(left), fill))


def _tree(
    program: Program,
    loop: Op,
    cut: Cut,
    joins: list[Joined],
    segment: int,
    ends: Ends,
    inits: list[Value],
    walk: Walk,
) -> list[Value]:
    """Segments of the dim, put together by the aligned tree; `walk` makes one."""
    builder, types = program.builder, [tile_type(v) for v in inits]
    count = program.size(cut.over.ceil_div(segment))
    length = program.size(segment)
    block = Block([INDEX], ["segment"])
    with program.inside(block):
        low = index_op(builder, "mul", block.args[0], length, "low")
        high = index_op(builder, "min", index_op(builder, "add", low, length), ends.high, "high")
        builder.op("tile.yield", walk(program, loop, cut, joins, low, Ends(ends.low, high, ends.kept), inits))
    combine = Block([*types, *types])
    left, right = combine.args[: len(types)], combine.args[len(types) :]
    with program.alone(combine):
        for arg, older, newer, join in zip(loop.body.args[1:], left, right, joins, strict=True):
            program.remember(arg, older)
            remember_part(program, join, arg, newer)
        builder.op("tile.yield", [program.value(v) for v in loop.body.terminator.operands])
    made = builder.op("tile.tree", (count, *inits), types, {}, (block, combine))
    return list(made.results)
