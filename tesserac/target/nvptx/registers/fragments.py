"""Operations on registers: maps, constants, folds, exchanges between lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import ScalarType
from tesserac.target import flow
from tesserac.target.llvm_types import (
    F32,
    I1,
    I32,
    I64,
    Value,
    const_i64,
    const_int,
    integer,
    vector,
    zero,
)
from tesserac.target.nvptx.context import Context, register_type
from tesserac.target.nvptx.registers.control import paired, unpaired
from tesserac.target.nvptx.registers.conversions import constant, convert
from tesserac.target.nvptx.registers.places import is_place, mask_of
from tesserac.target.nvptx.registers.quotients import shared_divisions, single_divisions
from tesserac.target.nvptx.registers.rooms import Room
from tesserac.target.nvptx.registers.scalars import Emission, emit_body, emit_rule, missing_lift
from tesserac.target.nvptx.registers.terms import SINGLE, asked_together, near_terms, rounded_to
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import LANE_BITS, REDUCE_LANES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, scalar_of, text
from tesserac.tile.gpu.model.values import integer as int_attr
from tesserac.types.dtype import BF16, DType
from tesserac.types.dtype import F32 as F32_TYPE

FOLDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
ALL_LANES = const_int(I32, -1)
CLAMP = const_int(I32, 31)


def emit_full(ctx: Context, op: Op) -> None:
    ty, value = fragment(op.result), op.attrs["value"]
    assert isinstance(value, int | float)
    ctx.fragments[op.result] = [constant(ty.dtype, value)] * ty.layout.count


def emit_iota(ctx: Context, op: Op, apart: bool = False) -> None:
    """Places. Those of `apart` are computed where they are asked for, though others may have the same."""
    ty, axis = fragment(op.result), ctx.axes[op.operands[0]]
    start = ctx.b.asm(I64, "mov.b64 $0, $1;", "=l,l", [axis.start]) if apart else axis.start
    mine = ctx.b.add(start, ctx.coordinates(ty.layout).get(0, const_i64(0)))
    steps = [offset.get(0, 0) for offset in ty.layout.offsets]
    places = [ctx.b.add(mine, const_i64(step)) for step in steps]
    element = register_type(ty.dtype)
    if ty.dtype.is_float:
        ctx.fragments[op.result] = [ctx.b.cast("sitofp", p, element) for p in places]
    else:
        ctx.fragments[op.result] = [ctx.b.cast("trunc", p, element) for p in places]
        _know_steps(ctx, mine, dict(zip(ctx.fragments[op.result], steps, strict=True)))


def _know_steps(ctx: Context, mine: Value, places: dict[Value, int]) -> None:
    """What all places of a thread have in common, as a value of these alone: the remark keeps LLVM from taking that of
    others, and with it the answers of comparisons, of which it would keep more than there are predicates."""
    first = ctx.b.asm(I32, f"mov.b32 $0, $1; // places {len(ctx.steps)}", "=r,r", [ctx.i32(mine)], pure=True)
    ctx.steps.update({place: (first, step) for place, step in places.items() if step})


def emit_map(ctx: Context, op: Op) -> None:
    """The body once per register. Whether any element needs a rare program is asked before, so that none has a jump of
    its own; what that question computes besides is dead code."""
    if _is_rescaling(op):
        ctx.fragments[op.result] = _rescaled(ctx, op)
        return
    mask = mask_of(ctx, op) if fragment(op.result).layout.count >= MANY else None
    if mask is None:
        values = _mapped(ctx, op)
    else:
        kept = lambda: _mapped(ctx, op, mask.comparisons)  # noqa: E731
        values = flow.choose(ctx.b, mask.fails, lambda: _with_places(ctx, op), kept, rare=True)
    ctx.fragments[op.result] = values if "narrow" in op.attrs else _stored(ctx, op, values, fragment(op.result))


def _with_places(ctx: Context, op: Op) -> list[Value]:
    """What the body gives where a mask fails, with places that are computed there: they are many, and hardly ever
    needed."""
    chain: dict[Op, None] = {}
    waiting = [made for v in op.operands if is_place(v) and (made := v.defining_op) is not None]
    for made in waiting:
        chain[made] = None
        waiting += [v.defining_op for v in made.operands if made.name == "gpu.map" and v.defining_op is not None]
    before = {made.result: ctx.fragments[made.result] for made in chain}
    for made in reversed(chain):
        if made.name == "gpu.map":
            emit_map(ctx, made)
        else:
            emit_iota(ctx, made, apart=True)
    values = _mapped(ctx, op)
    ctx.fragments.update(before)
    return values


def emit_round(ctx: Context, op: Op) -> None:
    made = op.operands[0].defining_op
    assert made is not None
    ctx.fragments[op.result] = _stored(ctx, made, ctx.fragments[op.operands[0]], fragment(op.result))


def _rounds_last(op: Op) -> bool:
    """Whether the body of a map ends with rounding f32 to bf16, which is then done for two elements at once."""
    made = op.body.ops[-1].operands[0].defining_op
    if made is None or made.name != "scalar.cast" or "narrow" in op.attrs or fragment(op.result).policy.saturate:
        return False
    types = (made.operands[0].type, made.result.type)
    return types == (SINGLE, ScalarType(BF16)) and fragment(op.result).layout.count % 2 == 0


def _computed(op: Op) -> DType:
    """The type of what bodies give before it is rounded to that of the result."""
    return F32_TYPE if _rounds_last(op) else scalar_of(fragment(op.result)).dtype


def _is_rescaling(op: Op) -> bool:
    """Whether a map multiplies rows by powers of two, many elements by each. Floats that are stored as bytes are left
    to the body: a register of theirs cannot be compared."""
    first, *rest = op.body.ops
    plain = len(rest) == 1 and first.name == "scalar.ldexp" and list(first.operands) == op.body.args
    if not plain or not all(register_type(fragment(v).dtype).is_float for v in op.operands):
        return False
    many = fragment(op.result).layout.count >= MANY * fragment(op.operands[-1]).layout.count
    return many and op.operands[0].type == op.result.type


def _rescaled(ctx: Context, op: Op) -> list[Value]:
    """Most often no row of a warp has a new maximum, and nothing changes: 2^0 is 1."""
    b, powers = ctx.b, ctx.fragments[op.operands[1]]
    moved = const_int(I1, 0)
    for power in powers:
        moved = b.binary("or", moved, b.fcmp("une", power, zero(power.type)))
    anywhere = b.intrinsic("llvm.nvvm.vote.any.sync", I1, [ALL_LANES, moved])
    values = ctx.fragments[op.operands[0]]
    moving = lambda: _stored(ctx, op, _mapped(ctx, op), fragment(op.result))  # noqa: E731
    return flow.choose(b, anywhere, moving, lambda: values)


def _mapped(ctx: Context, op: Op, true: frozenset[IRValue] = frozenset()) -> list[Value]:
    """What the body gives for each register."""
    rows = _arguments(ctx, op)
    count = asked_together(op)
    groups = [rows[start : start + count] for start in range(0, len(rows), count)]
    return [value for group in groups for value in _asked(ctx, op, group, true)]


def _asked(ctx: Context, op: Op, rows: list[list[Value]], true: frozenset[IRValue]) -> list[Value]:
    """Where numerators of divisions by what rows share are small, all of them go on in a way that takes any."""
    shared = shared_divisions(op.body.ops, _of_rows(op))
    usual, small = _how(op, true, shared=shared), _how(op, true, small=shared)
    by_turns = lambda: _rare_bodies(ctx, op, rows)  # noqa: E731
    rare = partial(_unless_rare, ctx, op, rows, small, by_turns) if shared else by_turns
    return _unless_rare(ctx, op, rows, usual, rare)


def _unless_rare(
    ctx: Context, op: Op, rows: list[list[Value]], how: Emission, otherwise: Callable[[], list[Value]]
) -> list[Value]:
    """The bodies written so, if that is right for all rows."""
    rare: list[Value] = []
    values = _bodies(ctx, op, rows, replace(how, rare=rare))
    if rare:
        needed, *others = {condition.text: condition for condition in rare}.values()  # rows share theirs
        for condition in others:
            needed = ctx.b.binary("or", needed, condition)
        usual = lambda: _bodies(ctx, op, rows, replace(how, rare=[]))  # noqa: E731
        values = flow.choose(ctx.b, needed, otherwise, usual, rare=True)
    return values


def _rare_bodies(ctx: Context, op: Op, rows: list[list[Value]]) -> list[Value]:
    """The bodies with their rare programs: one after the other through memory of the thread, so that programs that
    hardly ever run are not most of the kernel."""
    kinds, result = [value.type for value in rows[0]], register_type(_computed(op))
    if len(rows) < MANY or any(kind == I1 for kind in (*kinds, result)):
        return _bodies(ctx, op, rows, _how(op, frozenset()))
    b, count = ctx.b, len(rows)
    *rooms, made = [Room(b, kind, count) for kind in (*kinds, result)]
    for room, values in zip(rooms, zip(*rows, strict=True), strict=True):
        room.store(values)

    def body(number: Value, _: list[Value]) -> list[Value]:
        args = [b.load(kind, room.at(number), room.alignment) for kind, room in zip(kinds, rooms, strict=True)]
        how = Emission(stored=rounded_to(op), terms=near_terms(op), unrounded=_rounds_last(op))
        value = emit_body(ctx, op.body.args, op.body.ops, args, how)
        b.store(value, made.at(number), made.alignment)
        return []

    flow.for_loop(b, const_i64(0), const_i64(count), const_i64(1), [], body)
    return made.load()


def _how(
    op: Op, true: frozenset[IRValue], shared: frozenset[Op] = frozenset(), small: frozenset[Op] = frozenset()
) -> Emission:
    several = fragment(op.result).layout.count >= MANY
    single = single_divisions(op.body.ops) if several else frozenset()
    return Emission(None, rounded_to(op), shared, single, small, true, near_terms(op), _rounds_last(op))


def _bodies(ctx: Context, op: Op, rows: list[list[Value]], how: Emission) -> list[Value]:
    return [emit_body(ctx, op.body.args, op.body.ops, args, how) for args in rows]


def _of_rows(op: Op) -> list[IRValue]:
    """The arguments of a body that many elements share."""
    count = fragment(op.result).layout.count
    pairs = zip(op.operands, op.body.args, strict=True)
    return [arg for operand, arg in pairs if count >= MANY * fragment(operand).layout.count]


def _arguments(ctx: Context, op: Op) -> list[list[Value]]:
    """What the body takes for each register. An operand that stretches has fewer of them: each serves several."""
    maps = list(enumerate(operand_maps(op)))
    return [
        [_operand(ctx, op, i, {j: offset.get(d, 0) for j, d in enumerate(dims) if d is not None}) for i, dims in maps]
        for offset in fragment(op.result).layout.offsets
    ]


def _stored(ctx: Context, made: Op, values: list[Value], ty: FragmentType) -> list[Value]:
    """What the bodies of a map gave, rounded to the type of the result; numbers of 16 bits two by two, as the hardware
    does it."""
    computed, factor = _computed(made), missing_lift(made.body.ops) if rounded_to(made) == BF16 else 1.0
    if factor != 1.0 and len(values) % 2:
        values, factor = [ctx.b.fmul(v, constant(computed, factor)) for v in values], 1.0
    if (computed, ty.dtype) != (F32_TYPE, BF16) or ty.policy.saturate or len(values) % 2:
        return [convert(ctx.b, v, computed, ty.dtype, ty.policy) for v in values]
    rounded: list[Value] = []
    for pair in zip(values[::2], values[1::2], strict=True):
        low, high = pair
        narrow = ctx.b.intrinsic("llvm.nvvm.ff2bf16x2.rn", vector(register_type(BF16), 2), [high, low])
        narrow = narrow if factor == 1.0 else ctx.b.fmul(narrow, _both(ctx, factor))
        rounded += [ctx.b.extract(narrow, place) for place in (0, 1)]
    return rounded


def _both(ctx: Context, number: float) -> Value:
    """A pair of one bf16."""
    pair = Value(vector(register_type(BF16), 2), "poison")
    for place in (0, 1):
        pair = ctx.b.insert(pair, constant(BF16, number), place)
    return pair


def _operand(ctx: Context, op: Op, position: int, offset: dict[int, int]) -> Value:
    value = op.operands[position]
    ty = fragment(value)
    register = ctx.fragments[value][ty.layout.register_at(offset)]
    return convert(ctx.b, register, ty.dtype, scalar_of(ty).dtype)


def emit_cast(ctx: Context, op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    ctx.fragments[op.result] = [
        convert(ctx.b, v, source.dtype, result.dtype, result.policy) for v in ctx.fragments[op.operands[0]]
    ]


MANY = 8
"""Registers from which on it pays to ask whether an axis ends inside a block at all."""


def emit_mask(ctx: Context, op: Op) -> None:
    """All threads agree on whether the axis ends inside the block; mostly it does not."""
    values, axis = ctx.fragments[op.operands[0]], ctx.axes[op.operands[1]]
    if axis.whole:
        ctx.fragments[op.result] = values
        return
    ends = ctx.b.icmp("sgt", ctx.b.add(axis.start, const_i64(axis.block)), axis.stop)
    if len(values) < MANY:
        ctx.fragments[op.result] = _masked(ctx, op)
        return
    whole = paired(ctx, values)
    words = flow.choose(ctx.b, ends, lambda: paired(ctx, _masked(ctx, op)), lambda: whole, rare=True)
    ctx.fragments[op.result] = unpaired(ctx, words, [value.type for value in values])


def _masked(ctx: Context, op: Op) -> list[Value]:
    ty, dim, axis = fragment(op.result), int_attr(op, "dim"), ctx.axes[op.operands[1]]
    fill = op.attrs["value"]
    assert isinstance(fill, int | float)
    neutral = constant(ty.dtype, fill)
    here = ctx.coordinates(ty.layout).get(dim, const_i64(0))
    first, other = ctx.rooms(axis, here)
    tests: dict[int, Value] = {}
    values: list[Value] = []
    for value, offset in zip(ctx.fragments[op.operands[0]], ty.layout.offsets, strict=True):
        step = offset.get(dim, 0)
        if step not in tests:
            tests[step] = ctx.b.icmp("sgt", other if step % REDUCE_LANES else first, const_int(I32, step))
        values.append(ctx.b.select(tests[step], value, neutral))
    return values


def emit_fold(ctx: Context, op: Op) -> None:
    """Element i of the result folds the source's i, i + width, ... ascending, all in this thread."""
    source, result = fragment(op.operands[0]), fragment(op.result)
    dim, width, kind = int_attr(op, "dim"), int_attr(op, "width"), text(op, "kind")
    values = [convert(ctx.b, v, source.dtype, result.dtype) for v in ctx.fragments[op.operands[0]]]
    folded: list[Value] = []
    for offset in result.layout.offsets:
        start = _source_offset(source, result, offset, dim)
        terms = [
            values[source.layout.register_at({**start, dim: start.get(dim, 0) + step})]
            for step in range(0, source.shape[dim], width)
        ]
        folded.append(_chain(ctx, kind, result, terms))
    ctx.fragments[op.result] = folded


