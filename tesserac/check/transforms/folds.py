"""Functions that go over a dim in order: `scan(f, init, xs)`, `reduce(f, init, xs)`.

Enters: a function, what it carries, and values with a first dim. Leaves: one loop, or a diagnostic:

    carry, ys = scan(f, init, xs)          carry, ys = init, zeros(N, ...)
                                           for i in range(N):
                                               carry, y = f(carry, xs[i])
                                               ys[i] = y

A list of equal structs is stacked first, so that it is one loop too. `reverse=True` goes from the last element to the
first, and puts each result in the place of its element; `axis=` goes over another dim than the first; `checkpoint=k`
keeps the state of every k-th iteration for a derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.devices.mapped_axes import FRONT, MappedAxes, NoAxis, whole_type
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.statics import read_size
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.evaluation import apart
from tesserac.check.transforms.checkpoints import memory_of_every, memory_of_sizes
from tesserac.check.transforms.derivatives import Call, require_function
from tesserac.check.transforms.wrt import function_name
from tesserac.check.values.common_types import converted, meet
from tesserac.check.values.tuples import item_of, make_tuple, make_value, tuple_items
from tesserac.diag.codes.differentiation import E0724
from tesserac.diag.codes.names import E0205, E0210
from tesserac.ops.create import Zeros
from tesserac.ops.join import Stack
from tesserac.ops.shape import Permute, Reshape, Slice
from tesserac.ops.update import Insert
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    ErrorType,
    IntType,
    NoneType,
    StructType,
    TensorType,
    TupleType,
    Type,
    parts,
    with_parts,
)

_SLOTS = tuple(Slot(name, True, False) for name in ("f", "init", "xs"))
_SETTINGS = tuple(Slot(name, False, True) for name in ("length", "reverse", "axis", "checkpoint"))


def scan(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`carry, ys = scan(f, init, xs)`: f takes what is carried and an element, and gives what is carried on and a
    result. Without xs, `length=` says how many iterations there are."""
    return _fold(body, args, callee, call, gives_results=True)


