"""Operands of products of 8-bit numbers whose terms are not neighbours in memory are copied so that they are.

    %y = form.contract(%a, %b)                                  b: [K, N], its columns side by side
becomes
    %t = form.map(%b) {maps = [[1, 0]]} { copy }                [N, K]
    %y = form.contract(%a, form.view(%t) {permute})

Matrix units take such numbers in one order only, and another unit would give other bits: so every product of the kind
has it, whatever its sizes. Sums of integers have the same bits in any unit: bytes of memory that has no strides are
widened, and multiplied as words.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import tensor_type
from tesserac.schedule.forms.views import copy_of, permuted
from tesserac.schedule.forms.widening import widen_integers
from tesserac.schedule.model.access import access_through, view_source
from tesserac.types.dims import ONE, ZERO
from tesserac.types.dtype import F32, FP8_E4M3, FP8_E5M2, I8, I32, DType

FP8 = (FP8_E4M3, FP8_E5M2)
TERMS = (-1, -2)
"""Which dim of the left operand of a product, and of the right one, are its terms."""


def takes_bytes(contract: Op) -> bool:
    """Whether matrix units of 8-bit numbers have the types of a product."""
    kinds, accum = {tensor_type(v).dtype for v in contract.operands}, attr(contract, "accum", DType)
    return len(kinds) == 1 and ((accum == F32 and kinds <= set(FP8)) or (accum == I32 and kinds == {I8}))


def lay_terms_out(block: Block) -> None:
    """Changes the products of a block, which are those of matrices."""
    for op in list(block.ops):
        if op.name != "form.contract" or not takes_bytes(op):
            continue
        if attr(op, "accum", DType) == I32 and not (_is_of_matrices(op) and _have_strides(op)):
            widen_integers(op)
        elif _is_of_matrices(op):
            for position, terms in enumerate(TERMS):
                if _lies_across(op.operands[position], terms):
                    op.set_operand(position, _across(Builder.before(op), op.operands[position]))


def _is_of_matrices(contract: Op) -> bool:
    """One row, one column or one term by its type is no matter of matrix units."""
    return all(ONE not in tensor_type(v).dims[-2:] for v in contract.operands)


def _have_strides(contract: Op) -> bool:
    """Whether both operands lie in memory as matrices whose rows, or columns, are apart from each other."""
    found = [access_through(views, base) for base, views in map(view_source, contract.operands)]
    strides = [{access.strides[-1], access.strides[-2]} if access is not None else set() for access in found]
    return all(len(pair) == 2 and ZERO not in pair for pair in strides)


def _lies_across(value: Value, terms: int) -> bool:
    """Whether the other dim of a matrix is the dense one. What has no strides is left to other units as it is."""
    base, views = view_source(value)
    access = access_through(views, base)
    return access is not None and access.strides[terms] != ONE


def _across(builder: Builder, value: Value) -> Value:
    rank = tensor_type(value).rank
    exchanged = (*range(rank - 2), rank - 1, rank - 2)
    return permuted(builder, copy_of(builder, permuted(builder, value, exchanged)).result, exchanged)
