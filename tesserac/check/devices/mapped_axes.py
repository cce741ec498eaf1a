"""Which dims of arguments and results are mapped: what `in_axes` and `out_axes` say.

Enters: types of arguments, and axes: a position, the name of a dim, None, or a tuple of these. Leaves: the types of one
element, the place of the mapped dim in every tensor, and the one size that all these dims have; or a diagnostic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from tesserac.base.source import Span
from tesserac.base.spelling import closest
from tesserac.check.guards.undecided import undecided
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.settings import setting_span
from tesserac.diag.codes.differentiation import E0720, E0721, E0723
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import ZERO, Dim, DimError, parse_dim
from tesserac.types.leaves import leaf_types, run_time_type
from tesserac.types.ty import (
    Aggregate,
    DictType,
    FloatType,
    FunctionType,
    IntType,
    ListType,
    NoneType,
    RunIntType,
    StrType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
    parts,
    with_parts,
)

IN_AXES, OUT_AXES = "in_axes", "out_axes"
FRONT = IntType(ZERO)
Places = tuple[int | None, ...]
"""Where the mapped dim stands in each tensor of a value; None where there is none."""


class NoAxis(Exception):
    """There is a diagnostic."""


class MappedAxes:
    """Takes the mapped dim off one argument after the other. `size` is what all of them have, known from the first;
    `positional` are the arguments where none has a name."""

    def __init__(self, body: Body, callee: Callee, positional: Sequence[typed.Expr] = ()) -> None:
        self._body = body
        self._callee = callee
        self._positional = positional
        self._first: typed.Expr | None = None
        self.size: Dim | None = None

    def element(self, value: typed.Expr, axis: Type) -> tuple[Type, Places]:
        """The type of one element of an argument. Raises NoAxis."""
        if isinstance(value.type, FunctionType | TransformType) or isinstance(axis, NoneType):
            return value.type, (None,) * len(list(leaf_types(value.type)))
        places: list[int | None] = []
        return self._element(value, value.type, axis, places), tuple(places)

    def _element(self, value: typed.Expr, type_: Type, axis: Type, places: list[int | None]) -> Type:
        if isinstance(type_, ListType):
            self._body.unknown_count(type_.count, value.span)
            raise NoAxis
        if isinstance(axis, NoneType) or is_static(type_) or isinstance(type_, RunIntType | FloatType):
            places += [None] * len(list(leaf_types(type_)))
            return type_
        if isinstance(type_, TupleType | StructType | DictType):
            inner = parts(type_) or ()
            axes = self._per_part(value, axis, len(inner))
            items = zip(inner, axes, strict=True)
            return with_parts(type_, [self._element(value, item, own, places) for item, own in items])
        if not isinstance(type_, TensorType) or type_.is_scaled:
            self._refuse(value, f"a value of {type_text(type_)} has no dim to map", axis, "None")
        place = self._place(value, type_, axis)
        self._agree(value, type_.dims[place])
        places.append(place)
        return TensorType((*type_.dims[:place], *type_.dims[place + 1 :]), type_.dtype, type_.policy)

    def _per_part(self, value: typed.Expr, axis: Type, count: int) -> Sequence[Type]:
        if not isinstance(axis, TupleType):
            return [axis] * count
        if len(axis.items) != count:
            self._refuse(value, f"`in_axes` has {len(axis.items)} axes for a value of {count} parts", axis)
        return axis.items

    def _place(self, value: typed.Expr, type_: TensorType, axis: Type) -> int:
        if isinstance(axis, StrType | IntType) and not _is_position(axis):
            return self._named(value, type_, axis)
        if not isinstance(axis, IntType):
            self._refuse(value, f"an axis is a position, the name of a dim, or None, not {type_text(axis)}", axis)
        position = axis.value.constant
        assert position is not None
        if not type_.dims:
            self._refuse(value, "one number has no dim to map", axis, "None")
        if not -type_.rank <= position < type_.rank:
            self._refuse(value, f"{dims_text(type_.dims)} has no axis {position} to map", axis, str(type_.rank - 1))
        return position % type_.rank

    def _named(self, value: typed.Expr, type_: TensorType, axis: StrType | IntType) -> int:
        dim = _dim_of(self._body, axis)
        found = [place for place, own in enumerate(type_.dims) if self._body.facts.same(own, dim)]
        if len(found) == 1:
            return found[0]
        if found:
            problem = f"{dim_text(dim)} names {len(found)} dims of {dims_text(type_.dims)}"
            self._refuse(value, problem, axis, str(found[0]))
        at = setting_span(self._body, self._callee, IN_AXES, axis)
        name, dims = str(dim), dims_text(type_.dims)
        draft = self._body.sink.error(E0723, at=at or self._callee.at, name=name, dims=dims)
        draft.note(value.span, f"this has the dims {dims}")
        names = [str(own) for own in type_.dims if own.constant is None]
        if at is not None and closest(name, names) is not None:
            draft.did_you_mean(name, names, at, written='"{}"')
        elif at is not None and type_.dims:
            draft.replace("map its first dim, by position", at, "0")
        raise NoAxis

    def _agree(self, value: typed.Expr, dim: Dim) -> None:
        """All mapped dims have one size; where only a call tells, it is checked on entry."""
        body, first = self._body, self._first
        if self.size is None or first is None:
            self.size, self._first = dim, value
            return
        if body.facts.same(self.size, dim):
            return
        if body.may_agree(self.size, dim):
            body.add_guard("equal", self.size, dim, value.span, undecided(body, "equal", self.size, dim, value.span))
            return
        draft = body.sink.error(E0721, at=self._callee.at, left=dim_text(self.size), right=dim_text(dim))
        draft.note(first.span, f"the mapped dim of this is {dim_text(self.size)}")
        draft.note(value.span, f"the mapped dim of this is {dim_text(dim)}")
        self._suggest_axes(draft, value, first)
        raise NoAxis

    def _suggest_axes(self, draft: Draft, *values: typed.Expr) -> None:
        """One of the arguments is the same for all elements."""
        text, at = self._body.rules.text(self._callee.at), self._callee.at
        if text.startswith("vmap(") and IN_AXES not in text and self._positional:
            for value in values:
                axes = ", ".join("None" if other is value else "0" for other in self._positional)
                title = f"{self._body.rules.text(value.span)} is the same for all elements"
                draft.fix(title, Edit(Span(at.file, at.end - 1, at.end - 1), f", {IN_AXES}=({axes})"))
        else:
            draft.fix("give what is the same for all elements the axis None: `in_axes=(0, None)`")

    def _refuse(self, value: typed.Expr, problem: str, axis: Type, instead: str = "") -> NoReturn:
        at = setting_span(self._body, self._callee, IN_AXES, axis)
        draft = self._body.sink.error(E0720, at=at or self._callee.at, problem=problem)
        draft.note(value.span, f"this is {type_text(value.type)}")
        if isinstance(value.type, TupleType) and len({*value.type.items}) == 1:  # as the keys that `split` gives
            draft.replace("make one tensor of them", value.span, f"stack({self._body.rules.text(value.span)})")
        if instead:
            title = f"give it the axis {instead}"
            draft.fix(title) if at is None else draft.replace(title, at, instead)
        raise NoAxis


def _is_position(axis: Type) -> bool:
    return isinstance(axis, IntType) and axis.value.constant is not None


def _dim_of(body: Body, axis: StrType | IntType) -> Dim:
    if isinstance(axis, IntType):
        return axis.value
    try:
        return parse_dim(axis.value).substitute(body.sizes.symbols)
    except DimError:
        return Dim.sym(axis.value)


def whole_type(body: Body, callee: Callee, type_: Type, axis: Type, size: Dim) -> tuple[Type, Places]:
    """The type of all elements of a result, and where the mapped dim stands in each of its tensors; what is known while
    compiling is the same for all, and stays. Raises NoAxis."""
    places: list[int | None] = []
    return _whole(body, callee, type_, axis, size, places), tuple(places)


def _whole(body: Body, callee: Callee, type_: Type, axis: Type, size: Dim, places: list[int | None]) -> Type:
    if is_static(type_):
        return type_
    if isinstance(axis, NoneType):
        places += [None] * len(list(leaf_types(type_)))
        return type_
    if isinstance(type_, ListType):
        return ListType(type_.count, _whole(body, callee, type_.item, axis, size, places))
    if isinstance(type_, Aggregate):
        inner = parts(type_) or ()
        axes = axis.items if isinstance(axis, TupleType) else [axis] * len(inner)
        if len(axes) != len(inner):
            problem = f"`out_axes` has {len(axes)} axes for a result of {len(inner)} parts"
            body.sink.error(E0720, at=callee.at, problem=problem).fix("give one axis for all, or one for each part")
            raise NoAxis
        items = zip(inner, axes, strict=True)
        return with_parts(type_, [_whole(body, callee, item, own, size, places) for item, own in items])
    tensor = run_time_type(type_) if isinstance(type_, RunIntType | FloatType) else type_
    if not isinstance(tensor, TensorType) or tensor.is_scaled:
        body.sink.error(E0720, at=callee.at, problem=f"a result of {type_text(type_)} cannot have a mapped dim")
        raise NoAxis
    rank = tensor.rank + 1
    position = axis.value.constant if isinstance(axis, IntType) else None
    if position is None or not -rank <= position < rank:
        _report_out(body, callee, axis, rank)
        raise NoAxis
    place = position % rank
    places.append(place)
    return TensorType((*tensor.dims[:place], size, *tensor.dims[place:]), tensor.dtype, tensor.policy)


def _report_out(body: Body, callee: Callee, axis: Type, rank: int) -> None:
    """No place for the mapped dim in a result of this many dims, that one counted."""
    where = "0" if rank == 1 else f"0 to {rank - 1}"
    said = str(axis.value) if isinstance(axis, IntType) else "a name" if isinstance(axis, StrType) else type_text(axis)
    at = setting_span(body, callee, OUT_AXES, axis)
    problem = f"`{OUT_AXES}` is a position in the result, {where}, not {said}"
    draft = body.sink.error(E0720, at=at or callee.at, problem=problem)
    draft.fix("put the mapped dim first") if at is None else draft.replace("put the mapped dim first", at, "0")


def axes_per_argument(axes: Type, by_position: int, by_name: int) -> Iterator[Type] | None:
    """What `in_axes` says of each argument; None where it says it of another number of them. A tuple may leave out
    those that are given by name, behind the others: then their first dims are mapped."""
    if not isinstance(axes, TupleType):
        return iter([axes] * (by_position + by_name))
    if len(axes.items) == by_position:
        return iter([*axes.items, *[FRONT] * by_name])
    return iter(axes.items) if len(axes.items) == by_position + by_name else None
