"""Warns of a loss that is given what it computes itself: `cross_entropy(softmax(x), y)`, or probabilities for their
logarithms (W0216). Both have the right shape and dtype, and train badly without a word.

Enters: a call of a loss of the library with its arguments. Leaves: a warning whose fix gives the loss what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.check.model import typed
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.meant_axes import made_of
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import W0216
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class _Takes:
    """What a loss takes as its first argument, the function of which it is mistaken for, and what to call instead; the
    argument itself where that is empty."""

    what: str
    mistaken: str
    instead: str = ""


_TAKEN: Mapping[str, _Takes] = {
    "cross_entropy": _Takes("scores, of which it takes the softmax itself", "softmax"),
    "bce_with_logits": _Takes("scores, of which it takes the sigmoid itself", "sigmoid"),
    "nll": _Takes("logarithms of probabilities", "softmax", "log_softmax"),
    "nll_loss": _Takes("logarithms of probabilities", "softmax", "log_softmax"),
    "kl_div": _Takes("logarithms of probabilities", "softmax", "log_softmax"),
}


def tell_of_twice(body: Body, name: str, values: Sequence[typed.Expr], callee: Callee) -> None:
    """Of a call of a loss, unless it stands in the library."""
    takes = _TAKEN.get(name)
    if takes is None or not values or of_library(callee.span.file):
        return
    made = made_of(body, values[0])
    mistaken = body.rules.library(takes.mistaken)
    if not isinstance(made, typed.Call) or not isinstance(mistaken, FunctionRef):
        return
    if not made.function.startswith(f"{mistaken.owner}.{mistaken.name}."):
        return
    draft = body.sink.warning(
        W0216, at=made.span, label=f"this is a {takes.mistaken}", function=name, what=takes.what
    )
    if made.span != values[0].span:
        draft.note(values[0].span, f"`{body.rules.text(values[0].span)}` is that {takes.mistaken}")
    of, text = body.rules.text(made.args[0].span), body.rules.text(made.span)
    if takes.instead and takes.mistaken in text:
        draft.replace(f"`{takes.instead}` gives them", made.span, text.replace(takes.mistaken, takes.instead, 1))
    elif of and isinstance(made.args[0].type, TensorType):
        draft.replace(f"leave out the {takes.mistaken}", values[0].span, of)
