"""Matrix products on one slot of two rings: fma chains, mma.sync, wgmma. Terms are always added in ascending order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import AxisType
from tesserac.target import flow
from tesserac.target.cpu.elements.registers import shorten_to_tf32
from tesserac.target.llvm_types import I8, I32, I64, LType, Value, const_i64, structure, vector
from tesserac.target.nvptx.context import Context, Ring, memory_type
from tesserac.target.nvptx.memory.accesses import to_register
from tesserac.target.nvptx.products.copies import stage_pointer
from tesserac.target.nvptx.products.mma import (
    BYTE_NAMES,
    NAMES,
    TERMS,
    Product,
    held_words,
    multiply_held,
    multiply_staged,
    sum_held,
    sum_staged,
)
from tesserac.target.nvptx.registers.conversions import convert
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.matrix import FMA, MMA, TERM_BYTES, WARPGROUP
from tesserac.tile.gpu.model.shared import SharedLayout, descriptor
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import first_column, fragment, integer, matrix_unit_of
from tesserac.types.dtype import TF32, DType


def emit_multiply(ctx: Context, op: Op) -> None:
    product, acc = staged_product(ctx, op), op.operands[-1]
    unit, values = matrix_unit_of(op), ctx.fragments[acc]
    rules = {FMA: _fma, MMA: multiply_staged}
    if unit.name in rules:
        ctx.fragments[op.results[0]] = rules[unit.name](product, values)
    else:
        ctx.fragments[op.results[0]] = _wgmma(product, values, _starts_at_zero(acc))


def staged_product(ctx: Context, op: Op) -> Product:
    """A `gpu.multiply` as a thread sees it."""
    a, a_slot, b, b_slot, acc = op.operands
    left, right = ctx.rings[a], ctx.rings[b]
    skipped = right.type.layout.offset(0, first_column(op))
    columns = ctx.b.gep(I8, stage_pointer(ctx, right, ctx.indices[b_slot]), skipped)
    return Product(ctx, fragment(acc), left, right, stage_pointer(ctx, left, ctx.indices[a_slot]), columns)


def emit_add_columns(ctx: Context, op: Op) -> None:
    whole, part = op.operands
    values, layout = list(ctx.fragments[whole]), fragment(whole).layout
    for offset, value in zip(fragment(part).layout.offsets, ctx.fragments[part], strict=True):
        place = layout.register_at({**offset, 1: offset.get(1, 0) + first_column(op)})
        values[place] = ctx.b.fadd(values[place], value)
    ctx.fragments[op.result] = values


def _starts_at_zero(acc: IRValue) -> bool:
    """Whether a product adds to nothing: then no register needs to be cleared before it."""
    made = acc.defining_op
    return made is not None and made.name == "gpu.full" and made.attrs["value"] == 0


def emit_multiply_held(ctx: Context, op: Op) -> None:
    """Where the axis of the terms is empty, all warps go round the product."""
    a, b, slot, acc, *others = op.operands
    right = ctx.rings[b]
    pointer = stage_pointer(ctx, right, ctx.indices[slot])
    multiply = multiply_held if matrix_unit_of(op).name == MMA else _wgmma_held
    sums = [part for part in others if isinstance(part.type, FragmentType)]
    values = [value for part in (acc, *sums) for value in ctx.fragments[part]]
    walked = [ctx.axes[part] for part in others if isinstance(part.type, AxisType)]

    def multiplied() -> list[Value]:
        return multiply(ctx, a, fragment(acc), right, pointer, values)

    def nothing() -> list[Value]:
        """A group of no product, so that whoever waits for those before it counts as ever."""
        return _tied_assembly(ctx, "wgmma.commit_group.sync.aligned;", values, [])

    if walked:
        some = ctx.b.icmp("slt", walked[0].start, walked[0].stop)
        _deal(ctx, op.results[:-1], flow.choose(ctx.b, some, multiplied, nothing))
    else:
        _deal(ctx, op.results[:-1], multiplied())


def _deal(ctx: Context, results: Sequence[IRValue], values: list[Value]) -> None:
    """The registers of several blocks, which one piece of assembly gave."""
    for result in results:
        count = fragment(result).layout.count
        ctx.fragments[result], values = values[:count], values[count:]


def emit_wait_mma(ctx: Context, op: Op) -> None:
    """Waits for warp-group products. The registers pass through the wait, so nothing reads them before it."""
    token, *sums = op.operands
    values = [value for part in sums for value in ctx.fragments[part]]
    made = token.defining_op
    assert made is not None
    if matrix_unit_of(made).name not in (FMA, MMA):
        template = f"wgmma.wait_group.sync.aligned {integer(op, 'pending')};"
        values = _tied_assembly(ctx, template, values, [])
    _deal(ctx, op.results, values)


# --- fma ----------------------------------------------------------------------------------------------------------


FMA_VECTOR = 4


def _fma(product: Product, acc: list[Value]) -> list[Value]:
    """Each thread multiplies its rows of A by its columns of B, vectors of both at a time, in the accumulation type."""
    ctx, a, b = product.ctx, product.a.type.layout, product.b.type.layout
    mine = ctx.coordinates(product.acc.layout)
    row, column = mine.get(0, const_i64(0)), mine.get(1, const_i64(0))
    row_bytes = a.element if a.transposed else a.row_bytes
    column_bytes = b.row_bytes if b.transposed else b.element
    left = ctx.b.gep(I8, product.a_pointer, ctx.b.mul(row, const_i64(row_bytes)))
    right = ctx.b.gep(I8, product.b_pointer, ctx.b.mul(column, const_i64(column_bytes)))
    turn = _terms_of_a_turn(product, len(acc))
    if turn == product.terms:
        return _fma_terms(product, left, right, turn, acc)
    strides = a.offset(0, turn), b.offset(turn, 0)

    def body(number: Value, values: list[Value]) -> list[Value]:
        bases = [ctx.b.gep(I8, p, ctx.b.mul(number, const_i64(s))) for p, s in zip((left, right), strides, strict=True)]
        return _fma_terms(product, bases[0], bases[1], turn, values)

    return flow.for_loop(ctx.b, const_i64(0), const_i64(product.terms // turn), const_i64(1), acc, body, nonempty=True)


TURN = 1024
"""Multiply-adds of a thread that are written out of a product, at most, where a program has several: all of them are
walked over and over, and should stay in the cache of instructions, of 128 KiB."""


def _terms_of_a_turn(product: Product, sums: int) -> int:
    """How many terms are written out; the others take turns."""
    products = [op for op in product.ctx.kernel.walk() if op.name == "gpu.multiply"]
    layouts, turn = (product.a.type.layout, product.b.type.layout), product.terms
    if len(products) < 2 or any(layout.swizzled or _is_cut(layout) for layout in layouts):
        return turn
    while turn * sums > TURN and turn % (2 * FMA_VECTOR) == 0:
        turn //= 2
    return turn


def _is_cut(layout: SharedLayout) -> bool:
    """Whether rows lie in several panels."""
    stored = layout.stored if layout.transposed else layout
    return stored.panel != stored.shape[1]


def _fma_terms(product: Product, a_base: Value, b_base: Value, count: int, acc: Sequence[Value]) -> list[Value]:
    ctx, values = product.ctx, list(acc)
    dtype, accum = product.a.type.dtype, product.acc.dtype
    element = memory_type(dtype)
    width = min(FMA_VECTOR, VECTOR_BYTES // (element.bits // 8))
    rows, columns = product.steps(0), product.steps(1)
    read = _columns if product.b.type.layout.transposed else _rows
    for k in range(0, count, width):
        vectors = {r: read_vector(ctx, a_base, product.a.type.layout, r, k, element, width) for r in rows}
        left = {r: [factor(ctx, v, dtype, accum) for v in lanes] for r, lanes in vectors.items()}
        terms = read(ctx, b_base, product.b.type.layout, k, columns, element, width)
        for term, narrow in enumerate(terms):
            right = {c: factor(ctx, v, dtype, accum) for c, v in narrow.items()}
            for r in rows:
                for c in columns:
                    place = product.acc.layout.register_at({0: r, 1: c})
                    values[place] = multiply_add(ctx, left[r][term], right[c], values[place])
    return values


def factor(ctx: Context, stored: Value, dtype: DType, accum: DType) -> Value:
    """An element of shared memory as a factor: tf32 is what products make of an f32."""
    value = convert(ctx.b, to_register(ctx, stored, dtype), dtype, accum)
    return shorten_to_tf32(ctx.b, value) if dtype == TF32 else value


def multiply_add(ctx: Context, a: Value, b: Value, total: Value) -> Value:
    """Whole numbers wrap: there is nothing to round between the two."""
    return ctx.b.fma(a, b, total) if total.type.is_float else ctx.b.add(ctx.b.mul(a, b), total)


def _add(ctx: Context, total: Value, term: Value) -> Value:
    return ctx.b.fadd(total, term) if total.type.is_float else ctx.b.add(total, term)


def read_vector(
    ctx: Context,
    base: Value,
    layout: SharedLayout,
    row: int,
    column: int,
    element: LType,
    width: int,
    in_order: bool = False,
) -> list[Value]:
    address = ctx.b.gep(I8, base, layout.offset(row, column))
    loaded = ctx.b.load(vector(element, width), address, width * element.bits // 8, in_order=in_order)
    return [ctx.b.extract(loaded, i) for i in range(width)]


def _rows(
    ctx: Context, base: Value, layout: SharedLayout, k: int, columns: list[int], element: LType, width: int
) -> Iterator[dict[int, Value]]:
    """Elements of rows k, k + 1, ... of B at the thread's columns, one row at a time."""
    for term in range(k, k + width):
        found: dict[int, Value] = {}
        for c in columns:
            if c % width == 0:
                lanes = read_vector(ctx, base, layout, term, c, element, width)
                found.update({c + i: lane for i, lane in enumerate(lanes)})
        yield found


