"""An operator and its adjoint as one kind, so that a loop may carry the one and go on with the other.

Enters: an operator made of tensors, or the adjoint of such a one. Leaves: the same operator as the kind itself, of
other tensors, never larger ones but for the taps of a convolution, which become one for each place.

    dense(m).H        dense(m.H)            permutation(p).H      permutation(the inverse of p)
    coo(r, c, v).H    coo(c, r, conj(v))    toeplitz(c, r).H      toeplitz(conj(r), conj(c))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.base import Kind, Use
from tesserac.check.algebra.combined import size_at
from tesserac.check.algebra.kinds import Adjoint, Conv1d, Dense
from tesserac.check.algebra.structured import Banded, BlockSparse, Permutation, Placed, Toeplitz, ToeplitzAdjoint
from tesserac.check.model import typed
from tesserac.types.algebra import Leaf
from tesserac.types.ty import IntType, TensorType, Type

Values = Callable[[Use], Sequence[typed.Expr]]


@dataclass(frozen=True, eq=False)
class Upright:
    """`form` has as many leaves as there are `types`, in their order; `values` are what stands there."""

    form: Kind
    types: tuple[Type, ...]
    values: Values


def upright(tree: Kind, types: Sequence[Type]) -> Upright | None:
    """The operator as a kind that is no adjoint; None where it has no such form of tensors of a known size."""
    match tree:
        case Dense(matrix=leaf):
            return Upright(replace(tree, matrix=Leaf(0)), (types[leaf.index],), lambda use: [use.value(leaf)])
        case Adjoint(of=Dense(matrix=leaf) as of):
            called = _calls("measures._adjoint_matrix", leaf)
            return Upright(replace(of, matrix=Leaf(0)), (_with_dims(types[leaf.index], (1, 0)),), called)
        case Permutation(order=leaf, is_adjoint=is_adjoint):
            inverse = _calls("structured._inverse_order", leaf)
            own: Values = inverse if is_adjoint else lambda use: [use.value(leaf)]
            return Upright(Permutation(Leaf(0)), (types[leaf.index],), own)
        case Banded():
            return _banded(tree, types)
        case Placed():
            return _placed(tree, types)
        case Toeplitz(column=column, row=row):
            both = (types[column.index], types[row.index])
            return Upright(Toeplitz(Leaf(0), Leaf(1)), both, lambda use: [use.value(column), use.value(row)])
        case ToeplitzAdjoint(of=Toeplitz(column=column, row=row)):
            both = (types[row.index], types[column.index])
            return Upright(Toeplitz(Leaf(0), Leaf(1)), both, lambda use: _turned_edges(use, column, row))
        case Conv1d() as convolution:
            return _convolution(convolution, types, "structured._ring_of")
        case Adjoint(of=Conv1d() as convolution):
            return _convolution(convolution, types, "structured._turned_ring")
    return None


def _calls(function: str, leaf: Leaf) -> Values:
    return lambda use: [use.call(function, use.value(leaf))]


def _with_dims(type_: Type, order: Sequence[int]) -> Type:
    assert isinstance(type_, TensorType)
    return replace(type_, dims=tuple(type_.dims[place] for place in order))


def _banded(tree: Banded, types: Sequence[Type]) -> Upright:
    """As many diagonals stand below that of the adjoint as above that of the operator."""
    bands, upper = types[tree.bands.index], types[tree.upper.index]
    assert isinstance(bands, TensorType) and isinstance(upper, IntType)
    form, leaves = Banded(Leaf(0), Leaf(1)), (tree.bands, tree.upper)
    if not tree.is_adjoint:
        return Upright(form, (bands, upper), lambda use: [use.value(leaf) for leaf in leaves])
    above = IntType(bands.dims[0] - upper.value - 1)

    def values(use: Use) -> list[typed.Expr]:
        turned = use.call("structured._turned_bands", *(use.value(leaf) for leaf in leaves))
        return [turned, typed.Static(above, use.span)]

    return Upright(form, (bands, above), values)


def _placed(tree: Placed, types: Sequence[Type]) -> Upright:
    leaves = (tree.values, tree.rows, tree.columns, tree.domain, tree.codomain)
    own = [types[leaf.index] for leaf in leaves]
    places = {name: Leaf(place) for place, name in enumerate(("values", "rows", "columns", "domain", "codomain"))}
    form = replace(tree, **places, is_adjoint=False)
    if not tree.is_adjoint:
        return Upright(form, tuple(own), lambda use: [use.value(leaf) for leaf in leaves])
    is_blocks = isinstance(tree, BlockSparse)
    turned = _with_dims(own[0], (0, 2, 1)) if is_blocks else own[0]
    function = "structured._turned_blocks" if is_blocks else "structured._conjugated"

    def values(use: Use) -> list[typed.Expr]:
        first = use.call(function, use.value(tree.values))
        return [first, *(use.value(leaf) for leaf in (tree.columns, tree.rows, tree.domain, tree.codomain))]

    return Upright(form, (turned, own[2], own[1], own[3], own[4]), values)


def _turned_edges(use: Use, column: Leaf, row: Leaf) -> list[typed.Expr]:
    first = use.call("structured._turned_row", use.value(column), use.value(row))
    return [first, use.call("structured._conjugated", use.value(column))]


def _convolution(tree: Conv1d, types: Sequence[Type], function: str) -> Upright | None:
    taps, size = types[tree.taps.index], size_at(types, tree.size)
    if size is None or not isinstance(taps, TensorType):
        return None
    ring = replace(taps, dims=(size,))

    def values(use: Use) -> list[typed.Expr]:
        return [use.call(function, use.value(tree.taps), use.value(tree.size)), use.value(tree.size)]

    return Upright(Conv1d(Leaf(0), Leaf(1)), (ring, types[tree.size.index]), values)
