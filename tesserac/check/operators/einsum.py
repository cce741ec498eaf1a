"""Calls of `einsum`: the equation is read here, so that a mistake in it is shown where it stands.

Enters: the equation as a string and checked operands. Leaves: the operator with an explicit equation, applied: spaces
are gone, `...` has become letters, and an output that was left out is written down.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.einsum_labels import Equation, check_labels, suggest_fewer
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205, E0210
from tesserac.diag.codes.shapes import E0311
from tesserac.ops.einsum import Einsum
from tesserac.types.ty import ErrorType, StrType, TensorType

_SPARE = "ZYXWVUTSRQPONMLKJIHGFEDCBA"
"""Letters that stand for the dims of `...`, where the equation does not use them."""


def call_einsum(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`einsum("bsd,de->bse", x, w)`."""
    named = [arg for arg in args if arg.name is not None]
    if named or not args:
        problem = "`einsum` takes an equation and then tensors" if not args else "`einsum` has no named parameters"
        body.sink.error(E0205, at=named[0].span if named else callee.at, problem=problem)
        return body.error(callee.span)
    equation, operands = args[0].value, [arg.value for arg in args[1:]]
    if any(isinstance(value.type, ErrorType) for value in (equation, *operands)):
        return body.error(callee.span)
    if not isinstance(equation.type, StrType):
        found = type_text(equation.type)
        body.sink.error(E0210, at=equation.span, expected='an equation such as `"ij,jk->ik"`', found=found)
        return body.error(callee.span)
    if body.wants_text(equation):
        return body.error(callee.span)
    for operand in operands:
        if not isinstance(operand.type, TensorType):
            body.sink.error(E0210, at=operand.span, expected="a tensor", found=type_text(operand.type))
            return body.error(callee.span)
    ranks = [operand.type.rank for operand in operands if isinstance(operand.type, TensorType)]
    try:
        explicit = explicit_equation(equation.type.value, ranks)
    except EquationError as error:
        draft = body.sink.error(E0311, at=equation.span, problem=str(error))
        for number, operand in enumerate(operands, start=1):
            draft.note(operand.span, f"tensor {number}: {type_text(operand.type)}")
        suggest_fewer(body, draft, equation, [o.type for o in operands if isinstance(o.type, TensorType)])
        return body.error(callee.span)
    op = Einsum(explicit)
    if not check_labels(body, Equation(equation, op), operands, callee):
        return body.error(callee.span)
    return apply_operator(body, op, operands, callee.at, callee.span)


class EquationError(ValueError):
    """What is wrong with an equation."""


def explicit_equation(text: str, ranks: Sequence[int]) -> str:
    """The equation with letters alone, for operands of these ranks."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise EquationError(f"the equation has {len(terms)} terms, and there are {len(ranks)} tensors")
    spare = [letter for letter in _SPARE if letter not in text]
    widths = [_dots(term, rank, place) for place, (term, rank) in enumerate(zip(terms, ranks, strict=True))]
    dots = "".join(reversed(spare[: max(widths)]))
    terms = [t.replace("...", dots[len(dots) - width :]) for t, width in zip(terms, widths, strict=True)]
    output = right.replace("...", dots) if arrow else dots + _implicit(terms, dots)
    _check_output(output, "".join(terms))
    return f"{','.join(terms)}->{output}"


def _dots(term: str, rank: int, place: int) -> int:
    """How many dims `...` stands for in a term."""
    letters = term.replace("...", "", 1)
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise EquationError(f"term {place + 1}, `{term}`, may have letters and one `...` only")
    width = rank - len(letters)
    if width < 0 or (width and "..." not in term):
        raise EquationError(f"`{term}` names {len(letters)} dims, and tensor {place + 1} has {rank}")
    return width


def _implicit(terms: Sequence[str], dots: str) -> str:
    """Without an arrow: the letters that stand once, in alphabetical order."""
    every = "".join(terms)
    return "".join(sorted(letter for letter in set(every) if every.count(letter) == 1 and letter not in dots))


def _check_output(output: str, every: str) -> None:
    for letter in output:
        if letter not in every:
            raise EquationError(f"`{letter}` of the output stands in no term")
        if output.count(letter) > 1:
            raise EquationError(f"`{letter}` stands twice in the output")
