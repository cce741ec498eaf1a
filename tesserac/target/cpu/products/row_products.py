"""A few rows times a matrix that is read as it lies: this one if it lies by rows, `column_products.py` if by columns.

    for k in steps of 4:  for a group of columns:   b = 4 x 4 vectors of the matrix, each element of it read once
                              for each row i:       c[i] = fma(a[i, k + 3], b[3], ... fma(a[i, k], b[0], c[i]))

Sums stand in scratch; columns are taken in strips, so wide that the sums of all rows stay in the first cache while all
steps pass. Each is one ascending chain. Four rows of the matrix are read at a time: more of them share a set of the
cache where the matrix is a power of two wide. What comes next is asked for ahead. Columns that fill no group, all there
are in `u.T @ u` of a tall u, have their sums in registers while all steps pass, eight vectors of them at once; so have
all columns of one row that meets a few rows of a matrix. The function is shared by all products of a module with the
same types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op, tuple_of
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.elements.registers import memory_type, register_type, widen
from tesserac.target.emit import Function
from tesserac.target.flow import for_loop, if_else, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, LType, Value, const_i64, vector, zero
from tesserac.tile.cpu.product_ops import row_product_operands
from tesserac.tile.dialect import memref_type
from tesserac.types.dims import ONE
from tesserac.types.dtype import DType

STEPS, PARTS, CHAINS = 4, 4, 8
NEAR_BYTES = 32 * 1024
"""What sums may take of the first cache."""
GROUP = 64
"""Columns of a strip in whole groups of vectors, whatever their width."""
SHALLOW, ONE_ROW = 64, (8, 4)
"""Steps up to which one row meets a matrix that is likely to be near, as in substitution: vectors whose sums stand in
registers while all of them pass."""
AHEAD = 64
"""Columns between what is used and what is asked for."""
_PARAMETERS = (PTR, I64, I64, PTR, I64, PTR, I64, I64, I64, I64, I64)


def emit_row_product(frame: Frame, op: Op) -> None:
    """The addresses of the blocks, and a call."""
    left, starts, right, others, sums, sizes = row_product_operands(op)
    a, b, c = (frame.memories[value] for value in (left, right, sums))
    i, k = tuple_of(op.attrs["left"], int)
    row, column = tuple_of(op.attrs["right"], int)
    by_columns = memref_type(right).strides[column] != ONE
    first = _address(frame, a, [frame.value(v) for v in starts])
    second = _address(frame, b, [frame.value(v) for v in others])
    pitch = b.strides[column if by_columns else row]
    arguments = [first, a.strides[i], a.strides[k], second, pitch, c.start, c.strides[0]]
    function = _row_product(frame, a.dtype, b.dtype, c.dtype, by_columns)
    frame.b.call(function, [*arguments, *(frame.value(v) for v in sizes)])


def _address(frame: Frame, memory: Memory, starts: Sequence[Value]) -> Value:
    b, place = frame.b, const_i64(0)
    for start, stride in zip(starts, memory.strides, strict=True):
        place = b.add(place, b.mul(start, stride))
    return b.gep(memory.element, memory.start, place)


def _row_product(frame: Frame, left: DType, right: DType, accum: DType, by_columns: bool) -> Function:
    name, lanes = f"{'columns' if by_columns else 'rows'}_{left}_{right}_{accum}", frame.target.lanes(accum.bits)
    found = frame.module.find_function(name)
    if found is not None:
        return found
    attributes = ("nounwind", "noinline")
    function = frame.module.function(name, VOID, list(_PARAMETERS), attributes=attributes, linkage="internal")
    function.is_common = True
    if frame.module.has_code(function, f"{name} in {lanes} lanes"):
        return function
    if by_columns:
        from tesserac.target.cpu.products.column_products import ColumnProduct

        return ColumnProduct(function, left, right, accum, lanes).build()
    return _RowProduct(function, left, right, accum, lanes).build()


class _RowProduct:
    """`(a, its strides, b, stride of its rows, c, stride of its rows, rows, columns, depth, done)`"""

    def __init__(self, function: Function, left: DType, right: DType, accum: DType, lanes: int) -> None:
        self.function, self.left, self.right, self.lanes = function, left, right, lanes
        self.element = register_type(accum)
        self.b: Builder = self.function.builder
        self.a, self.a_row, self.a_step, self.matrix, self.pitch, self.c, self.c_row, *sizes = self.function.args
        self.rows, self.columns, self.depth, self.done = sizes

    def build(self) -> Function:
        b = self.b
        one = b.icmp("eq", self.rows, const_i64(1))
        near = b.binary("and", one, b.icmp("ule", self.depth, const_i64(SHALLOW)))
        if_else(b, near, lambda: self._in_registers(const_i64(0), self.columns, ONE_ROW), self._in_strips)
        b.ret()
        return self.function

    def _in_strips(self) -> None:
        b = self.b
        if_then(b, self._begins(), self._clear)
        near, rows = const_i64(NEAR_BYTES // (self.element.bits // 8)), b.maximum_int(self.rows, const_i64(1))
        width = b.binary("and", b.binary("udiv", near, rows), const_i64(-GROUP))
        width = b.maximum_int(width, const_i64(GROUP))
        for_loop(b, const_i64(0), self.columns, width, [], self._strip(width))

    def _begins(self) -> Value:
        """Whether sums have no terms so far."""
        return self.b.icmp("eq", self.done, const_i64(0))

    def _strip(self, width: Value) -> Callable[[Value, list[Value]], Sequence[Value]]:
        b = self.b

        def body(first: Value, _: list[Value]) -> Sequence[Value]:
            last = b.minimum_int(b.add(first, width), self.columns)
            column = self._whole(first, last, self.lanes * PARTS)
            if_then(b, b.icmp("slt", first, column), lambda: self._groups(first, column))
            self._in_registers(column, last, ())
            return []

        return body

    def _in_registers(self, column: Value, last: Value, wider: Sequence[int]) -> None:
        """Columns whose sums stand in registers while all steps pass: `wider` groups of vectors first."""
        b = self.b
        for lanes, parts in (*((self.lanes, parts) for parts in wider), *narrowing(self.lanes)):
            size = max(lanes, 1) * parts
            end = self._whole(column, last, size)
            for_loop(b, column, end, const_i64(size), [], self._narrow(lanes, parts))
            column = end

    def _whole(self, first: Value, last: Value, size: int) -> Value:
        """The end of as many groups of this size as there are."""
        b = self.b
        return b.add(first, b.mul(b.binary("udiv", b.sub(last, first), const_i64(size)), const_i64(size)))

    def _groups(self, first: Value, last: Value) -> None:
        b = self.b
        whole = b.binary("and", self.depth, const_i64(-STEPS))
        for_loop(b, const_i64(0), whole, const_i64(STEPS), [], self._steps(STEPS, first, last))
        for_loop(b, whole, self.depth, const_i64(1), [], self._steps(1, first, last))

    def _narrow(self, lanes: int, parts: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
        """A few columns: of the rows that are taken at once, the last stands for those that are missing, which costs no
        time: a chain alone would wait for each of its steps."""
        b, type_, count, begins = self.b, self._type(lanes), CHAINS // parts, self._begins()

        def body(column: Value, _: list[Value]) -> Sequence[Value]:
            def rows(first: Value, _: list[Value]) -> Sequence[Value]:
                end = b.sub(self.rows, const_i64(1))
                places = [b.minimum_int(b.add(first, const_i64(r)), end) for r in range(count)]
                factors = [b.gep(memory_type(self.left), self.a, b.mul(i, self.a_row)) for i in places]
                starts = [b.gep(self.element, self.c, b.add(b.mul(i, self.c_row), column)) for i in places]
                sums = [b.gep(self.element, start, p * max(lanes, 1)) for start in starts for p in range(parts)]
                held = (b.load(type_, place, _bytes(self.element)) for place in sums)
                totals = [b.select(begins, zero(type_), total) for total in held]
                step = self._step(column, factors, lanes, parts)
                totals = for_loop(b, const_i64(0), self.depth, const_i64(1), totals, step)
                for total, place in zip(totals, sums, strict=True):
                    b.store(total, place, _bytes(self.element))
                return []

            for_loop(b, const_i64(0), self.rows, const_i64(count), [], rows)
            return []

        return body

    def _step(
        self, column: Value, factors: Sequence[Value], lanes: int, parts: int
    ) -> Callable[[Value, list[Value]], Sequence[Value]]:
        b, left, right = self.b, memory_type(self.left), memory_type(self.right)
        type_ = vector(right, lanes) if lanes else right

        def body(k: Value, totals: list[Value]) -> Sequence[Value]:
            start, term = b.gep(right, self.matrix, b.add(b.mul(k, self.pitch), column)), b.mul(k, self.a_step)
            places = [b.gep(right, start, p * max(lanes, 1)) for p in range(parts)]
            read = [self._widened(b.load(type_, place, _bytes(right))) for place in places]
            given = [widen(b, b.load(left, b.gep(left, factor, term), _bytes(left)), self.left) for factor in factors]
            pairs = [(b.splat(factor, lanes), part) for factor in given for part in read]
            return [b.fma(factor, part, total) for (factor, part), total in zip(pairs, totals, strict=True)]

        return body

    def _clear(self) -> None:
        b = self.b

        def row(i: Value, _: list[Value]) -> Sequence[Value]:
            start = b.gep(self.element, self.c, b.mul(i, self.c_row))

            def column(j: Value, _: list[Value]) -> Sequence[Value]:
                b.store(zero(self.element), b.gep(self.element, start, j), self.element.bits // 8)
                return []

            for_loop(b, const_i64(0), self.columns, const_i64(1), [], column, unroll=True)
            return []

        for_loop(b, const_i64(0), self.rows, const_i64(1), [], row)

    def _steps(self, count: int, first: Value, last: Value) -> Callable[[Value, list[Value]], Sequence[Value]]:
        """The columns of a strip in so many rows of the matrix."""
        b = self.b

        def body(k: Value, _: list[Value]) -> Sequence[Value]:
            starts = [
                b.gep(memory_type(self.right), self.matrix, b.mul(b.add(k, const_i64(j)), self.pitch))
                for j in range(count)
            ]
            for_loop(b, first, last, const_i64(self.lanes * PARTS), [], self._group(k, starts, (first, last)))
            return []

        return body

    def _group(
        self, k: Value, starts: Sequence[Value], strip: tuple[Value, Value]
    ) -> Callable[[Value, list[Value]], Sequence[Value]]:
        """A group of neighbouring columns: what is read of the matrix serves all rows."""
        b, stored, width = self.b, memory_type(self.right), self.lanes

        def body(column: Value, _: list[Value]) -> Sequence[Value]:
            places = [[b.gep(stored, start, b.add(column, const_i64(p * width))) for p in range(PARTS)]
                      for start in starts]  # fmt: skip
            read = [[self._widened(b.load(vector(stored, width), place, _bytes(stored))) for place in parts]
                    for parts in places]  # fmt: skip
            if len(starts) == STEPS:
                self._prefetch(starts, column, strip)

            def row(i: Value, _: list[Value]) -> Sequence[Value]:
                self._row(i, k, column, read)
                return []

            for_loop(b, const_i64(0), self.rows, const_i64(1), [], row)
            return []

        return body

    def _widened(self, value: Value) -> Value:
        return widen(self.b, value, self.right)

    def _prefetch(self, starts: Sequence[Value], column: Value, strip: tuple[Value, Value]) -> None:
        """For what is read AHEAD columns later, which may be in the next rows; behind the end of the matrix that does
        no harm."""
        b, stored = self.b, memory_type(self.right)
        later = b.add(column, const_i64(AHEAD))
        first, last = strip
        next_rows = b.add(b.add(first, b.sub(later, last)), b.mul(self.pitch, const_i64(STEPS)))
        place = b.select(b.icmp("slt", later, last), later, next_rows)
        for start in starts:
            b.prefetch(b.gep(stored, start, place))

    def _row(self, i: Value, k: Value, column: Value, read: Sequence[Sequence[Value]]) -> None:
        b, stored = self.b, memory_type(self.left)
        width, type_ = self.lanes, self._type(self.lanes)
        sums = b.gep(self.element, self.c, b.add(b.mul(i, self.c_row), column))
        places = [b.gep(self.element, sums, p * width) for p in range(len(read[0]))]
        totals = [b.load(type_, place, _bytes(self.element)) for place in places]
        for step, parts in enumerate(read):
            term = b.add(b.mul(i, self.a_row), b.mul(b.add(k, const_i64(step)), self.a_step))
            factor = widen(b, b.load(stored, b.gep(stored, self.a, term), _bytes(stored)), self.left)
            spread = b.splat(factor, width)
            totals = [b.fma(spread, part, total) for part, total in zip(parts, totals, strict=True)]
        for total, place in zip(totals, places, strict=True):
            b.store(total, place, _bytes(self.element))

    def _type(self, lanes: int) -> LType:
        return vector(self.element, lanes) if lanes else self.element


def narrowing(lanes: int) -> list[tuple[int, int]]:
    """Lanes and vectors for columns that fill no group, from two vectors to a quarter of one, then one element."""
    return [(lanes, 2), *((lanes // part, 1) for part in (1, 2, 4) if lanes // part > 1), (0, 1)]


def _bytes(type_: LType) -> int:
    return type_.bits // 8
