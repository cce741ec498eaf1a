"""Fixes for a kernel that says blocks wrongly: of a dim which it has to take whole, or by numbers of its own.

Enters: where one of its loads says a block, or the number of one. Leaves: its loads without that block, or a loop over
blocks.
"""

from __future__ import annotations

import re
import sys

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft

_EXTENT = re.compile(r",\s*(?:rows|cols)\s*=\s*(T\.\w+|\w+\.\w+)(?=\s*[,)])")
_ITEM = re.compile(r"^(?:@|def |struct |test |param )", re.MULTILINE)


def suggest_whole(body: Body, draft: Draft, own: Span) -> None:
    """All loads of this function that say this block of a dim, without it: the dim is whole in each of them."""
    block, text = body.rules.text(own), body.rules.text(Span(own.file, 0, sys.maxsize))
    start = max((match.start() for match in _ITEM.finditer(text, 0, own.start)), default=0)
    behind = _ITEM.search(text, own.end)
    found = _EXTENT.finditer(text, start, behind.start() if behind else len(text))
    edits = [Edit(Span(own.file, match.start(), match.end()), "") for match in found if match[1] == block]
    if edits:
        draft.fix("load the dim whole", *edits)


_LOAD = re.compile(r"tile\.load\(\s*(\w+)\s*,([^()]*)$")
_RANGE = re.compile(r"\s+in\s+(range\([^\n]*(T\.\w+)[^\n]*\))\s*:")


def tell_of_counter(body: Body, number: typed.Expr) -> bool:
    """Whether nothing was said yet of the loop whose counter is taken for the number of a block."""
    binding = body.scope.bindings.get(body.rules.text(number.span))
    if binding is None or body.kernel is None:
        return True
    first = binding.span not in body.kernel.miscounted
    body.kernel.miscounted.add(binding.span)
    return first


def suggest_block_range(body: Body, draft: Draft, number: typed.Expr) -> None:
    """`for k in range(K // T.k)`, which counts blocks itself, as a loop over the blocks of what is loaded with it."""
    binding = body.scope.bindings.get(body.rules.text(number.span))
    load = _LOAD.search(body.rules.text(Span(number.span.file, 0, number.span.start)))
    if binding is None or load is None or binding.span.file != number.span.file:
        return
    counted = _RANGE.match(body.rules.text(Span(number.span.file, binding.span.end, sys.maxsize)))
    if counted is not None:
        place = Span(number.span.file, *(binding.span.end + at for at in counted.span(1)))
        function = "range_k" if "," in load[2] else "range_n"
        draft.replace("count blocks", place, f"tile.{function}({load[1]}, {counted[2]})")
