"""Loops, warp roles, and indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Block, Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.ir.types import IndexType, TokenType
from tesserac.target import flow
from tesserac.target.dims import INDEX_OPS
from tesserac.target.llvm_types import I1, I32, I64, VOID, LType, Value, const_i64, const_int, vector
from tesserac.target.nvptx.context import Axis, Beside, Context
from tesserac.tile.gpu.model.matrix import WARPGROUP, MatrixUnit
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import axis_block, integer, kernel_grid, text
from tesserac.types.dims import Dim

EmitBlock = Callable[[Context, Block], Sequence[IRValue]]
"""Writes a block and gives the operands of its terminator."""


def emit_index(ctx: Context, op: Op) -> None:
    name = op.name.removeprefix("index.")
    if name == "dim":
        dim = attr(op, "dim", Dim)
        ctx.indices[op.result] = ctx.dim(dim)
    else:
        left, right = (ctx.indices[v] for v in op.operands)
        ctx.indices[op.result] = INDEX_OPS[name](ctx.b, left, right)


def emit_axis(ctx: Context, op: Op) -> None:
    start, stop = (ctx.indices[v] for v in op.operands)
    ctx.axes[op.result] = Axis(start, stop, axis_block(op.result), _is_whole(ctx.kernel, op))


def _is_whole(kernel: Op, axis: Op) -> bool:
    """Whether a block is known to end before its axis does, or programs share out one whose size is a multiple of their
    block."""
    first, stop = map(constant_index, axis.operands)
    start = axis.operands[0].defining_op
    if first is not None and stop is not None:
        return first + axis_block(axis.result) <= stop
    if start is None or start.name != "index.mul" or stop is None:
        return False
    sizes = dict(zip(kernel.body.args, kernel_grid(kernel), strict=False))
    programs, block = sizes.get(start.operands[0]), constant_index(start.operands[1])
    return programs is not None and block == axis_block(axis.result) and programs * block == Dim.const(stop)


def emit_team(ctx: Context, op: Op) -> None:
    shift = const_int(I32, integer(op, "size").bit_length() - 1)
    ctx.indices[op.result] = ctx.b.cast("zext", ctx.b.binary("lshr", ctx.thread, shift), I64)


def emit_program(ctx: Context, op: Op) -> None:
    ctx.indices[op.result] = ctx.program


# --- values that travel around loops ------------------------------------------------------------------------------


def flatten(ctx: Context, values: Sequence[IRValue]) -> list[Value]:
    """Registers and indices as one list. Tokens exist only in the order of instructions."""
    flat: list[Value] = []
    for value in values:
        if isinstance(value.type, FragmentType):
            flat += ctx.fragments[value]
        elif not isinstance(value.type, TokenType):
            flat.append(ctx.indices[value])
    return flat


def assign(ctx: Context, values: Sequence[IRValue], flat: Sequence[Value]) -> None:
    """The reverse of `flatten`."""
    rest = list(flat)
    for value in values:
        if isinstance(value.type, FragmentType):
            count = value.type.layout.count
            ctx.fragments[value], rest = rest[:count], rest[count:]
        elif isinstance(value.type, IndexType):
            ctx.indices[value], rest = rest[0], rest[1:]
    assert not rest


MANY = 16
"""Registers that a loop carries from which on it shows how often they are written before it begins."""


def emit_for(ctx: Context, op: Op, emit_block: EmitBlock, beside: Beside | None = None) -> None:
    """Numbers of 16 bits travel in pairs, as products read them."""
    beside = beside or Beside(())
    low, high, *inits = op.operands
    types = [value.type for value in flatten(ctx, inits)]

    def taken(carried: list[Value]) -> list[Value]:
        """Without those beside, which lie behind the others."""
        own = len(carried) - len(beside.values)
        beside.values = carried[own:]
        return unpaired(ctx, carried[:own], types)

    def body(index: Value, carried: list[Value]) -> list[Value]:
        ctx.indices[op.body.args[0]] = index
        assign(ctx, op.body.args[1:], taken(carried))
        return [*paired(ctx, flatten(ctx, emit_block(ctx, op.body))), *beside.values]

    step = const_i64(integer(op, "step"))
    start = [*paired(ctx, flatten(ctx, inits)), *beside.values]
    first = _unknown(ctx, ctx.indices[low]) if _is_short(op) else ctx.indices[low]
    apart = len(start) >= MANY and not _ends_under_way(op)
    results = flow.for_loop(ctx.b, first, ctx.indices[high], step, start, body, rarely_empty=apart)
    assign(ctx, op.results, taken(results))


def _ends_under_way(op: Op) -> bool:
    """Whether a product is still under way behind a loop: the assembler would wait for each if what it adds to could
    come from elsewhere."""
    return any(user.name == "gpu.wait_mma" for result in op.results for user, _ in result.uses)


def _is_short(op: Op) -> bool:
    """Whether a loop adds products of its threads, in one step at the most, as is known."""
    units = [attr(inner, "unit", MatrixUnit) for inner in op.body.ops if inner.name == "gpu.multiply"]
    if not any(unit.name == "fma" for unit in units):
        return False
    end = op.operands[1].defining_op
    ends = [op.operands[1]] if end is None or end.name != "index.min" else end.operands
    return any(number is not None and number <= integer(op, "step") for number in map(constant_index, ends))


def _unknown(ctx: Context, index: Value) -> Value:
    """The index, as LLVM knows nothing of it. It would take a loop of one step apart, and compute sums that only some
    stores write where these are, behind the barrier of the step: there all terms wait for it in registers."""
    return ctx.b.asm(I64, "mov.b64 $0, $1;", "=l,l", [index])


def paired(ctx: Context, values: Sequence[Value]) -> list[Value]:
    """Neighbours of 16 bits as one word."""
    paired: list[Value] = []
    rest = list(values)
    while rest:
        if not _is_pair(rest):
            paired.append(rest.pop(0))
            continue
        both = Value(vector(rest[0].type, 2), "poison")
        for place in (0, 1):
            both = ctx.b.insert(both, rest.pop(0), place)
        paired.append(ctx.b.cast("bitcast", both, I32))
    return paired


def unpaired(ctx: Context, words: Sequence[Value], types: Sequence[LType]) -> list[Value]:
    """The reverse, for values of these types."""
    values: list[Value] = []
    for word in words:
        ty = types[len(values)]
        if ty.is_float and ty.bits == 16 and word.type == I32:
            both = ctx.b.cast("bitcast", word, vector(ty, 2))
            values += [ctx.b.extract(both, place) for place in (0, 1)]
        else:
            values.append(word)
    return values


def _is_pair(values: Sequence[Value]) -> bool:
    first = values[0].type
    return len(values) > 1 and first.is_float and first.bits == 16 and values[1].type == first


def emit_unless(ctx: Context, op: Op, emit_block: EmitBlock) -> None:
    """All threads of a warp go one way."""
    b, flags, kept = ctx.b, ctx.fragments[op.operands[0]], ctx.fragments[op.operands[1]]
    missing = const_int(I1, 0)
    for flag in flags:
        missing = b.binary("or", missing, b.binary("xor", flag, const_int(I1, 1)))
    anywhere = b.intrinsic("llvm.nvvm.vote.any.sync", I1, [const_int(I32, -1), missing])
    anew = lambda: flatten(ctx, emit_block(ctx, op.body))  # noqa: E731
    ctx.fragments[op.result] = flow.choose(b, anywhere, anew, lambda: kept, rare=True)


# --- roles --------------------------------------------------------------------------------------------------------


def emit_role(ctx: Context, op: Op, work: Callable[[], None]) -> None:
    """Whole warp groups change their share of registers; then the threads of the role go on."""
    b = ctx.b
    first, warps, registers = (integer(op, name) for name in ("first", "warps", "registers"))
    warp = b.binary("lshr", ctx.thread, const_int(I32, 5))
    place = b.sub(warp, const_int(I32, first))
    mine = b.icmp("ult", place, const_int(I32, warps))

    def body() -> None:
        producer = text(op, "name") == "producer"
        direction = "inc" if text(op, "name") == "consumer" else "dec"
        if registers:
            b.intrinsic(f"llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32", VOID, [const_int(I32, registers)])
        if producer:
            leader = b.icmp("eq", ctx.thread, const_int(I32, 32 * first))
            if any(inner.name == "gpu.copy_rows" for inner in op.walk()):
                ctx.leader = leader
                work()
                ctx.leader = None
            else:
                flow.if_then(b, leader, work)
        else:
            ctx.group, ctx.groups = _warp_group(ctx), warps // WARPGROUP
            if any(inner.name == "gpu.take_turn" for inner in op.walk()):
                last = b.icmp("eq", ctx.group, const_int(I32, ctx.groups - 1))
                flow.if_then(b, last, lambda: emit_pass_turn(ctx, op))
            work()

    flow.if_then(b, mine, body)


def emit_give_registers(ctx: Context, op: Op) -> None:
    """All warps of a group at once: some of them go on in one role, some in another."""
    b = ctx.b
    place = b.sub(b.binary("lshr", ctx.thread, const_int(I32, 5)), const_int(I32, integer(op, "first")))
    registers = const_int(I32, integer(op, "registers"))
    mine = b.icmp("ult", place, const_int(I32, integer(op, "warps")))
    flow.if_then(b, mine, lambda: ignore(b.intrinsic("llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", VOID, [registers])))


def _warp_group(ctx: Context) -> Value:
    """As the first lane sees it, so that the assembler knows that all of a warp agree and keeps it where addresses of
    products are computed once for all lanes."""
    group = ctx.b.binary("lshr", ctx.thread, const_int(I32, (32 * WARPGROUP).bit_length() - 1))
    arguments = [const_int(I32, -1), group, const_int(I32, 0), const_int(I32, 31)]
    return ctx.b.intrinsic("llvm.nvvm.shfl.sync.idx.i32", I32, arguments)


def emit_take_turn(ctx: Context, _: Op) -> None:
    """Until the group before has passed the turn on; the last one does so for the first when the role begins."""
    arguments = [_turn(ctx, 0), const_int(I32, 2 * 32 * WARPGROUP)]
    ctx.b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count", VOID, arguments)


def emit_pass_turn(ctx: Context, _: Op) -> None:
    arguments = [_turn(ctx, 1), const_int(I32, 2 * 32 * WARPGROUP)]
    ctx.b.intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count", VOID, arguments)


def _turn(ctx: Context, ahead: int) -> Value:
    """The hardware's barrier of a group; 0 is the one of all threads."""
    b = ctx.b
    group = b.binary("urem", b.add(ctx.group, const_int(I32, ahead)), const_int(I32, ctx.groups))
    return b.add(group, const_int(I32, 1))


def ignore(_: object) -> None:
    """A block that yields nothing."""
