"""Tensors that a body makes without saying a dtype: `zeros(N)` is f32 because nothing else was said.

Enters: a typed expression. Leaves: the calls that its elements come from, if all are such; each can say another.
As `origins.py`, it is walked only when there is something to explain.
"""

from __future__ import annotations

import re

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import storage_text
from tesserac.check.provenance.declared import MAX_VISITED, operands_of
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dtype import F64
from tesserac.types.ty import TensorType

_CREATES = re.compile(
    r"(?:\w+\.)*(?:array|tensor|zeros|ones|full|eye|identity|linspace|logspace|normal|uniform|randn|rand|tri)\((?!.*\bdtype\b).*\)",
    re.DOTALL,
)


_OF_WHOLE = re.compile(
    r"(?:\w+\.)*(?:(?:zeros|ones|eye|identity|tri)\(.*\)|full\(.*,\s*(?:fill_value\s*=\s*|value\s*=\s*)?-?\d+\s*\))",
    re.DOTALL,
)
"""Of these, what whole numbers can be the elements of."""


def dtype_edits(body: Body, value: typed.Expr, wanted: TensorType) -> list[Edit]:
    """What makes the elements of a value this dtype where they are made; nothing where something else decides it."""
    spans = _creations(body, value) or []
    if not wanted.dtype.is_float and not all(_OF_WHOLE.fullmatch(body.rules.text(at)) for at in spans):
        return []
    storage = storage_text(wanted)
    return [Edit(Span(at.file, at.end - 1, at.end - 1), f", dtype={storage}") for at in spans]


def suggest_dtype(body: Body, draft: Draft, value: typed.Expr, wanted: TensorType) -> None:
    """The fix where a dtype that does not fit was only the default."""
    made = dtype_edits(body, value, wanted)
    if made:
        draft.fix(f"make it {storage_text(wanted)} where it is made", *made)


_OF_NUMBERS = re.compile(r"complex\((\s*)(-?[\w.]+)\s*,[^()]*\)")


def complex_edits(body: Body, value: typed.Expr) -> list[Edit]:
    """What makes complex numbers c128 where they are made of plain numbers."""
    edits: list[Edit] = []
    for at in _creations(body, value, _OF_NUMBERS) or []:
        made = _OF_NUMBERS.fullmatch(body.rules.text(at))
        if made is not None:
            number = Span(at.file, at.start + made.start(2), at.start + made.end(2))
            edits.append(Edit(number, f"cast({made[2]}, {F64})"))
    return edits


def _creations(body: Body, value: typed.Expr, creates: re.Pattern[str] = _CREATES) -> list[Span] | None:
    waiting, found = [value], dict[Span, None]()
    for _ in range(MAX_VISITED):
        if not waiting:
            return list(found)
        node = waiting.pop()
        if isinstance(node, typed.Local):
            before = _bound(body, node)
            if before is None:
                return None
            waiting.append(before)
            continue
        sources = [one for one in operands_of(node) if _is_source(one, node)]
        if _is_number(node):
            continue
        if _is_one_call(text := body.rules.text(node.span)) and creates.fullmatch(text) is not None:
            found[node.span] = None
        elif not sources:
            return None
        else:
            waiting += sources
    return None


def _is_one_call(text: str) -> bool:
    """Whether a text ends with the bracket that its first one opens."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")":
            return place == len(text) - 1
    return False


def _bound(body: Body, local: typed.Local) -> typed.Expr | None:
    """What a name was given; one that a loop carries, what it had before."""
    binding = body.origins.get(local)
    if binding is not None and binding.value is not None:
        return binding.value
    named = (one.value for one in body.origins.values() if one.name == local.name and one.value is not None)
    is_parameter = local.name in body.declared.parameter_elements
    return None if is_parameter else next(named, None)


def _is_source(operand: typed.Expr, node: typed.Expr) -> bool:
    """Whether the elements of a node have their dtype from an operand."""
    types = operand.type, node.type
    return all(isinstance(type_, TensorType) for type_ in types) and _dtype(operand) == _dtype(node)


def _dtype(node: typed.Expr) -> object:
    return node.type.dtype if isinstance(node.type, TensorType) else None


def _is_number(node: typed.Expr) -> bool:
    """A number of the program, which takes the dtype that it meets."""
    return isinstance(node, typed.Coerce) and not isinstance(node.value.type, TensorType)
