"""Which functions are called, and which are written out where they are called: the one place where that is decided.

Enters: a module as it was built. Leaves: the symbols of functions that stay functions through all levels, one compiled
function each. All others become their bodies, since what stands side by side is fused.

    f0(x) = sin(x);  f1(x) = f0(f0(x));  ...;  f14(x) = f13(f13(x))      16,384 operators when all is written out
    f7 stays: 128 operators, and 128 calls of it

The rule: a program of more than LARGE operators calls a function of at least SMALL operators of which it would hold
at least COPIES. Of these the one is taken first that leaves the fewest operators, until the program is not large any
more. It is decided from the program alone, so that a program has the same bits on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tesserac.graph.assert_attribution import library_name
from tesserac.graph.autodiff.dialect import CHECKPOINT, JVP, VJP
from tesserac.graph.batching.dialect import VMAP
from tesserac.graph.dialect import (
    CALL,
    CUSTOM,
    FORMS,
    FORWARD_RULE,
    NUMERICS,
    REVERSE_RULE,
    SCHEDULE,
    alternatives_of,
    is_operator,
    operator_of,
    program_of,
)
from tesserac.ir.calls import call_dims, callee_of, own_symbols
from tesserac.ir.core import Module, Op, attr, tuple_of
from tesserac.ir.forms import tensor_type
from tesserac.ir.ordering import COLLECTIVE, IO

LARGE = 2048
"""Operators that compile in seconds, all written out."""
SMALL = 32
"""Operators whose fusion with what is around them saves more than a call costs to compile."""
COPIES = 128
"""More than the layers of a model: to write those out takes time once, and saves it in every call."""


class Part:
    """What one function adds of its own, and what it calls how often."""

    def __init__(self, function: Op) -> None:
        ops = list(function.walk())
        self.function = function
        self.own = sum(op.name != CALL and op is not function and not op.opdef.terminator for op in ops)
        self.calls = Counter(str(op.attrs["callee"]) for op in ops if op.name in (CALL, CUSTOM))


class Program:
    """An entry and what it reaches, while it is decided what of it is called."""

    def __init__(self, parts: Mapping[str, Part], entry: str) -> None:
        self.parts = parts
        self.entry = entry
        self.order = _callers_first(parts, entry)
        self.called: dict[str, str] = {}
        """With the reasons, for people."""

    def sizes(self) -> dict[str, int]:
        """The operators of each function, with what it calls written out but for functions that are called."""
        found: dict[str, int] = {}
        for name in reversed(self.order):
            part = self.parts[name]
            inner = (n * (1 if callee in self.called else found.get(callee, 0)) for callee, n in part.calls.items())
            found[name] = part.own + sum(inner)
        return found

    def times(self) -> Counter[str]:
        """How often the body of each function is written: in the entry, or in one that is called."""
        times = Counter({self.entry: 1})
        for name in self.order:
            copies = 1 if name in self.called else times[name]
            for callee, calls in self.parts[name].calls.items():
                times[callee] += copies * calls
        return times

    def count(self) -> int:
        sizes = self.sizes()
        return sizes[self.entry] + sum(sizes[name] for name in self.called)

    def copies(self) -> Counter[str]:
        """How often each body stands in the program that comes out."""
        times = self.times()
        return Counter({name: 1 if name in self.called else number for name, number in times.items()})


def called_functions(module: Module, parts: Mapping[str, Part], entry: str) -> Program:
    """Decides what an entry calls."""
    program = Program(parts, entry)
    if program.count() > LARGE:
        able = frozenset(program.order) - _written_out(module)
        while program.count() > LARGE and (name := _next(program, able)) is not None:
            times, size = program.times()[name], program.sizes()[name]
            program.called[name] = f"written out it would be {times} copies of {size} operators"
    return program


def _next(program: Program, able: frozenset[str]) -> str | None:
    """The function whose calls save most, if any does."""
    sizes, times, count = program.sizes(), program.times(), program.count()
    left = {
        name: count - times[name] * (sizes[name] - 1) + sizes[name]
        for name in program.order
        if name in able and name not in program.called and times[name] >= COPIES and sizes[name] >= SMALL
    }
    best = min(left, key=lambda name: (left[name], name), default=None)
    return best if best is not None and left[best] < count else None


def _callers_first(parts: Mapping[str, Part], entry: str) -> list[str]:
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


# ------------------------------------------------------------------------------------------------ what cannot be called


def _written_out(module: Module) -> set[str]:
    """Functions that have to be written out where they are called: see Note [What is never called]."""
    reach = _Reach(module)
    transformed = any(op.name in (JVP, VJP, VMAP, CHECKPOINT, CUSTOM) for op in module.walk())
    found = {f.symbol for f in module.ops if f.attrs["entry"] is True or _does_more(f, transformed)}
    alone = {f.symbol for f in module.ops if _demands(f) or any(op.name in (JVP, VJP, VMAP) for op in f.walk())}
    found |= {f.symbol for f in module.ops if not alone.isdisjoint(reach.of([f.symbol]))}
    for function in module.ops:
        found |= reach.of(_of_tiles(function))
        for op in function.walk():
            if op.name in (CALL, CUSTOM):
                found |= _by_call(op, module, reach)
    return found


def _does_more(function: Op, transformed: bool) -> bool:
    effects = tuple_of(function.attrs.get("effects", ()), str)
    told = IO in effects and (transformed or library_name(function.symbol, function.span) is not None)
    return COLLECTIVE in effects or told


def _demands(function: Op) -> bool:
    ops = (op for op in function.walk() if is_operator(op))
    demands = (operator_of(op).demands(tuple(map(tensor_type, op.operands))) for op in ops)
    return any(dim.symbols() for dims in demands for dim in dims)


def _of_tiles(function: Op) -> list[str]:
    """What belongs to kernels, and to functions that kernels implement."""
    program, ways = program_of(function), alternatives_of(function)
    symbols = [way.symbol for way in ways if way.symbol] + ([] if program is None else [program.symbol])
    return [function.symbol, *symbols] if symbols or ways else []


def _by_call(op: Op, module: Module, reach: _Reach) -> set[str]:
    callee = callee_of(op)
    if NUMERICS in op.attrs or SCHEDULE in op.attrs:
        return reach.of([callee])
    sizes = call_dims(op).keys() <= set(own_symbols(module.lookup(callee)))
    return set() if sizes and op.name == CALL and FORMS not in op.attrs else {callee}


class _Reach:
    """What functions reach by calls and rules, themselves among it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._next: dict[str, list[str]] = {}

    def of(self, symbols: Iterable[str]) -> set[str]:
        found, waiting = set[str](), list(symbols)
        while waiting:
            symbol = waiting.pop()
            if symbol not in found:
                found.add(symbol)
                waiting += self._callees(symbol)
        return found

    def _callees(self, symbol: str) -> list[str]:
        if symbol not in self._next:
            calls = [op for op in self._module.lookup(symbol).walk() if op.name in (CALL, CUSTOM)]
            rules = [attr(op, name, tuple) for op in calls for name in (FORWARD_RULE, REVERSE_RULE) if name in op.attrs]
            self._next[symbol] = [*map(callee_of, calls), *(str(rule[0]) for rule in rules)]
        return self._next[symbol]


# Note [What is never called]
# - Entries: their guards are tested when they are called from outside.
# - What a kernel does block by block, and what kernels implement: targets choose there by looking at whole bodies.
# - What has rules of its own or other forms: it has a name for other reasons already, and loses it where these end.
# - What `with numerics(...)` or a schedule is said of: the operators inside have it, so there would be one function for
#   each mode.
# - What takes derivatives or maps functions itself: derivatives of these grow with each function that has one inside,
#   and their number is what limits them.
# - What demands that a size is a number: that follows from the sizes of the entry.
# - What talks to other devices. What prints or asserts, if it is of the library, which tells of the call, or where
#   derivatives compute things again, in silence.
# - What has sizes that those of its arguments do not say.
