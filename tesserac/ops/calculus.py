"""What the rules of differentiation and batching are written with: operators applied to values of a graph, by name.

Enters: values, and the rules that operators declare. Leaves: values. A tangent or cotangent that is zero everywhere is
None, so that nothing is computed for it. See Note [One rule per operator] in `registry.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.registry import OPERATORS, Operator
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import TensorType

Emit = Callable[[Operator, Sequence[Value]], Value]


class Writer:
    """`write("mul", x, y)` is the product as a value of the graph; static attributes are keywords."""

    def __init__(self, emit: Emit, size: Callable[[Dim, TensorType], Value]) -> None:
        self._emit = emit
        self._size = size

    def __call__(self, name: str, *operands: Value, **statics: object) -> Value:
        return self._emit(OPERATORS[name](**statics), operands)

    def apply(self, operator: Operator, operands: Sequence[Value]) -> Value:
        return self._emit(operator, operands)

    def full(self, number: float, like: TensorType) -> Value:
        return self("full", shape=like.dims, dtype=like.dtype, policy=like.policy, value=number)

    def number(self, number: float, like: TensorType) -> Value:
        """One number of the element type of `like`."""
        return self.full(number, TensorType((), like.dtype, like.policy))

    def zeros(self, like: TensorType) -> Value:
        return self.full(0.0, like)

    def size(self, dim: Dim, like: TensorType) -> Value:
        """A size as one number of the element type of `like`."""
        return self._size(dim, TensorType((), like.dtype, like.policy))

    def given(self, value: Value | None, like: Value) -> Value:
        """A tangent as a tensor, also where it is zero."""
        return self.zeros(tensor_type(like)) if value is None else value

    def add(self, left: Value | None, right: Value | None) -> Value | None:
        if left is None or right is None:
            return right if left is None else left
        return self("add", left, right)

    def sum(self, value: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
        return self("sum", value, axes=tuple(axes), keep=keep) if axes else value

    def reshape(self, value: Value, dims: Sequence[Dim]) -> Value:
        return value if tensor_type(value).dims == tuple(dims) else self("reshape", value, shape=tuple(dims))

    def expand(self, value: Value, dims: Sequence[Dim]) -> Value:
        return value if tensor_type(value).dims == tuple(dims) else self("expand", value, shape=tuple(dims))

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        in_order = list(order) == list(range(len(order)))
        return value if in_order else self("permute", value, order=tuple(order))

    def places(self, dims: Sequence[Dim], axis: int) -> Value:
        """Every place along one of these dims, with 1 for the others, so that it broadcasts to them."""
        row = self("arange", start=ZERO, stop=dims[axis])
        return self.reshape(row, [dim if at == axis else ONE for at, dim in enumerate(dims)])

    def on_diagonal(self, value: Value, axes: tuple[int, int]) -> Value:
        """The value where the places along two axes are equal, elsewhere 0."""
        ty = tensor_type(value)
        equal = self("equal", *(self.places(ty.dims, axis) for axis in axes))
        return self("where", equal, value, self.number(0.0, ty))

    def stored(self, value: Value, like: TensorType) -> Value:
        """The value as a tensor of the element type and policy of `like`."""
        ty = tensor_type(value)
        if (ty.dtype, ty.policy) == (like.dtype, like.policy):
            return value
        if ty.dtype.is_complex and not like.dtype.is_complex:
            return self.stored(self("real", value), like)
        return self("cast", value, dtype=like.dtype, policy=like.policy)

    def unbroadcast(self, value: Value, like: TensorType) -> Value:
        """The transpose of broadcasting: summed over the dims that `like` lacks or stretches, as an element of it."""
        dims = tensor_type(value).dims
        extra = len(dims) - like.rank
        stretched = [axis + extra for axis, dim in enumerate(like.dims) if dim == ONE != dims[axis + extra]]
        total = self.sum(value, [*range(extra), *stretched])
        return self.stored(self.reshape(total, like.dims), like)


def exclusive_products(write: Writer, x: Value) -> Value:
    """For each element along the last dim the product of all before it; of the first it is 1."""
    dims = tensor_type(x).dims
    running = write("cumprod", write("pad", x, before=ONE, after=ZERO, axis=len(dims) - 1, value=1))
    return write("cut", running, starts=(ZERO,) * len(dims), sizes=dims, steps=(1,) * len(dims))


def where_a_number(write: Writer, factor: Value, result: Value) -> Value:
    """A factor of a tangent, but NaN where the result is, since what compares cannot choose there."""
    is_number = write("equal", result, result)
    return write("where", is_number, factor, write("stop_gradient", result))


def is_smooth(type_: TensorType) -> bool:
    """Whether values of this type have tangents."""
    return type_.dtype.kind in "fc"


def operand_names(operator: Operator, count: int) -> list[str]:
    return [operand.name for operand in operator.parsed[0].for_count(count).operands]


def differential(
    operator: Operator, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
) -> Value | None:
    """The tangent of the result by the operator's text: `cos(x) * dx`. There `x` is the operand of that name, `dx` its
    tangent, `result` what the operator gave."""
    names: dict[str, Value | None] = {"result": result}
    for name, operand, tangent in zip(operand_names(operator, len(operands)), operands, tangents, strict=True):
        names |= {name: operand, f"d{name}": tangent}
    value = tangent_by_text(operator.differential, write, names, tensor_type(result))
    assert not isinstance(value, float) or value == 0.0, f"the derivative of {operator.name} is a number"
    return None if isinstance(value, float) else value


def tangent_by_text(
    text: str, write: Writer, names: Mapping[str, Value | None], result: TensorType
) -> Value | float | None:
    """A jvp expression over these values; None is a tangent that is zero."""
    return _Terms(write, names, result).evaluate(_parsed(text))


def linear_tangent(
    operator: Operator, write: Writer, operands: Sequence[Value], tangents: Sequence[Value | None]
) -> Value | None:
    """A linear operator takes tangents as it takes its operands: all at once, or one beside the others' values."""
    if operator.linear == "jointly":
        smooth = [is_smooth(tensor_type(operand)) for operand in operands]
        pairs = zip(smooth, operands, tangents, strict=True)
        return write.apply(operator, [write.given(dx, x) if moves else x for moves, x, dx in pairs])
    total: Value | None = None
    for position, tangent in enumerate(tangents):
        if tangent is not None:
            one = [tangent if place == position else x for place, x in enumerate(operands)]
            total = write.add(total, write.apply(operator, one))
    return total


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


