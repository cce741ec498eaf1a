"""Fixes for a value that has more or fewer dims than its annotation says.

Enters: the dims that are declared and those that are found. Leaves: fixes of a draft. Dims of size 1 are dropped or
added; other dims that are too many are reduced; or the annotation is meant to have what is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.model.specs import TensorSpec
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.types.dims import ONE, Dim

REDUCTIONS = ("mean", "sum")


def suggest_rank(
    body: Body, draft: Draft, spec: TensorSpec, value: typed.Expr, sizes: tuple[Sequence[Dim], Sequence[Dim]]
) -> None:
    """`sizes` are the dims expected and found, more of the one than of the other."""
    expected, found = sizes
    text = body.rules.text(value.span)
    if len(found) < len(expected):
        added = _axes_beyond(body, found, expected)
        if added is not None and [expected[axis] for axis in added] == [ONE]:
            draft.replace("add a dim of size 1", value.span, f"expand_dims({text}, {added[0]})")
    else:
        _suggest_fewer(body, draft, value, text, sizes)
    if not spec.leading:
        element = body.rules.text(spec.element_span)
        dims = ", ".join([*map(str, found), element])
        draft.replace("declare it as what it is", spec.span, f"Tensor[{dims}]")


def _suggest_fewer(
    body: Body, draft: Draft, value: typed.Expr, text: str, sizes: tuple[Sequence[Dim], Sequence[Dim]]
) -> None:
    expected, found = sizes
    axes = _axes_beyond(body, expected, found)
    if axes is None:
        return
    if [found[axis] for axis in axes] == [ONE]:
        draft.replace("leave out the dim of size 1", value.span, f"squeeze({text}, {axes[0]})")
        return
    place = f", axis={axes[0] if len(axes) == 1 else axes}" if expected else ""
    for reduction in REDUCTIONS:
        draft.replace(f"take the {reduction} over the other dims", value.span, f"{reduction}({text}{place})")


def _axes_beyond(body: Body, few: Sequence[Dim], many: Sequence[Dim]) -> tuple[int, ...] | None:
    """The axes of the longer that the shorter lacks; None where that is said in no way, or in two."""
    ways = _ways(body, few, many)
    return ways[0] if len(ways) == 1 else None


def _ways(body: Body, few: Sequence[Dim], many: Sequence[Dim]) -> list[tuple[int, ...]]:
    if len(few) == len(many):
        return [()] if all(map(body.facts.same, few, many)) else []
    ways = [(0, *(axis + 1 for axis in way)) for way in _ways(body, few, many[1:])]
    if few and body.facts.same(few[0], many[0]):
        ways += [tuple(axis + 1 for axis in way) for way in _ways(body, few[1:], many[1:])]
    return ways