def _source_offset(source: FragmentType, result: FragmentType, offset: dict[int, int], dim: int) -> dict[int, int]:
    """A position of the result as one of the source, which may have a dim more."""
    if len(source.shape) == len(result.shape):
        return dict(offset)
    return {d + (d >= dim): step for d, step in offset.items()}


def _chain(ctx: Context, kind: str, ty: FragmentType, terms: Sequence[Value]) -> Value:
    total, *others = terms
    for term in others:
        total = emit_rule(ctx.b, FOLDS[kind], ty.dtype, [total, term])
    return total


def emit_column(ctx: Context, op: Op) -> None:
    """Any of equal columns: the first that this thread has."""
    source, values = fragment(op.operands[0]), ctx.fragments[op.operands[0]]
    offsets = fragment(op.result).layout.offsets
    ctx.fragments[op.result] = [values[source.layout.register_at(offset)] for offset in offsets]


def emit_relabel(ctx: Context, op: Op) -> None:
    ctx.fragments[op.result] = ctx.fragments[op.operands[0]]


def emit_butterfly(ctx: Context, op: Op) -> None:
    result, kind, lane = fragment(op.result), text(op, "kind"), int_attr(op, "lane")
    ctx.fragments[op.result] = [
        emit_rule(ctx.b, FOLDS[kind], result.dtype, [v, shuffle(ctx, v, lane)]) for v in ctx.fragments[op.operands[0]]
    ]


