"""Says that an index leaves its dim in the first or the last iteration of a loop, whatever the sizes are: `x[i]` where
i counts from 1 to N, `x[i + 1]` where it counts to N - 1.

Enters: a position that may be one of a dim as far as one iteration tells. Leaves: True after a diagnostic, whose fixes
move the index, or leave out the iteration. What a condition decides is left to a check.
"""

from __future__ import annotations

import re

from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.state.body import Body
from tesserac.check.state.parts import Counter
from tesserac.diag.codes.shapes import E0313
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import IntType


def leaves_in_loop(body: Body, position: Dim, size: Dim, index: typed.Expr) -> bool:
    """Whether every run of the loops around comes to an iteration in which the position is none of the dim."""
    if body.flow.branches or body.flow.dead:
        return False
    above, below = (body.facts.short_at_an_end(gap) for gap in (size - position - ONE, position))
    if above is None and below is None:
        return False
    assert isinstance(index.type, IntType)
    text = body.rules.text(index.span)
    end, at_end = ("last", dim_text(size - 1 + above)) if above is not None else ("first", str(-(below or 0)))
    label = f"in the {end} iteration this is {at_end}"
    draft = body.sink.error(E0313, at=index.span, label=label, index=f"`{text}`", size=dim_text(size))
    counter = body.flow.counter
    if counter is not None and counter.step == 1 and _counts(body, counter, position):
        if above is not None:
            draft.note(counter.bounds[-1], f"the last `{counter.name}` is {dim_text(counter.stop - 1)}")
            _suggest_earlier(body, draft, counter, index, above)
        elif below is not None:
            _suggest_later(draft, counter, below)
    return True


def _counts(body: Body, counter: Counter, position: Dim) -> bool:
    """Whether a position depends on what the innermost loop counts."""
    own = body.scope.bindings.get(counter.name)
    counted = own.type.value.symbols() if own is not None and isinstance(own.type, IntType) else frozenset()
    return not position.symbols().isdisjoint(counted)


def _suggest_earlier(body: Body, draft: Draft, counter: Counter, index: typed.Expr, beyond: int) -> None:
    """Places are counted from 0: the index lower, where it is a counter that starts that far up; or a loop that ends
    earlier."""
    first, stop = counter.start.constant, counter.bounds[-1]
    if first is not None and first >= beyond and body.rules.text(index.span) == counter.name:
        draft.replace("places are counted from 0", index.span, f"{counter.name} - {beyond}")
    text = body.rules.text(stop)
    sooner = re.sub(rf"\s*\+\s*{beyond}$", "", text)
    draft.replace("end the loop there", stop, sooner if sooner != text else f"{text} - {beyond}")


def _suggest_later(draft: Draft, counter: Counter, below: int) -> None:
    """A loop that starts where the index is the first place."""
    at, start = counter.bounds[0], counter.start + below
    if len(counter.bounds) == 1:
        draft.fix("start the loop later", Edit(at._replace(end=at.start), f"{start}, "))
    else:
        draft.replace("start the loop later", at, str(start))
