"""Rows of tensors that a loop reads iteration by iteration, and the sums of products that it carries.

Enters: values and the body of a `form.loop`. Leaves: what is known of them, or None where they are something else.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Reshape, Slice, operand_maps, tensor_type
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import F32, F64
from tesserac.types.policy import NO_POLICY


@dataclass(frozen=True)
class Row:
    """Row `first` of `source` in iteration 0, one further in each iteration, or one back where `down`."""

    source: Value
    first: Dim
    down: bool


def row_of(value: Value, counter: str) -> Row | None:
    """Which row of a tensor a value is in the iteration that `counter` counts."""
    reshape = value.defining_op
    cut = reshape.operands[0].defining_op if _is_view(reshape, Reshape) and reshape is not None else None
    if not _is_view(cut, Slice) or cut is None:
        return None
    source, at = cut.operands[0], cut.attrs["view"]
    assert isinstance(at, Slice)
    dims = tensor_type(source).dims
    whole = tensor_type(cut.result).dims == (ONE, *dims[1:]) and set(at.starts[1:]) <= {ZERO}
    if not whole or set(at.steps) != {1} or tensor_type(value).dims != dims[1:]:
        return None
    first = at.starts[0].substitute({counter: ZERO})
    moved = at.starts[0] - first
    iteration = Dim.sym(counter)
    return Row(source, first, moved != iteration) if moved in (iteration, -iteration) else None


def _is_view(op: Op | None, kind: type) -> bool:
    return op is not None and op.name == "form.view" and isinstance(op.attrs["view"], kind)


def added_product(body: Block, position: int) -> Op | None:
    """The product of two matrices that an iteration adds to what the body carries at `position`, and does nothing else
    with: in f32 or f64, where the sum is rounded as it is computed."""
    carried, total = body.args[1 + position], body.terminator.operands[position]
    add = total.defining_op
    if add is None or add.name != "form.map" or add.parent is not body or not _is_plain_sum(add):
        return None
    if len(carried.uses) != 1 or len(total.uses) != 1 or carried not in add.operands:
        return None
    product = add.operands[1 - add.operands.index(carried)].defining_op
    if product is None or product.name != "form.contract" or product.parent is not body:
        return None
    ty = tensor_type(product.result)
    plain = ty == tensor_type(total) and ty.dtype in (F32, F64) and product.attrs["accum"] == ty.dtype
    alone = ty.policy == NO_POLICY and len(product.result.uses) == 1
    return product if plain and alone and _is_matrix(product) else None


def _is_plain_sum(add: Op) -> bool:
    """Whether a map is the sum of two tensors, element by element."""
    places = tuple(range(tensor_type(add.result).rank))
    names = [inner.name for inner in add.body.ops]
    if names != ["scalar.add", "form.yield"] or operand_maps(add) != (places, places):
        return False
    return set(add.body.ops[0].operands) == set(add.body.args)


def _is_matrix(product: Op) -> bool:
    """Whether a contraction is of two matrices over one index, none of their dims known to be 1."""
    values = (*product.operands, product.result)
    return all(tensor_type(v).rank == 2 and ONE not in tensor_type(v).dims for v in values)
