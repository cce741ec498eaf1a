"""Which sizes a function needs as numbers, by what it or its callees do: asked where a call gives it another in every
iteration of a loop.

Enters: a checked function, and the sizes of a call. Leaves: True, or False after E0228.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.base.source import Span
from tesserac.check.analysis.reach import children
from tesserac.check.guards.demanded import indices_in, require_numbers
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType


def require_numbers_inside(
    body: Body, function: typed.TypedFunction, sizes: dict[str, Dim], name: str, at: Span
) -> bool:
    """Whether a call may be compiled: what the function does with its sizes is asked where an index is one of them."""
    changing = {symbol: size for symbol, size in sizes.items() if indices_in(body, size)}
    if not changing:
        return True
    demanded = _demanded(body, function)
    return require_numbers(body, [size for symbol, size in changing.items() if symbol in demanded], name, at)


def _demanded(body: Body, function: typed.TypedFunction) -> set[str]:
    """The symbols of a function that it, or what it calls, needs as numbers."""
    found, seen = set[str](), set[int]()
    waiting: list[object] = [function.body]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, typed.Apply):
            found |= _symbols(part.op.demands(_types(part)))
        elif isinstance(part, typed.Call) and (callee := body.rules.known(part.function)) is not None:
            inner = _demanded(body, callee)
            found |= _symbols(size for symbol, size in part.dims if symbol in inner)
        waiting += children(part)
    return found


def _symbols(sizes: Iterable[Dim]) -> set[str]:
    return {name for size in sizes for name in size.symbols()}


def _types(part: typed.Apply) -> tuple[TensorType, ...]:
    return tuple(operand.type for operand in part.operands if isinstance(operand.type, TensorType))
