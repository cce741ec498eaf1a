"""Arguments with a dim of 1 too many, or too few, for a function of the library: `y[:, 0]`, `mask[:, None, None, :]`.

Enters: a call that fails, and a way to ask whether it would be right with another type of an argument. Leaves: the
fixes that index the argument so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.state.body import Body
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import TensorType, Type

MOST = 2
"""How many readings are proposed."""
IsRight = Callable[[int, Type], bool]


def unit_dims(body: Body, values: Sequence[typed.Expr], is_right: IsRight) -> Iterator[tuple[str, Span, str]]:
    """Words, the place of an argument, and what stands there instead; the first few that are right."""
    found = 0
    for place, value in enumerate(values):
        if not isinstance(value.type, TensorType) or not value.type.dims:
            continue
        for title, index, dims in _readings(value.type, _largest_rank(values)):
            text = body.rules.text(value.span)
            if found < MOST and text and is_right(place, replace(value.type, dims=dims)):
                found += 1
                named = text if text.replace(".", "").isidentifier() else f"({text})"
                yield title, value.span, f"{named}[{index}]"


def merged_dims(body: Body, values: Sequence[typed.Expr], is_right: IsRight) -> Iterator[tuple[str, Span, str]]:
    """Of an argument whose dims another has as one, `[B*T, V]` beside `[B, T]`: all of them as one."""
    sizes = {dim for value in values if isinstance(value.type, TensorType) for dim in value.type.dims}
    for place, value in enumerate(values):
        text = body.rules.text(value.span)
        if text and isinstance(value.type, TensorType) and value.type.rank > 1:
            whole = prod(value.type.dims, start=ONE)
            if whole in sizes and is_right(place, replace(value.type, dims=(whole,))):
                yield f"make one dim of them, {dim_text(whole)}", value.span, f"reshape({text}, -1)"


def _largest_rank(values: Sequence[typed.Expr]) -> int:
    return max(value.type.rank for value in values if isinstance(value.type, TensorType))


def _readings(type_: TensorType, rank: int) -> Iterator[tuple[str, str, tuple[Dim, ...]]]:
    """Without one dim of 1, then with as many as another tensor has more; the index that does it, and the dims."""
    dims = type_.dims
    for place, dim in enumerate(dims):
        if dim == ONE:
            index = ", ".join(("0" if other == place else ":") for other in range(place + 1))
            yield "drop the unit dim", index, (*dims[:place], *dims[place + 1 :])
    if 0 < rank - len(dims) <= 2:
        yield from _longer(dims, rank)


def _longer(dims: tuple[Dim, ...], rank: int) -> Iterator[tuple[str, str, tuple[Dim, ...]]]:
    """The first dim stays the first, as that of the batch."""
    for places in combinations(range(1, rank), rank - len(dims)):
        kept = iter(dims)
        longer = tuple(ONE if place in places else next(kept) for place in range(rank))
        yield "give it unit dims", ", ".join("None" if place in places else ":" for place in range(rank)), longer
