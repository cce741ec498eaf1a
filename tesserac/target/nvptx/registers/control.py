"""Loops, the tree of segments, warp roles, and indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial

from tesserac.ir.core import Block, Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.ir.types import IndexType, TokenType
from tesserac.target import flow
from tesserac.target.dims import INDEX_OPS
from tesserac.target.llvm_types import I1, I32, I64, VOID, LType, Value, const_i64, const_int, vector
from tesserac.target.nvptx.context import Axis, Beside, Context, register_type
from tesserac.target.nvptx.registers.rooms import Room
from tesserac.tile.gpu.model.matrix import WARPGROUP, MatrixUnit
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import axis_block, fragment, integer, kernel_grid, text
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
    results = flow.for_loop(ctx.b, first, ctx.indices[high], step, start, body)
    assign(ctx, op.results, taken(results))


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


# --- the tree -----------------------------------------------------------------------------------------------------


AT_ONCE = 64
"""Registers of all blocks of a tree up to which all are read before two are combined: memory is waited for once."""


MOST_TOGETHER = 16
"""Of these at most: the rest of them is read one by one."""


HELD = 96
"""Sums of a thread beside which as many of another segment have registers."""


def emit_tree(ctx: Context, op: Op, emit_block: EmitBlock) -> None:
    """A binary counter: slot l waits with a full subtree of 2**l blocks. See Note [The last block stays]."""
    count = ctx.indices[op.operands[0]]
    empty = flatten(ctx, op.operands[1:])
    counter = _Counter(ctx, op, emit_block)
    known = constant_index(op.operands[0])
    few = known and known * len(empty) <= AT_ONCE and _only_reads(op.regions[0].block)
    if few or (known == 2 and len(empty) <= HELD and _only_multiplies(op.regions[0].block)):
        assert known is not None
        assign(ctx, op.results, counter.run_at_once(known))
        return
    together = _blocks_together(op, len(empty))
    run = partial(counter.run_together, together) if together > 1 else partial(counter.run, const_i64(0))
    some = ctx.b.icmp("sgt", count, const_i64(0))
    results = flow.choose(ctx.b, some, lambda: run(count), lambda: empty)
    assign(ctx, op.results, results)


def _blocks_together(tree: Op, registers: int) -> int:
    """How many blocks are read before two of them are combined, where a run knows how many there are."""
    if registers > AT_ONCE // 2 or not _only_reads(tree.regions[0].block):
        return 1
    return min(MOST_TOGETHER, 1 << (AT_ONCE // registers).bit_length() - 1)


def _only_reads(block: Block) -> bool:
    return all(op.opdef.dialect == "index" or op.name in ("gpu.load", "gpu.axis", "gpu.yield") for op in block.ops)


def _only_multiplies(block: Block) -> bool:
    """Whether nothing but the sums of one product needs registers."""
    ops = [inner for op in block.ops for inner in op.walk()]
    alone = all(op.opdef.dialect == "index" or op.name in MULTIPLYING for op in ops)
    return alone and sum(op.name == "gpu.multiply" for op in ops) == 1


MULTIPLYING = (
    "gpu.for", "gpu.axis", "gpu.full", "gpu.next", "gpu.await", "gpu.multiply", "gpu.no_product", "gpu.wait_mma",
    "gpu.arrive", "gpu.yield",
)  # fmt: skip


def emit_running(ctx: Context, op: Op, emit_block: EmitBlock) -> None:
    """Blocks in order; what stands before one is what the counter holds, smallest first."""
    count, empty = ctx.indices[op.operands[0]], flatten(ctx, op.operands[1:])
    counter = _Counter(ctx, op, emit_block)

    def one(number: Value, _: list[Value]) -> list[Value]:
        index, *before = counter.block.args
        ctx.indices[index] = number
        assign(ctx, before, counter.close(number, empty))
        counter.push(number, flatten(ctx, emit_block(ctx, counter.block)))
        return []

    flow.for_loop(ctx.b, const_i64(0), count, const_i64(1), [], one)


class _Counter:
    def __init__(self, ctx: Context, op: Op, emit_block: EmitBlock) -> None:
        self.ctx = ctx
        self.emit_block = emit_block
        self.block, self.combine_block = (r.block for r in op.regions)
        self.registers = [
            register_type(fragment(v).dtype) for v in op.operands[1:] for _ in range(fragment(v).layout.count)
        ]
        self.levels = integer(op, "levels")

    @cached_property
    def slots(self) -> dict[LType, Room]:
        """One for the registers of each type, with a row for each level."""
        counts = Counter(self.registers)
        return {ty: Room(self.ctx.b, ty, count, self.levels) for ty, count in counts.items()}

    def run_at_once(self, count: int) -> list[Value]:
        """The same for a number of blocks that is known, in registers."""
        return self._at_once(const_i64(0), count)

    def _at_once(self, first: Value, count: int) -> list[Value]:
        blocks, slots = list[list[Value]](), dict[int, list[Value]]()
        for number in range(count):
            self.ctx.indices[self.block.args[0]] = self.ctx.b.add(first, const_i64(number))
            blocks.append(flatten(self.ctx, self.emit_block(self.ctx, self.block)))
        for number, values in enumerate(blocks[:-1]):
            level = 0
            while number >> level & 1:
                values, level = self.combine(slots[level], values), level + 1
            slots[level] = values
        last = blocks[-1]
        for level in range((count - 1).bit_length()):
            last = self.combine(slots[level], last) if count - 1 >> level & 1 else last
        return last

    def run_together(self, size: int, count: Value) -> list[Value]:
        """Subtrees of so many blocks, a power of two, each read at once, and what is left one by one."""
        b = self.ctx.b
        whole = b.binary("and", count, const_i64(-size))

        def subtree(number: Value, _: list[Value]) -> list[Value]:
            more = b.icmp("slt", b.add(number, const_i64(size)), count)
            ones = self._ones(b.binary("or", number, const_i64(size - 1)))
            values = self._at_once(number, size)
            met = self._met(number, b.select(more, ones, self._levels(number)), values)
            flow.if_then(b, more, lambda: self._fill(ones, met))
            return met

        found = flow.for_loop(b, const_i64(0), whole, const_i64(size), self._nothing(), subtree)
        return flow.choose(b, b.icmp("slt", whole, count), lambda: self.run(whole, count), lambda: found)

    def _nothing(self) -> list[Value]:
        return [Value(ty, "poison") for ty in self.registers]

    def run(self, first: Value, count: Value) -> list[Value]:
        """Blocks from `first` on, behind those that slots have. The last one meets the slots in the same code as those
        before it, which stands in the kernel once: it is long, and of most sums there is one block."""
        b = self.ctx.b

        def one(carried: list[Value]) -> tuple[Value, list[Value]]:
            number = carried[0]
            self.ctx.indices[self.block.args[0]] = number
            values = flatten(self.ctx, self.emit_block(self.ctx, self.block))
            following = b.add(number, const_i64(1))
            more = b.icmp("slt", following, count)
            ones = self._ones(number)
            met = self._met(number, b.select(more, ones, self._levels(number)), values)
            flow.if_then(b, more, lambda: self._fill(ones, met))
            return more, [following, *met]

        _, *last = flow.do_while(b, [first, *self._nothing()], one)
        return last

    def push(self, number: Value, values: list[Value]) -> None:
        """Block `number` carries through as many full slots as its number has ones at the end."""
        ones = self._ones(number)
        self._fill(ones, self._met(number, ones, values))

    def close(self, number: Value, values: list[Value]) -> list[Value]:
        """The last block, behind `number` others, meets every slot that is still full, the smallest first."""
        return self._met(number, self._levels(number), values)

    def _ones(self, number: Value) -> Value:
        flipped = self.ctx.b.binary("xor", number, const_i64(-1))
        return self.ctx.b.intrinsic("llvm.cttz", I64, [flipped, const_int(I1, 0)], [I64])

    def _levels(self, number: Value) -> Value:
        zeros = self.ctx.b.intrinsic("llvm.ctlz", I64, [number, const_int(I1, 0)], [I64])
        return self.ctx.b.sub(const_i64(64), zeros)

    def _met(self, number: Value, levels: Value, values: list[Value]) -> list[Value]:
        """What becomes of a block behind `number` others that meets the full ones among the lowest slots."""
        b = self.ctx.b

        def meet(level: Value, carried: list[Value]) -> list[Value]:
            bit = b.binary("and", b.binary("lshr", number, level), const_i64(1))
            full = b.icmp("ne", bit, const_i64(0))
            return flow.choose(b, full, lambda: self.combine(self.read(level), carried), lambda: carried)

        return flow.for_loop(b, const_i64(0), levels, const_i64(1), values, meet)

    def _fill(self, level: Value, values: list[Value]) -> None:
        for ty, room in self.slots.items():
            room.store([value for value in values if value.type == ty], level)

    def read(self, level: Value) -> list[Value]:
        found = {ty: iter(room.load(level)) for ty, room in self.slots.items()}
        return [next(found[ty]) for ty in self.registers]

    def combine(self, left: list[Value], right: list[Value]) -> list[Value]:
        assign(self.ctx, self.combine_block.args, [*left, *right])
        return flatten(self.ctx, self.emit_block(self.ctx, self.combine_block))


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


# Note [The last block stays]
# A value is pushed only when another block follows, so a tree of one block, by far the most frequent, touches no slot:
# its registers go straight on. The last block meets the full slots exactly as a push and the final sweep would
# do: the slots that its number's ones name, smallest first.
