"""What a program asks of where and how it runs, besides what it computes: placements, schedules, hints.

Enters: the node that asks, checked. Leaves: a `Request` of the function that it stands in. A placement must be had, or
the function does not run; a hint that no target takes is told by `tesserac inspect`. Nothing is accepted in silence.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.names.type_attributes import DEVICE, attribute_name, device_number, read_device
from tesserac.check.state.body import Body
from tesserac.diag.sink import Sink
from tesserac.syntax import ast

NOT_FETCHED = "no target fetches ahead of what reads it yet"
NOT_SCHEDULED = "the kernel does not run as tiles, so that only `tile.context()` shows what the schedule says"
NOT_RESCHEDULED = "this is no call of a function that could pass it on"
NOT_TILED = "the product is no launch of its own here, so that nothing has blocks of its own"
NOT_VECTORIZED = "the compiler chooses the width of loads itself"
ONE_DEVICE = "one device takes all devices of a mesh, and every tensor lies whole on it"

_ATTRIBUTES = {
    "rolling_window": "`append` to a full cache ends the call, whatever its type says; use `append_rolling`",
    "paged": "the state lies in memory as a whole",
    "checkpointable": "every state can be saved, with or without it",
}
"""Why an attribute of a type makes no difference."""
_RELIED_ON = ("rolling_window",)
"""Attributes that say what a program computes, and not only how."""


def ask(body: Body, span: Span, why: str, before: str = "") -> None:
    """A hint, written at `span` behind `before`, that is checked and not taken."""
    _add(body, typed.Request(f"{before}{body.rules.text(span)}", span, why))


def ask_device(body: Body, device: str, span: Span, number: int | None) -> None:
    """A part of the body has to run on a device, that of a number where one is said."""
    _add(body, typed.Request(body.rules.text(span), span, "", device=device, number=number))


def ask_by_types(body: Body, attributes: Iterable[ast.Expr]) -> None:
    """What stands after the `@` of types, each checked, in a signature or in a body."""
    for node in attributes:
        name, text = attribute_name(node), f"@{body.rules.text(node.span)}"
        if name == DEVICE and isinstance(node, ast.Call):
            device = read_device(Sink(), node.arguments[0].value)
            number = device_number(node.arguments[0].value)
            _add(body, typed.Request(text, node.span, "", device=device, number=number))
        elif name in _ATTRIBUTES:
            _add(body, typed.Request(text, node.span, _ATTRIBUTES[name], is_needed=name in _RELIED_ON))


def _add(body: Body, request: typed.Request) -> None:
    if body.flow.dead == 0 and request not in body.requests:
        body.requests.append(request)