def reduce(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`reduce(f, init, xs)`: f takes what is carried and an element, and gives what is carried on."""
    return _fold(body, args, callee, call, gives_results=False)


def _fold(body: Body, args: Sequence[Arg], callee: Callee, call: Call, *, gives_results: bool) -> typed.Expr:
    given = sort_arguments(body, callee, args, (*_SLOTS, *_SETTINGS))
    if given is None or not require_function(body, given["f"], callee):
        return body.error(callee.span)
    try:
        xs, element, size = _elements(body, given, callee)
        way = _Way(_is_reverse(given, body), _memory(given, body, callee))
        iteration = _Iteration(body, given["f"], callee, call, xs, element, gives_results, way)
        carry = _started(iteration, given["init"])
        return iteration.loop(carry, size)
    except NoAxis:
        return body.error(callee.span)


def _elements(body: Body, given: dict[str, typed.Expr], callee: Callee) -> tuple[typed.Expr, Type, Dim]:
    """What is gone over, the type of one element, and how many there are."""
    xs = _stacked(given["xs"])
    axes = MappedAxes(body, callee)
    axis = given.get("axis")
    element, places = axes.element(xs, FRONT if axis is None else axis.type)
    xs = _fronted(xs, iter(places))
    length = read_size(body, given["length"]) if "length" in given else None
    size = length if axes.size is None else axes.size
    if size is None:
        problem = f"`{callee.name}` goes over the first dim of `xs`, which has none"
        body.sink.error(E0205, at=callee.at, problem=problem).remark("`length=` says how many iterations there are")
        raise NoAxis
    return xs, element, size


def _fronted(xs: typed.Expr, places: Iterator[int | None]) -> typed.Expr:
    """What is gone over with that dim first in every tensor."""
    type_ = xs.type
    if isinstance(type_, TensorType):
        place = next(places)
        if not place:
            return xs
        order = (place, *(axis for axis in range(type_.rank) if axis != place))
        moved = TensorType(tuple(type_.dims[axis] for axis in order), type_.dtype, type_.policy)
        return typed.Apply(moved, xs.span, Permute(order), (xs,))
    if is_static(type_) or not isinstance(type_, Aggregate):
        return xs
    items = [_fronted(item, places) for item in tuple_items(xs, xs.span)]
    return make_value(_like(type_, items), items, xs.span)


def _is_reverse(given: dict[str, typed.Expr], body: Body) -> bool:
    value = given.get("reverse")
    if value is None or isinstance(value.type, BoolType):
        return value is not None and isinstance(value.type, BoolType) and value.type.value
    body.sink.error(E0210, at=value.span, expected="True or False", found=type_text(value.type))
    raise NoAxis


def _memory(given: dict[str, typed.Expr], body: Body, callee: Callee) -> typed.LoopMemory | None:
    """What a derivative may keep: as said here, or by the `with checkpoint(...)` that the call stands in."""
    value = given.get("checkpoint")
    if value is None:
        return memory_of_sizes(body, callee.span)
    memory = memory_of_every(body, value)
    if memory is None:
        raise NoAxis
    return memory


def _stacked(xs: typed.Expr) -> typed.Expr:
    """A list of equal structs as one struct, whose tensors have a dim more."""
    type_ = xs.type
    if not isinstance(type_, TupleType) or len(set(type_.items)) != 1 or not isinstance(type_.items[0], StructType):
        return xs
    return _stack(tuple_items(xs, xs.span), xs.span)


def _stack(values: Sequence[typed.Expr], span: Span) -> typed.Expr:
    first = values[0].type
    if is_static(first):
        return values[0]
    if isinstance(first, TensorType):
        whole = TensorType((Dim.const(len(values)), *first.dims), first.dtype, first.policy)
        return typed.Apply(whole, span, Stack(0), tuple(values))
    assert isinstance(first, Aggregate)
    rows = zip(*(tuple_items(value, span) for value in values), strict=True)
    items = [_stack(row, span) for row in rows]
    return make_value(_like(first, items), items, span)


def _like(type_: Aggregate, items: Sequence[typed.Expr]) -> Aggregate:
    return with_parts(type_, (item.type for item in items))


def _started(iteration: _Iteration, init: typed.Expr) -> typed.Expr:
    """What is carried at first, with the type that an iteration gives; a number takes the type that it meets there."""
    while True:
        found = iteration.carried_type(init.type)
        both = meet(iteration.body, init.type, found)
        if both == init.type:
            return init
        if both is None:
            break
        init = converted(iteration.body, init, both)
    types = {"before": type_text(init.type), "after": type_text(found)}
    draft = iteration.body.sink.error(E0724, at=iteration.callee.at, **types)
    draft.note(init.span, f"it starts as {type_text(init.type)}")
    draft.fix(f"start with {type_text(found)}, or give back {type_text(init.type)} in every iteration")
    raise NoAxis


@dataclass(frozen=True)
class _Way:
    """How a loop goes: from the last element to the first, and with what it keeps for a derivative."""

    is_reverse: bool
    memory: typed.LoopMemory | None

    def place(self, index: str, size: Dim) -> Dim:
        """Which element an iteration takes."""
        return size - ONE - Dim.sym(index) if self.is_reverse else Dim.sym(index)


@dataclass(frozen=True)
class _Iteration:
    """One iteration of the loop: the function, called with what is carried and an element."""

    body: Body
    function: typed.Expr
    callee: Callee
    call: Call
    xs: typed.Expr
    element: Type
    gives_results: bool
    way: _Way

    @property
    def _span(self) -> Span:
        return self.callee.span

    def _name(self, what: str) -> str:
        return f"{what} of {self._span.start}"

    def _local(self, what: str, type_: Type) -> typed.Expr:
        return typed.Static(type_, self._span) if is_static(type_) else typed.Local(type_, self._span, self._name(what))

    def _called(self, carry: Type) -> typed.Expr:
        given = [self._local("carry", carry), self._local("element", self.element)]
        args = [Arg(None, v.span, v) for v in given]
        value = apart(self.body, lambda: self.call(self.body, self.function, args, self.callee))
        if isinstance(value.type, ErrorType):
            raise NoAxis
        if self.gives_results and not (isinstance(value.type, TupleType) and len(value.type.items) == 2):
            problem = f"what {function_name(self.function.type)} gives is a pair: what is carried on, and a result"
            draft = self.body.sink.error(E0205, at=self.callee.at, problem=problem)
            draft.remark(f"it gives {type_text(value.type)}; `reduce` carries without results")
            raise NoAxis
        return value

    def carried_type(self, carry: Type) -> Type:
        """What an iteration carries on of a value of this type."""
        type_ = self._called(carry).type
        return type_.items[0] if self.gives_results and isinstance(type_, TupleType) else type_

    def loop(self, init: typed.Expr, size: Dim) -> typed.Expr:
        """All iterations, as an expression."""
        span, index = self._span, f"scan_{self._span.start}"
        value = self._called(init.type)
        outcome = typed.Local(value.type, span, self._name("outcome"))
        result = item_of(outcome, 1, span) if self.gives_results else typed.Static(NoneType(), span)
        stacks, _ = whole_type(self.body, self.callee, result.type, FRONT, size)
        carried = [typed.Carried(self._name("carry"), init.type), typed.Carried(self._name("results"), stacks)]
        starts = [init, _empty(stacks, span)]
        place = self.way.place(index, size)
        row = _row(self._local("xs", self.xs.type), self.element, place, span)
        goes_on = converted(self.body, item_of(outcome, 0, span) if self.gives_results else outcome, init.type)
        pushed = _pushed(self._local("results", stacks), result, place, span)
        iteration = [("element", row), ("outcome", value), ("carry", goes_on), ("results", pushed)]
        bounds = [typed.Static(IntType(bound), span) for bound in (ZERO, size)]
        loop = typed.For(
            span, index, bounds[0], bounds[1], 1,
            tuple(typed.Bind(span, self._name(what), value) for what, value in iteration),
            tuple(carried), self.way.memory,
        )  # fmt: skip
        named = [self._name("xs"), *(own.name for own in carried)]
        bindings = [typed.Bind(span, *pair) for pair in zip(named, (self.xs, *starts), strict=True)]
        last = self._local("carry", init.type)
        outcome_of_all = make_tuple([last, self._local("results", stacks)], span) if self.gives_results else last
        return typed.Let(outcome_of_all.type, span, (*bindings, loop), outcome_of_all)


def _row(xs: typed.Expr, element: Type, index: Dim, span: Span) -> typed.Expr:
    """One element of what is gone over."""
    if is_static(xs.type):
        return xs
    if isinstance(element, TensorType):
        thin = TensorType((ONE, *element.dims), element.dtype, element.policy)
        cut = Slice((index, *[ZERO] * element.rank), thin.dims, (1,) * thin.rank)
        return typed.Apply(element, span, Reshape(element.dims), (typed.Apply(thin, span, cut, (xs,)),))
    assert isinstance(element, Aggregate)
    pairs = zip(tuple_items(xs, span), parts(element) or (), strict=True)
    return make_value(element, [_row(own, type_, index, span) for own, type_ in pairs], span)


def _empty(stacks: Type, span: Span) -> typed.Expr:
    """Results before any iteration has given one."""
    if is_static(stacks):
        return typed.Static(stacks, span)
    if isinstance(stacks, TensorType):
        return typed.Apply(stacks, span, Zeros(stacks.dims, stacks.dtype, stacks.policy), ())
    assert isinstance(stacks, Aggregate)
    return make_value(stacks, [_empty(part, span) for part in parts(stacks) or ()], span)


def _pushed(stacks: typed.Expr, result: typed.Expr, index: Dim, span: Span) -> typed.Expr:
    """Results with that of one iteration in its place."""
    type_ = stacks.type
    if is_static(type_):
        return stacks
    if isinstance(type_, TensorType):
        thin = TensorType((ONE, *type_.dims[1:]), type_.dtype, type_.policy)
        one = TensorType(type_.dims[1:], type_.dtype, type_.policy)
        value = result if isinstance(result.type, TensorType) else typed.Coerce(one, span, result)
        row = typed.Apply(thin, span, Reshape(thin.dims), (value,))
        insert = Insert((index, *[ZERO] * one.rank), (1,) * type_.rank)
        return typed.Apply(type_, span, insert, (stacks, row))
    assert isinstance(type_, Aggregate)
    pairs = zip(tuple_items(stacks, span), tuple_items(result, span), strict=True)
    return make_value(type_, [_pushed(own, value, index, span) for own, value in pairs], span)
