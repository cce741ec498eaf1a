"""Running folds of many blocks in a program: all threads bring them, the first walk one each, all write them.

A chain of additions waits for each of its results. The lanes of a warp walk as many chains side by side, and the other
programs of a multiprocessor move memory meanwhile. See Note [Programs that wait for others] in `tile/gpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.target import flow
from tesserac.target.llvm_types import I32, I64, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.conversions import constant
from tesserac.target.nvptx.copies import barrier
from tesserac.target.nvptx.fragments import FOLDS
from tesserac.target.nvptx.scalars import emit_rule
from tesserac.tile.bodies import identity_of
from tesserac.tile.gpu.values import memory, text
from tesserac.tile.gpu.wide_scans import FLAG_LEVELS, LENGTH, ROW, chains

AHEAD, ROWS = 8, 8
"""Elements that a walk reads ahead, and rows that are on their way at once."""
LEVELS, LEVELS_AT_ONCE = 32, 8
"""Of the tree, and those whose nodes are."""
DEVICE = 'syncscope("device")'


def emit_once(ctx: Context, op: Op) -> None:
    scan = _Scan(ctx, op)
    scan.bring()

    def walk() -> None:
        total = scan.walked()
        scan.tops.store(total, scan.mine)
        _if(ctx, scan.exists(scan.mine, 0), lambda: scan.level(0).store(total, scan.block(scan.mine, 0)))

    scan.by_chains(walk)
    for level in range(1, scan.top + 1):
        barrier(ctx)
        scan.join(level)
    first = ctx.b.icmp("eq", scan.mine, const_i64(0))
    _if(ctx, ctx.b.binary("and", first, scan.exists(const_i64(0), scan.top)), scan.tell)
    scan.wait()
    barrier(ctx)
    scan.by_chains(lambda: scan.tops.store(scan.before(), scan.mine))
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


class _Flag:
    """A word by which a program tells others that a number stands in memory."""

    def __init__(self, ctx: Context, address: Value) -> None:
        self.b, self.address = ctx.b, address

    def release(self) -> None:
        self.b.store_atomic(const_int(I32, 1), self.address, f"{DEVICE} release")

    def acquire(self) -> None:
        """Waits for it."""

        def again(_: list[Value]) -> tuple[Value, list[Value]]:
            told = self.b.load_atomic(I32, self.address, f"{DEVICE} acquire")
            return self.b.icmp("eq", told, const_int(I32, 0)), []

        flow.do_while(self.b, [], again)


class _Scan:
    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b, self.kind = ctx, ctx.b, text(op, "kind")
        number, room, tops, levels, flags, *rest = op.operands
        rows, source = len(memory(levels).dims) - 2, memory(rest[len(memory(levels).dims) - 2])
        self.levels, self.row = levels, [ctx.indices[v] for v in rest[:rows]]
        taken, dims = rest[rows : rows + 1 + len(source.dims)], indices(op, "dims")
        put = rest[rows + 1 + len(source.dims) :]
        self.dtype, self.chains = source.dtype, chains(source.dtype)
        self.room, self.tops = (_Line(ctx, mem, ()) for mem in (room, tops))
        self.source = _Line(ctx, taken[0], [ctx.indices[v] for v in taken[1:]], dims[0])
        self.target = _Line(ctx, put[0], [ctx.indices[v] for v in put[1:]], dims[1])
        self.flags = _Line(ctx, flags, self.row)
        self.size = ctx.dim(source.dims[dims[0]])
        self.blocks = ctx.dim(memory(levels).dims[-1])
        self.number, self.programs = ctx.indices[number], ctx.dim(memory(flags).dims[-1].floor_div(FLAG_LEVELS))
        self.first = self.b.mul(self.number, const_i64(self.chains))
        self.top = self.chains.bit_length() - 1
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
        if not tested:
            self.target.store(value, element)
            return
        _if(self.ctx, self.b.icmp("slt", element, self.size), lambda: self.target.store(value, element))

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

    def walked(self) -> Value:
        """The total of the block that is a thread's; its running folds stand in its place. While some elements are
        folded, the next are on their way."""
        b = self.b
        start = b.mul(self.block(self.mine, 0), const_i64(LENGTH))
        count = b.maximum_int(b.minimum_int(b.sub(self.size, start), const_i64(LENGTH)), const_i64(0))
        whole = b.binary("and", count, const_i64(-AHEAD))

        def several(place: Value, held: list[Value]) -> list[Value]:
            total, *read = held
            following = b.minimum_int(b.add(place, const_i64(AHEAD)), const_i64(LENGTH - AHEAD))
            ahead = self._read(following, AHEAD)
            return [self._folded(total, place, read), *ahead]

        def one(place: Value, held: list[Value]) -> list[Value]:
            return [self._folded(held[0], place, self._read(place, 1))]

        held = [constant(self.dtype, identity_of(self.kind, self.dtype)), *self._read(const_i64(0), AHEAD)]
        total, *_ = flow.for_loop(b, const_i64(0), whole, const_i64(AHEAD), held, several)
        [total] = flow.for_loop(b, whole, count, const_i64(1), [total], one)
        return total

    def _read(self, place: Value, count: int) -> list[Value]:
        """Elements of the block that is a thread's, from a place on."""
        places = [self.b.add(place, const_i64(i)) for i in range(count)]
        return [self.room.load(self._in_room(self.mine, at)) for at in places]

    def _folded(self, total: Value, place: Value, values: Sequence[Value]) -> Value:
        """The fold with these as well; what it is at each of them takes its place."""
        for i, value in enumerate(values):
            total = self.fold(total, value)
            self.room.store(total, self._in_room(self.mine, self.b.add(place, const_i64(i))))
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

    # --- other programs -----------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """By the first thread, which has written the total of all blocks of the program: that it stands there, and
        those of all subtrees that it completes."""
        b, one = self.b, const_i64(1)
        self._flag(const_i64(0), self.number).release()

        def climb(held: list[Value]) -> tuple[Value, list[Value]]:
            level, node, total = held
            left = b.sub(node, one)
            self._flag(level, left).acquire()
            total = self.fold(self._nodes(level).load(left), total)
            above, half = b.add(level, one), b.binary("lshr", node, one)
            self._nodes(above).store(total, half)
            self._flag(above, half).release()
            return self._is_odd(half), [above, half, total]

        held = [const_i64(0), self.number, self.tops.load(const_i64(0))]

        def all_levels() -> None:
            flow.do_while(b, held, climb)

        _if(self.ctx, self._is_odd(self.number), all_levels)

    def wait(self) -> None:
        """A thread for each bit of the program's number."""
        b = self.b
        rest = b.binary("lshr", self.number, b.minimum_int(self.mine, const_i64(LEVELS)))
        some = b.binary("and", b.icmp("slt", self.mine, const_i64(FLAG_LEVELS)), self._is_odd(rest))
        _if(self.ctx, some, lambda: self._flag(self.mine, b.sub(rest, const_i64(1))).acquire())

    def _is_odd(self, number: Value) -> Value:
        return self.b.icmp("ne", self.b.binary("and", number, const_i64(1)), const_i64(0))

    def _nodes(self, level: Value) -> _Line:
        """Those of whole programs, level 0, and of subtrees of them."""
        return _Line(self.ctx, self.levels, [*self.row, self.b.add(level, const_i64(self.top))])

    def _flag(self, level: Value, node: Value) -> _Flag:
        return _Flag(self.ctx, self.flags.address(self.b.add(self.b.mul(level, self.programs), node)))

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
