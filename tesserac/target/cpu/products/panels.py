"""Packing into panels: columns in blocks of a fixed width, each block stored whole, row after row.

Whole blocks are copied in vectors, either along the columns (the source is contiguous there), or along the rows with a
transposition on the way; columns before the first and behind the last whole block in fours, or one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.types import ScalarType
from tesserac.target.cpu.elements.accesses import prepare_addresses
from tesserac.target.cpu.elements.bodies import emit_body, prefetch
from tesserac.target.cpu.elements.frame import REST, Entry, Frame, Lanes, Mode, Run
from tesserac.target.cpu.elements.registers import register_type, shorten_to_tf32
from tesserac.target.cpu.elements.transpose import exchanged
from tesserac.target.dims import floor_div, modulo
from tesserac.target.flow import for_loop, if_then
from tesserac.target.llvm_types import I64, Value, const_i64, vector, zero

BLOCKS_TOGETHER = 8
"""Blocks filled from one row before the next row: long runs of the source, few enough streams to memory."""

SQUARE = 4
"""Rows and columns that are exchanged at a time: eight shuffles, which every processor has for registers of four, and
for those that hold several squares."""

LINE_BYTES = 64
READ_AHEAD = 8
"""How many rows ahead the source is asked for: each may lie in a page of its own, where no processor foresees it."""
ROWS_AHEAD = 4
"""How many rows ahead a block is asked for: a processor does not foresee so many interleaved streams of stores."""


def emit_pack(frame: Frame, op: Op) -> None:
    _Pack(frame, op).emit()


class _Pack:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b, self.body = frame, frame.b, op.body
        width, across = op.attrs["width"], op.attrs["across"]
        assert isinstance(width, int) and isinstance(across, bool)
        self.width, self.across, self.shorten = width, across, op.attrs["shorten"] is True
        self.memory = frame.memories[op.operands[0]]
        self.row, self.column, self.depth, self.count, self.total = (frame.value(v) for v in op.operands[1:])
        yielded = op.body.terminator.operands[0].type
        assert isinstance(yielded, ScalarType)
        self.element = register_type(yielded.dtype)
        self.align = self.element.bits // 8
        self.lanes = frame.target.lanes(self.element.bits)

    def emit(self) -> None:
        prepare_addresses(self.frame, self.body)
        b, width = self.b, const_i64(self.width)
        behind_edge = modulo(b, b.sub(const_i64(0), self.column), width)
        head = b.minimum_int(behind_edge, self.count) if behind_edge.number != 0 else behind_edge
        blocks = floor_div(b, b.sub(self.count, head), width)
        self.rest = b.sub(b.sub(self.count, head), b.mul(blocks, width))
        self.ends = b.icmp("eq", b.add(self.column, self.count), self.total)
        self._whole_blocks(head, blocks)
        self._edge(const_i64(0), head)
        if not self.across:
            self._edge(b.sub(self.count, self.rest), self.rest)
            if_then(b, self.ends, self._padding)
        else:
            missing = b.select(self.ends, const_i64(0), self.rest)
            self._edge(b.sub(self.count, missing), missing)

    def _block_row(self, block: Value, row: Value) -> Value:
        b = self.b
        place = b.mul(b.add(b.mul(block, self.memory.dims[0]), row), const_i64(self.width))
        return b.gep(self.memory.element, self.memory.start, place)

    # --- whole blocks ---------------------------------------------------------------------------------------------

    def _whole_blocks(self, head: Value, blocks: Value) -> None:
        first = floor_div(self.b, self.b.add(self.column, head), const_i64(self.width))
        if self.across:
            self._blocks_across(head, blocks, first)
        else:
            self._blocks_along(head, blocks, first)

    def _blocks_along(self, head: Value, blocks: Value, first: Value) -> None:
        """Vectors along the columns, as long as fit a block: row by row through a few blocks at a time."""
        b, lanes, width = self.b, min(self.lanes, self.width & -self.width), const_i64(self.width)
        mode, offsets = Mode(lanes, self.width // lanes), tuple(range(0, self.width, lanes))

        pitch = b.mul(self.memory.dims[0], width)

        def together(start: Value, _: list[Value]) -> Sequence[Value]:
            stop = b.minimum_int(b.add(start, const_i64(BLOCKS_TOGETHER)), blocks)
            low, high = (b.add(head, b.mul(edge, width)) for edge in (start, stop))

            def row(k: Value, _: list[Value]) -> Sequence[Value]:
                later = b.add(k, const_i64(READ_AHEAD))

                def block(column: Value, target: list[Value]) -> Sequence[Value]:
                    b.prefetch_for_store(b.gep(self.element, target[0], ROWS_AHEAD * self.width))
                    for place in range(0, self.width, LINE_BYTES // self.align):
                        prefetch(self.frame, self.body, [later, b.add(column, const_i64(place))])
                    values = self._evaluate([k, Run(column, offsets)], mode)
                    for offset, value in zip(offsets, values, strict=True):
                        b.store(value, b.gep(self.element, target[0], offset), self.align)
                    return [b.gep(self.element, target[0], pitch)]

                target = self._block_row(b.add(first, start), b.add(self.row, k))
                for_loop(b, low, high, width, [target], block, nonempty=True)
                return []

            for_loop(b, const_i64(0), self.depth, const_i64(1), [], row)
            return []

        for_loop(b, const_i64(0), blocks, const_i64(BLOCKS_TOGETHER), [], together)

    def _blocks_across(self, head: Value, blocks: Value, first: Value) -> None:
        """Vectors along the rows, one per column of the block, transposed into its rows. In the last block of all, the
        last column stands for those that are missing."""
        b = self.b
        more = b.binary("and", self.ends, b.icmp("sgt", self.rest, const_i64(0)))
        blocks, last = b.add(blocks, b.cast("zext", more, I64)), b.sub(self.count, const_i64(1))
        def block(p: Value, _: list[Value]) -> Sequence[Value]:
            column = b.add(head, b.mul(p, const_i64(self.width)))
            columns = Lanes(tuple(b.minimum_int(b.add(column, const_i64(c)), last) for c in range(self.width)))

            def rows(lanes: int, k: Value, _: list[Value]) -> Sequence[Value]:
                if lanes * self.align >= LINE_BYTES:
                    for c in range(self.width):
                        prefetch(self.frame, self.body, [k, b.add(column, const_i64(self.width + c))])
                self._rows_across(b.add(first, p), k, columns, lanes)
                return []

            def row(k: Value, _: list[Value]) -> Sequence[Value]:
                target = self._block_row(b.add(first, p), b.add(self.row, k))

                def one(c: Value, _: list[Value]) -> Sequence[Value]:
                    (value,) = self._evaluate([k, b.minimum_int(b.add(column, c), last)], REST)
                    b.store(value, b.gep(self.element, target, c), self.align)
                    return []

                for_loop(b, const_i64(0), const_i64(self.width), const_i64(1), [], one)
                return []

            done = const_i64(0)
            for lanes in sorted({max(self.lanes, SQUARE), SQUARE}, reverse=True):
                end = b.binary("and", self.depth, const_i64(-lanes))
                for_loop(b, done, end, const_i64(lanes), [], partial(rows, lanes))
                done = end
            for_loop(b, done, self.depth, const_i64(1), [], row)
            return []

        for_loop(b, const_i64(0), blocks, const_i64(1), [], block)

    def _rows_across(self, block: Value, k: Value, columns: Lanes, lanes: int) -> None:
        """So many rows from `k` on."""
        in_squares = lanes > SQUARE and self._is_copy()
        length = SQUARE if in_squares else lanes
        for step in range(0, lanes, length):
            at = self.b.add(k, const_i64(step))
            values = self._evaluate([Run(at, (0,) * self.width), columns], Mode(length, self.width))
            target = self._block_row(block, self.b.add(self.row, at))
            if in_squares:
                self._store_squares(target, values)
            else:
                self._store_transposed(target, values, lanes)

    def _is_copy(self) -> bool:
        """Whether nothing is computed on the way: then short vectors cost no more than long ones. Vectors of the third
        of four rows may end in the fourth, not behind it."""
        reads = all(op.name == "cpu.load" or op.opdef.dialect == "index" for op in self.body.ops[:-1])
        behind = -(-self.width // self.lanes) * self.lanes
        return reads and self.width % SQUARE == 0 and behind <= 2 * self.width

    def _store_squares(self, target: Value, columns: Sequence[Value]) -> None:
        """Four rows of a block, of which `columns` hold one column each: squares lie side by side in a vector before
        they are exchanged, so that a row of all of them is stored at once, and nothing is taken apart again. What a
        vector is longer than a row goes to the next row, before that is stored; the last row is stored in parts."""
        b, together = self.b, self.lanes // SQUARE
        rows: list[list[Value]] = [[] for _ in range(SQUARE)]
        for c in range(0, self.width, self.lanes):
            starts = [min(c + SQUARE * s, self.width - SQUARE) for s in range(together)]
            lines = [self._side_by_side([columns[start + i] for start in starts]) for i in range(SQUARE)]
            for row, held in zip(rows, exchanged(b, lines, together), strict=True):
                row.append(held)
        for number, row in enumerate(rows):
            for c, held in zip(range(0, self.width, self.lanes), row, strict=True):
                place = b.gep(self.element, target, number * self.width + c)
                if number < SQUARE - 1 or c + self.lanes <= self.width:
                    b.store(held, place, self.align)
                    continue
                for start in range(0, self.width - c, SQUARE):
                    part = b.shuffle(held, held, range(start, start + SQUARE))
                    b.store(part, b.gep(self.element, place, start), self.align)

    def _side_by_side(self, parts: Sequence[Value]) -> Value:
        """The lanes of all vectors, one after the other; there is a power of two of them."""
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.b.shuffle(x, y, range(2 * x.type.lanes)) for x, y in pairs]
        return parts[0]

    def _store_transposed(self, target: Value, columns: Sequence[Value], lanes: int) -> None:
        """`columns[c]` holds rows 0, 1, ... of column c; in memory a row is contiguous. Four columns are exchanged in
        squares, as many as vectors have beside each other. Columns beside whole squares go one by one."""
        b, whole = self.b, self.width - self.width % SQUARE
        for c in range(0, whole, SQUARE):
            for lane, row in enumerate(exchanged(b, columns[c : c + SQUARE], lanes // SQUARE)):
                for start in range(0, lanes, SQUARE):
                    part = row if lanes == SQUARE else b.shuffle(row, row, range(start, start + SQUARE))
                    b.store(part, b.gep(self.element, target, (start + lane) * self.width + c), self.align)
        for c in range(whole, self.width):
            for lane in range(lanes):
                place = b.gep(self.element, target, lane * self.width + c)
                b.store(b.extract(columns[c], lane), place, self.align)

    # --- columns outside whole blocks --------------------------------------------------------------------------------

    def _edge(self, start: Value, count: Value) -> None:
        """Columns of one block, row after row."""
        if count.number == 0:
            return
        b = self.b

        def row(line: Value, k: Value) -> None:
            def columns(lanes: int, c: Value) -> None:
                at = b.add(start, c)
                given, mode = (at, REST) if lanes == 1 else (Run(at, (0,)), Mode(lanes, 1))
                (value,) = self._evaluate([k, given], mode)
                b.store(value, b.gep(self.element, line, c), self.align)

            self._in_fours(count, columns)

        if_then(b, b.icmp("sgt", count, const_i64(0)), lambda: self._each_row(b.add(self.column, start), row))

    def _padding(self) -> None:
        """Zeros behind the last column."""
        b, width = self.b, const_i64(self.width)
        end = b.add(self.column, self.count)
        missing = modulo(b, b.sub(const_i64(0), end), width)

        def row(line: Value, _: Value) -> None:
            def columns(lanes: int, c: Value) -> None:
                type_ = self.element if lanes == 1 else vector(self.element, lanes)
                b.store(zero(type_), b.gep(self.element, line, c), self.align)

            self._in_fours(missing, columns)

        if_then(b, b.icmp("sgt", missing, const_i64(0)), lambda: self._each_row(end, row))

    def _in_fours(self, count: Value, body: Callable[[int, Value], None]) -> None:
        """Calls `body` with how many columns it shall take and the first of them: four where these are neighbours, and
        the last ones by themselves."""
        b, done = self.b, const_i64(0)

        def taken(lanes: int, c: Value, _: list[Value]) -> Sequence[Value]:
            body(lanes, c)
            return []

        for lanes in (1,) if self.across else (SQUARE, 1):
            end = b.binary("and", count, const_i64(-lanes))
            for_loop(b, done, end, const_i64(lanes), [], partial(taken, lanes))
            done = end

    def _each_row(self, column: Value, body: Callable[[Value, Value], None]) -> None:
        """Calls `body` with the place of a column of the panels in each row, and the row."""
        b, width = self.b, const_i64(self.width)
        block, inside = floor_div(b, column, width), modulo(b, column, width)

        def row(k: Value, _: list[Value]) -> Sequence[Value]:
            body(b.gep(self.element, self._block_row(block, b.add(self.row, k)), inside), k)
            return []

        for_loop(b, const_i64(0), self.depth, const_i64(1), [], row)

    def _evaluate(self, arguments: list[Entry], mode: Mode) -> tuple[Value, ...]:
        (entry,) = emit_body(self.frame, self.body, arguments, mode)
        assert not isinstance(entry, Run)
        parts = entry.parts if isinstance(entry, Lanes) else (entry,) * mode.parts
        values = tuple(v if v.type.lanes else self.b.splat(v, mode.lanes) for v in parts)
        return tuple(shorten_to_tf32(self.b, v) for v in values) if self.shorten else values
