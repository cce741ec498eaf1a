"""Products on `mma.sync`: m16n8k16 of one warp. The left operand is read from a stage by ldmatrix, or held already.

A thread has of a 16 x 16 piece of A four words of two neighbouring terms each, of a 16 x 8 piece of B two, and of the
result four numbers:

    A   (g, 2t) (g, 2t+1) | (g+8, 2t) .. | (g, 2t+8) .. | (g+8, 2t+8) ..        g = lane / 4, t = lane % 4
    B   (2t, g) (2t+1, g) | (2t+8, g) (2t+9, g)
    C   (g, 2t) | (g, 2t+1) | (g+8, 2t) | (g+8, 2t+1)

So two results side by side, rounded, are a left operand as they lie. Of bytes a word has four terms, and all else is
the same: m16n8k32, of i8 with sums of i32.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Value as IRValue
from tesserac.target.llvm_types import (
    F32,
    I8,
    I32,
    I64,
    LType,
    Value,
    const_i64,
    const_int,
    structure,
    vector,
)
from tesserac.target.nvptx.context import Context, Ring, warps_only
from tesserac.target.nvptx.products.stages import moved_offset, shared_offset
from tesserac.target.nvptx.registers.fragments import word_of
from tesserac.tile.gpu.model.matrix import TERM_BYTES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment
from tesserac.types.dtype import BF16, F16, FP8_E4M3, FP8_E5M2, DType
from tesserac.types.dtype import I8 as I8_TYPE

ROWS, COLUMNS, TERMS = 16, 8, 16
_FOUR_WORDS = structure(I32, I32, I32, I32)
_FOUR_FLOATS = structure(F32, F32, F32, F32)

BYTE_NAMES = {FP8_E4M3: "e4m3", FP8_E5M2: "e5m2", I8_TYPE: "s8"}
NAMES = {BF16: "bf16", F16: "f16", **BYTE_NAMES}
"""What instructions call types of elements."""

ReadLeft = Callable[[int, int], list[Value]]
"""The words of the piece of A at some rows and terms."""


class Product:
    """A product of two staged operands, seen by one thread."""

    def __init__(self, ctx: Context, acc: FragmentType, a: Ring, b: Ring, a_pointer: Value, b_pointer: Value) -> None:
        self.ctx = ctx
        self.acc = acc
        self.a = a
        self.b = b
        self.a_pointer = a_pointer
        self.b_pointer = b_pointer

    @property
    def terms(self) -> int:
        return self.a.type.layout.shape[1]

    def steps(self, dim: int) -> list[int]:
        """The distances along one dim at which a thread holds elements."""
        return sorted({offset.get(dim, 0) for offset in self.acc.layout.offsets})


def multiply_staged(product: Product, acc: list[Value]) -> list[Value]:
    """Both operands in stages."""
    loader = _MatrixLoader(product.ctx, product.acc)
    left = lambda row, k: loader.a(product.a, product.a_pointer, row, k)  # noqa: E731
    right = _Right(loader, product.b, product.b_pointer)
    return _multiply(product.ctx, product.acc, right, left, acc)


def multiply_held(
    ctx: Context, a: IRValue, acc: FragmentType, b: Ring, pointer: Value, values: list[Value]
) -> list[Value]:
    """The left operand in registers."""
    right = _Right(_MatrixLoader(ctx, acc), b, pointer)
    return _multiply(ctx, acc, right, lambda row, k: held_words(ctx, a, row, k), values)


def _multiply(ctx: Context, ty: FragmentType, right: _Right, left: ReadLeft, acc: list[Value]) -> list[Value]:
    values, layout, dtype = list(acc), ty.layout, right.ring.type.dtype
    rows = sorted({o.get(0, 0) for o in layout.offsets if o.get(0, 0) % ROWS == 0})
    columns = sorted({o.get(1, 0) for o in layout.offsets if o.get(1, 0) % (2 * COLUMNS) == 0})
    for k in range(0, right.ring.type.layout.shape[0], TERM_BYTES // dtype.bytes):
        pieces = {r: left(r, k) for r in rows}
        for c in columns:
            words = right.read(k, c)
            for half in range(2):
                for r in rows:
                    column = c + half * COLUMNS
                    places = [layout.register_at({0: r + i, 1: column + j}) for i in (0, 8) for j in (0, 1)]
                    pair = words[2 * half : 2 * half + 2]
                    results = _mma_sync(ctx, dtype, pieces[r], pair, [values[p] for p in places])
                    for place, result in zip(places, results, strict=True):
                        values[place] = result
    return values


def held_words(ctx: Context, a: IRValue, row: int, k: int) -> list[Value]:
    """A piece of a left operand that lies in registers as a result does."""
    layout, values = fragment(a).layout, ctx.fragments[a]

    def word(i: int, j: int) -> Value:
        return word_of(ctx, [values[layout.register_at({0: row + i, 1: k + j + n})] for n in (0, 1)])

    return [word(i, j) for j in (0, 8) for i in (0, 8)]


ONES = {True: 0x3F803F80, False: 0x3C003C00}
"""Two ones in a word: bf16, or f16."""


def sum_held(ctx: Context, a: IRValue, acc: IRValue) -> list[Value]:
    """The product with ones, in the chain of any other column."""
    ty, layout, values = fragment(a), fragment(acc).layout, list(ctx.fragments[acc])
    ones = const_int(I32, ONES[ty.dtype == BF16])
    for r in sorted({o.get(0, 0) for o in layout.offsets if o.get(0, 0) % ROWS == 0}):
        places = [layout.register_at({0: r + i, 1: j}) for i in (0, 8) for j in (0, 1)]
        for k in range(0, ty.shape[1], TERMS):
            results = _mma_sync(ctx, ty.dtype, held_words(ctx, a, r, k), [ones, ones], [values[p] for p in places])
            for place, result in zip(places, results, strict=True):
                values[place] = result
    return values


def sum_staged(ctx: Context, a: Ring, acc: IRValue) -> list[Value]:
    """The same of terms that lie in a stage: each warp sums all of them, and a thread has the sums of its rows."""
    layout, values = fragment(acc).layout, list(ctx.fragments[acc])
    loader, ones = _MatrixLoader(ctx, fragment(acc)), const_int(I32, ONES[a.type.dtype == BF16])
    for r in sorted({o.get(0, 0) for o in layout.offsets if o.get(0, 0) % ROWS == 0}):
        places = [layout.register_at({0: r + i}) for i in (0, 8)]
        sums = [values[place] for place in places for _ in range(2)]
        for k in range(0, a.type.layout.shape[1], TERMS):
            sums = _mma_sync(ctx, a.type.dtype, loader.a(a, a.pointer, r, k), [ones, ones], sums)
        for place, total in zip(places, sums[::2], strict=True):
            values[place] = total
    return values


class _MatrixLoader:
    """Reads 16 x 16 pieces by ldmatrix: lanes 0 to 15 name rows, the others the same rows 8 columns later."""

    def __init__(self, ctx: Context, acc: FragmentType) -> None:
        self.ctx = ctx
        b = ctx.b
        self.row = b.binary("and", ctx.lane, const_int(I32, 15))
        self.ahead = b.binary("shl", b.binary("lshr", ctx.lane, const_int(I32, 4)), const_int(I32, 3))
        corner = ctx.coordinates(warps_only(acc.layout))
        self.first_row = ctx.i32(corner.get(0, const_i64(0)))
        self.first_column = ctx.i32(corner.get(1, const_i64(0)))
        self.offsets: dict[int, Value] = {}

    def a(self, ring: Ring, pointer: Value, row: int, k: int) -> list[Value]:
        """Rows of A, which lie along k; where they do not, they are transposed while they are read."""
        b, layout = self.ctx.b, ring.type.layout
        if layout.transposed:
            return self._across(ring, pointer, row, k)
        if k not in self.offsets:
            column = b.add(b.mul(self.ahead, const_int(I32, 2 // layout.element)), const_int(I32, k))
            mine = b.add(self.first_row, self.row)
            self.offsets[k] = shared_offset(self.ctx, layout, mine, column)
        return self.load(pointer, self.offsets[k], row * layout.row_bytes, "")

    def _across(self, ring: Ring, pointer: Value, row: int, k: int) -> list[Value]:
        """Terms of A lie along rows of memory: the lanes that name rows name terms, 8 rows of A apart."""
        b, layout = self.ctx.b, ring.type.layout.stored
        low = b.binary("and", self.ctx.lane, const_int(I32, 7))
        term = b.add(low, self.ahead)
        upper = b.binary("and", self.ctx.lane, const_int(I32, 8))
        start = shared_offset(self.ctx, layout, term, b.add(self.first_row, upper))
        return self.load(pointer, moved_offset(self.ctx, layout, start, k, row), 0, ".trans")

    def load(self, base: Value, offset: Value, distance: int, transposed: str) -> list[Value]:
        b = self.ctx.b
        address = b.gep(I8, b.gep(I8, base, b.cast("zext", offset, I64)), distance)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{transposed}.b16"
        words = b.intrinsic(name, _FOUR_WORDS, [address], [address.type])
        return [b.extract_value(words, i, I32) for i in range(4)]


class _Right:
    """Pieces of B, 16 terms of 16 columns: its rows lie along n and are transposed while they are read, or along k."""

    def __init__(self, loader: _MatrixLoader, ring: Ring, pointer: Value) -> None:
        self.loader, self.ring, self.pointer = loader, ring, pointer
        self.offsets: dict[int, Value] = {}

    def read(self, k: int, column: int) -> list[Value]:
        layout = self.ring.type.layout
        return self._across(k, column) if layout.transposed else self._along(k, column)

    def _along(self, k: int, column: int) -> list[Value]:
        loader, layout = self.loader, self.ring.type.layout
        b = loader.ctx.b
        if column not in self.offsets:
            mine = b.add(b.add(loader.first_column, loader.ahead), const_int(I32, column))
            self.offsets[column] = shared_offset(loader.ctx, layout, loader.row, mine)
        return loader.load(self.pointer, self.offsets[column], k * layout.row_bytes, ".trans")

    def _across(self, k: int, column: int) -> list[Value]:
        loader, layout = self.loader, self.ring.type.layout.stored
        ctx, b = loader.ctx, loader.ctx.b
        if not self.offsets:
            low = b.binary("and", ctx.lane, const_int(I32, 7))
            term = b.mul(b.binary("and", ctx.lane, const_int(I32, 8)), const_int(I32, 2 // layout.element))
            mine = b.add(b.add(loader.first_column, low), loader.ahead)
            self.offsets[0] = shared_offset(ctx, layout, mine, term)
        return loader.load(self.pointer, moved_offset(ctx, layout, self.offsets[0], column, k), 0, "")


def _mma_sync(ctx: Context, dtype: DType, a: list[Value], b: list[Value], acc: list[Value]) -> list[Value]:
    builder = ctx.b
    if dtype == I8_TYPE:
        sums = builder.intrinsic("llvm.nvvm.mma.m16n8k32.row.col.s8", _FOUR_WORDS, [*a, *b, *acc])
        return [builder.extract_value(sums, i, I32) for i in range(4)]
    if dtype in BYTE_NAMES:
        kinds = f"{BYTE_NAMES[dtype]}.{BYTE_NAMES[dtype]}"
        result = builder.intrinsic(f"llvm.nvvm.mma.m16n8k32.row.col.f32.{kinds}.f32", _FOUR_FLOATS, [*a, *b, *acc])
    elif dtype == BF16:
        result = builder.intrinsic("llvm.nvvm.mma.m16n8k16.row.col.bf16", _FOUR_FLOATS, [*a, *b, *acc])
    else:
        half = vector(LType("half", "f16"), 2)
        words = [builder.cast("bitcast", w, half) for w in (*a, *b)]
        result = builder.intrinsic("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", _FOUR_FLOATS, [*words, *acc])
    return [builder.extract_value(result, i, F32) for i in range(4)]