_BINARY: Mapping[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARE: Mapping[type[ast.cmpop], str] = {ast.Lt: "less", ast.LtE: "less_equal", ast.Eq: "equal"}
Term = Value | float | None


class _Terms:
    """Evaluates a jvp expression: None is a tangent that is zero, a number takes the type of what it meets."""

    def __init__(self, write: Writer, names: Mapping[str, Value | None], result: TensorType) -> None:
        self._write = write
        self._names = names
        self._result = result

    def evaluate(self, node: ast.expr) -> Term:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return self._names[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._negative(self.evaluate(inner))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(_BINARY[type(op)], self.evaluate(left), self.evaluate(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._apply(_COMPARE[type(op)], [self.evaluate(left), self.evaluate(right)])
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, [self.evaluate(arg) for arg in args], [self._moves(arg) for arg in args])
        raise TypeError(f"`{ast.unparse(node)}` is no part of a jvp expression")

    def _negative(self, value: Term) -> Term:
        if value is None or isinstance(value, float):
            return None if value is None else -value
        return self._write("neg", value)

    def _binary(self, name: str, left: Term, right: Term) -> Term:
        if name in ("mul", "div") and (left is None or (right is None and name == "mul")):
            return None
        if name in ("add", "sub") and (left is None or right is None):
            return left if right is None else right if name == "add" else self._negative(right)
        return self._apply(name, [left, right])

    def _moves(self, node: ast.expr) -> bool:
        """Whether a part of the expression has a tangent in it: `dx` where there is an operand `x`."""
        names = (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
        return any(name.startswith("d") and name[1:] in self._names for name in names)

    def _call(self, name: str, args: Sequence[Term], moving: Sequence[bool]) -> Term:
        """What is applied to tangents is linear in all of them, so that it is zero where all are; beside one that is
        there, an absent one counts as the zero that it is."""
        if name == "where":
            return self._where(*args)
        absent = [arg is None for arg in args]
        if any(absent) and not any(there for there, is_none in zip(moving, absent, strict=True) if not is_none):
            return None
        return self._apply(name, [0.0 if arg is None else arg for arg in args])

    def _where(self, condition: Term, yes: Term, no: Term) -> Term:
        if yes is None and no is None:
            return None
        return self._apply("where", [condition, *(0.0 if term is None else term for term in (yes, no))])

    def _apply(self, name: str, args: Sequence[Term]) -> Value:
        like = next((ty for arg in args if isinstance(arg, Value) and is_smooth(ty := tensor_type(arg))), self._result)
        values = [self._write.number(arg, like) if isinstance(arg, float) else arg for arg in args]
        assert all(value is not None for value in values), f"{name} of a tangent that may be zero"
        return self._write(name, *(value for value in values if value is not None))
