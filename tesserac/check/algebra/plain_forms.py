"""One matrix, or one diagonal, for operators that are all made of such and differ in how.

Enters: two operators by their types, of which `joining.py` finds no common expression. Leaves: `dense` or `diag` with
one tensor, and each operator as that. It is never larger than what the operators hold already.

    dense, dense.H, dense ∘ dense, dense + I        dense
    diag, diag ∘ diag, inverse(diag), c * I, 0      diag
    2.0 * dense, dense.H                            c * dense: what has a number in front keeps one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Compose, Conjugate, Eye, Factor, Inverse, Scaled, Sum, Zero
from tesserac.check.algebra.elements import SAID
from tesserac.check.algebra.kinds import Adjoint, Dense, Diag
from tesserac.check.algebra.measures import diagonal
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.structured import Triangular, TriangularAdjoint
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.common_types import SameSize
from tesserac.check.values.tuples import make_value
from tesserac.types.algebra import Leaf
from tesserac.types.dims import Dim
from tesserac.types.ty import FloatType, OperatorType, TensorType, number_types

_COMBINED = (Adjoint, Conjugate, Scaled, Sum, Compose, Eye, Zero)
_MATRICES = (*_COMBINED, Dense, Triangular, TriangularAdjoint)
_DIAGONALS = (*_COMBINED, Diag, Inverse)


def plain_operator(same: SameSize, left: OperatorType, right: OperatorType) -> OperatorType | None:
    """The type that both have as a matrix or a diagonal; None where one is neither."""
    for plain, kinds, rank in ((Diag, _DIAGONALS, 1), (Dense, _MATRICES, 2)):
        if all(_is_made_of(side, kinds, same) for side in (left, right)):
            element = _common_element(left, right)
            sizes = [size for size in reversed(left.shape) if size is not None]
            if element is not None:
                tensor = replace(element, dims=tuple(sizes[:rank]))
                if any(_is_multiple(side.tree, plain) for side in (left, right)):
                    return OperatorType(Scaled(1.0, (Factor(Leaf(0)),), plain(Leaf(1))), (FloatType(), tensor))
                return OperatorType(plain(Leaf(0)), (tensor,))
    return None


def as_plain(body: Body, value: typed.Expr, type_: OperatorType) -> typed.Expr:
    """An operator as one that `plain_operator` found."""
    pool = Pool(body)
    tree, use = pool.take(value), Application(pool, Callee("operator", value.span, value.span))
    pool.said += [element.dtype.name for element in number_types(type_.leaves) if element.dtype.name in SAID]
    assert isinstance(tree, Kind)
    form = type_.tree.of if isinstance(type_.tree, Scaled) else type_.tree
    tensor = diagonal(use, tree) if isinstance(form, Diag) else tree.matrix_of(use)
    one = typed.Coerce(FloatType(), value.span, typed.Static(FloatType(1.0), value.span))
    return make_value(type_, [tensor] if form is type_.tree else [one, tensor], value.span)


def _is_multiple(tree: object, plain: type[Kind]) -> bool:
    return isinstance(tree, Scaled) and isinstance(tree.of, plain)


def _is_made_of(operator: OperatorType, kinds: tuple[type[Kind], ...], same: SameSize) -> bool:
    """Whether all parts of an operator are of these kinds and of its size, so that its tensor is of that size too."""
    inside = list(_kinds_in(operator.tree))
    pairs = [pair for part in inside for pair in zip(part.shape(operator.leaves), operator.shape, strict=True)]
    return all(isinstance(part, kinds) for part in inside) and all(_fit(same, *pair) for pair in pairs)


def _fit(same: SameSize, left: Dim | None, right: Dim | None) -> bool:
    return left is not None and right is not None and (left == right or same(left, right))


def _common_element(left: OperatorType, right: OperatorType) -> TensorType | None:
    """What tensors of both are of; multiples of the identity, which have none, take that of real ones."""
    having = [side for side in (left, right) if any(number_types(side.leaves))]
    numbers = list(dict.fromkeys(map(_element, having)))
    if len(numbers) != 1 or numbers[0] is None:
        return None
    takes = len(having) == 2 or (numbers[0].dtype.name in SAID and not numbers[0].dtype.is_complex)
    return numbers[0] if takes else None


def _element(operator: OperatorType) -> TensorType | None:
    """What tensors of an operator are of; None where they differ, or where there are none."""
    found = {replace(type_, dims=()) for type_ in number_types(operator.leaves) if type_.rank}
    numbers = {type_.dtype for type_ in number_types(operator.leaves) if type_.dtype.is_complex}
    return next(iter(found)) if len(found) == 1 and numbers <= {type_.dtype for type_ in found} else None


def _kinds_in(part: object) -> Iterator[Kind]:
    if isinstance(part, Kind):
        yield part
        part = tuple(getattr(part, field.name) for field in fields(part))  # type: ignore[arg-type]
    if isinstance(part, tuple):
        for item in part:
            yield from _kinds_in(item)
