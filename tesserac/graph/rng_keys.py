"""Where a function draws random numbers: each place, and each iteration of a loop, has a key of its own.

Enters: the key that is the stream of a function or of a loop's iteration, and a place in the typed program. Leaves: the
key of that place, as a value of the graph: `fold_in(stream, number of the place)`. Keys are values like any other, so
that what is done to a program later (inlining, moving, doing it twice) never changes what is drawn.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ops.create import Full
from tesserac.ops.elementwise import Add
from tesserac.ops.random import FoldIn
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.dtype import U64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType

KEY = TensorType((), U64)

Site = typed.Expr | typed.For | typed.While


class RngKeys:
    """The places of one function, numbered as they are met. An expression that is built twice is one place: what it
    stands for is evaluated once."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._numbers: dict[Site, int] = {}

    def key(self, stream: Value, site: Site) -> Value:
        number = self._numbers.setdefault(site, len(self._numbers))
        return self._fold(stream, self.number(number))

    def iteration(self, stream: Value, loop: typed.For | typed.While | typed.Mapped, count: Value) -> Value:
        """The stream of one iteration of a loop, or of one element of a mapped dim, inside its body."""
        return self._fold(self.key(stream, loop), count)

    def index(self, name: str) -> Value:
        """The index of a loop as a value."""
        return self._builder.value("graph.size", (), KEY, {"dim": Dim.sym(name)})

    def number(self, value: int) -> Value:
        return self._apply(Full((), U64, NO_POLICY, value))

    def next(self, count: Value) -> Value:
        return self._apply(Add(), count, self.number(1))

    def _fold(self, key: Value, data: Value) -> Value:
        return self._apply(FoldIn(), key, data)

    def _apply(self, operator: Operator, *operands: Value) -> Value:
        return self._builder.value(PREFIX + operator.name, operands, KEY, operator_attrs(operator))
