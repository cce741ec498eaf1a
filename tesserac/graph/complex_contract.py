"""Complex contractions as real ones.

Enters: a contraction and its operands in parts. Leaves: the parts of its result. Per term a complex product adds, in
this order, `re = fma(-ai, bi, fma(ar, br, re))` and `im = fma(ai, br, fma(ar, bi, im))`. Both are real chains over the
terms and, within a term, the two parts of the left factor:

    re = sum over k, c of [ar, ai][k, c] * [br, -bi][k, c]
    im = sum over k, c of [ar, ai][k, c] * [bi,  br][k, c]

so both are one contraction, and segments of 4096 terms are segments of 8192 steps. A factor without an imaginary part
leaves one real contraction per part of the other.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.graph.complex_scalars import Pair
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Op, Value, attr
from tesserac.ir.forms import Permute, Reshape, contract_dims, contracted, indices, tensor_type
from tesserac.ir.interleaved import TWO, part_type
from tesserac.ir.table import roots_of
from tesserac.ir.types import TensorType
from tesserac.numerics.order import Chain
from tesserac.ops.lowering import map_form, one_of, side_by_side, view_form
from tesserac.types.dtype import DType, component


def complex_product(builder: Builder, op: Op, left: Pair, right: Pair, row: Value | None = None) -> Pair:
    """The parts of a product of parts; `row` is the left factor with both parts in its last dim, where it lies so. One
    that is turned is read in places far apart, which only columns are worth: they take each element once."""
    if left.imag is None:
        return Pair(
            _real_product(builder, op, left.real, right.real),
            None if right.imag is None else _real_product(builder, op, left.real, right.imag),
        )
    if right.imag is None:
        return Pair(*(_real_product(builder, op, part, right.real) for part in (left.real, left.imag)))
    place = _behind_summed(op, "lhs")
    columns = tensor_type(right.real).rank > len(contracted(op))
    if row is not None and place == tensor_type(left.real).rank and not (columns and _is_turned(row)):
        factor = row
    else:
        factor = side_by_side(builder, (left.real, left.imag), place)
    square = _square(builder, right.real, right.imag, _behind_summed(op, "rhs"))
    return Pair(*_both_parts(builder, op, factor, square))


def _is_turned(value: Value) -> bool:
    made = value.defining_op
    while made is not None and made.name == "form.view":
        if isinstance(made.attrs["view"], Permute):
            return True
        made = made.operands[0].defining_op
    return False


def _behind_summed(op: Op, name: str) -> int:
    """Where a factor gets the dim of its two parts: behind the summed ones, so that it is the innermost of them."""
    own, out = indices(op, name), indices(op, "out")
    return 1 + max((place for place, index in enumerate(own) if index not in out), default=len(own) - 1)


def _square(builder: Builder, real: Value, imag: Value, place: int) -> Value:
    """The right factor with the dims [c, part] at a place, holding [[br, bi], [-bi, br]]; of a table it is one."""
    maker, other, ty = real.defining_op, imag.defining_op, tensor_type(real)
    square = TensorType((*ty.dims[:place], TWO, TWO, *ty.dims[place:]), ty.dtype, ty.policy)
    if maker is not None and other is not None and maker.name == other.name == "form.table":
        cos, sin = roots_of(maker).parts[0], roots_of(other).parts[0]
        table = replace(roots_of(maker), parts=(cos, sin, _negated(sin), cos), axis=place)
        return builder.value("form.table", (), square, {"table": table})
    minus = map_form(builder, (imag,), ty, lambda s, args: s.primitive("neg", args[0]))
    row = side_by_side(builder, (real, imag, minus, real), place)
    return view_form(builder, row, square, Reshape())


def _negated(part: str) -> str:
    return part.removeprefix("-") if part.startswith("-") else f"-{part}"


def _both_parts(builder: Builder, op: Op, factor: Value, square: Value) -> list[Value]:
    """One real contraction, whose result has the two parts in a dim before its columns."""
    attrs, order, inner = _attrs(op), op.attrs["order"], max(contract_dims(op), default=-1) + 1
    lhs, rhs, out = (indices(op, name) for name in ("lhs", "rhs", "out"))
    columns = next((place for place, index in enumerate(out) if index not in lhs), len(out))
    attrs["lhs"] = _inserted(lhs, _behind_summed(op, "lhs"), inner)
    attrs["rhs"] = _inserted(rhs, _behind_summed(op, "rhs"), inner, inner + 1)
    attrs["out"] = _inserted(out, columns, inner + 1)
    attrs["order"] = replace(order, length=2 * order.length) if isinstance(order, Chain) else order
    ty = part_type(tensor_type(op.result))
    both = TensorType((*ty.dims[:columns], TWO, *ty.dims[columns:]), ty.dtype, ty.policy)
    product = builder.value("form.contract", (factor, square), both, attrs)
    return [one_of(builder, product, columns, number) for number in (0, 1)]


def _inserted(labels: tuple[int, ...], place: int, *new: int) -> tuple[int, ...]:
    return (*labels[:place], *new, *labels[place:])


def _attrs(op: Op) -> dict[str, Attr]:
    accum = attr(op, "accum", DType)
    return {**op.attrs, "accum": component(accum)}


def _real_product(builder: Builder, op: Op, left: Value, right: Value) -> Value:
    return builder.value("form.contract", (left, right), part_type(tensor_type(op.result)), _attrs(op))
