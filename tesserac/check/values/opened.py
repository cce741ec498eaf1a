"""The call of a function under a transform: with names in place of its arguments.

Enters: a checked call. Leaves: the derivative of its value by some of the names.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.values.tangents import tangent_type
from tesserac.types.ty import TupleType


@dataclass(frozen=True)
class Opened:
    """A call with names in place of its arguments; `places` says which name each argument has, if any."""

    params: tuple[str, ...]
    args: tuple[typed.Expr, ...]
    places: tuple[int | None, ...]
    value: typed.Expr
    span: Span
    asked: list[typed.Derivative]
    """Where derivatives are noted that the body under check asks for."""
    has_aux: bool = False

    def differentiated(self, wrt: Sequence[int]) -> list[typed.Expr]:
        """The arguments that a derivative is taken by."""
        return [self.args[place] for position in wrt if (place := self.places[position]) is not None]

    def derivative(self, wrt: Sequence[int], seeds: Sequence[typed.Expr], *, reverse: bool = True) -> typed.Expr:
        own = [place for position in wrt if (place := self.places[position]) is not None]
        back = TupleType(tuple(tangent_type(self.args[place].type) for place in own))
        change = back if reverse else tangent_type(self.value.type)
        pair = TupleType((self.value.type, change))
        made = typed.Derivative(
            pair, self.span, reverse, self.params, self.args, tuple(own), tuple(seeds), self.value, self.has_aux
        )
        self.asked.append(made)
        return made
