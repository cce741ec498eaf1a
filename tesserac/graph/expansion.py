"""How large a program becomes when its calls are written out, known before any is.

Every call becomes a copy of its callee's body, and a derivative or a mapped function a body of its own. So a few lines
may stand for more operators than a compilation can hold: f_i = f_{i-1}(f_{i-1}(x)) doubles with each of them. The count
is limited, by counting and not by time. Becomes E0317.
"""

from __future__ import annotations

from collections import Counter

from tesserac.base.source import NO_SPAN, Span
from tesserac.graph.dialect import CALL, CUSTOM
from tesserac.ir.core import Module, Op

MAX_OPERATORS = 100_000
"""Four times what the step of training of a transformer with 64 layers has."""


class TooManyOperators(Exception):
    """A function becomes too large. `part` is where most of it comes from, `times` how often that is written out."""

    def __init__(self, count: int, part: Span = NO_SPAN, times: int = 1) -> None:
        super().__init__(f"{count} operators, more than {MAX_OPERATORS}")
        self.count = count
        self.part = part
        self.times = times


def limit_calls(module: Module) -> None:
    """Raises TooManyOperators where an entry with its calls written out is too large. What calls itself counts
    once: `inline` refuses it."""
    parts = {function.symbol: _Part(function) for function in module.ops}
    for function in module.ops:
        if function.attrs["entry"] is True:
            _limit_entry(parts, function.symbol)


def limit_body(op: Op) -> None:
    """The same for a derivative or a mapped function, whose body has no calls any more, before it is made."""
    count = sum(1 for _ in op.walk())
    if count > MAX_OPERATORS:
        raise TooManyOperators(count, op.span)


class _Part:
    """What one function adds of its own, and what it calls how often."""

    def __init__(self, function: Op) -> None:
        ops = list(function.walk())
        self.function = function
        self.own = sum(op.name != CALL and op is not function and not op.opdef.terminator for op in ops)
        self.calls = Counter(str(op.attrs["callee"]) for op in ops if op.name in (CALL, CUSTOM))


def _limit_entry(parts: dict[str, _Part], entry: str) -> None:
    times = Counter({entry: 1})
    for name in _callers_first(parts, entry):
        for callee, calls in parts[name].calls.items():
            times[callee] += times[name] * calls
    adds = {name: number * parts[name].own for name, number in times.items()}
    count = sum(adds.values())
    if count > MAX_OPERATORS:
        most = max(adds, key=lambda name: (adds[name], name))
        raise TooManyOperators(count, parts[most].function.span, times[most])


def _callers_first(parts: dict[str, _Part], entry: str) -> list[str]:
    """What an entry reaches, every function behind all that call it."""
    done: dict[str, None] = {}
    waiting = {entry: iter(parts[entry].calls)}
    while waiting:
        name, callees = next(reversed(waiting.items()))
        callee = next((c for c in callees if c not in done and c not in waiting), None)
        if callee is None:
            done[name] = None
            del waiting[name]
        else:
            waiting[callee] = iter(parts[callee].calls)
    return list(reversed(done))
