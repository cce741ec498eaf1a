"""Interval analysis: between what the values of a checked function lie.

Enters: a typed function and what is known of its arguments. Leaves: the ranges of what it returns, and of every
operator's operands and result to whoever watches. Calls are followed into their bodies, or the function states its
range (`@within`); a side that moves in an iteration of a loop is given up, and what loops of the library carry has the
range of its type: algorithms such as an eigenvalue decomposition bound nothing. Arguments are taken to be finite.

Two relations are followed besides, since programs live by them: `x - max(x)` is never positive, `x * x` never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.check.model import typed
from tesserac.check.sizes.facts import Facts
from tesserac.numerics import interval
from tesserac.numerics.interval import ANYTHING, INF, TRUTH, UNBOUNDED, Interval, hull, point, stored, widened
from tesserac.ops.elementwise import Mul, Sub
from tesserac.ops.reduce import Max
from tesserac.ops.registry import Extent
from tesserac.types.dims import ZERO, Dim, DimError
from tesserac.types.dtype import F64
from tesserac.types.leaves import run_time_type
from tesserac.types.ty import Aggregate, BoolType, FloatType, IntType, RunIntType, TensorType, Type, parts

MAX_DEPTH = 16
"""Calls within calls that are followed."""
MAX_CALLS = 32
"""Ranges with which one function is run; of further calls only the type is known."""
MAX_ITERATIONS = 8
LARGEST_SIZE = 2**40
"""No tensor has a dim as long: a size is bounded if it is below this."""


@dataclass(frozen=True, eq=False)
class Ranged:
    """One tensor or number. Compared by identity: a name read twice is the same value."""

    range: Interval
    maximum_of: Ranged | None = None


Value = Ranged | tuple["Value", ...]
Find = Callable[[str], typed.TypedFunction | None]


class Watch(Protocol):
    """Sees what a function computes, each place once."""

    def applied(self, expression: typed.Apply, operands: Sequence[Interval], exact: Interval) -> None:
        """`exact` is the range of the result before it is rounded to its dtype."""

    def coerced(self, expression: typed.Coerce, value: Interval) -> None: ...

    def bound(self, name: str, value: typed.Expr, range_: Interval) -> None:
        """A name of the function is this value from here on."""


def extent_of(facts: Facts) -> Extent:
    """What is known of sizes: loop indices may be negative, and few sizes have an upper bound."""

    @cache
    def extent(dim: Dim) -> Interval:
        if dim.constant is not None:
            return point(float(dim.constant))
        return Interval(0.0 if facts.surely_at_least(dim, ZERO) else -INF, _upper_bound(facts, dim))

    return extent


def _upper_bound(facts: Facts, dim: Dim) -> float:
    """The least number that a size is known not to exceed, found by asking."""
    if not facts.surely_at_least(Dim.const(LARGEST_SIZE), dim):
        return INF
    low, high = -1, LARGEST_SIZE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if facts.surely_at_least(Dim.const(middle), dim) else (middle, high)
    return float(high)


def of_type(ty: Type) -> Value:
    """An argument of which only the type is known."""
    if isinstance(ty, Aggregate):
        return tuple(map(of_type, parts(ty) or ()))
    if isinstance(ty, TensorType):
        return Ranged(_elements(ty))
    return Ranged(UNBOUNDED if isinstance(ty, FloatType | RunIntType) else ANYTHING)


def _tensor(ty: Type) -> TensorType:
    """What an operator sees of a value: a number without a dtype is a tensor to it."""
    return ty if isinstance(ty, TensorType) else run_time_type(ty) or TensorType((), F64)


def _elements(ty: TensorType) -> Interval:
    if ty.dtype.is_complex or ty.is_scaled:
        return ANYTHING
    return TRUTH if ty.dtype.kind == "b" else Interval(0.0 if ty.dtype.kind == "u" else -INF, INF)


def ranges_of(value: Value) -> tuple[Interval, ...]:
    """The ranges of the leaves of a value."""
    return (value.range,) if isinstance(value, Ranged) else tuple(r for item in value for r in ranges_of(item))


def _join(left: Value, right: Value, how: Callable[[Interval, Interval], Interval]) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(_join(a, b, how) for a, b in zip(left, right, strict=True))
    assert isinstance(left, Ranged) and isinstance(right, Ranged)
    return left if left is right else Ranged(how(left.range, right.range))


def _hull(left: Value, right: Value) -> Value:
    return _join(left, right, lambda a, b: hull((a, b)))


def _loop_key(body: typed.Block, names: Mapping[str, Value]) -> object:
    return id(body), tuple((name, ranges_of(value)) for name, value in names.items())


def _another(value: Value) -> Value:
    """A value of the same range that need not be the same."""
    return tuple(map(_another, value)) if isinstance(value, tuple) else Ranged(value.range)


@dataclass
class Ranges:
    """Runs functions on ranges. `size_range` is of the outermost function's sizes, in which `sizes` are those of the
    one being run; `known` remembers the calls of each function, `settled` the loops of this one."""

    find: Find
    size_range: Extent
    watch: Watch | None = None
    sizes: Mapping[str, Dim] = field(default_factory=dict)
    known: dict[str, dict[object, Value]] = field(default_factory=dict)
    depth: int = 0
    follows_loops: bool = True
    settled: dict[object, dict[str, Value]] = field(default_factory=dict)
    met: dict[int, Mapping[str, Value]] = field(default_factory=dict)
    """What each loop was met with last."""
    shared: dict[tuple[int, int], tuple[Value, Mapping[str, Value]]] = field(default_factory=dict)
    """What the expressions of the statement being run are, each with the names that it was run with: the fields of a
    struct are items of one expression, which is run once."""

    def extent(self, dim: Dim) -> Interval:
        try:
            return self.size_range(dim.substitute(self.sizes))
        except DimError:
            return ANYTHING

    def function(self, function: typed.TypedFunction, args: Sequence[Value] | None = None) -> Value:
        """What it returns, for arguments of which nothing but the type is known unless said."""
        given = [of_type(param.type) for param in function.params] if args is None else args
        names = {param.name: value for param, value in zip(function.params, given, strict=True)}
        returned = self._statements(function.body, names)
        return of_type(function.result) if returned is None else returned

    # ------------------------------------------------------------------------------------------- statements

    def _statements(self, block: typed.Block, names: dict[str, Value]) -> Value | None:
        for statement in block:
            returned = self._statement(statement, names)
            if returned is not None:
                return returned
        return None

    def _statement(self, statement: typed.Stmt, names: dict[str, Value]) -> Value | None:
        around, self.shared = self.shared, {}
        try:
            return self._run(statement, names)
        finally:
            self.shared = around

    def _run(self, statement: typed.Stmt, names: dict[str, Value]) -> Value | None:
        match statement:
            case typed.Bind():
                value = names[statement.name] = self._value(statement.value, names)
                if self.watch is not None and isinstance(value, Ranged):
                    self.watch.bound(statement.name, statement.value, value.range)
            case typed.BindTuple():
                value = self._value(statement.value, names)
                items = value if isinstance(value, tuple) else [of_type(t) for t in parts(statement.value.type) or ()]
                names.update(zip(statement.names, items, strict=True))
            case typed.Return():
                return (self._value if self.watch is None else self._unread)(statement.value, names)
            case typed.If():
                return self._if(statement, names)
            case typed.For():
                self._loop(statement.body, None, statement.carried, names)
            case typed.While():
                self._loop(statement.body, statement.test, statement.carried, names)
            case _:
                self._effect(statement, names)
        return None

    def _effect(self, statement: typed.Stmt, names: Mapping[str, Value]) -> None:
        match statement:
            case typed.Evaluate(value=value) | typed.Assert(test=value):
                self._value(value, names)
            case typed.Print(pieces=pieces):
                for piece in pieces:
                    if isinstance(piece, typed.Shown):
                        self._value(piece.value, names)

    def _if(self, statement: typed.If, names: dict[str, Value]) -> Value | None:
        self._value(statement.test, names)
        then, otherwise = dict(names), dict(names)
        left, right = self._statements(statement.then, then), self._statements(statement.otherwise, otherwise)
        if left is not None and right is not None:
            return _hull(left, right)
        names.update((c.name, _hull(then[c.name], otherwise[c.name])) for c in statement.results)
        return None

    def _loop(
        self,
        body: typed.Block,
        test: typed.Expr | None,
        carried: Sequence[typed.Carried],
        names: dict[str, Value],
    ) -> None:
        """What is carried is what the first iteration starts with or any other ends with. Of a loop that is met again
        with the same ranges, as in every iteration of one around it, that is known. One that is met with others is run
        with what holds all that it was met with: ranges that grow at each level would be as many as the product of
        what each level tries."""
        if not self.follows_loops:
            names.update((c.name, of_type(c.type)) for c in carried)
            return
        start = dict(names)
        met = self.met.get(id(body))
        if met is not None and _loop_key(body, start) not in self.settled:
            start.update((name, _join(met[name], value, widened)) for name, value in names.items() if name in met)
        self.met[id(body)] = start
        key = _loop_key(body, start)
        known = self.settled.get(key)
        if known is None:
            known = self.settled[key] = self._settle(body, test, carried, dict(start))
            names.update(known)
        else:
            names.update((name, _another(value)) for name, value in known.items())
        if self.watch is not None:
            self._iteration(body, test, names)

    def _settle(
        self,
        body: typed.Block,
        test: typed.Expr | None,
        carried: Sequence[typed.Carried],
        names: dict[str, Value],
    ) -> dict[str, Value]:
        """Iterations are tried, unwatched, until what is carried stays within its range."""
        watch, self.watch = self.watch, None
        before = dict(names)
        for iteration in range(MAX_ITERATIONS + 1):
            inner = self._iteration(body, test, names)
            grown = {c.name: _join(names[c.name], inner[c.name], widened) for c in carried}
            stable = all(ranges_of(grown[c.name]) == ranges_of(names[c.name]) for c in carried)
            names.update(grown if iteration < MAX_ITERATIONS else {c.name: of_type(c.type) for c in carried})
            if stable:
                break
        inner = self._iteration(body, test, names)
        self.watch = watch
        return {c.name: _hull(before[c.name], inner[c.name]) for c in carried}

    def _iteration(self, body: typed.Block, test: typed.Expr | None, names: Mapping[str, Value]) -> dict[str, Value]:
        inner = dict(names)
        if test is not None:
            self._value(test, inner)
        self._statements(body, inner)
        return inner

    # ------------------------------------------------------------------------------------------ expressions

    def _unread(self, expression: typed.Expr, names: Mapping[str, Value]) -> Value:
        """What a function that is watched returns: nobody asks for its range, so what it calls last is not run."""
        match expression:
            case typed.TupleOf():
                return tuple(self._unread(item, names) for item in expression.items)
            case typed.Call():
                for arg in expression.args:
                    self._value(arg, names)
                return of_type(expression.type)
        return self._value(expression, names)

    def _value(self, expression: typed.Expr, names: Mapping[str, Value]) -> Value:
        if isinstance(expression, typed.Static):
            return self._constant(expression.type)
        if isinstance(expression, typed.Local):
            return names.get(expression.name) or of_type(expression.type)
        key = (id(expression), id(names))
        if key not in self.shared:
            self.shared[key] = (self._compute(expression, names), names)
        return self.shared[key][0]

    def _compute(self, expression: typed.Expr, names: Mapping[str, Value]) -> Value:
        match expression:
            case typed.Coerce():
                return self._coerce(expression, names)
            case typed.Apply():
                return self._apply(expression, names)
            case typed.Call():
                return self._call(expression, names)
            case typed.TupleOf():
                return tuple(self._value(item, names) for item in expression.items)
            case typed.Item():
                value = self._value(expression.value, names)
                return value[expression.index] if isinstance(value, tuple) else of_type(expression.type)
            case typed.Conditional():
                self._value(expression.test, names)
                return _hull(self._value(expression.then, names), self._value(expression.otherwise, names))
            case typed.Let() | typed.Checkpoint():
                inner = dict(names)
                self._statements(expression.bindings if isinstance(expression, typed.Let) else (), inner)
                return self._value(expression.value, inner)
        return of_type(expression.type)

    def _constant(self, ty: Type) -> Value:
        match ty:
            case IntType(value=dim):
                return Ranged(self.extent(dim))
            case FloatType(value=float(value)):
                return Ranged(point(value))
            case BoolType(value=value):
                return Ranged(point(float(value)))
        return tuple(map(self._constant, parts(ty) or ())) if isinstance(ty, Aggregate) else of_type(ty)

    def _coerce(self, expression: typed.Coerce, names: Mapping[str, Value]) -> Value:
        value = self._leaf(expression.value, names)
        if self.watch is not None:
            self.watch.coerced(expression, value.range)
        if not isinstance(expression.type, TensorType):
            return value
        return Ranged(_rounded(value.range, expression.type))

    def _leaf(self, expression: typed.Expr, names: Mapping[str, Value]) -> Ranged:
        value = self._value(expression, names)
        return value if isinstance(value, Ranged) else Ranged(ANYTHING)

    def _apply(self, expression: typed.Apply, names: Mapping[str, Value]) -> Value:
        operands = [self._leaf(operand, names) for operand in expression.operands]
        types = [_tensor(operand.type) for operand in expression.operands]
        result = _tensor(expression.type)
        if result.is_scaled or any(ty.is_scaled for ty in types):
            return of_type(result)
        exact = self._exact(expression, operands, types)
        if self.watch is not None:
            self.watch.applied(expression, [operand.range for operand in operands], exact)
        return Ranged(_rounded(exact, result), operands[0] if isinstance(expression.op, Max) else None)

    def _exact(self, expression: typed.Apply, operands: Sequence[Ranged], types: Sequence[TensorType]) -> Interval:
        ranges = [operand.range for operand in operands]
        if isinstance(expression.op, Mul) and operands[0] is operands[1]:
            return interval.square(ranges[0])
        exact = expression.op.bounds(ranges, types, self.extent)
        aligned = len(types) == 2 and types[1].rank in (0, types[0].rank)
        if isinstance(expression.op, Sub) and operands[1].maximum_of is operands[0] and aligned:
            return replace(exact, high=min(exact.high, 0.0))
        return exact

    def _call(self, call: typed.Call, names: Mapping[str, Value]) -> Value:
        args = [self._value(arg, names) for arg in call.args]
        function = self.find(call.function)
        if function is None or self.depth >= MAX_DEPTH:
            return of_type(call.type)
        if function.within is not None:
            return Ranged(_promised(function.within, [r for arg in args for r in ranges_of(arg)]))
        sizes = {name: dim.substitute(self.sizes) for name, dim in call.dims}
        known, key = self.known.setdefault(call.function, {}), (tuple(sizes.items()), tuple(map(ranges_of, args)))
        if key not in known and len(known) >= MAX_CALLS:
            return of_type(call.type)
        if key not in known:
            follows_loops = not of_library(function.span.file)
            inner = Ranges(self.find, self.size_range, None, sizes, self.known, self.depth + 1, follows_loops)
            known[key] = inner.function(function, args)
        return known[key]


def _promised(ends: tuple[float, float], args: Sequence[Interval]) -> Interval:
    """What a function says of its results holds for numbers that are finite."""
    sound = all(r.finite and not r.nan for r in args)
    return Interval(*ends) if sound else Interval(*ends, finite=False, nan=True)


def _rounded(exact: Interval, ty: TensorType) -> Interval:
    if ty.policy.stochastic_round and exact.is_bounded:
        step = exact.magnitude * 2.0 ** (1 - ty.dtype.significand)
        exact = replace(exact, low=exact.low - step, high=exact.high + step)
    return stored(exact, ty.dtype, saturate=ty.policy.saturate)
