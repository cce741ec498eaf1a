"""Complex contractions as real ones.

Enters: a contraction and its operands in parts. Leaves: the parts of its result. Per term a complex product adds, in
this order, `re = fma(-ai, bi, fma(ar, br, re))` and `im = fma(ai, br, fma(ar, bi, im))`. Both are real chains over the
terms and, within a term, the two parts of the left factor:

    re = sum over k, c of [ar, ai][k, c] * [br, -bi][k, c]
    im = sum over k, c of [ar, ai][k, c] * [bi,  br][k, c]

so segments of 4096 terms are segments of 8192 steps. A factor without an imaginary part leaves one real contraction
per part of the other.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.graph.complex_scalars import Pair
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.forms import contract_dims, indices, tensor_type
from tesserac.ir.interleaved import part_type
from tesserac.numerics.order import Chain
from tesserac.ops.lowering import map_form, side_by_side
from tesserac.types.dtype import DType, component


def complex_product(builder: Builder, op: Op, left: Pair, right: Pair) -> Pair:
    if left.imag is None:
        return Pair(
            _real_product(builder, op, left.real, right.real),
            None if right.imag is None else _real_product(builder, op, left.real, right.imag),
        )
    if right.imag is None:
        return Pair(*(_real_product(builder, op, part, right.real) for part in (left.real, left.imag)))
    minus = map_form(
        builder, (right.imag,), tensor_type(right.imag), lambda s, args: s.primitive("neg", args[0])
    )
    factor = _paired(builder, op, "lhs", left.real, left.imag)
    others = [(right.real, minus), (right.imag, right.real)]
    return Pair(*(_paired_product(builder, op, factor, _paired(builder, op, "rhs", *parts)) for parts in others))


def _paired(builder: Builder, op: Op, name: str, *parts: Value) -> Value:
    """A factor with its two parts in a dim behind the summed ones, so that it is the innermost of them."""
    return side_by_side(builder, parts, _place(op, name))


def _place(op: Op, name: str) -> int:
    own, out = indices(op, name), indices(op, "out")
    return 1 + max((place for place, index in enumerate(own) if index not in out), default=len(own) - 1)


def _attrs(op: Op) -> dict[str, Attr]:
    accum = op.attrs["accum"]
    assert isinstance(accum, DType)
    return {**op.attrs, "accum": component(accum)}


def _real_product(builder: Builder, op: Op, left: Value, right: Value) -> Value:
    return builder.value("form.contract", (left, right), part_type(tensor_type(op.result)), _attrs(op))


def _paired_product(builder: Builder, op: Op, left: Value, right: Value) -> Value:
    attrs, order, part = _attrs(op), op.attrs["order"], max(contract_dims(op), default=-1) + 1
    for name in ("lhs", "rhs"):
        own, place = indices(op, name), _place(op, name)
        attrs[name] = (*own[:place], part, *own[place:])
    attrs["order"] = replace(order, length=2 * order.length) if isinstance(order, Chain) else order
    return builder.value("form.contract", (left, right), part_type(tensor_type(op.result)), attrs)