def _columns(
    ctx: Context, base: Value, layout: SharedLayout, k: int, columns: list[int], element: LType, width: int
) -> Iterator[dict[int, Value]]:
    """The same where columns of B lie in rows: a vector of terms of each."""
    vectors = {c: read_vector(ctx, base, layout, k, c, element, width) for c in columns}
    for term in range(width):
        yield {c: lanes[term] for c, lanes in vectors.items()}


def emit_sum_rows(ctx: Context, op: Op) -> None:
    left, acc = op.operands
    if isinstance(left.type, FragmentType):
        ctx.fragments[op.result] = sum_held(ctx, left, acc)
    elif matrix_unit_of(op).name == MMA:
        ctx.fragments[op.result] = sum_staged(ctx, ctx.rings[left], acc)
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
            for term in read_vector(ctx, base, layout, offset.get(0, 0), k, element, width):
                totals[place] = _add(ctx, totals[place], factor(ctx, term, dtype, ty.dtype))
    ctx.fragments[op.result] = totals


# --- wgmma --------------------------------------------------------------------------------------------------------

WGMMA_ROWS = 64


def _wgmma(product: Product, acc: list[Value], fresh: bool) -> list[Value]:
    """Both operands in stages."""
    ctx, b, layout = product.ctx, product.ctx.b, product.a.type.layout
    left = descriptor(layout, 1, TERM_BYTES // layout.element)
    # The rows of each warp group begin where the swizzle begins anew.
    distance = layout.offset(WGMMA_ROWS, 0) if layout.shape[0] > WGMMA_ROWS else 0
    rows = b.mul(b.cast("zext", ctx.group, I64), const_i64(distance))
    bits = _descriptor_value(ctx, b.gep(I8, product.a_pointer, rows), left.constant_bits)
    steps = [f"add.s64 da, ${len(acc)}, {step >> 4};" for step in left.steps]
    operands = _Left(steps, ["da"] * len(steps), f", {int(left.transposed)}", [bits])
    return _wgmma_steps(ctx, product.acc, operands, product.b, product.b_pointer, acc, fresh)


def _wgmma_held(
    ctx: Context, a: IRValue, acc: FragmentType, b: Ring, pointer: Value, values: list[Value]
) -> list[Value]:
    """The left operand in registers: four words for each step."""
    steps = b.type.layout.shape[0] // TERMS
    words = [word for step in range(steps) for word in held_words(ctx, a, 0, step * TERMS)]
    first = len(values)
    names = [f"{{{', '.join(f'${first + 4 * step + i}' for i in range(4))}}}" for step in range(steps)]
    return _wgmma_steps(ctx, acc, _Left([""] * steps, names, "", words), b, pointer, values)


@dataclass(frozen=True)
class _Left:
    """How the instructions of a product name their left operand: what is before each of them, its name, what it says
    of the order of terms, and what the assembly takes for it."""

    before: list[str]
    names: list[str]
    order: str
    inputs: list[Value]


def _wgmma_steps(
    ctx: Context, acc: FragmentType, left: _Left, b: Ring, pointer: Value, values: list[Value], fresh: bool = False
) -> list[Value]:
    """All steps of one block in one piece of assembly: nothing may come between them, and it keeps the text short. The
    first step of a `fresh` sum overwrites it."""
    terms = TERM_BYTES // b.type.layout.element
    right = descriptor(b.type.layout, 0, terms)
    kind, count, by_bytes = NAMES[b.type.dtype], len(values), b.type.dtype in BYTE_NAMES
    if by_bytes and right.transposed:
        raise LoweringError("matrix units of 8-bit numbers read terms that are neighbours")
    order = "" if by_bytes else f"{left.order}, {int(right.transposed)}"
    inputs = [*left.inputs, _descriptor_value(ctx, pointer, right.constant_bits)]
    registers = ", ".join(f"${i}" for i in range(count))
    columns = count * 32 * WARPGROUP // WGMMA_ROWS
    of_integers = values[0].type == I32
    sums, signs = ("s32", "") if of_integers else ("f32", ", 1, 1")
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}k{terms}.{sums}.{kind}.{kind}"
    lines = ["{", ".reg .b64 da, db;", "wgmma.fence.sync.aligned;"]
    for before, a, step in zip(left.before, left.names, right.steps, strict=True):
        adds = int(not (fresh and step == right.steps[0]))
        lines += [
            before,
            f"add.s64 db, ${count + len(left.inputs)}, {step >> 4};",
            f"{name} {{{registers}}}, {a}, db, {adds}{signs}{order};",
        ]
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    return _tied_assembly(ctx, "\n".join(lines), values, inputs, fresh)


def _descriptor_value(ctx: Context, pointer: Value, bits: int) -> Value:
    b = ctx.b
    address = b.cast("ptrtoint", pointer, I64)
    field = b.binary("and", b.binary("lshr", address, const_i64(4)), const_i64(0x3FFF))
    return b.binary("or", field, const_i64(bits))


def _tied_assembly(
    ctx: Context, template: str, values: list[Value], extra: list[Value], fresh: bool = False
) -> list[Value]:
    """Assembly that changes `values` in place, or makes them `fresh`; `extra` are further inputs, numbered behind."""
    count = len(values)
    inputs = ["r" if value.type == I32 else "l" for value in extra]
    tied = [] if fresh else list(map(str, range(count)))
    held = values[0].type
    own = "r" if held == I32 else "f"
    constraints = ",".join([*[f"=&{own}" if fresh else f"={own}"] * count, *inputs, *tied])
    result = structure(*[held] * count)
    operands = extra if fresh else [*extra, *values]
    both = ctx.b.asm(result, template, constraints, operands, attributes="convergent nounwind")
    return [ctx.b.extract_value(both, i, held) for i in range(count)]
