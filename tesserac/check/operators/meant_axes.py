"""Fixes for a value that has the dims of another axis: `argmax(x, dim=1)` where 2 is meant, `y[-1]` for `y[:, -1]`.

Enters: a value whose dims do not fit. Leaves: its text with each other axis, in a message whose fixes are tried before
they are shown. The axis is that of the operation which made the value, or of the last one under the name that it has.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.ops.join import Concat, Stack
from tesserac.ops.rearrange import Squeeze
from tesserac.ops.registry import Operator
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType

_MOST_AXES = 5
_MOST_DEPTH = 6
_NAMED = re.compile(r"\b(?:axis|dim)\s*=\s*(-?\d+)")
_FIRST = re.compile(r"(?:^|\.)\w+\((-?\d+)\b")
"""A method whose first argument may be an axis."""
_FIRST_NUMBER = re.compile(r"\(\s*(?:[\w.]+\s*,\s*)?(?:(?:axis|dim)\s*=\s*)?(-?\d+)\s*\)")
"""The arguments of a call that end with an axis."""
_PLACE = re.compile(r"[\w.]+\[(-?\d+)\]")
"""One place of the first axis of a name."""


@dataclass(frozen=True)
class _Written:
    """An axis as it is written, where, and how many axes there are."""

    span: Span
    axis: int
    rank: int


def suggest_other_axes(body: Body, draft: Draft, *values: typed.Expr) -> None:
    """The operations that made the values, along each other axis."""
    for value in values:
        made = made_of(body, value)
        written = next(_axes(body, made), None)
        for axis in range(written.rank) if written is not None else ():
            if written is not None and axis != written.axis % written.rank:
                text = str(axis - written.rank if written.axis < 0 else axis)
                draft.replace(f"take axis {text}", written.span, text)
        if written is None:
            _suggest_axis_of_join(body, draft, made)
        _suggest_other_place(body, draft, made)


def _suggest_axis_of_join(body: Body, draft: Draft, made: typed.Expr) -> None:
    """What is joined along the first axis, since no other is said."""
    text = body.rules.text(made.span)
    if isinstance(made, typed.Apply) and isinstance(made.op, Concat | Stack) and text.endswith(")"):
        end = made.span._replace(start=made.span.end - 1, end=made.span.end - 1)
        for axis in range(1, min(made.type.rank if isinstance(made.type, TensorType) else 0, _MOST_AXES)):
            draft.replace(f"join along axis {axis}", end, f", axis={axis}")


def made_of(body: Body, value: typed.Expr) -> typed.Expr:
    """What a name is bound to; the value itself where it has none."""
    for _ in range(_MOST_DEPTH):
        binding = body.origins.get(value) if isinstance(value, typed.Local) else None
        if binding is None or binding.value is None:
            break
        value = binding.value
    return value


def _operands(value: typed.Expr) -> tuple[typed.Expr, ...]:
    if isinstance(value, typed.Apply):
        return tuple(value.operands)
    return tuple(value.args) if isinstance(value, typed.Call) else ()


def _axes(body: Body, value: typed.Expr, depth: int = 0) -> Iterator[_Written]:
    """The axes that are written in an expression, of the outermost operations first."""
    tensors = [operand for operand in _operands(value) if isinstance(operand.type, TensorType)]
    if not tensors or depth == _MOST_DEPTH:
        return
    rank = max(operand.type.rank for operand in tensors if isinstance(operand.type, TensorType))
    found = _own_axis(body.rules.text(value.span), value.span)
    if found is not None and 1 < rank <= _MOST_AXES and -rank <= found[1] < rank:
        yield _Written(*found, rank)
    for operand in tensors:
        yield from _axes(body, operand, depth + 1)


def _own_axis(text: str, span: Span) -> tuple[Span, int] | None:
    """The axis in the arguments of the call that a text is, not in those of a call within it."""
    opened = _last_call(text)
    if opened is None:
        return None
    flat = _without_inner(text, opened + 1)
    match = _NAMED.search(flat, opened + 1) or _FIRST.search(text, _name_start(text, opened))
    if match is None or match.start(1) < opened:
        return None
    place = span._replace(start=span.start + match.start(1), end=span.start + match.end(1))
    return place, int(match[1])


def _name_start(text: str, opened: int) -> int:
    """Where the name of a method begins, with the dot before it."""
    start = opened
    while start > 0 and text[start - 1].isidentifier():
        start -= 1
    return max(start - 1, 0)


def _last_call(text: str) -> int | None:
    """The bracket that opens the arguments of the call that ends a text."""
    depth = 0
    for place in range(len(text) - 1, -1, -1) if text.endswith(")") else ():
        depth += (text[place] == ")") - (text[place] == "(")
        if depth == 0:
            return place if place and (text[place - 1].isalnum() or text[place - 1] == "_") else None
    return None


def _without_inner(text: str, start: int) -> str:
    """A text whose inner brackets behind a place are blank, as long as before."""
    depth, kept = 0, list(text)
    for place in range(start, len(text) - 1):
        depth -= text[place] in ")]"
        kept[place] = text[place] if depth == 0 else " "
        depth += text[place] in "(["
    return "".join(kept)


def _suggest_other_place(body: Body, draft: Draft, value: typed.Expr) -> None:
    """`y[-1]`, the last of the first axis, where that of another is meant: the batch comes first."""
    text = body.rules.text(value.span)
    match = _PLACE.fullmatch(text)
    if match is None or not isinstance(value.type, TensorType):
        return
    span = value.span._replace(start=value.span.start + match.start(1), end=value.span.start + match.end(1))
    for axis in range(1, min(value.type.rank + 1, _MOST_AXES)):
        draft.replace(f"take it of axis {axis}", span, ", ".join([*[":"] * axis, match[1]]))


def suggest_unit_axis(body: Body, draft: Draft, op: Operator, operands: Sequence[typed.Expr], at: Span) -> None:
    """A dim that is to be squeezed and is not 1, where another one is."""
    ty = operands[0].type if operands else None
    axis = _FIRST_NUMBER.match(body.rules.text(Span(at.file, at.end, sys.maxsize)))
    if not isinstance(op, Squeeze) or not isinstance(ty, TensorType) or axis is None:
        return
    place = at._replace(start=at.end + axis.start(1), end=at.end + axis.end(1))
    for unit in (n for n, dim in enumerate(ty.dims) if dim == ONE):
        draft.replace(f"take axis {unit}", place, str(unit))
