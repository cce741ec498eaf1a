"""What else may be meant by a value that has other dims than its annotation says, before the annotation is doubted.

Enters: a value and the dims that are declared and found. Leaves: fixes of a draft, which are tried before they are
shown: another axis, `concat` for `stack`, a border for a window, the other one of two results, another argument of a
derivative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.operators.einsum_labels import suggest_output
from tesserac.check.operators.meant_axes import made_of, suggest_other_axes
from tesserac.check.operators.meant_windows import border_place
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType

_JOINS = {"stack": "concat", "concat": "stack"}
_JOINED = re.compile(r"\b(stack|concat)\(")
_LARGER = re.compile(r"(max|min)\([^()]*,[^()=]*\)$")
"""Of two values, where the second is taken for an axis."""
_DERIVATIVE = re.compile(r"\b(?:grad|value_and_grad)\(([\w.]+)\)\(")
_EVERY_ROW = re.compile(r"[\w.]+\[\s*(:)\s*,\s*[\w.]+\s*\]")
_FIRST_WIDTHS = (1, 2, 3)
"""Borders of windows of 3, 5 and 7."""
_ORDINALS = {1: "second", 2: "third"}


def suggest_meant(
    body: Body, draft: Draft, value: typed.Expr, expected: Sequence[Dim], found: Sequence[Dim]
) -> None:
    """The value as it was most likely meant, where a change of a word gives it the dims that are declared."""
    _suggest_other_result(body, draft, value, expected)
    _suggest_other_argument(body, draft, value)
    made = made_of(body, value)
    suggest_output(body, draft, made, expected)
    _suggest_own_places(body, draft, made, found)
    _suggest_border(body, draft, made, expected, found)
    joined = _JOINED.match(body.rules.text(made.span))
    if joined is not None and len(expected) != len(found):
        other = _JOINS[joined[1]]
        place = made.span._replace(end=made.span.start + joined.end(1))
        draft.replace(f"`{other}` instead", place, other)
    larger = _LARGER.match(body.rules.text(made.span))
    if larger is not None and len(expected) > len(found):
        place = made.span._replace(end=made.span.start + larger.end(1))
        draft.replace("the larger of both at every place", place, f"{larger[1]}imum")
    suggest_other_axes(body, draft, value)


def _suggest_own_places(body: Body, draft: Draft, made: typed.Expr, found: Sequence[Dim]) -> None:
    """`x[:, i]`, every row at all places, where each at its own is meant."""
    read = _EVERY_ROW.fullmatch(body.rules.text(made.span))
    if read is not None and len(found) > 1 and found[0] == found[1]:
        place = made.span._replace(start=made.span.start + read.start(1), end=made.span.start + read.end(1))
        draft.replace("each row at its own place", place, f"arange({found[0]})")


def _suggest_border(
    body: Body, draft: Draft, made: typed.Expr, expected: Sequence[Dim], found: Sequence[Dim]
) -> None:
    """A window that takes from the border what is declared to stay, or a transposed one that adds to it."""
    end = border_place(body.rules.text(made.span), made.span)
    if end is None or len(expected) != len(found):
        return
    for width in _widths(expected, found):
        draft.replace("give it a border, as much as its window takes", end, f", padding={width}")


def _widths(expected: Sequence[Dim], found: Sequence[Dim]) -> Sequence[int]:
    """Half of what is lost or won on both sides; where that is no number, as after a stride, the usual ones."""
    apart = {(own - other).constant for own, other in zip(expected, found, strict=True) if own != other}
    lost = apart.pop() if len(apart) == 1 else None
    return _FIRST_WIDTHS if lost is None else () if lost % 2 else (abs(lost) // 2,)


def _suggest_other_result(body: Body, draft: Draft, value: typed.Expr, expected: Sequence[Dim]) -> None:
    """`ys, h = scan(...)`, whose results come the other way round: names of one statement that change places."""
    binding = body.origins.get(value) if isinstance(value, typed.Local) else None
    if binding is None or not isinstance(binding.value, typed.Item):
        return
    for name, place in _beside(body, binding.span, binding.value.value.span):
        other = body.scope.bindings.get(name)
        if other is not None and other.span == place and _has_dims(body, other.value, expected):
            edits = (Edit(binding.span, name), Edit(place, binding.name))
            draft.fix(f"`{name}` and `{binding.name}` come in the other order", *edits)


def _beside(body: Body, own: Span, value: Span) -> Iterator[tuple[str, Span]]:
    """The names that are bound beside one, in `a, b = value`."""
    if value.file != own.file or value.start <= own.end:
        return
    head = body.rules.text(Span(own.file, 0, value.start))
    start = head.rfind("\n") + 1
    names = head[start:].rstrip().removesuffix("=")
    for match in re.finditer(r"\w+", names) if re.fullmatch(r"\s*\w+(\s*,\s*\w+)+\s*", names) else ():
        place = Span(own.file, start + match.start(), start + match.end())
        if place != own:
            yield match[0], place


def _has_dims(body: Body, value: typed.Expr | None, dims: Sequence[Dim]) -> bool:
    type_ = value.type if value is not None else None
    return isinstance(type_, TensorType) and type_.rank == len(dims) and all(map(body.facts.same, type_.dims, dims))


def _suggest_other_argument(body: Body, draft: Draft, value: typed.Expr) -> None:
    """A derivative is by the first argument, where no other is said."""
    text = body.rules.text(value.span)
    match = _DERIVATIVE.search(text)
    if match is None:
        return
    at = value.span.start + match.end(1)
    for place, ordinal in _ORDINALS.items():
        end = value.span._replace(start=at, end=at)
        draft.replace(f"take the derivative by the {ordinal} argument", end, f", wrt={place}")
