"""Says why an int of the run cannot stand where its value is needed while compiling.

Enters: such an int, and the place. Leaves: E0226, with what made it one: the loop or the branch that changes it.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0226
from tesserac.diag.sink import Draft, Sink


def refuse_run_int(body: Body, value: typed.Expr | None, at: Span, what: str = "a size") -> Draft:
    """`what` is known while compiling; the value, where it is at hand, is of the run."""
    if body.waits:  # a call gives the int it is made of
        body.needs_value = True
        return Sink().error(E0226, at=at, what=what, value="this")
    text = body.rules.text(at)
    shown = f"`{text}`" if text.isidentifier() else "this"
    draft = body.sink.error(E0226, at=at, what=what, value=shown)
    binding = body.origins.get(value) if isinstance(value, typed.Local) else None
    if binding is not None and binding.span != at:
        draft.note(binding.span, "a loop or a branch changes it: only the run knows what it is")
    return draft
