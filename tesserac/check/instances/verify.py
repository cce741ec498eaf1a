"""Checks of results: `@verify.numerics(bounded=[-100, 100])`.

Enters: a checked function and what is promised of its results. Leaves: the function, if its ranges prove that; else one
of the same name that calls it and asserts the promise. A release leaves assertions out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.analysis.ranges import Find, Ranges, extent_of, ranges_of
from tesserac.check.declarations.decorators import Bounds
from tesserac.check.model import typed
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import tuple_items
from tesserac.ops.compare import BitAnd, IsFinite, LessEqual
from tesserac.ops.search import All
from tesserac.types.dims import Dim
from tesserac.types.ty import Aggregate, FloatType, TensorType, Type, parts


def verified(body: Body, function: typed.TypedFunction, bounds: Bounds, find: Find) -> typed.TypedFunction:
    """The function with its results checked; what it was is left among the functions of the body."""
    ranges = ranges_of(Ranges(find, extent_of(body.facts)).function(function))
    proven = all(r.within(bounds.low, bounds.high) and r.finite for r in ranges) and not _integers(function.result)
    said = f"every element that `{function.name}` returns is {_text(bounds)}"
    function = replace(function, promises=(typed.Promise(said, proven),))
    if proven:
        return function

    def checks(result: typed.Expr) -> Iterator[typed.Stmt]:
        return (_check(body, function.name, value, bounds, function.span) for value in _floats(result, function.span))

    return with_checks(body, function, "unverified", checks)


def _integers(ty: Type) -> bool:
    """Whether a result has parts besides floats, which a promise does not speak of."""
    if isinstance(ty, Aggregate):
        return any(map(_integers, parts(ty) or ()))
    return not (isinstance(ty, TensorType) and ty.dtype.is_float)


def _text(bounds: Bounds) -> str:
    return "finite" if bounds == Bounds() else f"in [{bounds.low:g}, {bounds.high:g}]"


def with_checks(
    body: Body, function: typed.TypedFunction, suffix: str, checks: Callable[[typed.Expr], Iterator[typed.Stmt]]
) -> typed.TypedFunction:
    """A function that calls this one and checks what it gives; what it was is left among the functions of the body."""
    inner = replace(function, symbol=f"{function.symbol}.{suffix}")
    body.functions.append(inner)
    span = function.span
    args = tuple(_argument(param, span) for param in function.params)
    dims = tuple((name, Dim.sym(name)) for name in function.symbols)
    reads = tuple(param.name for param in function.reads)
    call = typed.Call(function.result, span, inner.symbol, args, dims, reads)
    result = typed.Local(function.result, span, "result$")
    block: typed.Block = (typed.Bind(span, result.name, call), *checks(result), typed.Return(span, result))
    return replace(function, body=block, program=None)


def _argument(param: typed.Param, span: Span) -> typed.Expr:
    return typed.Local(param.type, span, param.name)


def _floats(value: typed.Expr, span: Span) -> Iterator[typed.Expr]:
    if isinstance(value.type, Aggregate):
        for item in tuple_items(value, span):
            yield from _floats(item, span)
    elif isinstance(value.type, TensorType) and value.type.dtype.is_float:
        yield value


def _check(body: Body, name: str, value: typed.Expr, bounds: Bounds, span: Span) -> typed.Assert:
    if bounds == Bounds():
        holds = apply_operator(body, IsFinite(), [value], span, span)
    else:
        low, high = (typed.Static(FloatType(end), span) for end in (bounds.low, bounds.high))
        above = apply_operator(body, LessEqual(), [low, value], span, span)
        below = apply_operator(body, LessEqual(), [value, high], span, span)
        holds = apply_operator(body, BitAnd(), [above, below], span, span)
    return typed.Assert(span, every(body, holds, span), f"every element that `{name}` returns is {_text(bounds)}")


def every(body: Body, holds: typed.Expr, span: Span) -> typed.Expr:
    """One bool: whether all are true."""
    rank = holds.type.rank if isinstance(holds.type, TensorType) else 0
    return apply_operator(body, All(tuple(range(rank)), False), [holds], span, span) if rank else holds
