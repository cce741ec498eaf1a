"""Products of words by threads that multiply by themselves, where terms are the rows of both operands.

See Note [Banks of registers] for what they are read and multiplied in. A thread reads the factors of a term while it
multiplies those of the term before. So it may in the first term of a round, too: those of the last one of the round
before have waited, with their factors in registers, until the new block was there.

    %y = gpu.for(%low, %high, %zero) { ^(%k, %acc): gpu.wait; gpu.barrier; %z = gpu.multiply(..., %acc); gpu.yield %z }
  is
    factors = 0, acc = 0
    in each round: wait, barrier, read the first term; acc += factors; all terms but the last; factors = the last term
    y = acc + factors
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.target.llvm_types import I8, I32, Value, const_i64, zero
from tesserac.target.nvptx.context import Beside, Context, Ring, memory_type, register_type
from tesserac.target.nvptx.products import dots as products
from tesserac.target.nvptx.products.mma import Product
from tesserac.target.nvptx.registers import control
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, matrix_unit_of

Factors = tuple[dict[int, Value], dict[int, Value]]
"""Of one term: what the thread has of the left operand, by its rows, and of the right one, by its columns."""


@dataclass(frozen=True)
class _Late:
    """The product of a loop whose last term may wait for the next round, and which result of the loop is its sum."""

    multiply: Op
    result: int


def emit_multiply(ctx: Context, op: Op) -> None:
    if not matrix_unit_of(op).turned:
        products.emit_multiply(ctx, op)
        return
    product, values = products.staged_product(ctx, op), list(ctx.fragments[op.operands[-1]])
    beside = ctx.late.get(op)
    terms = _terms(product)
    ahead = next(terms)
    if beside is not None:
        values = _multiplied(product.acc, ctx, values, _unpacked(product.acc, beside.values))
    for following in terms:
        values, ahead = _multiplied(product.acc, ctx, values, ahead), following
    if beside is not None:
        beside.values = _packed(ahead)
    else:
        values = _multiplied(product.acc, ctx, values, ahead)
    ctx.fragments[op.results[0]] = values


def emit_for(ctx: Context, op: Op, emit_block: control.EmitBlock) -> None:
    late = _late(op)
    if late is None:
        control.emit_for(ctx, op, emit_block)
        return
    ty = fragment(late.multiply.results[0])
    nothing = zero(register_type(ty.dtype))
    beside = ctx.late[late.multiply] = Beside([nothing] * sum(map(len, _steps(ty))))
    control.emit_for(ctx, op, emit_block, beside)
    total = op.results[late.result]
    values = _multiplied(ty, ctx, ctx.fragments[total], _unpacked(ty, beside.values))
    ctx.fragments[total] = _moved(ctx, values)


def _late(loop: Op) -> _Late | None:
    """Of a sum that begins as 0, and that nothing reads before the end of the loop."""
    yielded = loop.body.terminator
    for number, value in enumerate(yielded.operands):
        settled = value.defining_op
        multiply = settled.operands[0].defining_op if settled is not None and settled.name == "gpu.wait_mma" else None
        if multiply is None or multiply.name != "gpu.multiply" or not matrix_unit_of(multiply).turned:
            continue
        first = loop.operands[2 + number].defining_op
        carried = loop.body.args[1 + number]
        read_once = all(len(v.uses) == 1 for v in (value, multiply.results[0], carried))
        if read_once and carried is multiply.operands[-1] and _is_zero(first):
            return _Late(multiply, number)
    return None


def _is_zero(made: Op | None) -> bool:
    """Whether it is 0, and not -0, to which a product of two zeros adds."""
    return made is not None and made.name == "gpu.full" and str(made.attrs["value"]) in ("0", "0.0")


def _terms(product: Product) -> Iterator[Factors]:
    """One after the other; what is asked for next is read while the one before is multiplied."""
    ctx, a, b = product.ctx, product.a.type.layout, product.b.type.layout
    mine = ctx.coordinates(product.acc.layout)
    places = (mine.get(dim, const_i64(0)) for dim in (0, 1))
    bases = (
        ctx.b.gep(I8, pointer, ctx.b.mul(place, const_i64(layout.element)))
        for pointer, place, layout in zip((product.a_pointer, product.b_pointer), places, (a, b), strict=True)
    )
    rows, columns = _steps(product.acc)
    left, right = bases
    for term in range(product.terms):
        yield _row(product, left, product.a, term, rows), _row(product, right, product.b, term, columns)


def _row(product: Product, base: Value, ring: Ring, term: int, steps: Sequence[int]) -> dict[int, Value]:
    """What the thread has of a row of a stage. Vectors are read in order: else the assembler would have some wait for
    registers of others, and read them just before they are multiplied."""
    ctx, dtype, layout = product.ctx, ring.type.dtype, ring.type.layout.stored
    element, found = memory_type(dtype), dict[int, Value]()
    width = VECTOR_BYTES // layout.element
    for step in steps[::width]:
        lanes = products.read_vector(ctx, base, layout, term, step, element, width, in_order=True)
        factors = [products.factor(ctx, lane, dtype, product.acc.dtype) for lane in lanes]
        found.update({step + i: value for i, value in enumerate(factors)})
    return found


def _multiplied(ty: FragmentType, ctx: Context, sums: Sequence[Value], factors: Factors) -> list[Value]:
    """One term more. Each column is multiplied by all rows before the next one, of which the first row is the last one:
    so neighbours share a factor."""
    (left, right), values = factors, list(sums)
    for number, c in enumerate(right):
        for r in left if number % 2 == 0 else reversed(left):
            place = ty.layout.register_at({0: r, 1: c})
            values[place] = products.multiply_add(ctx, left[r], right[c], values[place])
    return values


def _steps(ty: FragmentType) -> tuple[list[int], list[int]]:
    """The distances at which a thread has rows, and columns."""
    rows, columns = (sorted({offset.get(dim, 0) for offset in ty.layout.offsets}) for dim in (0, 1))
    return rows, columns


def _packed(factors: Factors) -> list[Value]:
    left, right = factors
    return [*left.values(), *right.values()]


def _unpacked(ty: FragmentType, values: Sequence[Value]) -> Factors:
    rows, columns = _steps(ty)
    left, right = values[: len(rows)], values[len(rows) :]
    return dict(zip(rows, left, strict=True)), dict(zip(columns, right, strict=True))


def _moved(ctx: Context, values: Sequence[Value]) -> list[Value]:
    """Numbers in other registers, by an instruction that neither LLVM nor the assembler knows to change nothing: grids
    have no third dim. What stores want of neighbouring sums, that they lie in a vector, then has no say in which banks
    they lie while they are added to."""
    b, nothing = ctx.b, ctx.sreg("ctaid.z")
    words = (b.binary("xor", b.cast("bitcast", value, I32), nothing) for value in values)
    return [b.cast("bitcast", word, value.type) for word, value in zip(words, values, strict=True)]
