"""Says that a label of an einsum stands for two sizes.

Enters: a call of `einsum` and the two places where one label meets different dims. Leaves: one diagnostic that points
into the equation, and a fix if the labels of one term in another order fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, permutations

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.model.operator_use import Use
from tesserac.check.operators.mismatch import suggest_renaming
from tesserac.check.provenance.sides import Side, show_origin, show_steps
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.shapes import E0320, W0304
from tesserac.diag.sink import Draft
from tesserac.ops.einsum import Einsum
from tesserac.ops.unify import DimMismatch, Place
from tesserac.types.dims import Dim
from tesserac.types.ty import StrType, TensorType

_OUTPUT = re.compile(r"->\s*([a-zA-Z]*)\s*[\"']")
"""What an equation says behind its arrow, in a text that it is part of."""


@dataclass(frozen=True)
class Equation:
    """An equation as it is written, and with letters alone."""

    written: typed.Expr
    op: Einsum

    def label(self, place: Place) -> str:
        return self.op.terms[place.operand][place.axis]

    def span(self, body: Body, place: Place) -> Span:
        """Where the label stands in the source; the whole equation where that is not a plain string."""
        whole = self.written.span
        start = self._term_start(body, place.operand)
        if start is None:
            return whole
        term = self._terms()[place.operand]
        letter, before = self.label(place), self.op.terms[place.operand][: place.axis]
        places = [at for at, character in enumerate(term) if character == letter]
        if letter not in term:
            dots = term.index("...")
            return Span(whole.file, start + dots, start + dots + 3)
        at = start + places[before.count(letter)]
        return Span(whole.file, at, at + 1)

    def term_span(self, body: Body, operand: int) -> Span | None:
        start = self._term_start(body, operand)
        return None if start is None else Span(self.written.span.file, start, start + len(self._terms()[operand]))

    def _terms(self) -> list[str]:
        assert isinstance(self.written.type, StrType)
        return self.written.type.value.partition("->")[0].split(",")

    def _term_start(self, body: Body, operand: int) -> int | None:
        assert isinstance(self.written.type, StrType)
        text = body.rules.text(self.written.span)
        if text[1:-1] != self.written.type.value:
            return None
        return self.written.span.start + 1 + sum(len(term) + 1 for term in self._terms()[:operand])


def check_labels(body: Body, equation: Equation, operands: list[typed.Expr], callee: Callee) -> bool:
    """Whether each label stands for one size."""
    types = [operand.type for operand in operands if isinstance(operand.type, TensorType)]
    mismatch = equation.op.mismatch(types, body.facts.same)
    if not isinstance(mismatch, DimMismatch):
        return True
    use = Use(equation.op, tuple(operands), callee.at, callee.span)
    first, second = Side.of(body, use, mismatch.left), Side.of(body, use, mismatch.right)
    if body.sizes.first_telling(first.dim, second.dim):
        draft = _explain(body, equation, mismatch, first, second)
        if not _suggest_order(body, draft, equation, types, mismatch.right.operand):
            suggest_named(body, draft, equation.written, types)
        suggest_renaming(body, draft, first, second)
    return False


def tell_of_sums_apart(body: Body, equation: Equation, operands: Sequence[typed.Expr], callee: Callee) -> None:
    """Two labels of one size, each in one tensor alone and not in the output: a contraction was meant (W0304)."""
    terms, output = equation.op.terms, equation.op.output
    every = "".join(terms) + output
    alone = [
        Place(number, axis)
        for number, term in enumerate(terms)
        for axis, label in enumerate(term)
        if every.count(label) == 1 and _dim(operands[number], axis).constant is None
    ]
    for first, second in combinations(alone, 2):
        size = _dim(operands[first.operand], first.axis)
        apart = first.operand != second.operand and body.facts.same(size, _dim(operands[second.operand], second.axis))
        if apart and not of_library(callee.span.file):
            labels = equation.label(first), equation.label(second)
            places = [equation.span(body, place) for place in (first, second)]
            name = dim_text(size)
            draft = body.sink.warning(W0304, at=places[1], first=labels[0], second=labels[1], dim=name)
            draft.note(places[0], "this one is summed by itself")
            for place in (first, second):
                operand = operands[place.operand]
                assert isinstance(operand.type, TensorType)
                draft.note(operand.span, dims_text(operand.type.dims))
            if places[0] != places[1]:
                draft.replace(f"contract {name}: one label for both", places[1], labels[0])
            return


def _dim(operand: typed.Expr, axis: int) -> Dim:
    assert isinstance(operand.type, TensorType)
    return operand.type.dims[axis]


def _explain(body: Body, equation: Equation, mismatch: DimMismatch, first: Side, second: Side) -> Draft:
    label = equation.label(mismatch.left)
    places = [equation.span(body, place) for place in (mismatch.left, mismatch.right)]
    draft = body.sink.error(
        E0320,
        at=places[1],
        label=f"here `{label}` is {dim_text(second.dim)}",
        letter=label,
        first=dim_text(first.dim),
        second=dim_text(second.dim),
    )
    if places[0] != places[1]:
        draft.note(places[0], f"here `{label}` is {dim_text(first.dim)}")
    for number, side in ((mismatch.left.operand, first), (mismatch.right.operand, second)):
        draft.note(side.operand.span, f"tensor {number + 1}: {dims_text(side.dims)}")
    show_origin(body, draft, first)
    show_origin(body, draft, second)
    show_steps(body, draft, first, second)
    return draft


def _suggest_order(body: Body, draft: Draft, equation: Equation, types: Sequence[TensorType], operand: int) -> bool:
    """The labels of one term in another order, if that makes every label one size."""
    span, terms = equation.term_span(body, operand), equation.op.terms
    if span is None or len(terms[operand]) > 5 or not body.rules.text(span).isalpha():
        return False
    for order in map("".join, permutations(terms[operand])):
        fixed = Einsum(",".join([*terms[:operand], order, *terms[operand + 1 :]]) + "->" + equation.op.output)
        if fixed.mismatch(types, body.facts.same) is None:
            draft.replace(f"label tensor {operand + 1} as its dims stand: `{order}`", span, order)
            return True
    return False


def suggest_fewer(body: Body, draft: Draft, written: typed.Expr, types: Sequence[TensorType]) -> None:
    """A term with one label too many, without the label that has no dim, if that makes every label one size."""
    assert isinstance(written.type, StrType)
    equation, text = written.type.value, body.rules.text(written.span)
    terms, arrow, output = equation.partition("->")
    parts = terms.split(",")
    if text[1:-1] != equation or not arrow or not terms.replace(",", "").isalpha() or len(parts) != len(types):
        return
    for number, (term, type_) in enumerate(zip(parts, types, strict=True)):
        for place in range(len(term) if len(term) == type_.rank + 1 else 0):
            shorter = term[:place] + term[place + 1 :]
            fewer = ",".join([*parts[:number], shorter, *parts[number + 1 :]])
            fits = [len(a) for a in fewer.split(",")] == [ty.rank for ty in types] and set(output) <= set(fewer)
            if fits and Einsum(f"{fewer}->{output}").mismatch(list(types), body.facts.same) is None:
                quote = text[0]
                title = f"label tensor {number + 1} as its dims stand: `{shorter}`"
                draft.replace(title, written.span, f"{quote}{fewer}->{output}{quote}")
                return


def suggest_named(body: Body, draft: Draft, written: typed.Expr, types: Sequence[TensorType]) -> None:
    """Terms that are not what the dims of their tensors are called, `bhsd` for `[B, H, T, D]`, as these are. What a
    term gets beside its labels stands in the output as well, behind the label that it follows."""
    assert isinstance(written.type, StrType)
    equation, text = written.type.value, body.rules.text(written.span)
    terms, arrow, output = equation.partition("->")
    called = ["".join(str(dim) for dim in type_.dims).lower() for type_ in types]
    simple = all(len(str(dim)) == 1 and dim.symbol for type_ in types for dim in type_.dims)
    parts = terms.split(",")
    if text[1:-1] != equation or not arrow or not simple or len(parts) != len(types) or called == parts:
        return
    for term, name in zip(parts, called, strict=True):
        output = _with_more(output, term, name) if len(term) < len(name) else output
    if set(output) <= set("".join(called)):
        named = f"{','.join(called)}->{output}"
        draft.replace("label all tensors as their dims are called", written.span, f"{text[0]}{named}{text[0]}")


def _with_more(output: str, term: str, name: str) -> str:
    """An output with the labels that a term lacks."""
    for place, label in enumerate(name):
        if label not in term and label not in output:
            before = output.find(name[place - 1]) + 1 if place else 0
            output = output[:before] + label + output[before:]
    return output


def suggest_output(body: Body, draft: Draft, made: typed.Expr, expected: Sequence[Dim]) -> None:
    """The output of an einsum whose result has other dims than it should: the labels of those."""
    written = _OUTPUT.search(body.rules.text(made.span))
    if written is None or not isinstance(made, typed.Apply) or not isinstance(made.op, Einsum):
        return
    left = {
        label: _dim(operand, axis)
        for term, operand in zip(made.op.terms, made.operands, strict=True)
        for axis, label in enumerate(term)
    }
    output = ""
    for dim in expected:
        label = next((label for label, own in left.items() if body.facts.same(own, dim)), "")
        left.pop(label, None)
        output += label
    if len(output) == len(expected) and output != made.op.output:
        start = made.span.start
        place = made.span._replace(start=start + written.start(1), end=start + written.end(1))
        draft.replace(f"give {dims_text(expected)}: `{output}`", place, output)
