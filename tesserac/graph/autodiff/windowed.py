"""The transpose of windows, below a product: a product over windows, in place of the cotangent of every window.

Enters: `windows`, and a cotangent of its result. Leaves: the cotangent of what it read, where this is a product of one
tensor that has the windows and one that has the places inside them. See Note [Convolutions go back as convolutions].
"""

from __future__ import annotations

from tesserac.graph.dialect import operator_of
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.einsum import Einsum
from tesserac.ops.window import Windows
from tesserac.types.ty import TensorType


def over_product(write: Writer, op: Op, cotangent: Value) -> Value | None:
    """The cotangent of the operand of `op`; None where the operator's own rule must say it."""
    operator, made = operator_of(op), cotangent.defining_op
    if not isinstance(operator, Windows) or made is None or made.name != "graph.einsum" or len(made.operands) != 2:
        return None
    product = operator_of(made)
    assert isinstance(product, Einsum)
    along, inside = product.output[operator.axis], product.output[-1]
    places = _which(product.terms, along, inside)
    if places is None:
        return None
    operands, terms = list(made.operands), list(product.terms)
    slid, weights = places
    own = tensor_type(op.operands[0])
    operands[slid] = _slid(write, operator, operands[slid], terms[slid].index(along), own)
    operands[weights] = write("flip", operands[weights], axes=(terms[weights].index(inside),))
    terms[slid] += inside
    equation = f"{','.join(terms)}->{product.output[:-1]}"
    return write.stored(write("einsum", *operands, equation=equation), own)


def _which(terms: list[str], along: str, inside: str) -> tuple[int, int] | None:
    """Which operand has the windows, and which the places inside them, if each has its own once."""
    for slid, weights in ((0, 1), (1, 0)):
        counts = [terms[place].count(letter) for place in (slid, weights) for letter in (along, inside)]
        if counts == [1, 0, 0, 1]:
            return slid, weights
    return None


def _slid(write: Writer, operator: Windows, value: Value, axis: int, own: TensorType) -> Value:
    """Windows of a tensor that is spaced out by the stride, between zeros."""
    spaced = _spaced(write, operator, value, axis, own)
    return write("windows", spaced, size=operator.size, axis=axis, dilation=operator.dilation)


def _spaced(write: Writer, operator: Windows, value: Value, axis: int, own: TensorType) -> Value:
    """Windows along another axis stay windows: what they read is spaced out, not they."""
    made = value.defining_op
    other = operator_of(made) if made is not None and made.name == "graph.windows" else None
    if made is not None and isinstance(other, Windows) and axis not in (other.axis, tensor_type(value).rank - 1):
        return write.apply(other, (_spaced(write, operator, made.operands[0], axis, own),))
    return operator.spaced(write, value, axis, own.dims[operator.axis], tensor_type(value))


# Note [Convolutions go back as convolutions]
# In y[o, l] = sum w[o, k] windows(x)[l, k] the cotangent of the windows is a product, w[o, k] dy[o, l] summed over o:
# as large as all windows together. Its sum over windows that overlap is linear in it, so that it may be taken below the
# product: dx[l] = sum over o and k of w[o, K - 1 - k] windows(dy spaced out)[o, l, k]. That is a convolution of dy with
# the weights backwards, one chain over o and k, and the windows are a view. A product of several tensors, or one in
# which both have the windows (the square of windows), goes the way of Note [Windows go back as windows].
