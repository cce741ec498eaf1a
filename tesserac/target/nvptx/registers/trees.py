"""The tree of segments: a binary counter of sums that wait for others.

Enters: how many blocks there are, code that makes one, and code that combines two. Leaves: what all of them make,
combined as LANGUAGE says, whatever their number. See Note [The last block stays].
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property, partial

from tesserac.ir.core import Block, Op
from tesserac.ir.index import constant_index
from tesserac.target import flow
from tesserac.target.llvm_types import F32, I1, I8, I64, LType, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context, register_type
from tesserac.target.nvptx.registers.control import EmitBlock, assign, flatten
from tesserac.target.nvptx.registers.rooms import Near, Room
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.types import WAITING
from tesserac.tile.gpu.model.values import fragment, integer

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
    none = ctx.b.icmp("sle", count, const_i64(0))

    def nothing() -> list[Value]:
        flow.stay_apart(ctx.b)
        return empty

    results = flow.choose(ctx.b, none, nothing, lambda: run(count), rare=True)
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
        near = {F32: _waiting(self.ctx)}
        return {ty: Room(self.ctx.b, ty, count, self.levels, near.get(ty)) for ty, count in counts.items()}

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


def _waiting(ctx: Context) -> Near | None:
    """The part of a thread of shared memory for what waits. Threads that have some are the first of their block."""
    allocs = [op for op in ctx.kernel.walk() if op.name == "gpu.alloc" and WAITING in op.attrs]
    if not allocs:
        return None
    room = ctx.memories[allocs[0].result]
    accesses, threads = (size.constant for size in room.type.dims[:2])
    assert accesses is not None and threads is not None

    def own() -> Value:
        offset = ctx.b.mul(ctx.b.cast("zext", ctx.thread, I64), const_i64(VECTOR_BYTES))
        return ctx.b.gep(I8, room.pointer, offset)

    return Near(own, threads * VECTOR_BYTES, accesses)


# Note [The last block stays]
# A value is pushed only when another block follows, so a tree of one block, by far the most frequent, touches no slot:
# its registers go straight on. The last block meets the full slots exactly as a push and the final sweep would
# do: the slots that its number's ones name, smallest first.
