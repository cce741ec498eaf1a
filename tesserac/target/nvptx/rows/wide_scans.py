"""Running folds of many blocks in a program: all threads bring them, the first walk one each, all write them.

A chain of additions waits for each of its results. The lanes of a warp walk as many chains side by side, and the other
programs of a multiprocessor move memory meanwhile. See Note [Programs that wait for others] in `tile/gpu`. Elements
come and go by 16 bytes, but for a program in which a row ends, and rows that do not begin at such an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from tesserac.ir.core import Op
from tesserac.ir.forms import indices
from tesserac.target import flow
from tesserac.target.llvm_types import I1, I64, VOID, Value, const_i64, const_int, undefined, vector
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.memory.line import Line
from tesserac.target.nvptx.memory.prefetch import LINE_BYTES, ask_for_line
from tesserac.target.nvptx.products.copies import WARP, barrier, wait_for_copies, warp_barrier
from tesserac.target.nvptx.registers.conversions import constant
from tesserac.target.nvptx.registers.fragments import FOLDS, shuffle
from tesserac.target.nvptx.registers.scalars import emit_rule
from tesserac.target.nvptx.rows.published import Told
from tesserac.tile.bodies import identity_of
from tesserac.tile.gpu.kernels.wide_scans import LENGTH, WORD_BITS, chains, room_row
from tesserac.tile.gpu.model.values import integer, memory, text
from tesserac.tile.gpu.rows.prefetch import AHEAD

READ_AHEAD, ROWS = 16, 8
"""Elements that a walk reads ahead, and rows that are on their way at once."""
WIDE = 16
"""Bytes that one instruction moves."""
LANE_BITS = 5
"""Of the number of a lane."""
_Move: TypeAlias = Callable[[tuple[Value, Value]], None]
"""What is done with the elements at a row and column."""
FALSE = const_int(I1, 0)


def emit_once(ctx: Context, op: Op) -> None:
    """The first warp walks, and speaks with other programs: the others bring and write."""
    scan = _Scan(ctx, op)
    scan.bring()
    _if(ctx, ctx.b.icmp("slt", scan.mine, const_i64(WARP)), scan.fold_blocks)
    barrier(ctx)
    scan.write()


def _if(ctx: Context, condition: Value, body: Callable[[], None]) -> None:
    flow.if_then(ctx.b, condition, body)


class _Scan:
    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b, self.kind = ctx, ctx.b, text(op, "kind")
        number, room, nodes, words, *rest = op.operands
        self.dtype = memory(room).dtype
        values = rest.pop(0) if self.dtype.bits > WORD_BITS else None
        rows, dims = [ctx.indices[rest.pop(0)] for _ in range(integer(op, "rows"))], indices(op, "dims")
        source = memory(rest[0])
        taken, put = rest[: 1 + len(source.dims)], rest[1 + len(source.dims) :]
        self.chains = chains(self.dtype)
        self.room, self.nodes = Line(ctx, room), Line(ctx, nodes)
        self.source = Line(ctx, taken[0], [ctx.indices[v] for v in taken[1:]], dims[0])
        self.target = Line(ctx, put[0], [ctx.indices[v] for v in put[1:]], dims[1])
        self.told = Told(ctx, words, values, rows, self.dtype)
        self.size = ctx.dim(source.dims[dims[0]])
        self.number, self.ahead = ctx.indices[number], integer(op, AHEAD)
        self.first = self.b.mul(self.number, const_i64(self.chains))
        self.mine = self.b.cast("zext", ctx.thread, I64)
        self.top = self.chains.bit_length() - 1
        self.wide = vector(self.room.element, WIDE // self.dtype.bytes)
        end = self.b.mul(self.b.add(self.first, const_i64(self.chains)), const_i64(LENGTH))
        self.whole = self.b.icmp("sle", end, self.size)
        """Whether the row goes on to the end of the program's blocks."""

    def fold(self, left: Value, right: Value) -> Value:
        return emit_rule(self.b, FOLDS[self.kind], self.dtype, [left, right])

    # --- memory -------------------------------------------------------------------------------------------------------

    def bring(self) -> None:
        """All blocks of the program, all at once on their way; behind the end of the row its last element."""
        b, last = self.b, self.b.sub(self.size, const_i64(1))

        def wide(place: tuple[Value, Value]) -> None:
            arguments = [self.room.address(self._in_room(*place)), self.source.address(self._element(*place))]
            b.intrinsic(f"llvm.nvvm.cp.async.cg.shared.global.{WIDE}", VOID, arguments)

        def single(place: tuple[Value, Value]) -> None:
            source = self.source.address(b.minimum_int(self._element(*place), last))
            name = f"llvm.nvvm.cp.async.ca.shared.global.{self.dtype.bytes}"
            b.intrinsic(name, VOID, [self.room.address(self._in_room(*place)), source])

        self._each(self.source, wide, single)
        self._prefetch()
        wait_for_copies(self.ctx)
        barrier(self.ctx)

    def _prefetch(self) -> None:
        """For the blocks of a later program, where all of them are there: while programs fold, and wait for each other,
        memory would have nothing to do."""
        if self.source.step.number != 1:
            return
        b, length = self.b, self.chains * LENGTH
        start = b.mul(b.add(self.number, const_i64(self.ahead)), const_i64(length))

        def lines() -> None:
            mine = b.add(b.cast("ptrtoint", self.source.address(start), I64), b.mul(self.mine, const_i64(LINE_BYTES)))
            for offset in range(0, length * self.dtype.bytes, LINE_BYTES * self.ctx.threads):
                ask_for_line(self.ctx, b.add(mine, const_i64(offset)))

        _if(self.ctx, b.icmp("sle", b.add(start, const_i64(length)), self.size), lines)

    def write(self) -> None:
        """All running folds behind what stands before their blocks."""
        b = self.b

        def wide(place: tuple[Value, Value]) -> None:
            before, read = self.nodes.load(place[0]), self._load_wide(self._in_room(*place))
            values = [self.fold(before, b.extract(read, i)) for i in range(self.wide.lanes)]
            b.store(self._joined(values), self.target.address(self._element(*place)), WIDE)

        def single(place: tuple[Value, Value]) -> None:
            value = self.fold(self.nodes.load(place[0]), self.room.load(self._in_room(*place)))
            element = self._element(*place)
            _if(self.ctx, b.icmp("slt", element, self.size), lambda: self.target.store(value, element))

        self._each(self.target, wide, single)

    def _each(self, line: Line, wide: _Move, single: _Move) -> None:
        """All elements of the program, several at once where they lie so in `line`."""
        b = self.b

        def all_of(lanes: int, move: _Move) -> None:
            across = LENGTH // lanes
            beside = max(1, self.ctx.threads // across)
            row, column = (b.binary(op, self.mine, const_i64(across)) for op in ("udiv", "urem"))

            def rows(start: Value, _: list[Value]) -> list[Value]:
                for i in range(ROWS):
                    for step in range(0, LENGTH, self.ctx.threads * lanes):
                        at = b.add(b.mul(column, const_i64(lanes)), const_i64(step))
                        move((b.add(b.add(start, row), const_i64(i * beside)), at))
                return []

            flow.for_loop(b, const_i64(0), const_i64(self.chains), const_i64(ROWS * beside), [], rows)

        if line.step.number != 1:
            all_of(1, single)
            return
        address = b.cast("ptrtoint", line.pointer, I64)
        aligned = b.icmp("eq", b.binary("and", address, const_i64(WIDE - 1)), const_i64(0))
        several = partial(all_of, self.wide.lanes, wide)
        flow.if_else(b, b.binary("and", self.whole, aligned), several, partial(all_of, 1, single))

    def _load_wide(self, place: Value) -> Value:
        return self.b.load(self.wide, self.room.address(place), WIDE)

    def _joined(self, values: Sequence[Value]) -> Value:
        whole = undefined(self.wide)
        for i, value in enumerate(values):
            whole = self.b.insert(whole, value, i)
        return whole

    def _element(self, row: Value, column: Value) -> Value:
        return self.b.add(self.b.mul(self.b.add(self.first, row), const_i64(LENGTH)), column)

    def _in_room(self, row: Value, column: Value) -> Value:
        return self.b.add(self.b.mul(row, const_i64(room_row(self.dtype))), column)

    # --- folds --------------------------------------------------------------------------------------------------------

    def walked(self) -> Value:
        """The total of the block that is a thread's; its running folds stand in its place. While some elements are
        folded, the next are on their way."""
        b = self.b
        start = b.mul(b.add(self.first, self.mine), const_i64(LENGTH))
        count = b.maximum_int(b.minimum_int(b.sub(self.size, start), const_i64(LENGTH)), const_i64(0))
        several_end = b.binary("and", count, const_i64(-READ_AHEAD))

        def several(place: Value, held: list[Value]) -> list[Value]:
            total, *read = held
            following = b.minimum_int(b.add(place, const_i64(READ_AHEAD)), const_i64(LENGTH - READ_AHEAD))
            ahead = self._read(following)
            return [self._folded(total, place, read), *ahead]

        def one(place: Value, held: list[Value]) -> list[Value]:
            at = self._in_room(self.mine, place)
            total = self.fold(held[0], self.room.load(at))
            self.room.store(total, at)
            return [total]

        held = [constant(self.dtype, identity_of(self.kind, self.dtype)), *self._read(const_i64(0))]
        total, *_ = flow.for_loop(b, const_i64(0), several_end, const_i64(READ_AHEAD), held, several)
        [total] = flow.for_loop(b, several_end, count, const_i64(1), [total], one)
        return total

    def _steps(self, place: Value) -> list[Value]:
        """Where the elements that are read ahead stand, several at once."""
        steps = range(0, READ_AHEAD, self.wide.lanes)
        return [self._in_room(self.mine, self.b.add(place, const_i64(i))) for i in steps]

    def _read(self, place: Value) -> list[Value]:
        """Elements of the block that is a thread's, from a place on."""
        return [self._load_wide(at) for at in self._steps(place)]

    def _folded(self, total: Value, place: Value, read: Sequence[Value]) -> Value:
        """The fold with these as well; what it is at each of them takes its place."""
        for at, several in zip(self._steps(place), read, strict=True):
            folds = []
            for i in range(self.wide.lanes):
                total = self.fold(total, self.b.extract(several, i))
                folds.append(total)
            self.b.store(self._joined(folds), self.room.address(at), WIDE)
        return total

    def fold_blocks(self) -> None:
        """By the first warp: what stands before each block of the program, and its running folds."""
        ctx, b = self.ctx, self.b
        mine = b.icmp("slt", self.mine, const_i64(self.chains))
        _if(ctx, mine, lambda: self._node(0, self.mine).store(self.walked()))
        for level in range(1, self.top + 1):
            warp_barrier(ctx)
            some = b.icmp("slt", self.mine, const_i64(self.chains >> level))
            _if(ctx, some, partial(self._join, level))
        warp_barrier(ctx)
        self._tell_and_ask()
        warp_barrier(ctx)
        _if(ctx, mine, lambda: self.nodes.store(self.before(), self.mine))

    def _node(self, level: int, place: Value) -> _Node:
        """Of the program."""
        start = 3 * self.chains - (2 * self.chains >> level)
        return _Node(self.nodes, self.b.add(place, const_i64(start)))

    def _asked(self, level: Value) -> _Node:
        """Of the programs before it."""
        return _Node(self.nodes, self.b.add(level, const_i64(3 * self.chains)))

    def _join(self, level: int) -> None:
        left = self.b.mul(self.mine, const_i64(2))
        below = [self._node(level - 1, self.b.add(left, const_i64(i))).load() for i in (0, 1)]
        self._node(level, self.mine).store(self.fold(*below))

    def _tell_and_ask(self) -> None:
        """The program's total is told first; then it waits, five levels of the tree at a time."""
        b, own = self.b, self._node(self.top, const_i64(0)).load()
        last = b.mul(b.add(self.first, const_i64(self.chains - 1)), const_i64(LENGTH))
        whole = b.icmp("slt", last, self.size)  # all its blocks are there; else no program follows
        tells = b.binary("and", whole, b.icmp("eq", self.mine, const_i64(0)))
        _if(self.ctx, tells, lambda: self.told.tell(const_i64(0), self.number, own))
        levels = b.sub(const_i64(64), b.intrinsic("llvm.ctlz.i64", I64, [self.number, FALSE]))
        flow.for_loop(b, const_i64(0), levels, const_i64(LANE_BITS), [own], partial(self._ask, tells))

    def _ask(self, tells: Value, level: Value, held: list[Value]) -> list[Value]:
        """A lane for each node of a level before the program's own in a subtree of as many as a warp has lanes: so what
        a program tells waits for others once for five levels. The total of the subtree, which is told where the
        program completes it."""
        b = self.b
        place = b.binary("lshr", self.number, level)
        before = b.binary("and", place, const_i64(WARP - 1))
        node = b.add(b.sub(place, before), self.mine)
        asked = b.icmp("slt", self.mine, before)
        [value] = flow.choose(b, asked, lambda: [self.told.ask(level, node)], lambda: held)
        total = self._subtrees(level, before, value)
        above, behind = b.add(level, const_i64(LANE_BITS)), b.add(self.number, const_i64(1))
        node_above = b.binary("lshr", self.number, above)
        completes = b.icmp("eq", b.binary("shl", b.add(node_above, const_i64(1)), above), behind)
        told = partial(self.told.tell, above, node_above, total)
        _if(self.ctx, b.binary("and", tells, completes), told)
        return [total]

    def _subtrees(self, level: Value, before: Value, value: Value) -> Value:
        """The fold of the values of all lanes. Of the nodes on the way, those whole ones are kept that stand before the
        program: one for each bit of the number of nodes before its own."""
        b = self.b
        for bit in range(LANE_BITS):
            rest = b.binary("lshr", before, const_i64(bit))
            odd = b.icmp("ne", b.binary("and", rest, const_i64(1)), const_i64(0))
            first = b.binary("shl", b.sub(rest, const_i64(1)), const_i64(bit))
            kept = b.binary("and", odd, b.icmp("eq", self.mine, first))
            _if(self.ctx, kept, partial(self._asked(b.add(level, const_i64(bit))).store, value))
            other = shuffle(self.ctx, value, 1 << bit)
            right = b.icmp("ne", b.binary("and", self.mine, const_i64(1 << bit)), const_i64(0))
            value = self.fold(b.select(right, other, value), b.select(right, value, other))
        return value

    def before(self) -> Value:
        """What stands before a block: a node for each bit of its number, the smallest first."""
        b, total = self.b, constant(self.dtype, identity_of(self.kind, self.dtype))
        for level in range(self.top):
            rest = b.binary("lshr", self.mine, const_i64(level))
            odd = b.icmp("ne", b.binary("and", rest, const_i64(1)), const_i64(0))
            left = b.maximum_int(b.sub(rest, const_i64(1)), const_i64(0))
            total = b.select(odd, self.fold(self._node(level, left).load(), total), total)

        def above(level: Value, held: list[Value]) -> list[Value]:
            bit = b.binary("and", b.binary("lshr", self.number, level), const_i64(1))
            node = self._asked(level).load()
            return [b.select(b.icmp("ne", bit, const_i64(0)), self.fold(node, held[0]), held[0])]

        levels = b.sub(const_i64(64), b.intrinsic("llvm.ctlz.i64", I64, [self.number, FALSE]))
        [total] = flow.for_loop(b, const_i64(0), levels, const_i64(1), [total], above)
        return total


class _Node:
    """A place of a line."""

    def __init__(self, line: Line, place: Value) -> None:
        self.line, self.place = line, place

    def load(self) -> Value:
        return self.line.load(self.place)

    def store(self, value: Value) -> None:
        self.line.store(value, self.place)
