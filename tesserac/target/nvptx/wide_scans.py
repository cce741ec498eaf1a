"""Running folds of many blocks in a program: all threads bring them, the first walk one each, all write them.

A chain of additions waits for each of its results. The lanes of a warp walk as many chains side by side, and the other
programs of a multiprocessor move memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.target import flow
from tesserac.target.llvm_types import I64, Value, const_i64
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.conversions import constant
from tesserac.target.nvptx.copies import barrier
from tesserac.target.nvptx.fragments import FOLDS
from tesserac.target.nvptx.scalars import emit_rule
from tesserac.tile.bodies import identity_of
from tesserac.tile.gpu.values import memory, text
from tesserac.tile.gpu.wide_scans import LENGTH, ROW, chains

AHEAD, ROWS = 8, 8
"""Elements that a walk reads ahead, and rows that are on their way at once."""
LEVELS, LEVELS_AT_ONCE = 32, 8
"""Of the tree, and those whose nodes are."""


def emit_totals(ctx: Context, op: Op) -> None:
    scan = _Scan(ctx, op)
    scan.bring()

    def walk() -> None:
        total = scan.walked(stores=False)
        scan.tops.store(total, scan.mine)
        _if(ctx, scan.exists(scan.mine, 0), lambda: scan.level(0).store(total, scan.block(scan.mine, 0)))

    scan.by_chains(walk)
    for level in range(1, scan.chains.bit_length()):
        barrier(ctx)
        scan.join(level)


def emit_blocks(ctx: Context, op: Op) -> None:
    """The last first: what the totals have read last is still in the second cache."""
    scan = _Scan(ctx, op, last_first=True)
    scan.bring()

    def walk() -> None:
        before = scan.before()
        scan.walked(stores=True)
        scan.tops.store(before, scan.mine)

    scan.by_chains(walk)
    barrier(ctx)
    scan.write()


def _if(ctx: Context, condition: Value, body: Callable[[], None]) -> None:
    flow.if_then(ctx.b, condition, body)


class _Line:
    """Elements side by side, or a stride apart, from a place on."""

    def __init__(self, ctx: Context, mem: IRValue, at: Sequence[Value], dim: int = -1) -> None:
        b, held = ctx.b, ctx.memories[mem]
        place = const_i64(0)
        for value, stride in zip(at, held.strides, strict=False):
            place = b.add(place, b.mul(value, stride))
        self.b, self.element, self.step = b, memory_type(held.type.dtype), held.strides[dim]
        self.pointer = b.gep(self.element, held.pointer, place)

    def address(self, i: Value) -> Value:
        return self.b.gep(self.element, self.pointer, self.b.mul(i, self.step))

    def load(self, i: Value) -> Value:
        return self.b.load(self.element, self.address(i), self.element.bits // 8)

    def store(self, value: Value, i: Value) -> None:
        self.b.store(value, self.address(i), self.element.bits // 8)


class _Scan:
    def __init__(self, ctx: Context, op: Op, last_first: bool = False) -> None:
        self.ctx, self.b, self.kind = ctx, ctx.b, text(op, "kind")
        number, room, tops, levels, *rest = op.operands
        rows, source = len(memory(levels).dims) - 2, memory(rest[len(memory(levels).dims) - 2])
        self.levels, self.row = levels, [ctx.indices[v] for v in rest[:rows]]
        taken, dims = rest[rows : rows + 1 + len(source.dims)], indices(op, "dims")
        put = rest[rows + 1 + len(source.dims) :]
        self.dtype, self.chains = source.dtype, chains(source.dtype)
        self.room, self.tops = (_Line(ctx, mem, ()) for mem in (room, tops))
        self.source = _Line(ctx, taken[0], [ctx.indices[v] for v in taken[1:]], dims[0])
        self.target = _Line(ctx, put[0], [ctx.indices[v] for v in put[1:]], dims[1]) if put else None
        self.size = ctx.dim(source.dims[dims[0]])
        self.blocks = ctx.dim(memory(levels).dims[-1])
        turn = ctx.indices[number]
        if last_first:
            rounded = self.b.add(self.blocks, const_i64(self.chains - 1))
            programs = self.b.binary("udiv", rounded, const_i64(self.chains))
            turn = self.b.sub(self.b.sub(programs, const_i64(1)), turn)
        self.first = self.b.mul(turn, const_i64(self.chains))
        self.mine = self.b.cast("zext", ctx.thread, I64)

    def fold(self, left: Value, right: Value) -> Value:
        return emit_rule(self.b, FOLDS[self.kind], self.dtype, [left, right])

    def level(self, level: int) -> _Line:
        return _Line(self.ctx, self.levels, [*self.row, const_i64(level)])

    def block(self, place: Value, level: int) -> Value:
        """The number of a node of the program, by its place among those of its level."""
        return self.b.add(self.b.binary("lshr", self.first, const_i64(level)), place)

    def exists(self, place: Value, level: int) -> Value:
        """Whether all blocks of a node do."""
        end = self.b.binary("shl", self.b.add(self.block(place, level), const_i64(1)), const_i64(level))
        return self.b.icmp("sle", end, self.blocks)

    def by_chains(self, walk: Callable[[], None]) -> None:
        _if(self.ctx, self.b.icmp("slt", self.mine, const_i64(self.chains)), walk)

    # --- memory -------------------------------------------------------------------------------------------------------

    def bring(self) -> None:
        """All blocks of the program; what is behind the end of the row is its last element."""
        b, last = self.b, self.b.sub(self.size, const_i64(1))

        def rows(start: Value, _: list[Value]) -> list[Value]:
            places = self._places(start)
            loaded = [self.source.load(b.minimum_int(self._element(*place), last)) for place in places]
            for value, place in zip(loaded, places, strict=True):
                self.room.store(value, self._in_room(*place))
            return []

        flow.for_loop(b, const_i64(0), const_i64(self.chains), const_i64(ROWS), [], rows)
        barrier(self.ctx)

    def write(self) -> None:
        """All running folds behind what stands before their blocks."""
        b = self.b
        end = b.mul(b.add(self.first, const_i64(self.chains)), const_i64(LENGTH))

        def rows(tested: bool, start: Value, _: list[Value]) -> list[Value]:
            for place in self._places(start):
                value = self.fold(self.tops.load(place[0]), self.room.load(self._in_room(*place)))
                self._put(value, self._element(*place), tested)
            return []

        def all_rows(tested: bool) -> None:
            flow.for_loop(b, const_i64(0), const_i64(self.chains), const_i64(ROWS), [], partial(rows, tested))

        flow.if_else(b, b.icmp("sle", end, self.size), partial(all_rows, False), partial(all_rows, True))

    def _put(self, value: Value, element: Value, tested: bool) -> None:
        target = self.target
        assert target is not None
        if not tested:
            target.store(value, element)
            return
        _if(self.ctx, self.b.icmp("slt", element, self.size), lambda: target.store(value, element))

    def _places(self, start: Value) -> list[tuple[Value, Value]]:
        """The rows from one on, and which of their elements are a thread's."""
        steps = range(0, LENGTH, self.ctx.threads)
        return [
            (self.b.add(start, const_i64(row)), self.b.add(self.mine, const_i64(step)))
            for row in range(ROWS)
            for step in steps
        ]

    def _element(self, row: Value, column: Value) -> Value:
        return self.b.add(self.b.mul(self.b.add(self.first, row), const_i64(LENGTH)), column)

    def _in_room(self, row: Value, column: Value) -> Value:
        return self.b.add(self.b.mul(row, const_i64(ROW)), column)

    # --- folds --------------------------------------------------------------------------------------------------------

    def walked(self, stores: bool) -> Value:
        """The total of the block that is a thread's; its running folds in its place, if it `stores` them."""
        b = self.b
        start = b.mul(self.block(self.mine, 0), const_i64(LENGTH))
        count = b.maximum_int(b.minimum_int(b.sub(self.size, start), const_i64(LENGTH)), const_i64(0))
        whole = b.binary("and", count, const_i64(-AHEAD))
        first = b.mul(self.mine, const_i64(ROW))

        def steps(number: int, place: Value, held: list[Value]) -> list[Value]:
            places = [b.add(first, b.add(place, const_i64(i))) for i in range(number)]
            [total] = held
            for at, value in zip(places, [self.room.load(at) for at in places], strict=True):
                total = self.fold(total, value)
                if stores:
                    self.room.store(total, at)
            return [total]

        held = [constant(self.dtype, identity_of(self.kind, self.dtype))]
        held = flow.for_loop(b, const_i64(0), whole, const_i64(AHEAD), held, partial(steps, AHEAD))
        [total] = flow.for_loop(b, whole, count, const_i64(1), held, partial(steps, 1))
        return total

    def join(self, level: int) -> None:
        """The nodes of a level from two each of the level below, which stand in `tops`."""
        ctx, b, two = self.ctx, self.b, const_i64(2)
        mine = b.icmp("slt", self.mine, const_i64(self.chains >> level))
        left = b.select(mine, b.mul(self.mine, two), const_i64(0))
        both = self.fold(self.tops.load(left), self.tops.load(b.add(left, const_i64(1))))
        barrier(ctx)

        def keep() -> None:
            self.tops.store(both, self.mine)
            _if(ctx, self.exists(self.mine, level), lambda: self.level(level).store(both, self.block(self.mine, level)))

        _if(ctx, mine, keep)

    def before(self) -> Value:
        """What stands before a block: a node for each bit of its number, the smallest first. Where there is none, the
        first total is read for nothing, so that several are on their way at once."""
        b, number = self.b, self.block(self.mine, 0)
        here = b.icmp("slt", number, self.blocks)

        def some(start: Value, held: list[Value]) -> list[Value]:
            found = [self._node(b.add(start, const_i64(i)), number, here) for i in range(LEVELS_AT_ONCE)]
            [total] = held
            for odd, node in found:
                total = b.select(odd, self.fold(node, total), total)
            return [total]

        held, none = [constant(self.dtype, identity_of(self.kind, self.dtype))], const_i64(0)
        steps = [b.binary("lshr", self.blocks, const_i64(level)) for level in range(0, LEVELS, LEVELS_AT_ONCE)]
        needed = [b.select(b.icmp("ne", rest, none), const_i64(LEVELS_AT_ONCE), none) for rest in steps]
        high = none
        for more in needed:
            high = b.add(high, more)
        [total] = flow.for_loop(b, none, high, const_i64(LEVELS_AT_ONCE), held, some)
        return total

    def _node(self, level: Value, number: Value, here: Value) -> tuple[Value, Value]:
        """Whether the number has a bit, and what stands for it."""
        b = self.b
        rest = b.binary("lshr", number, level)
        odd = b.binary("and", here, b.icmp("ne", b.binary("and", rest, const_i64(1)), const_i64(0)))
        line, zero = _Line(self.ctx, self.levels, [*self.row, level]), self.level(0)
        address = b.select(odd, line.address(b.sub(rest, const_i64(1))), zero.address(const_i64(0)))
        return odd, b.load(line.element, address, line.element.bits // 8)
