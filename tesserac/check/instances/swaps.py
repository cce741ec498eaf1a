"""A fix for two arguments that stand in each other's place, as in `embedding(tokens, table)` after PyTorch's order.

Enters: a call whose arguments do not fit, and a test of their types. Leaves: a fix on the draft that exchanges two
tensors, where the call fits with them exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.ty import TensorType, Type


def exchanged(
    body: Body, values: Sequence[typed.Expr], types: Sequence[Type], fits: Callable[[tuple[Type, ...]], bool]
) -> tuple[typed.Expr, typed.Expr] | None:
    """The first two tensors of a call, one of floats and one of others, with which it fits once they are exchanged."""
    written = [place for place, value in enumerate(values) if body.rules.text(value.span)]
    for i, j in combinations(written, 2):
        if not _differ(types[i], types[j]):
            continue
        tried = list(types)
        tried[i], tried[j] = types[j], types[i]
        if fits(tuple(tried)):
            return values[i], values[j]
    return None


def only_exchange(
    values: Sequence[typed.Expr], fits: Callable[[tuple[Type, ...]], bool]
) -> tuple[typed.Expr, typed.Expr] | None:
    """Two tensors of a call with few of them, whatever they are of, if it fits with these exchanged and no others."""
    types = [value.type for value in values]
    tensors = [place for place, type_ in enumerate(types) if isinstance(type_, TensorType)]
    found = list[tuple[typed.Expr, typed.Expr]]()
    for i, j in combinations(tensors, 2) if len(tensors) <= _FEW else ():
        tried = list(types)
        tried[i], tried[j] = types[j], types[i]
        if fits(tuple(tried)):
            found.append((values[i], values[j]))
    return found[0] if len(found) == 1 else None


_FEW = 4


def _differ(one: Type, other: Type) -> bool:
    return isinstance(one, TensorType) and isinstance(other, TensorType) and one.dtype.is_float != other.dtype.is_float


def places_text(body: Body, pair: tuple[typed.Expr, typed.Expr]) -> str:
    one, other = (f"`{body.rules.text(value.span)}`" for value in pair)
    return f"{one} and {other} stand in each other's place"


def suggest_exchange(body: Body, draft: Draft, pair: tuple[typed.Expr, typed.Expr]) -> None:
    first, second = (value.span for value in pair)
    one, other = body.rules.text(first), body.rules.text(second)
    draft.fix(f"exchange them: `{other}` comes first", Edit(first, other), Edit(second, one))
