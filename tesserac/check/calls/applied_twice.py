"""Warns of a loss that is given what it computes itself: probabilities for scores, or for their logarithms (W0216).
Both have the right shape and dtype, and train badly without a word.

Enters: a call of a function of the library that says what it takes. Leaves: a warning whose fix gives it that.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.resources import of_library
from tesserac.check.model import typed
from tesserac.check.model.library_annotations import BY, LOGARITHMS, SCORES, taken_by
from tesserac.check.model.specs import Signature
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.meant_axes import made_of
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import W0216


def tell_of_twice(body: Body, signature: Signature, values: Sequence[typed.Expr], callee: Callee) -> None:
    """Of a call, unless it stands in the library."""
    said = {} if of_library(callee.span.file) or not values else taken_by(signature.node)
    word = next((word for word in (SCORES, LOGARITHMS) if word in said), None)
    made = made_of(body, values[0]) if word is not None else None
    mistaken = body.rules.library(said[word]) if word is not None else None
    if word is None or not isinstance(made, typed.Call) or not isinstance(mistaken, FunctionRef):
        return
    if not made.function.startswith(f"{mistaken.owner}.{mistaken.name}."):
        return
    own = f"scores, of which it takes the {mistaken.name} itself"
    what = own if word == SCORES else "logarithms of probabilities"
    label = f"this is a {mistaken.name}"
    draft = body.sink.warning(W0216, at=made.span, label=label, function=callee.name, what=what)
    if made.span != values[0].span:
        draft.note(values[0].span, f"`{body.rules.text(values[0].span)}` is that {mistaken.name}")
    of, text = body.rules.text(made.args[0].span), body.rules.text(made.span)
    if word == SCORES and of:
        draft.replace(f"leave out the {mistaken.name}", values[0].span, of)
    elif word == LOGARITHMS and mistaken.name in text:
        draft.replace(f"`{said[BY]}` gives them", made.span, text.replace(mistaken.name, said[BY], 1))
