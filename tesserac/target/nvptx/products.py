"""Matrix products on one slot of two rings: fma chains, mma.sync, wgmma. Terms are always added in ascending order."""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.target.cpu.registers import shorten_to_tf32
from tesserac.target.llvm_types import F32, I8, I32, I64, LType, Value, const_i64, const_int, structure, vector
from tesserac.target.nvptx.context import Context, Ring, memory_type, warps_only
from tesserac.target.nvptx.copies import stage_pointer
from tesserac.target.nvptx.memory import shared_offset, to_register
from tesserac.target.nvptx.scalars import convert
from tesserac.tile.gpu.dialect import fragment, integer, matrix_unit_of
from tesserac.tile.gpu.layout import VECTOR_BYTES
from tesserac.tile.gpu.matrix import FMA, MMA, WARPGROUP
from tesserac.tile.gpu.shared import SharedLayout, descriptor
from tesserac.tile.gpu.types import FragmentType
from tesserac.types.dtype import BF16, TF32, DType


def emit_multiply(ctx: Context, op: Op) -> None:
    a, a_slot, b, b_slot, acc = op.operands
    left, right = ctx.rings[a], ctx.rings[b]
    product = _Product(
        ctx,
        fragment(acc),
        left,
        right,
        stage_pointer(ctx, left, ctx.indices[a_slot]),
        stage_pointer(ctx, right, ctx.indices[b_slot]),
    )
    unit = matrix_unit_of(op)
    rules = {FMA: _fma, MMA: _mma}
    ctx.fragments[op.results[0]] = rules.get(unit.name, _wgmma)(product, ctx.fragments[acc])


def emit_wait_mma(ctx: Context, op: Op) -> None:
    """Waits for warp-group products. The registers pass through the wait, so nothing reads them before it."""
    token, acc = op.operands
    values = ctx.fragments[acc]
    made = token.defining_op
    assert made is not None
    if matrix_unit_of(made).name in (FMA, MMA):
        ctx.fragments[op.result] = values
        return
    template = f"wgmma.wait_group.sync.aligned {integer(op, 'pending')};"
    ctx.fragments[op.result] = _tied_assembly(ctx, template, values, [])


class _Product:
    def __init__(
        self, ctx: Context, acc: FragmentType, a: Ring, b: Ring, a_pointer: Value, b_pointer: Value
    ) -> None:
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


# --- fma ----------------------------------------------------------------------------------------------------------


FMA_VECTOR = 4


