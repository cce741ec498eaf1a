"""Contractions of two operands in one spelling: the matrix product of two views, `permute(permute(a) @ permute(b))`.

Enters: an `einsum` of two operands, or a product whose leading dims broadcast. Leaves: views, the product of matrices,
and the order in which its dims are the result's: leading dims, rows, columns. Sums have the same bits: the contracted
dim is one, and its order is its own. Where only the first operand has several dims that stay, as queries of heads that
share their keys, all but one of them are leading dims along which the second one broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.applying import apply_operator
from tesserac.graph.dialect import PREFIX, is_operator, operator_of
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.contract import MatMul
from tesserac.ops.einsum import Einsum
from tesserac.ops.shape import Expand, Permute, Reshape
from tesserac.types.dims import ONE, Dim

SPELLINGS = {f"{PREFIX}{operator.name}" for operator in (MatMul, Einsum)}
"""Operators that may be such contractions."""


@dataclass(frozen=True)
class Product:
    """A product of matrices; dim i of what the program wrote is its dim `order[i]`."""

    value: Value
    order: tuple[int, ...]


def as_product(builder: Builder, op: Op, in_place: bool = False) -> Product | None:
    """What a contraction is as a product; None where it is no such one, or a plain one already. Of several dims that
    may be rows that one is which stands before the last: of the result, if it is wanted `in_place`, or of the first
    operand."""
    operator = operator_of(op) if is_operator(op) else None
    if isinstance(operator, Einsum) and len(op.operands) == 2:
        return _of_einsum(builder, operator, op) or _of_shared(builder, operator, op, in_place)
    return _of_matmul(builder, op) if isinstance(operator, MatMul) else None


def _of_einsum(builder: Builder, operator: Einsum, op: Op) -> Product | None:
    (first, second), out = operator.terms, operator.output
    summed = [x for x in first if x in second and x not in out]
    batch = [x for x in out if x in first and x in second]
    rows = [x for x in out if x in first and x not in second]
    columns = [x for x in out if x in second and x not in first]
    sizes = (len(summed), len(rows), len(columns))
    if sizes != (1, 1, 1) or len(first) != len(batch) + 2 or len(second) != len(batch) + 2:
        return None
    left = permuted(builder, op.operands[0], [first.index(x) for x in (*batch, *rows, *summed)])
    right = permuted(builder, op.operands[1], [second.index(x) for x in (*batch, *summed, *columns)])
    if out.endswith(columns[0] + rows[0]):  # a result that is read by rows has the second operand on the left
        left, right = _turned(builder, right), _turned(builder, left)
        rows, columns = columns, rows
    dims = [*batch, *rows, *columns]
    return _product(builder, left, right, op, tuple(dims.index(x) for x in out))


def _of_shared(builder: Builder, operator: Einsum, op: Op, in_place: bool) -> Product | None:
    """Rows of several dims: the second operand broadcasts along all but one of them."""
    (first, second), out = operator.terms, operator.output
    summed = [x for x in first if x in second and x not in out]
    columns = [x for x in out if x in second and x not in first]
    whole = out if in_place else first
    if (len(summed), len(columns)) != (1, 1) or whole[-1:] != (columns if in_place else summed)[0]:
        return None
    *batch, row = list(whole[:-1])
    once = all(len({*term}) == len(term) for term in (first, second))
    own = {*first} == {*batch, row, *summed} and {*second} <= {*batch, *summed, *columns}
    if not once or not own or {*out} != {*batch, row, *columns}:
        return None
    sizes = dict(zip(first, tensor_type(op.operands[0]).dims, strict=True))
    if any(_is_longer(sizes[x], sizes[row]) for x in batch if x not in second):
        return None
    left = permuted(builder, op.operands[0], [first.index(x) for x in (*batch, row, *summed)])
    held = [x for x in batch if x in second]
    right = permuted(builder, op.operands[1], [second.index(x) for x in (*held, *summed, *columns)])
    ends = tensor_type(right).dims[-2:]
    narrow = apply_operator(builder, Reshape((*(sizes[x] if x in held else ONE for x in batch), *ends)), right)
    wide = apply_operator(builder, Expand((*(sizes[x] for x in batch), *ends)), narrow)
    dims = [*batch, row, *columns]
    return _product(builder, left, wide, op, tuple(dims.index(x) for x in out))


def _is_longer(shared: Dim, row: Dim) -> bool:
    """Whether rows are rather the dim along which operands are shared: as far as sizes are known."""
    if row.constant is None:
        return False
    return shared.constant is None or shared.constant > row.constant


def _of_matmul(builder: Builder, op: Op) -> Product | None:
    result = tensor_type(op.result).dims
    if min(tensor_type(v).rank for v in op.operands) < 2:
        return None
    types = [tensor_type(v) for v in op.operands]
    wanted = [(*result[:-2], *ty.dims[-2:]) for ty in types]
    if all(ty.dims == dims for ty, dims in zip(types, wanted, strict=True)):
        return None
    pairs = zip(op.operands, types, wanted, strict=True)
    views = [v if ty.dims == dims else apply_operator(builder, Expand(dims), v) for v, ty, dims in pairs]
    return _product(builder, views[0], views[1], op, tuple(range(len(result))))


def _product(builder: Builder, left: Value, right: Value, op: Op, order: tuple[int, ...]) -> Product | None:
    value = apply_operator(builder, MatMul(), left, right)
    same = (tensor_type(value).dtype, tensor_type(value).policy)
    return Product(value, order) if same == (tensor_type(op.result).dtype, tensor_type(op.result).policy) else None


def _turned(builder: Builder, value: Value) -> Value:
    rank = tensor_type(value).rank
    return permuted(builder, value, [*range(rank - 2), rank - 1, rank - 2])


def permuted(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """The value with its dims in an order, seen through the permutations that made it."""
    maker = value.defining_op
    while maker is not None and maker.name == f"{PREFIX}{Permute.name}":
        inner = operator_of(maker)
        assert isinstance(inner, Permute)
        order = [inner.order[axis] for axis in order]
        value = maker.operands[0]
        maker = value.defining_op
    if list(order) == list(range(len(order))):
        return value
    return apply_operator(builder, Permute(tuple(order)), value)
