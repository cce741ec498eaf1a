"""Sizes that are numbers when code is made: the length of an `fft`, which no loop can change.

Enters: the sizes that an operator demands. Leaves: True, or False after E0228. A function is compiled once for each
value of such a size, which a call says; the index of a loop has no value then.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.base.source import Span
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0228
from tesserac.types.dims import Dim


def require_numbers(body: Body, demands: Iterable[Dim], name: str, at: Span) -> bool:
    """Whether sizes may be numbers by the time code is made of them."""
    indices = [index for size in demands for index in indices_in(body, size)]
    if indices and body.flow.dead == 0:
        draft = body.sink.error(E0228, at=at, name=name, index=indices[0])
        draft.remark("there is code of its own for every length, made before the loop runs")
    return not indices


def indices_in(body: Body, size: Dim) -> list[str]:
    """The indices of loops that a size depends on."""
    return [name for name in sorted(size.symbols()) if body.facts.is_index(name)]
