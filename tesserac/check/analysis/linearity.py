"""Whether a `@jvp_of` rule is linear in its tangents, as it must be: said while checking, where it surely is not.

Enters: a checked rule, and which of its parameters are tangents. Leaves: where it computes what is not linear: a
product of tangents, a function of one that is not linear, a tangent plus something that is none. What is not sure is
for the compiler to say, which transposes the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.analysis.walking import Find, Mark, Marks, Names, Problem, Walk, first_problem, leaves, marked
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS
from tesserac.check.values.tangents import is_smooth
from tesserac.types.ty import FloatType, IntType, TupleType


def nonlinearity(rule: typed.TypedFunction, tangents: int, find: Find) -> Problem | None:
    """The first thing that a rule, whose last parameters are tangents, makes of them that is not linear."""
    first = len(rule.params) - tangents
    walk = _Linear(find, frozenset(param.name for param in rule.params[:first]))
    names: Names = {param.name: marked(param.type, Mark(), is_smooth) for param in rule.params[first:]}
    return first_problem([walk.body(rule, names)])


class _Linear(Walk):
    """Marks what is linear in tangents; with a problem, what is not."""

    def __init__(self, find: Find, primals: frozenset[str]) -> None:
        super().__init__(find)
        self._primals = primals

    def applied(self, expression: typed.Apply, operands: Sequence[Marks]) -> Marks:
        if not is_smooth(expression.type):
            return None
        return Mark(first_problem(operands) or self._fault(expression, operands))

    def _fault(self, expression: typed.Apply, operands: Sequence[Marks]) -> Problem | None:
        operator, places = expression.op, [place for place, marks in enumerate(operands) if leaves(marks)]
        name = SYMBOLS.get(operator.name, operator.name)
        if operator.linear == "jointly":
            pairs = zip(expression.operands, operands, strict=True)
            if any(self._is_there(operand) for operand, marks in pairs if marks is None):
                return Problem(expression.span, f"`{name}`", "this joins a tangent and what is none")
            return None
        if len(places) == 1 and operator.is_linear_in(places[0]):
            return None
        why = "tangents meet here" if len(places) > 1 else "this is not linear in its tangent"
        return Problem(expression.span, f"`{name}`", why)

    def _is_there(self, operand: typed.Expr) -> bool:
        """Whether what stands beside a tangent is surely no zero: a number, or an argument of the function itself."""
        match operand:
            case typed.Coerce(value=value):
                return self._is_there(value)
            case typed.Static(type=FloatType(value=float(number))):
                return number != 0.0
            case typed.Static(type=IntType(value=size)):
                return size.constant != 0
            case typed.Local(name=name):
                return self._depth == 0 and name in self._primals and is_smooth(operand.type)
        return False

    def called(self, call: typed.Call, args: Sequence[Marks]) -> Marks:
        if call.rules or call.closed:
            return None
        return self.follow(call, args)

    def derived(self, expression: typed.Derivative, names: Names) -> Marks:
        """`jvp` along a tangent is linear in it; of a derivative at a place that depends on one nothing is sure."""
        if any(leaves(self.value(arg, names)) for arg in expression.args):
            return None
        seeds = [self.value(seed, names) for seed in expression.seeds]
        assert isinstance(expression.type, TupleType)
        _, change = expression.type.items
        if not any(map(leaves, seeds)):
            return None
        return None, marked(change, Mark(first_problem(seeds)), is_smooth)
