"""Warns where every row is read at the places of all rows, and each at its own place was meant: `logp[:, a]` of
`[B, A]` and `[B]` is `[B, B]` (W0303).

Enters: a tensor, the entries of its index and the tensors among them. Leaves: a warning, whose fixes pair the rows with
the places, or say that all pairs are meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.state.body import Body
from tesserac.diag.codes.shapes import W0303
from tesserac.syntax import ast
from tesserac.types.ty import TensorType


def tell_of_pairs(
    body: Body, value: typed.Expr, entries: Sequence[ast.Expr], places: Sequence[typed.Expr], span: Span
) -> None:
    """Of `value[entries]`, which stands at `span`; `places` are the tensors among the entries."""
    ty, index = value.type, places[0]
    if len(places) != 1 or of_library(span.file) or not isinstance(ty, TensorType) or len(entries) > ty.rank:
        return
    assert isinstance(index.type, TensorType)
    size = index.type.dims[0] if index.type.rank == 1 else None
    at = next((axis for axis, entry in enumerate(entries) if entry.span == index.span), None)
    if size is None or size.symbol is None or at is None or body.facts.same(ty.dims[at], size):
        return
    rows = [axis for axis, entry in enumerate(entries) if _is_whole(entry) and body.facts.same(ty.dims[axis], size)]
    plain = all(_is_whole(entry) or axis == at for axis, entry in enumerate(entries))
    if len(rows) != 1 or not plain:
        return
    name, text = dim_text(size), body.rules.text(value.span)
    draft = body.sink.warning(W0303, at=index.span, label=f"{name} places, read in every row", dim=name)
    draft.note(value.span, dims_text(ty.dims))
    draft.replace("each row at its own place", entries[rows[0]].span, f"arange({size})")
    draft.replace("every row at all places: say so", span, f"gather({text}, {body.rules.text(index.span)}, axis={at})")


def _is_whole(entry: ast.Expr) -> bool:
    return isinstance(entry, ast.Slice) and entry.start is entry.stop is entry.step is None
