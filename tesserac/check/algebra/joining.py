"""One operator for what two ways leave under one name, as the iterations of a loop do.

Enters: two operators by their types. Leaves: the type that both have, and each as a value of it; or nothing, where they
are not made alike. What they are made of may differ, numbers in front become numbers of the run, and terms that need
nothing but a size may be on one side alone. What is made of matrices alone, or of diagonals, is one of these.

    A, 0.5 * A                 c * A
    A, 0.5 * A + 2.0 * I       c * A + b * I
    A, A.H                     A, of turned tensors: `upright.py`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from itertools import product
from typing import TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Factor, Scaled, Sum, Zero, canonical
from tesserac.check.algebra.plain_forms import as_plain, plain_operator
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.upright import upright
from tesserac.check.model import typed
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.common_types import SameSize, agree, converted
from tesserac.check.values.scalars import to_float
from tesserac.check.values.tuples import make_value, tuple_items
from tesserac.ops.complex import Conj
from tesserac.ops.elementwise import Add, Div, Mul
from tesserac.types.algebra import Leaf, leaves_of, mapped, renumbered
from tesserac.types.ty import FloatType, IntType, OperatorType, TensorType, Type

_Part = TypeVar("_Part")
Number = tuple[tuple[float, tuple[Factor, ...]], ...]
"""What stands in front of an operator: products of a known number and others, added; without any, 0."""


@dataclass(frozen=True)
class Turned:
    """What stands at one place of an operator that is taken as a kind that is no adjoint."""

    tree: Kind
    place: int


Source = Leaf | Number | Turned
"""Where a leaf of the common operator comes from on one side."""

_ONE: Number = ((1.0, ()),)
_MOST_TERMS = 4
"""More of them is not one operator that changes, but a sum that grows."""
_PROMISES = ("unitary", "self_adjoint", "psd", "normal")


class _DifferError(Exception):
    """The operators are not made alike."""


def common_operator(same: SameSize, left: OperatorType, right: OperatorType) -> OperatorType | None:
    """The type that both have; None where they are not made alike, nor both of matrices or diagonals."""
    try:
        return _Joining(same, left, right).type
    except _DifferError:
        return plain_operator(same, left, right)


def operator_as(body: Body, value: typed.Expr, type_: OperatorType) -> typed.Expr:
    """An operator as one of the type that it has in common with others."""
    assert isinstance(value.type, OperatorType)
    try:
        joining, items = _Joining(body.facts.same, type_, value.type), tuple_items(value, value.span)
    except _DifferError:
        return as_plain(body, value, type_)
    if joining.type != type_:
        return as_plain(body, value, type_)
    made = [_leaf_value(body, own, source, items, value) for own, (_, source) in joining.leaves]
    return make_value(type_, made, value.span)


class _Joining:
    """Two operators walked side by side: the leaves of both that meet are one."""

    def __init__(self, same: SameSize, left: OperatorType, right: OperatorType) -> None:
        self._same, self._types = same, (left.leaves, right.leaves)
        self._met: dict[tuple[Source, Source], Type] = {}
        self._ways: tuple[Callable[[Kind, Kind], Kind], ...] = (self._part, self._upright)
        if not all(map(self._fit, left.shape, right.shape)):
            raise _DifferError
        assert isinstance(left.tree, Kind) and isinstance(right.tree, Kind)
        tree = self._kind(left.tree, right.tree)
        needed, met = list(dict.fromkeys(leaves_of(tree))), list(self._met.items())
        self.leaves = [(met[place][1], met[place][0]) for place in needed]
        own = renumbered(tree, {place: i for i, place in enumerate(needed)}.__getitem__)
        self.type = OperatorType(own, tuple(leaf for leaf, _ in self.leaves))

    def _fit(self, left: object, right: object) -> bool:
        return left == right or (left is not None and right is not None and self._same(left, right))  # type: ignore[arg-type]

    def _kind(self, left: Kind, right: Kind) -> Kind:
        for join in self._ways:
            before = dict(self._met)
            try:
                return join(left, right)
            except _DifferError:
                self._met = before
        return self._combination(left, right)

    def _part(self, left: _Part, right: _Part) -> _Part:
        """Two parts of trees, field by field."""
        if isinstance(left, Leaf) and isinstance(right, Leaf):
            return self._leaf(left, right)  # type: ignore[return-value]
        if type(left) is not type(right):
            raise _DifferError
        if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            return tuple(map(self._nested, left, right))  # type: ignore[return-value]
        if is_dataclass(left) and not isinstance(left, type):
            made = {f.name: self._field(f.name, getattr(left, f.name), getattr(right, f.name)) for f in fields(left)}
            return replace(left, **made)
        if left != right:
            raise _DifferError
        return left

    def _field(self, name: str, left: object, right: object) -> object:
        if name == "dtype" and (left == "" or right == ""):
            return left or right
        return (left and right) if name in _PROMISES else self._nested(left, right)

    def _nested(self, left: object, right: object) -> object:
        if isinstance(left, Kind) and isinstance(right, Kind):
            return self._kind(left, right)
        return self._part(left, right)

    def _upright(self, left: Kind, right: Kind) -> Kind:
        """An operator and the adjoint of another of its kind, both as the kind itself. Promises hold of adjoints."""
        ours, theirs = upright(left, self._types[0]), upright(right, self._types[1])
        if ours is None or theirs is None or type(ours.form) is not type(theirs.form):
            raise _DifferError
        places = []
        for place, pair in enumerate(zip(ours.types, theirs.types, strict=True)):
            places.append(self._place((Turned(left, place), Turned(right, place)), self._common(*pair)))
        promises = {name: getattr(ours.form, name) and getattr(theirs.form, name)
                    for name in _PROMISES if hasattr(ours.form, name)}  # fmt: skip
        return replace(mapped(ours.form, lambda leaf: places[leaf.index]), **promises)  # type: ignore[type-var]

    def _leaf(self, left: Leaf, right: Leaf) -> Leaf:
        return self._place((left, right), self._common(self._types[0][left.index], self._types[1][right.index]))

    def _common(self, ours: Type, theirs: Type) -> Type:
        if isinstance(ours, IntType) and isinstance(theirs, IntType):
            type_: Type | None = ours if self._same(ours.value, theirs.value) else None
        else:
            type_ = agree(ours, theirs, self._same)
        if type_ is None:
            raise _DifferError
        return type_

    def _place(self, sources: tuple[Source, Source], type_: Type) -> Leaf:
        self._met.setdefault(sources, type_)
        return Leaf(list(self._met).index(sources))

    # ------------------------------------------------------------------------------------------ combinations

    def _combination(self, left: Kind, right: Kind) -> Kind:
        """Both as numbers times operators, of which those are paired that are made alike."""
        if not any(isinstance(side, Scaled | Sum | Zero) for side in (left, right)):
            raise _DifferError
        ours, theirs = _terms(left), _terms(right)
        joined = [self._paired(base, number, theirs) for base, number in ours.items()]
        joined += [self._weighted(self._alone(base, 1), (), number) for base, number in theirs.items()]
        if not 0 < len(joined) <= _MOST_TERMS:
            raise _DifferError
        return joined[0] if len(joined) == 1 else Sum(tuple(joined))

    def _paired(self, base: Kind, number: Number, others: dict[Kind, Number]) -> Kind:
        """A term with the first of the others that is made alike, which is taken from them."""
        for join, other in product(self._ways, tuple(others)):
            before = dict(self._met)
            try:
                return self._weighted(join(base, other), number, others.pop(other))
            except _DifferError:
                self._met = before
        return self._weighted(self._alone(base, 0), number, ())

    def _alone(self, base: Kind, side: int) -> Kind:
        """A term of one side, which the other has none of: it must need nothing that only a run knows."""
        for place in leaves_of(base):
            if not is_static(self._types[side][place]):
                raise _DifferError
        return renumbered(base, lambda place: self._place(_from_one(place, side), self._types[side][place]).index)

    def _weighted(self, base: Kind, left: Number, right: Number) -> Kind:
        if left == right == _ONE:
            return base
        if left == right and len(left) == 1 and not left[0][1]:
            return Scaled(left[0][0], (), base)
        type_ = self._number_type(left, right)
        return Scaled(1.0, (Factor(self._place((left, right), type_)),), base)

    def _number_type(self, *numbers: Number) -> Type:
        """A complex number where one of the factors is, else that of the factors that tensors are, else a float."""
        met = {self._types[side][factor.leaf.index] for side, number in enumerate(numbers)
               for _, factors in number for factor in factors}  # fmt: skip
        tensors = {type_ for type_ in met if isinstance(type_, TensorType)}
        found = {type_ for type_ in tensors if type_.dtype.is_complex} or tensors
        if len(found) > 1:
            raise _DifferError
        return found.pop() if found else FloatType()


def _from_one(place: int, side: int) -> tuple[Source, Source]:
    return ((), Leaf(place)) if side else (Leaf(place), ())


def _terms(tree: Kind) -> dict[Kind, Number]:
    """The operators that a sum is made of, each with its number."""
    found: dict[Kind, Number] = {}
    for term in tree.terms if isinstance(tree, Sum) else (tree,):
        own = term if isinstance(term, Scaled) else Scaled(1.0, (), term)
        if not isinstance(own.of, Zero):
            base = next((known for known in found if canonical(known) == canonical(own.of)), own.of)
            found[base] = (*found.get(base, ()), (own.coefficient, own.factors))
    return found


def _leaf_value(body: Body, type_: Type, source: Source, items: Sequence[typed.Expr], at: typed.Expr) -> typed.Expr:
    if is_static(type_):
        return typed.Static(type_, at.span)
    if isinstance(source, Leaf):
        return converted(body, items[source.index], type_)
    if isinstance(source, Turned):
        return converted(body, _turned_value(body, source, items, at), type_)
    found = _sum(body, [_product(body, coefficient, factors, items, at) for coefficient, factors in source], at)
    return found if found.type == type_ else typed.Coerce(type_, at.span, found)


def _turned_value(body: Body, source: Turned, items: Sequence[typed.Expr], at: typed.Expr) -> typed.Expr:
    pool = Pool(body)
    tree = renumbered(source.tree, [pool.add(item).index for item in items].__getitem__)
    found = upright(tree, pool.types)
    assert found is not None, "what was joined has this form"
    return found.values(Application(pool, Callee("operator", at.span, at.span)))[source.place]


def _product(
    body: Body, coefficient: float, factors: Iterable[Factor], items: Sequence[typed.Expr], at: typed.Expr
) -> typed.Expr:
    found: typed.Expr = typed.Static(FloatType(coefficient), at.span)
    for factor in factors:
        number = to_float(items[factor.leaf.index])
        if factor.conjugated:
            number = apply_operator(body, Conj(), [number], at.span, at.span)
        found = apply_operator(body, Div() if factor.reciprocal else Mul(), [found, number], at.span, at.span)
    return found


def _sum(body: Body, terms: Sequence[typed.Expr], at: typed.Expr) -> typed.Expr:
    if not terms:
        return typed.Static(FloatType(0.0), at.span)
    return reduce(lambda a, b: apply_operator(body, Add(), [a, b], at.span, at.span), terms)