def _fma(product: _Product, acc: list[Value]) -> list[Value]:
    """Each thread multiplies its rows of A by its columns of B, vectors of both at a time, in the accumulation type."""
    ctx, values = product.ctx, list(acc)
    dtype, accum = product.a.type.dtype, product.acc.dtype
    element = memory_type(dtype)
    width = min(FMA_VECTOR, VECTOR_BYTES // (element.bits // 8))
    mine = ctx.coordinates(product.acc.layout)
    row, column = mine.get(0, const_i64(0)), mine.get(1, const_i64(0))
    a_base = ctx.b.gep(I8, product.a_pointer, ctx.b.mul(row, const_i64(product.a.type.layout.row_bytes)))
    b_base = ctx.b.gep(I8, product.b_pointer, ctx.b.mul(column, const_i64(product.b.type.layout.element)))
    rows, columns = product.steps(0), product.steps(1)
    for k in range(0, product.terms, width):
        vectors = {r: _vector(ctx, a_base, product.a.type.layout, r, k, element, width) for r in rows}
        left = {r: [_term(ctx, v, dtype, accum) for v in lanes] for r, lanes in vectors.items()}
        for term in range(width):
            narrow = _row(ctx, b_base, product.b.type.layout, k + term, columns, element, width)
            right = {c: _term(ctx, v, dtype, accum) for c, v in narrow.items()}
            for r in rows:
                for c in columns:
                    place = product.acc.layout.register_at({0: r, 1: c})
                    values[place] = _multiply_add(ctx, left[r][term], right[c], values[place])
    return values


def _term(ctx: Context, stored: Value, dtype: DType, accum: DType) -> Value:
    """An element of shared memory as a factor: tf32 is what products make of an f32."""
    value = convert(ctx.b, to_register(ctx, stored, dtype), dtype, accum)
    return shorten_to_tf32(ctx.b, value) if dtype == TF32 else value


def _multiply_add(ctx: Context, a: Value, b: Value, total: Value) -> Value:
    """Whole numbers wrap: there is nothing to round between the two."""
    return ctx.b.fma(a, b, total) if total.type.is_float else ctx.b.add(ctx.b.mul(a, b), total)


def _vector(
    ctx: Context, base: Value, layout: SharedLayout, row: int, column: int, element: LType, width: int
) -> list[Value]:
    address = ctx.b.gep(I8, base, layout.offset(row, column))
    loaded = ctx.b.load(vector(element, width), address, width * element.bits // 8)
    return [ctx.b.extract(loaded, i) for i in range(width)]


def _row(
    ctx: Context, base: Value, layout: SharedLayout, k: int, columns: list[int], element: LType, width: int
) -> dict[int, Value]:
    """Elements of row k of B at the thread's columns."""
    found: dict[int, Value] = {}
    for c in columns:
        if c % width == 0:
            lanes = _vector(ctx, base, layout, k, c, element, width)
            found.update({c + i: lane for i, lane in enumerate(lanes)})
    return found


# --- mma.sync -----------------------------------------------------------------------------------------------------

MMA_M, MMA_N, MMA_K = 16, 8, 16
_FOUR_WORDS = structure(I32, I32, I32, I32)
_FOUR_FLOATS = structure(F32, F32, F32, F32)


def _mma(product: _Product, acc: list[Value]) -> list[Value]:
    ctx, values, layout = product.ctx, list(acc), product.acc.layout
    rows = [r for r in product.steps(0) if r % MMA_M == 0]
    columns = [c for c in product.steps(1) if c % (2 * MMA_N) == 0]
    loader = _MatrixLoader(product)
    for k in range(0, product.terms, MMA_K):
        left = {r: loader.a(r, k) for r in rows}
        for c in columns:
            right = loader.b(k, c)
            for half in range(2):
                for r in rows:
                    column = c + half * MMA_N
                    places = [layout.register_at({0: r + i, 1: column + j}) for i in (0, 8) for j in (0, 1)]
                    pair = right[2 * half : 2 * half + 2]
                    results = _mma_sync(ctx, product, left[r], pair, [values[p] for p in places])
                    for place, result in zip(places, results, strict=True):
                        values[place] = result
    return values


class _MatrixLoader:
    """Reads 16 x 16 pieces of both operands by ldmatrix: lanes 0 to 15 name rows, the others the same rows 8 later."""

    def __init__(self, product: _Product) -> None:
        self.product = product
        self.ctx = ctx = product.ctx
        b = ctx.b
        self.row = b.binary("and", ctx.lane, const_int(I32, 15))
        self.ahead = b.binary("shl", b.binary("lshr", ctx.lane, const_int(I32, 4)), const_int(I32, 3))
        corner = ctx.coordinates(warps_only(product.acc.layout))
        self.first_row = ctx.i32(corner.get(0, const_i64(0)))
        self.first_column = ctx.i32(corner.get(1, const_i64(0)))
        self.offsets: dict[tuple[str, int], Value] = {}

    def a(self, row: int, k: int) -> list[Value]:
        """Rows of A, which lie along k. Sixteen rows are a whole number of swizzled units, so `row` is a distance."""
        b, layout = self.ctx.b, self.product.a.type.layout
        if ("a", k) not in self.offsets:
            column = b.add(self.ahead, const_int(I32, k))
            mine = b.add(self.first_row, self.row)
            self.offsets["a", k] = shared_offset(self.ctx, layout, mine, column)
        return self.load(self.product.a_pointer, self.offsets["a", k], row * layout.row_bytes, "")

    def b(self, k: int, column: int) -> list[Value]:
        """Rows of B, which lie along n, transposed while they are read."""
        b, layout = self.ctx.b, self.product.b.type.layout
        if ("b", column) not in self.offsets:
            mine = b.add(b.add(self.first_column, self.ahead), const_int(I32, column))
            self.offsets["b", column] = shared_offset(self.ctx, layout, self.row, mine)
        return self.load(self.product.b_pointer, self.offsets["b", column], k * layout.row_bytes, ".trans")

    def load(self, base: Value, offset: Value, distance: int, transposed: str) -> list[Value]:
        b = self.ctx.b
        address = b.gep(I8, b.gep(I8, base, b.cast("zext", offset, I64)), distance)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{transposed}.b16"
        words = b.intrinsic(name, _FOUR_WORDS, [address], [address.type])
        return [b.extract_value(words, i, I32) for i in range(4)]


def _mma_sync(
    ctx: Context, product: _Product, a: list[Value], b: list[Value], acc: list[Value]
) -> list[Value]:
    builder = ctx.b
    if product.a.type.dtype == BF16:
        result = builder.intrinsic("llvm.nvvm.mma.m16n8k16.row.col.bf16", _FOUR_FLOATS, [*a, *b, *acc])
    else:
        half = vector(LType("half", "f16"), 2)
        words = [builder.cast("bitcast", w, half) for w in (*a, *b)]
        result = builder.intrinsic("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", _FOUR_FLOATS, [*words, *acc])
    return [builder.extract_value(result, i, F32) for i in range(4)]


# --- wgmma --------------------------------------------------------------------------------------------------------

WGMMA_ROWS = 64


def _wgmma(product: _Product, acc: list[Value]) -> list[Value]:
    """All steps of one block in one piece of assembly: nothing may come between them, and it keeps the text short."""
    ctx, b = product.ctx, product.ctx.b
    left = descriptor(product.a.type.layout, 1, MMA_K)
    right = descriptor(product.b.type.layout, 0, MMA_K)
    group = b.binary("lshr", ctx.thread, const_int(I32, (32 * WARPGROUP).bit_length() - 1))
    rows = b.mul(b.cast("zext", group, I64), const_i64(WGMMA_ROWS * product.a.type.layout.row_bytes))
    a_bits = _descriptor_value(ctx, b.gep(I8, product.a_pointer, rows), left.constant_bits)
    b_bits = _descriptor_value(ctx, product.b_pointer, right.constant_bits)
    kind = "bf16" if product.a.type.dtype == BF16 else "f16"
    count = len(acc)
    registers = ", ".join(f"${i}" for i in range(count))
    name = f"wgmma.mma_async.sync.aligned.m64n{product.acc.shape[1]}k16.f32.{kind}.{kind}"
    lines = ["{", ".reg .b64 da, db;", "wgmma.fence.sync.aligned;"]
    for step in range(product.terms // MMA_K):
        lines += [
            f"add.s64 da, ${count}, {step * left.step >> 4};",
            f"add.s64 db, ${count + 1}, {step * right.step >> 4};",
            f"{name} {{{registers}}}, da, db, 1, 1, 1, {int(left.transposed)}, {int(right.transposed)};",
        ]
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    return _tied_assembly(ctx, "\n".join(lines), acc, [a_bits, b_bits])


def _descriptor_value(ctx: Context, pointer: Value, bits: int) -> Value:
    b = ctx.b
    address = b.cast("ptrtoint", pointer, I64)
    field = b.binary("and", b.binary("lshr", address, const_i64(4)), const_i64(0x3FFF))
    return b.binary("or", field, const_i64(bits))


def _tied_assembly(ctx: Context, template: str, values: list[Value], extra: list[Value]) -> list[Value]:
    """Assembly that changes `values` in place; `extra` are 64-bit inputs, numbered behind them."""
    count = len(values)
    constraints = ",".join([*["=f"] * count, *["l"] * len(extra), *map(str, range(count))])
    result = structure(*[F32] * count)
    both = ctx.b.asm(result, template, constraints, [*extra, *values], attributes="convergent nounwind")
    return [ctx.b.extract_value(both, i, F32) for i in range(count)]