def emit_halve(ctx: Context, op: Op) -> None:
    """Of two lanes the lower one keeps the lower side of each pair of registers, and is sent that of the other lane."""
    source, result, kind = fragment(op.operands[0]), fragment(op.result), text(op, "kind")
    dim, lane, step = int_attr(op, "dim"), int_attr(op, "lane"), int_attr(op, "step")
    b, values = ctx.b, ctx.fragments[op.operands[0]]
    upper = b.icmp("ne", b.binary("and", ctx.lane, const_int(I32, lane)), const_int(I32, 0))
    made: list[Value] = []
    for offset in result.layout.offsets:
        low, high = (values[source.layout.register_at({**offset, dim: offset.get(dim, 0) + far})] for far in (0, step))
        kept, sent = b.select(upper, high, low), b.select(upper, low, high)
        made.append(emit_rule(b, FOLDS[kind], result.dtype, [kept, shuffle(ctx, sent, lane)]))
    ctx.fragments[op.result] = made


def emit_shuffle(ctx: Context, op: Op) -> None:
    lane = int_attr(op, "lane")
    ctx.fragments[op.result] = [shuffle(ctx, v, lane) for v in ctx.fragments[op.operands[0]]]


def emit_spread(ctx: Context, op: Op) -> None:
    """Each register from the lane that has its number: bits of the register's are those of that lane's."""
    source, result = fragment(op.operands[0]).layout, fragment(op.result).layout
    values, kept = ctx.fragments[op.operands[0]], len(source.registers)
    bits = [bit for bit, step in enumerate(result.lanes) if step is None]
    own = ctx.b.binary("and", ctx.lane, const_int(I32, sum(1 << i for i in range(LANE_BITS) if i not in bits)))
    made = []
    for number in range(result.count):
        other = sum((number >> kept + i & 1) << bit for i, bit in enumerate(bits))
        lane = ctx.b.binary("or", own, const_int(I32, other))
        value = values[number & (1 << kept) - 1]
        word = value if value.type == I32 else ctx.b.cast("bitcast", value, I32)
        moved = ctx.b.intrinsic("llvm.nvvm.shfl.sync.idx.i32", I32, [ALL_LANES, word, lane, CLAMP])
        made.append(ctx.b.cast("bitcast", moved, values[0].type) if values[0].type != I32 else moved)
    ctx.fragments[op.result] = made


