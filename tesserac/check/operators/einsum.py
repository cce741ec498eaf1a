"""Calls of `einsum`: the equation is read here, so that a mistake in it is shown where it stands.

Enters: the equation as a string and checked operands. Leaves: the operator with an explicit equation, applied: spaces
are gone, `...` has become letters, and an output that was left out is written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.einsum_labels import (
    Equation,
    check_labels,
    suggest_fewer,
    suggest_named,
    tell_of_sums_apart,
)
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.names import E0205, E0210
from tesserac.diag.codes.shapes import E0311
from tesserac.ops.einsum import Einsum
from tesserac.types.ty import ErrorType, IntType, StrType, TensorType, TupleType, Type

_SPARE = "ZYXWVUTSRQPONMLKJIHGFEDCBA"
"""Letters that stand for the dims of `...`, where the equation does not use them."""
_LABELS = ascii_uppercase + ascii_lowercase
"""Letters of labels that are numbers, in the order in which an output that is left out has them."""


def call_einsum(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`einsum("bsd,de->bse", x, w)`, also with the tensors in a list, or with lists of numbers in place of letters."""
    named = [arg for arg in args if arg.name is not None]
    if named or not args:
        problem = "`einsum` takes an equation and then tensors" if not args else "`einsum` has no named parameters"
        draft = body.sink.error(E0205, at=named[0].span if named else callee.at, problem=problem)
        if named:
            draft.remark("tensors are contracted from left to right; parentheses in two calls say another order")
        return body.error(callee.span)
    values = [arg.value for arg in args]
    equation, *operands = _numbered(values, callee.at) or _listed(values)
    return _of_equation(body, equation, operands, callee)


def _of_equation(body: Body, equation: typed.Expr, operands: list[typed.Expr], callee: Callee) -> typed.Expr:
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
        types = [o.type for o in operands if isinstance(o.type, TensorType)]
        suggest_fewer(body, draft, equation, types)
        suggest_named(body, draft, equation, types)
        return body.error(callee.span)
    op = Einsum(explicit)
    if not check_labels(body, Equation(equation, op), operands, callee):
        return body.error(callee.span)
    tell_of_sums_apart(body, Equation(equation, op), operands, callee)
    return apply_operator(body, op, operands, callee.at, callee.span)


def _numbered(values: Sequence[typed.Expr], at: Span) -> list[typed.Expr] | None:
    """`einsum(x, [0, 1], w, [1, 2], [0, 2])`, each tensor before its labels, as an equation; None for other calls."""
    terms = [_letters(value.type) for value in values[1::2]]
    output = _letters(values[-1].type) if len(values) % 2 else None
    if not terms or None in terms or (len(values) % 2 and output is None):
        return None
    text = ",".join(filter(None, terms)) + ("" if output is None else f"->{output}")
    return [typed.Static(StrType(text), at), *values[: 2 * len(terms) : 2]]


def _letters(type_: Type) -> str | None:
    """A list of numbers as letters in the same order; None for anything else."""
    items = type_.items if isinstance(type_, TupleType) else ()
    numbers = [item.value.constant for item in items if isinstance(item, IntType)]
    if not items or len(numbers) < len(items):
        return None
    known = [number for number in numbers if number is not None and 0 <= number < len(_LABELS)]
    return "".join(_LABELS[number] for number in known) if len(known) == len(items) else None


def _listed(values: list[typed.Expr]) -> list[typed.Expr]:
    """The equation and the tensors; PyTorch takes these in one list too."""
    if len(values) == 2 and isinstance(values[1].type, TupleType):
        return [values[0], *tuple_items(values[1], values[1].span)]
    return values


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
