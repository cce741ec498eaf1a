"""How large a program becomes when its calls are written out, known before any is.

A call becomes a copy of its callee's body, unless the callee stays a function (`calling.py`), and a derivative or a
mapped function a body of its own. So a few lines may stand for more operators than a compilation can hold: a derivative
of a derivative grows with each of them. The count is limited, by counting and not by time. Becomes E0317.
"""

from __future__ import annotations

from tesserac.base.source import NO_SPAN, Span
from tesserac.graph.calling import Part, Program, called_functions
from tesserac.ir.core import Module, Op

MAX_OPERATORS = 100_000
"""Four times what the step of training of a transformer with 64 layers has."""


class TooManyOperators(Exception):
    """A function becomes too large. `part` is where most of it comes from, `times` how often that is written out; or it
    is a derivative or a mapped function that does."""

    def __init__(self, count: int, part: Span = NO_SPAN, times: int = 1, *, is_of_calls: bool = True) -> None:
        super().__init__(f"{count} operators, more than {MAX_OPERATORS}")
        self.count = count
        self.part = part
        self.times = times
        self.is_of_calls = is_of_calls


def limit_calls(module: Module) -> dict[str, str]:
    """The functions that are called and not written out, and why. Raises TooManyOperators where an entry is too large
    even so. What calls itself counts once: `inline` refuses it."""
    parts = {function.symbol: Part(function) for function in module.ops}
    called: dict[str, str] = {}
    for function in module.ops:
        if function.attrs["entry"] is True:
            program = called_functions(module, parts, function.symbol)
            _limit(program)
            called |= program.called
    return called


def limit_body(op: Op) -> None:
    """The same for a derivative or a mapped function, whose body has no calls any more, before it is made."""
    count = sum(1 for _ in op.walk())
    if count > MAX_OPERATORS:
        raise TooManyOperators(count, op.span, is_of_calls=False)


def _limit(program: Program) -> None:
    count = program.count()
    if count > MAX_OPERATORS:
        copies = program.copies()
        adds = {name: number * program.parts[name].own for name, number in copies.items()}
        most = max(adds, key=lambda name: (adds[name], name))
        raise TooManyOperators(count, program.parts[most].function.span, copies[most])
