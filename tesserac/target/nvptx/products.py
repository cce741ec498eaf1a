"""Matrix products on one slot of two rings: fma chains, mma.sync, wgmma. Terms are always added in ascending order."""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.ir.core import Op
from tesserac.target.cpu.registers import shorten_to_tf32
from tesserac.target.llvm_types import F32, I8, I32, I64, LType, Value, const_i64, const_int, structure, vector
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.copies import stage_pointer
from tesserac.target.nvptx.memory import to_register
from tesserac.target.nvptx.mma import TERMS, Product, multiply_held, multiply_staged, sum_held
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
    product = Product(
        ctx,
        fragment(acc),
        left,
        right,
        stage_pointer(ctx, left, ctx.indices[a_slot]),
        stage_pointer(ctx, right, ctx.indices[b_slot]),
    )
    unit = matrix_unit_of(op)
    rules = {FMA: _fma, MMA: multiply_staged}
    ctx.fragments[op.results[0]] = rules.get(unit.name, _wgmma)(product, ctx.fragments[acc])


def emit_multiply_held(ctx: Context, op: Op) -> None:
    a, b, slot, acc = op.operands
    right = ctx.rings[b]
    pointer = stage_pointer(ctx, right, ctx.indices[slot])
    ctx.fragments[op.result] = multiply_held(ctx, a, fragment(acc), right, pointer, ctx.fragments[acc])


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


# --- fma ----------------------------------------------------------------------------------------------------------


FMA_VECTOR = 4


def _fma(product: Product, acc: list[Value]) -> list[Value]:
    """Each thread multiplies its rows of A by its columns of B, vectors of both at a time, in the accumulation type."""
    ctx, values = product.ctx, list(acc)
    dtype, accum = product.a.type.dtype, product.acc.dtype
    element = memory_type(dtype)
    width = min(FMA_VECTOR, VECTOR_BYTES // (element.bits // 8))
    mine = ctx.coordinates(product.acc.layout)
    row, column = mine.get(0, const_i64(0)), mine.get(1, const_i64(0))
    a_base = ctx.b.gep(I8, product.a_pointer, ctx.b.mul(row, const_i64(product.a.type.layout.row_bytes)))
    across = product.b.type.layout.transposed
    column_bytes = product.b.type.layout.row_bytes if across else product.b.type.layout.element
    b_base = ctx.b.gep(I8, product.b_pointer, ctx.b.mul(column, const_i64(column_bytes)))
    rows, columns = product.steps(0), product.steps(1)
    read = _columns if across else _rows
    for k in range(0, product.terms, width):
        vectors = {r: _vector(ctx, a_base, product.a.type.layout, r, k, element, width) for r in rows}
        left = {r: [_term(ctx, v, dtype, accum) for v in lanes] for r, lanes in vectors.items()}
        terms = read(ctx, b_base, product.b.type.layout, k, columns, element, width)
        for term, narrow in enumerate(terms):
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


def _add(ctx: Context, total: Value, term: Value) -> Value:
    return ctx.b.fadd(total, term) if total.type.is_float else ctx.b.add(total, term)


def _vector(
    ctx: Context, base: Value, layout: SharedLayout, row: int, column: int, element: LType, width: int
) -> list[Value]:
    address = ctx.b.gep(I8, base, layout.offset(row, column))
    loaded = ctx.b.load(vector(element, width), address, width * element.bits // 8)
    return [ctx.b.extract(loaded, i) for i in range(width)]


def _rows(
    ctx: Context, base: Value, layout: SharedLayout, k: int, columns: list[int], element: LType, width: int
) -> Iterator[dict[int, Value]]:
    """Elements of rows k, k + 1, ... of B at the thread's columns, one row at a time."""
    for term in range(k, k + width):
        found: dict[int, Value] = {}
        for c in columns:
            if c % width == 0:
                lanes = _vector(ctx, base, layout, term, c, element, width)
                found.update({c + i: lane for i, lane in enumerate(lanes)})
        yield found


def _columns(
    ctx: Context, base: Value, layout: SharedLayout, k: int, columns: list[int], element: LType, width: int
) -> Iterator[dict[int, Value]]:
    """The same where columns of B lie in rows: a vector of terms of each."""
    vectors = {c: _vector(ctx, base, layout, k, c, element, width) for c in columns}
    for term in range(width):
        yield {c: lanes[term] for c, lanes in vectors.items()}


def emit_sum_rows(ctx: Context, op: Op) -> None:
    left, acc = op.operands
    if isinstance(left.type, FragmentType):
        ctx.fragments[op.result] = sum_held(ctx, left, acc)
    else:
        _sum_stage(ctx, op)


def _sum_stage(ctx: Context, op: Op) -> None:
    """Each thread continues the chains of its rows."""
    room, acc = op.operands
    ring, ty, totals = ctx.rings[room], fragment(acc), list(ctx.fragments[acc])
    layout, dtype = ring.type.layout, ring.type.dtype
    element = memory_type(dtype)
    width = VECTOR_BYTES // (element.bits // 8)
    row = ctx.coordinates(ty.layout).get(0, const_i64(0))
    base = ctx.b.gep(I8, ring.pointer, ctx.b.mul(row, const_i64(layout.row_bytes)))
    for place, offset in enumerate(ty.layout.offsets):
        for k in range(0, layout.shape[1], width):
            for term in _vector(ctx, base, layout, offset.get(0, 0), k, element, width):
                totals[place] = _add(ctx, totals[place], _term(ctx, term, dtype, ty.dtype))
    ctx.fragments[op.result] = totals


# --- wgmma --------------------------------------------------------------------------------------------------------

WGMMA_ROWS = 64


def _wgmma(product: Product, acc: list[Value]) -> list[Value]:
    """All steps of one block in one piece of assembly: nothing may come between them, and it keeps the text short."""
    ctx, b = product.ctx, product.ctx.b
    left = descriptor(product.a.type.layout, 1, TERMS)
    right = descriptor(product.b.type.layout, 0, TERMS)
    group = b.binary("lshr", ctx.thread, const_int(I32, (32 * WARPGROUP).bit_length() - 1))
    rows = b.mul(b.cast("zext", group, I64), const_i64(WGMMA_ROWS * product.a.type.layout.row_bytes))
    a_bits = _descriptor_value(ctx, b.gep(I8, product.a_pointer, rows), left.constant_bits)
    b_bits = _descriptor_value(ctx, product.b_pointer, right.constant_bits)
    kind = "bf16" if product.a.type.dtype == BF16 else "f16"
    count = len(acc)
    registers = ", ".join(f"${i}" for i in range(count))
    name = f"wgmma.mma_async.sync.aligned.m64n{product.acc.shape[1]}k16.f32.{kind}.{kind}"
    lines = ["{", ".reg .b64 da, db;", "wgmma.fence.sync.aligned;"]
    for step in range(product.terms // TERMS):
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