def shuffle(ctx: Context, value: Value, lane: int) -> Value:
    """What the lane `lane` away (exclusive or) holds. Lanes exchange words of 32 bits."""
    b, ty = ctx.b, value.type
    if ty == F32:
        arguments = [ALL_LANES, value, const_int(I32, lane), CLAMP]
        return b.intrinsic("llvm.nvvm.shfl.sync.bfly.f32", F32, arguments)
    if ty.is_float:
        word = b.cast("bitcast", value, integer(ty.bits))
        return b.cast("bitcast", shuffle(ctx, word, lane), ty)
    if ty.bits == 64:
        low = shuffle(ctx, b.cast("trunc", value, I32), lane)
        high = shuffle(ctx, b.cast("trunc", b.binary("lshr", value, const_i64(32)), I32), lane)
        upper = b.binary("shl", b.cast("zext", high, I64), const_i64(32))
        return b.binary("or", b.cast("zext", low, I64), upper)
    if ty.bits > 32:
        raise LoweringError(f"exchange of {ty} between lanes")
    word = value if ty == I32 else b.cast("zext", value, I32)
    moved = b.intrinsic("llvm.nvvm.shfl.sync.bfly.i32", I32, [ALL_LANES, word, const_int(I32, lane), CLAMP])
    return moved if ty == I32 else b.cast("trunc", moved, ty)


def word_of(ctx: Context, pair: Sequence[Value]) -> Value:
    """Two numbers of 16 bits as they lie in a register."""
    whole = Value(vector(pair[0].type, 2), "poison")
    for n, value in enumerate(pair):
        whole = ctx.b.insert(whole, value, n)
    return ctx.b.cast("bitcast", whole, I32)


def emit_less(ctx: Context, op: Op) -> None:
    left, right = (ctx.indices[v] for v in op.operands)
    ctx.flags[op.result] = ctx.b.icmp("slt", left, right)


def emit_choose(ctx: Context, op: Op) -> None:
    flag, yes, no = op.operands
    pairs = zip(ctx.fragments[yes], ctx.fragments[no], strict=True)
    ctx.fragments[op.result] = [ctx.b.select(ctx.flags[flag], x, y) for x, y in pairs]
