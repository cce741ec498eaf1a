"""Fixes that line dims up: unit dims put elsewhere, an end that is left out, a dim of its own for what is joined.

Enters: the operands of an operator whose shapes do not fit. Leaves: fixes in its message.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.provenance.sides import Side
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.join import Concat
from tesserac.ops.registry import Operator
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType, Type

_WITH_UNIT = (
    re.compile(r"(?P<of>.+)\.unsqueeze\(\s*(?:(?:dim|axis)\s*=\s*)?-?\d+\s*\)", re.DOTALL),
    re.compile(r"unsqueeze\(\s*(?P<of>[\w.]+)\s*,\s*(?:(?:dim|axis)\s*=\s*)?-?\d+\s*\)"),
    re.compile(r"(?P<of>[\w.]+)\[\s*(?:(?:None|:)\s*,?\s*)+\]"),
)
"""A value that is given a dim of size 1."""

_WHOLE = re.compile(r"\[:\s*\w+\]")
"""A slice behind a name that leaves nothing out, and so is no part of what is read."""


def suggest_axis(draft: Draft, short: Side, long: Side) -> None:
    """Dims that all have a partner in the other shape, in order, can be lined up with them by unit dims."""
    places: list[int] = []
    for dim in reversed(short.dims):
        limit = places[0] if places else len(long.dims)
        partners = [axis for axis in range(limit) if long.dims[axis] == dim]
        if not partners:
            return
        places.insert(0, partners[-1])
    if not short.text or not places:
        return
    index = ", ".join(":" if axis in places else "None" for axis in range(places[0], len(long.dims)))
    text = short.text if re.fullmatch(r"[\w.]+", short.text) else f"({short.text})"
    names = " and ".join(map(dim_text, short.dims))
    draft.replace(f"line it up with {names}", short.operand.span, f"{text}[{index}]")


def suggest_other_unit(draft: Draft, side: Side, other: Side) -> None:
    """Where an operand was given a dim of size 1 at the wrong place, that dim at the right one."""
    found = next((match for pattern in _WITH_UNIT if (match := pattern.fullmatch(side.text))), None)
    dims = tuple(dim for dim in side.dims if dim != ONE)
    if found is not None and len(dims) < len(side.dims):
        suggest_axis(draft, replace(side, dims=dims, text=found["of"]), other)


def suggest_other_units(draft: Draft, first: Side, second: Side) -> None:
    """Two lists of rows that were given their dims of size 1 at the same place: the second gets it before its rows."""
    found = next((match for pattern in _WITH_UNIT if (match := pattern.fullmatch(second.text))), None)
    at = next(axis for axis, pair in enumerate(zip(first.dims, second.dims, strict=True)) if pair[0] != pair[1])
    behind = {first.dims[at + 1 : at + 2], second.dims[at + 1 : at + 2]}
    if found is not None and behind == {(ONE,)} and ONE not in (first.dims[at], second.dims[at]):
        index = ", ".join([*[":"] * at, "None"])
        title = f"each of {dim_text(first.dims[at])} with each of {dim_text(second.dims[at])}"
        draft.replace(title, second.operand.span, f"{found['of']}[{index}]")


def suggest_first(draft: Draft, short: Side, long: Side) -> None:
    """A table with room for more than there is, `[L, D]` beside `[B, S, D]`: its first S rows; of features none is
    left out."""
    dims = long.dims[len(long.dims) - len(short.dims) :]
    apart = [axis for axis, pair in enumerate(zip(short.dims, dims, strict=True)) if pair[0] != pair[1]]
    if len(apart) != 1 or apart[0] == len(dims) - 1 or not re.fullmatch(r"[\w.]+", short.text):
        return
    own, other = short.dims[apart[0]], dims[apart[0]]
    if own.symbol is not None and other.symbol is not None and own not in long.dims and other not in short.dims:
        index = ", ".join([*[":"] * apart[0], f":{other}"])
        draft.replace(f"take the first {other} of its {own}", short.operand.span, f"{short.text}[{index}]")


def suggest_cut(body: Body, draft: Draft, first: Side, second: Side) -> None:
    """Two operands, one of which is longer by a few elements along one dim: without its last ones."""
    for short, long in ((first, second), (second, first)):
        apart = [axis for axis, pair in enumerate(zip(short.dims, long.dims, strict=True)) if pair[0] != pair[1]]
        lost = (long.dims[apart[0]] - short.dims[apart[0]]).constant if len(apart) == 1 else None
        if lost is None or lost < 1 or long.dims[apart[0]].constant is not None:
            continue
        span = long.operand.span
        if re.fullmatch(r"[\w.]+", long.text):
            behind = _WHOLE.match(body.rules.text(Span(span.file, span.end, sys.maxsize)))
            index = ", ".join([*[":"] * apart[0], f":-{lost}"])
            last = "its last element" if lost == 1 else f"its last {lost} elements"
            end = span.end + (behind.end() if behind else 0)
            draft.replace(f"leave out {last}", span._replace(end=end), f"{long.text}[{index}]")


def suggest_pairs(draft: Draft, first: Side, second: Side) -> None:
    """Two lists of rows of one length, or of numbers: each of one with each of the other."""
    (rows, *row), (others, *other) = first.dims, second.dims
    simple = all(re.fullmatch(r"[\w.]+(?:\([^()]*\))?", side.text) for side in (first, second))
    if row == other and (row or (rows.symbol and others.symbol)) and ONE not in (rows, others) and simple:
        before, behind = (second, first) if first.text.startswith("arange(") else (first, second)  # rows of a batch
        title = f"each of {dim_text(before.dims[0])} with each of {dim_text(behind.dims[0])}"
        edits = (Edit(side.operand.span, f"{side.text}[{i}]") for side, i in ((before, ":, None"), (behind, "None")))
        draft.fix(title, *edits)


def suggest_joined_dim(body: Body, draft: Draft, operand: typed.Expr, other: typed.Expr, op: Operator) -> None:
    """A value to be joined that lacks the dim along which it is: it is one element there."""
    types = (operand.type, other.type)
    if not isinstance(op, Concat) or not all(isinstance(type_, TensorType) for type_ in types):
        return
    for lacking, whole in ((operand, other), (other, operand)):
        assert isinstance(lacking.type, TensorType)
        assert isinstance(whole.type, TensorType)
        dims, axis = whole.type.dims, op.axis % whole.type.rank
        if lacking.type.dims == (*dims[:axis], *dims[axis + 1 :]):
            text = body.rules.text(lacking.span)
            text = text if re.fullmatch(r"[\w.]+", text) else f"({text})"
            index = ", ".join([*[":"] * axis, "None"])
            draft.replace("as one element along the dim of the join", lacking.span, f"{text}[{index}]")
        elif lacking.type.rank < whole.type.rank:
            suggest_expansion(body, draft, lacking, whole, axis)


def suggest_expansion(body: Body, draft: Draft, few: typed.Expr, whole: typed.Expr, axis: int) -> None:
    """A value that is one element along the dim of a join and the same for all others, as a token before each row."""
    assert isinstance(few.type, TensorType)
    assert isinstance(whole.type, TensorType)
    dims = (*whole.type.dims[:axis], ONE, *whole.type.dims[axis + 1 :])
    own = (*[ONE] * (len(dims) - few.type.rank), *few.type.dims)
    text = body.rules.text(few.span)
    if text and all(small in (ONE, large) for small, large in zip(own, dims, strict=True)):
        draft.replace("the same for each of them", few.span, f"expand({text}, ({', '.join(map(str, dims))}))")


def type_dims(type_: Type) -> str:
    return dims_text(type_.dims) if isinstance(type_, TensorType) else type_.show()
