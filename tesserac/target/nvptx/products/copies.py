"""Asynchronous copies into stages, and the barriers in shared memory that tell when they are complete.

A copy by all threads (`cp.async`) goes in chunks of 16 bytes where rows are contiguous and aligned to that; chunks
behind the end of an axis are cut and filled with zeros by the hardware. Other blocks go element by element, threads
side by side along the dim that is contiguous. Tensor copies are started by one thread and cut by the hardware alone.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.target import flow
from tesserac.target.llvm_types import I1, I8, I32, I64, VOID, Value, const_i64, const_int, zero
from tesserac.target.nvptx.context import Context, Ring
from tesserac.target.nvptx.memory.accesses import Place, all_of
from tesserac.target.nvptx.products.mma import ONES
from tesserac.target.nvptx.products.stages import shared_offset
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.shared import ATOM_BYTES, CHUNK_BYTES
from tesserac.tile.gpu.model.types import BarriersType
from tesserac.tile.gpu.model.values import barriers, integer
from tesserac.types.dtype import BF16

WARP = 32

ASYNC_BYTES = (4, 8)
"""Sizes of elements that can be copied asynchronously one by one."""
TURNED_RUN = 8
"""Neighbours in memory that lanes side by side write into rows of their own: a sector of words. Four columns of such
runs lie in all banks."""
BARRIER_BYTES = 8


def stage_pointer(ctx: Context, ring: Ring, slot: Value) -> Value:
    return ctx.b.gep(I8, ring.pointer, ctx.b.mul(slot, const_i64(ring.type.layout.bytes)))


def emit_copy(ctx: Context, op: Op) -> None:
    mem, *at, ring, slot = op.operands
    place = Place(ctx, ctx.memories[mem], at)
    target = ctx.rings[ring]
    if target.type.layout.transposed:
        place.exchange()
    b = ctx.b
    destination = stage_pointer(ctx, target, ctx.indices[slot])
    copy = _Copy(ctx, place, target, destination)
    some = all_of(ctx, [b.icmp("slt", axis.start, axis.stop) for axis in place.axes])
    inside = all_of(ctx, place.inside())
    if place.strides[1].number != 1:
        turn = lambda: either(ctx, inside, lambda: copy.turned(cut=False), lambda: copy.turned(cut=True))  # noqa: E731
        flow.if_then(b, some, turn if copy.can_turn else copy.elements)
        return
    aligned = all_of(ctx, place.aligned(CHUNK_BYTES // place.bytes))

    def chunks() -> None:
        either(ctx, inside, lambda: copy.chunks(cut=False), lambda: copy.chunks(cut=True))

    flow.if_then(b, some, lambda: either(ctx, aligned, chunks, copy.elements))


def either(ctx: Context, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
    def arm(body: Callable[[], None]) -> Callable[[], list[Value]]:
        def run() -> list[Value]:
            body()
            return []

        return run

    flow.choose(ctx.b, condition, arm(yes), arm(no))


class _Copy:
    """One block on its way into one stage, by all threads."""

    def __init__(self, ctx: Context, place: Place, ring: Ring, destination: Value) -> None:
        if len(place.axes) != 2:
            raise LoweringError("a staged block is two-dimensional")
        self.ctx = ctx
        self.b = ctx.b
        self.place = place
        self.layout = ring.type.layout.stored
        self.destination = destination

    def chunks(self, cut: bool) -> None:
        """Each thread copies 16 bytes at a time; neighbouring threads neighbouring chunks of a row."""
        rows, columns = self.layout.shape
        per_row = columns * self.layout.element // CHUNK_BYTES
        total, threads = rows * per_row, self.ctx.threads
        if total < threads:
            present = self.b.icmp("ult", self.ctx.thread, const_int(I32, total))
            flow.if_then(self.b, present, lambda: self.rounds(1, per_row, cut))
        elif total % threads or threads < per_row:
            raise LoweringError(f"{total} chunks do not divide over {threads} threads")
        else:
            self.rounds(total // threads, per_row, cut)

    def rounds(self, count: int, per_row: int, cut: bool) -> None:
        step = self.ctx.threads // per_row
        row = self.b.binary("lshr", self.ctx.thread, const_int(I32, per_row.bit_length() - 1))
        chunk = self.b.binary("and", self.ctx.thread, const_int(I32, per_row - 1))
        column = self.b.mul(chunk, const_int(I32, CHUNK_BYTES // self.layout.element))
        first = shared_offset(self.ctx, self.layout, row, column)
        repeats = step * self.layout.row_bytes % ATOM_BYTES == 0 or not self.layout.swizzled
        for number in range(count):
            here = self.b.add(row, const_int(I32, number * step))
            if repeats:
                offset = self.b.add(first, const_int(I32, number * step * self.layout.row_bytes))
            else:
                offset = shared_offset(self.ctx, self.layout, here, column)
            self.chunk(here, column, offset, cut)

    def chunk(self, row: Value, column: Value, offset: Value, cut: bool) -> None:
        target = self.b.gep(I8, self.destination, self.b.cast("zext", offset, I64))
        source = self.source(row, column)
        if not cut:
            self.b.intrinsic("llvm.nvvm.cp.async.cg.shared.global.16", VOID, [target, source])
            return
        size = self.b.mul(self.left(row, column), const_i64(self.place.bytes))
        size = self.b.minimum_int(size, const_i64(CHUNK_BYTES))
        source = self.b.select(self.b.icmp("sgt", size, const_i64(0)), source, self.place.memory.pointer)
        arguments = [target, source, self.b.cast("trunc", size, I32)]
        self.b.intrinsic("llvm.nvvm.cp.async.cg.shared.global.16.s", VOID, arguments)

    def source(self, row: Value, column: Value) -> Value:
        b, place = self.b, self.place
        offset = b.mul(b.cast("zext", row, I64), place.strides[0])
        across = b.mul(b.cast("zext", column, I64), place.strides[1])
        offset = b.add(b.add(place.start, offset), across)
        return b.gep(place.element, place.memory.pointer, offset)

    def left(self, row: Value, column: Value) -> Value:
        """How many elements of the row there are from here on; not below 0."""
        b = self.b
        rows, columns = self.place.axes
        below = b.icmp("slt", b.add(rows.start, b.cast("zext", row, I64)), rows.stop)
        count = b.sub(columns.stop, b.add(columns.start, b.cast("zext", column, I64)))
        return b.select(below, b.maximum_int(count, const_i64(0)), const_i64(0))

    @property
    def can_turn(self) -> bool:
        """Whether columns are contiguous in memory, of elements that can be copied one by one, in whole runs."""
        rows, columns = self.layout.shape
        whole = rows % TURNED_RUN == 0 and columns % (self.ctx.threads // TURNED_RUN) == 0
        return self.place.strides[0].number == 1 and self.place.bytes in ASYNC_BYTES and whole

    def turned(self, cut: bool) -> None:
        """Each thread copies an element at a time; neighbouring threads a run down a column, then the next column."""
        b, (rows, columns), side = self.b, self.layout.shape, self.ctx.threads // TURNED_RUN
        row = b.binary("and", self.ctx.thread, const_int(I32, TURNED_RUN - 1))
        column = b.binary("lshr", self.ctx.thread, const_int(I32, TURNED_RUN.bit_length() - 1))
        target = b.gep(I8, self.destination, b.cast("zext", shared_offset(self.ctx, self.layout, row, column), I64))
        source = self.source(row, column)
        for left in range(0, columns, side):
            for down in range(0, rows, TURNED_RUN):
                place = b.gep(I8, target, down * self.layout.row_bytes + left * self.layout.element)
                steps = b.add(b.mul(const_i64(left), self.place.strides[1]), const_i64(down))
                room = (row, down, column, left) if cut else None
                self.word(b.gep(self.place.element, source, steps), place, room)

    def word(self, source: Value, target: Value, room: tuple[Value, int, Value, int] | None) -> None:
        """One element, or a zero where there is none."""
        b, name = self.b, f"llvm.nvvm.cp.async.ca.shared.global.{self.place.bytes}"
        if room is None:
            b.intrinsic(name, VOID, [target, source])
            return
        row, down, column, left = room
        here = [b.add(place, const_int(I32, step)) for place, step in ((row, down), (column, left))]
        exists = b.icmp("sgt", self.left(here[0], here[1]), const_i64(0))
        amount = b.select(exists, const_int(I32, self.place.bytes), const_int(I32, 0))
        b.intrinsic(f"{name}.s", VOID, [target, b.select(exists, source, self.place.memory.pointer), amount])

    def elements(self) -> None:
        """One element at a time, threads side by side along rows, or down columns where those are contiguous."""
        rows, columns = self.layout.shape
        down = self.place.strides[0].number == 1
        fast = rows if down else columns
        total, step = const_int(I32, rows * columns), const_int(I32, self.ctx.threads)

        def body(number: Value, _: list[Value]) -> list[Value]:
            outer = self.b.binary("lshr", number, const_int(I32, fast.bit_length() - 1))
            inner = self.b.binary("and", number, const_int(I32, fast - 1))
            self.element(inner, outer) if down else self.element(outer, inner)
            return []

        flow.for_loop(self.b, self.ctx.thread, total, step, [], body)

    def element(self, row: Value, column: Value) -> None:
        b, size = self.b, self.place.bytes
        offset = shared_offset(self.ctx, self.layout, row, column)
        target = b.gep(I8, self.destination, b.cast("zext", offset, I64))
        exists = b.icmp("sgt", self.left(row, column), const_i64(0))
        source = b.select(exists, self.source(row, column), self.place.memory.pointer)
        if size in ASYNC_BYTES:
            amount = b.select(exists, const_int(I32, size), const_int(I32, 0))
            b.intrinsic(f"llvm.nvvm.cp.async.ca.shared.global.{size}.s", VOID, [target, source, amount])
        else:
            loaded = b.load(self.place.element, source, size)
            b.store(b.select(exists, loaded, zero(loaded.type)), target, size)


def emit_commit(ctx: Context, op: Op) -> None:
    ctx.b.intrinsic("llvm.nvvm.cp.async.commit.group", VOID, [])


def emit_wait(ctx: Context, op: Op) -> None:
    ctx.b.intrinsic("llvm.nvvm.cp.async.wait.group", VOID, [const_int(I32, integer(op, "pending"))])


def wait_for_copies(ctx: Context) -> None:
    """All that the thread has started."""
    ctx.b.intrinsic("llvm.nvvm.cp.async.commit.group", VOID, [])
    ctx.b.intrinsic("llvm.nvvm.cp.async.wait.group", VOID, [const_int(I32, 0)])


def emit_warp_barrier(ctx: Context, op: Op) -> None:
    warp_barrier(ctx)


def warp_barrier(ctx: Context) -> None:
    """All threads of a warp."""
    ctx.b.intrinsic("llvm.nvvm.bar.warp.sync", VOID, [const_int(I32, -1)])


def emit_fill_ones(ctx: Context, op: Op) -> None:
    """By all threads; the hardware that multiplies sees it behind the next block barrier."""
    b, ring = ctx.b, ctx.rings[op.operands[0]]
    layout = ring.type.layout
    word = const_int(I32, ONES[ring.type.dtype == BF16])
    whole = b.splat(word, VECTOR_BYTES // 4)
    first = b.mul(b.cast("zext", ctx.thread, I64), const_i64(VECTOR_BYTES))
    for stage in range(ring.type.depth):
        base = b.gep(I8, ring.pointer, stage * layout.bytes + layout.filled_bytes)

        def store(place: Value, _: list[Value], base: Value = base) -> list[Value]:
            b.store(whole, b.gep(I8, base, place), VECTOR_BYTES)
            return []

        step = const_i64(VECTOR_BYTES * ctx.threads)
        flow.for_loop(b, first, const_i64(layout.panel_bytes), step, [], store)
    b.intrinsic("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])


def emit_zero_behind(ctx: Context, op: Op) -> None:
    """Each warp writes all of them, so that none has to wait for another; mostly there is nothing to write."""
    b, ring, axis = ctx.b, ctx.rings[op.operands[0]], ctx.axes[op.operands[2]]
    layout = ring.type.layout.stored
    room = b.sub(axis.stop, axis.start)
    inside = b.icmp("slt", room, const_i64(layout.shape[0]))
    some = b.icmp("sgt", room, const_i64(0))  # a block with none at all is behind the memory, and has zeros
    base = stage_pointer(ctx, ring, ctx.indices[op.operands[1]])
    lane = b.mul(b.cast("zext", ctx.lane, I64), const_i64(VECTOR_BYTES))

    def fill() -> None:
        first = b.add(b.mul(room, const_i64(layout.row_bytes)), lane)
        for panel in range(layout.shape[1] // layout.panel):
            start = b.gep(I8, base, panel * layout.panel_bytes)

            def store(place: Value, _: list[Value], start: Value = start) -> list[Value]:
                b.store(b.splat(const_int(I32, 0), VECTOR_BYTES // 4), b.gep(I8, start, place), VECTOR_BYTES)
                return []

            flow.for_loop(b, first, const_i64(layout.panel_bytes), const_i64(VECTOR_BYTES * WARP), [], store)
        b.intrinsic("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])
        b.intrinsic("llvm.nvvm.bar.warp.sync", VOID, [const_int(I32, -1)])

    flow.if_then(b, b.binary("and", inside, some), fill)


def emit_barrier(ctx: Context, op: Op) -> None:
    barrier(ctx)


def barrier(ctx: Context) -> None:
    """All threads of the program."""
    if ctx.beside is not None:
        each = [f"setp.eq.u32 mine, $0, {i};\n@mine bar.sync {i + 1}, {ctx.threads};\n" for i in range(ctx.count)]
        waits = "".join(each)
        ctx.b.asm(VOID, f"{{\n.reg .pred mine;\n{waits}}}", "r,~{memory}", [ctx.beside], attributes="convergent")
        return
    ctx.b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [const_int(I32, 0)])


# --- barriers in shared memory ------------------------------------------------------------------------------------


def initialize_barriers(ctx: Context, group: IRValue, ty: BarriersType) -> None:
    """By one thread; other threads, and the hardware that copies, see it behind the next block barrier."""
    b, pointer = ctx.b, ctx.barriers[group]
    slot, parity = b.alloca(I64, 8), b.alloca(I64, 8)
    ctx.turns[group] = slot, parity
    for place in (slot, parity):
        b.store(const_i64(0), place, 8)

    def start() -> None:
        for number in range(ty.count):
            address = b.gep(I8, pointer, number * BARRIER_BYTES)
            b.intrinsic("llvm.nvvm.mbarrier.init.shared", VOID, [address, const_int(I32, ty.arrivals)])
        b.intrinsic("llvm.nvvm.fence.mbarrier_init.release.cluster", VOID, [])
        b.intrinsic("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])

    flow.if_then(b, b.icmp("eq", ctx.thread, const_int(I32, 0)), start)


def _barrier(ctx: Context, op: Op, slot: int = 1) -> Value:
    group, place = op.operands[slot - 1], op.operands[slot]
    assert barriers(group)
    return ctx.b.gep(I8, ctx.barriers[group], ctx.b.mul(ctx.indices[place], const_i64(BARRIER_BYTES)))


def emit_expect(ctx: Context, op: Op) -> None:
    def expect() -> None:
        size = const_int(I32, integer(op, "bytes"))
        name = "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta"
        ctx.b.intrinsic(name, I64, [_barrier(ctx, op), size])

    by_leader(ctx, expect)


def by_leader(ctx: Context, work: Callable[[], None]) -> None:
    """What one thread of a producer does, of which others may run beside it."""
    flow.if_then(ctx.b, ctx.leader, work) if ctx.leader is not None else work()


def emit_arrive_copied(ctx: Context, op: Op) -> None:
    ctx.b.intrinsic("llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared", VOID, [_barrier(ctx, op)])


def emit_see_copies(ctx: Context, _: Op) -> None:
    """Copies by threads write as threads do, and what multiplies reads in a way of its own."""
    ctx.b.intrinsic("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])


def emit_arrive(ctx: Context, op: Op) -> None:
    """The first lane of each warp, when the warp has come here."""
    address = _barrier(ctx, op)
    emit_warp_barrier(ctx, op)

    def arrive() -> None:
        name = "llvm.nvvm.mbarrier.arrive.scope.cta.space.cta"
        ctx.b.intrinsic(name, I64, [address, const_int(I32, 1)])

    first = ctx.b.icmp("eq", ctx.lane, const_int(I32, 0))
    if "late" in op.attrs:
        first = ctx.b.binary("and", first, ctx.b.icmp("sge", ctx.indices[op.operands[1]], const_i64(0)))
    flow.if_then(ctx.b, first, arrive)


def emit_next(ctx: Context, op: Op) -> None:
    """Each thread counts for itself, in two words that are registers in the end."""
    b, group = ctx.b, op.operands[0]
    slot, parity = ctx.turns[group]
    mine = [b.load(I64, place, 8) for place in (slot, parity)]
    following = b.add(mine[0], const_i64(1))
    round_ = b.icmp("eq", following, const_i64(barriers(group).count))
    b.store(b.select(round_, const_i64(0), following), slot, 8)
    b.store(b.binary("xor", mine[1], b.cast("zext", round_, I64)), parity, 8)
    ctx.indices.update(zip(op.results, mine, strict=True))


def emit_await(ctx: Context, op: Op) -> None:
    address, parity = _barrier(ctx, op), ctx.i32(ctx.indices[op.operands[2]])

    def again(_: list[Value]) -> tuple[Value, list[Value]]:
        name = "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta"
        done = ctx.b.intrinsic(name, I1, [address, parity])
        return ctx.b.binary("xor", done, const_int(I1, 1)), []

    flow.do_while(ctx.b, [], again)


def emit_tensor_copy(ctx: Context, op: Op) -> None:
    by_leader(ctx, lambda: _tensor_copy(ctx, op))


def _tensor_copy(ctx: Context, op: Op) -> None:
    """One tensor copy per panel; all of them arrive at the barrier of the slot."""
    source, *at, rows, columns, ring, slot, group = op.operands
    b, target = ctx.b, ctx.rings[ring]
    layout = target.type.layout
    stage = stage_pointer(ctx, target, ctx.indices[slot])
    barrier = b.gep(I8, ctx.barriers[group], b.mul(ctx.indices[slot], const_i64(BARRIER_BYTES)))
    row, column = ctx.i32(ctx.axes[rows].start), ctx.i32(ctx.axes[columns].start)
    others = [ctx.i32(ctx.indices[v]) for v in reversed(at)]
    for panel in range(layout.stored.shape[1] // layout.panel):
        place = b.add(column, const_int(I32, panel * layout.panel))
        arguments = [
            b.gep(I8, stage, panel * layout.panel_bytes), barrier, ctx.maps[source], place, row, *others,
            const_i64(0), const_int(I1, 0),
        ]  # fmt: skip
        b.intrinsic(f"llvm.nvvm.cp.async.bulk.tensor.g2s.cta.tile.{2 + len(at)}d", VOID, arguments)
