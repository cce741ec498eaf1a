"""Whether what a function gives reaches an operator: a coarse look that never misses a way.

Enters: the functions of a program. Leaves: yes, if in one of them a value made of calls of the first is an operand of
an operator of a kind, or is handed to a function that has one. Order is not looked at: a name is what it ever was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tesserac.check.analysis.reach import parts_of, uses
from tesserac.check.model import typed
from tesserac.ops.registry import Operator

Kind = Callable[[Operator], bool]


def feeds(functions: Mapping[str, typed.TypedFunction], sources: Collection[str], kind: Kind) -> bool:
    giving = _callers(functions, lambda part: isinstance(part, typed.Call) and part.function in sources)
    taking = _callers(functions, lambda part: isinstance(part, typed.Apply) and kind(part.op))

    def takes(part: object) -> bool:
        if isinstance(part, typed.Apply):
            return kind(part.op)
        return isinstance(part, typed.Call) and part.function in taking

    return any(_meets(functions[symbol].body, {*giving, *sources}, takes) for symbol in giving)


def _callers(functions: Mapping[str, typed.TypedFunction], has: Callable[[object], bool]) -> set[str]:
    """The functions that have such a call or operator, or call one that has."""
    inside = {symbol: uses(function) for symbol, function in functions.items()}
    found = {symbol for symbol, used in inside.items() if any(map(has, (*used.calls, *used.operators)))}
    calls = {symbol: {call.function for call in used.calls} for symbol, used in inside.items()}
    while more := {symbol for symbol, called in calls.items() if symbol not in found and called & found}:
        found |= more
    return found


def _meets(body: typed.Block, giving: Collection[str], takes: Callable[[object], bool]) -> bool:
    """Whether something that takes has an operand made of something that gives."""
    names: set[str] = set()
    binds = [part for part in parts_of(body) if isinstance(part, typed.Bind | typed.BindTuple)]

    def is_made(value: object) -> bool:
        calls = (isinstance(p, typed.Call) and p.function in giving for p in parts_of(value))
        return any(calls) or any(isinstance(p, typed.Local) and p.name in names for p in parts_of(value))

    while new := {name for bind in binds if is_made(bind.value) for name in _bound(bind)} - names:
        names |= new
    return any(takes(part) and any(map(is_made, _operands(part))) for part in parts_of(body))


def _bound(bind: typed.Bind | typed.BindTuple) -> tuple[str, ...]:
    return (bind.name,) if isinstance(bind, typed.Bind) else bind.names


def _operands(part: object) -> tuple[typed.Expr, ...]:
    if isinstance(part, typed.Apply):
        return part.operands
    return part.args if isinstance(part, typed.Call) else ()
