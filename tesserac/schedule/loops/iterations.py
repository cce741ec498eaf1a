"""Sums over iterations: a loop that only adds a product of rows to what it carries becomes one launch.

    form.loop(%low, %high, %init) { ^(%t, %sum): %c = form.contract(%x[t], %y[t]); form.yield(%sum + %c) }
becomes
    %c = form.contract(%x, %y) {one more index, of both and of the result};  %s = form.accumulate(%init, %c)

Enters: a function of forms. Leaves: the same function, in place. The two forms are always one launch, in which a
program takes a block of the sum through all iterations: the products of single iterations are nowhere in memory, and no
iteration waits for another program. The order of the additions is that of the loop.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Slice, indices, tensor_type
from tesserac.ir.passes import FORMS, function_pass
from tesserac.ir.rows import Row, added_product, row_of
from tesserac.ir.types import TensorType
from tesserac.types.dims import ZERO, Dim


@function_pass(FORMS, FORMS, "sum_iterations")
def sum_iterations(func: Op) -> None:
    for op in [inner for inner in func.walk() if inner.name == "form.loop"]:
        found = _sum_over_iterations(op)
        if found is not None:
            _fold(op, found)


@dataclass(frozen=True)
class _Sum:
    """A product, the rows that its operands are, and the bounds of the iterations."""

    product: Op
    rows: tuple[Row, Row]
    low: Dim
    high: Dim


def _sum_over_iterations(op: Op) -> _Sum | None:
    product = added_product(op.body, 0) if len(op.results) == 1 else None
    low, high = (_bound(value) for value in op.operands[:2])
    if product is None or low is None or high is None:
        return None
    left, right = (row_of(value, str(op.attrs["counter"])) for value in product.operands)
    if left is None or right is None or left.down != right.down:
        return None
    inside = {*op.body.args, *(v for inner in op.body.ops for v in inner.results)}
    alone = all(inner.name in ("form.view", "form.contract", "form.map", "form.yield") for inner in op.body.ops)
    only = alone and len([inner for inner in op.body.ops if inner.name != "form.view"]) == 3
    return _Sum(product, (left, right), low, high) if only and not inside & {left.source, right.source} else None


def _bound(value: Value) -> Dim | None:
    made = value.defining_op
    dim = made.attrs.get("dim") if made is not None else None
    return dim if isinstance(dim, Dim) else None


def _fold(op: Op, found: _Sum) -> None:
    builder, product = Builder.before(op), found.product
    ty, iterations = tensor_type(product.result), (found.high - found.low).max(ZERO)
    operands = [_all_rows(builder, row, found, iterations) for row in found.rows]
    iteration = 1 + max(i for name in ("lhs", "rhs", "out") for i in indices(product, name))
    attrs = {**product.attrs, **{name: (iteration, *indices(product, name)) for name in ("lhs", "rhs", "out")}}
    result = TensorType((iterations, *ty.dims), ty.dtype, ty.policy)
    parts = builder.value("form.contract", operands, result, attrs, hint=product.result.name)
    down = {"down": found.rows[0].down}
    total = builder.value("form.accumulate", (op.operands[2], parts), ty, down, hint=op.results[0].name)
    op.results[0].replace_all_uses(total)
    op.erase()


def _all_rows(builder: Builder, row: Row, found: _Sum, iterations: Dim) -> Value:
    """The rows of all iterations, the one at the lowest place first."""
    ty = tensor_type(row.source)
    start = row.first - (found.high - 1) if row.down else row.first + found.low
    if start == ZERO and ty.dims[0] == iterations:
        return row.source
    view = Slice((start, *(ZERO for _ in ty.dims[1:])), (1,) * ty.rank)
    result = TensorType((iterations, *ty.dims[1:]), ty.dtype, ty.policy)
    return builder.value("form.view", (row.source,), result, {"view": view})
