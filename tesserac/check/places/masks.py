"""Updates where a mask says: `x[mask] = v`, `x[mask] += v` and `x.at[mask].set(v)`.

Enters: a tensor, a bool tensor with all of its dims, or the first of them, and a value that all places get, of the dims
that the mask does not have. Leaves: `where(mask, v, x)`, or with the value joined. How many places there are is not
known while compiling, so that a value for each of them has no type.
"""

from __future__ import annotations

from typing import Literal

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dims_text, type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.provenance.declared import show_declared
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.shapes import E0311
from tesserac.ops.elementwise import Add, Div, Maximum, Minimum, Mul, Sub, Where
from tesserac.ops.registry import Operator
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType

Way = Literal["set", "add", "sub", "mul", "div", "max", "min", "rebind"]
"""Replace the elements, join them with the value, or replace them by what was computed from them (`x[i] %= v`)."""
JOINS: dict[str, type[Operator]] = {
    "add": Add,
    "sub": Sub,
    "mul": Mul,
    "div": Div,
    "max": Maximum,
    "min": Minimum,
}
"""Each way on elements that are named once."""


def masked(
    body: Body, x: typed.Expr, ty: TensorType, mask: typed.Expr, value: typed.Expr, way: Way, span: Span
) -> typed.Expr:
    """`x` with the value, or joined with it, where the mask holds."""
    assert isinstance(mask.type, TensorType)
    given, rank = mask.type.dims, mask.type.rank
    if given != ty.dims[:rank]:
        problem = f"a mask of dims {dims_text(given)} for a tensor with dims {dims_text(ty.dims)}"
        show_declared(body, body.sink.error(E0311, at=mask.span, problem=problem), mask)
        return body.error(span)
    if isinstance(value.type, TensorType) and value.type.rank > ty.rank - rank:
        expected = "a number" if ty.rank == rank else f"one value of dims {dims_text(ty.dims[rank:])}"
        draft = body.sink.error(E0210, at=value.span, expected=expected, found=type_text(value.type))
        draft.remark("all places of a mask get one value; with a value for each element, `where(mask, v, x)`")
        return body.error(span)
    if way in JOINS:
        value = apply_operator(body, JOINS[way](), [x, value], span, span)
    dims = (*given, *(ONE for _ in ty.dims[rank:]))
    where = mask if dims == given else typed.Apply(TensorType(dims, mask.type.dtype), span, Reshape(dims), (mask,))
    return apply_operator(body, Where(), [where, value, x], span, span)
