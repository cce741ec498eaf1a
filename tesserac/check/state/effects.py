"""Effects: which a function has, and whether that is what it says.

Enters: the effects found in a body, with the place of each, and the `uses` of its signature. Leaves: diagnostics.
Effects are inferred; `uses` is a promise that is checked.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.state.body import Body
from tesserac.diag.codes.effects import E0601, E0602, W0601
from tesserac.ir.ordering import COLLECTIVE
from tesserac.syntax import ast

STATE, RANDOM = "state", "random"
EFFECTS = (RANDOM, "io", STATE, COLLECTIVE, "nondet")
UPDATES = frozenset((STATE, COLLECTIVE))
"""What a statement does not do by itself: an update, or a collective, gives a new value, which has to be kept."""


def check_effects(body: Body, node: ast.FunctionDef) -> None:
    """Holds `uses` against what the body does; without `uses` anything goes."""
    if node.uses is None:
        return
    function = node.name.partition("$")[0]  # of one inside another function what it is called there
    known = [name for name in node.uses if _is_effect(body, name)]
    declared = [name.id for name in known]
    for effect, span in body.doing.effects.items():
        if effect not in declared:
            shown = ", ".join(declared) or "none"
            draft = body.sink.error(E0601, at=span, function=function, declared=shown, effect=effect)
            place = _clause(body, node)
            draft.note(place or node.name_span, f"`{function}` promises this")
            if place is not None:
                draft.replace(f"say that it has effect `{effect}`", place, f"uses {', '.join([*declared, effect])}")
    for name in known:
        if name.id not in body.doing.effects:
            body.sink.warning(W0601, at=name.span, function=function, effect=name.id)


def _clause(body: Body, node: ast.FunctionDef) -> Span | None:
    """Where `uses ...` stands: the last thing before the colon of the signature."""
    if not node.body:
        return None
    start, head = node.span.start, body.rules.text(Span(node.span.file, node.span.start, node.body[0].span.start))
    at, colon = head.rfind("uses "), head.rfind(":")
    return None if not 0 <= at < colon else Span(node.span.file, start + at, start + len(head[:colon].rstrip()))


def _is_effect(body: Body, name: ast.Name) -> bool:
    if name.id in EFFECTS:
        return True
    draft = body.sink.error(E0602, at=name.span, name=name.id).remark(f"effects are {', '.join(EFFECTS)}, or none")
    draft.did_you_mean(name.id, EFFECTS, name.span)
    return False
