"""The chain of reasons below a message: how sizes came to be what they are.

Enters: the trail of an expression, equalities from the proof forest, demands of functions that are called. Leaves: at
most four because-steps, each place once, in the order given; where there is no room for all, what the user wrote goes
before what the library does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.provenance.origins import MAX_STEPS, Trail
from tesserac.check.sizes.facts import CallSize, Node, Why
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.types.dims import Dim
from tesserac.types.forest import Link

_LONGEST = 40
_UNNAMED = re.compile(r"D\d+")
"""A dim that the annotations of a function do not name."""


class Chain:
    """Collects steps, then shows those there is room for."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._steps: dict[Span, str] = {}

    def add(self, text: str, span: Span) -> None:
        self._steps.setdefault(span, text)

    def add_trail(self, trail: Trail, most: int = MAX_STEPS) -> None:
        """The operations that a size went through, earliest first; of more than `most`, the last ones."""
        for step in reversed(trail.steps[:most]):
            name = f"{step.name} = " if step.name else ""
            self.add(f"{name}{one_line(self._body, step.span)} : {step.shapes}", step.span)

    def add_facts(self, *dims: Dim) -> None:
        """The facts by which sizes are what they are."""
        for dim in dims:
            self.add_links(self._body.facts.reasons(dim))

    def add_links(self, links: Iterable[Link[Node, Why]]) -> None:
        for link in links:
            if link.reason.span is not None:
                self.add(f"{_link_text(link)}: {link.reason.text}", link.reason.span)

    def add_demand(self, guard: typed.Guard) -> None:
        """How what a function demands follows from what those that it calls demand, from the outside in."""
        while guard.origin is not None:
            code = one_line(self._body, guard.span)
            if not (of_library(guard.span.file) and is_unnamed(guard.origin)):
                self.add(f"{f'`{code}`' if code else 'what is'} called there needs `{guard.origin.rule}`", guard.span)
            guard = guard.origin

    def show(self, draft: Draft) -> None:
        room = max(0, MAX_STEPS - draft.steps)
        ours = [span for span in self._steps if not of_library(span.file)]
        theirs = [span for span in self._steps if of_library(span.file)]
        kept = {*ours[:room], *theirs[: max(0, room - len(ours))]}
        for span, text in self._steps.items():
            if span in kept:
                draft.because(text, span)


def is_unnamed(guard: typed.Guard) -> bool:
    """Whether none of its sizes has a name in the function that demands it."""
    names = guard.left.symbols() | guard.right.symbols()
    return bool(names) and all(_UNNAMED.fullmatch(name) for name in names)


def _link_text(link: Link[Node, Why]) -> str:
    """`"N" is "A" of `f``; a number is what a name is, not the other way round."""
    ends = (link.left, link.right)
    if isinstance(link.left, Dim) and link.left.constant is not None:
        ends = (link.right, link.left)
    return " is ".join(map(node_text, ends))


def node_text(node: Node) -> str:
    """`"N"`, or `"A" of `f`` for what a size is called in a function that is called."""
    return f"{dim_text(node.size)} of `{node.callee}`" if isinstance(node, CallSize) else dim_text(node)


def one_line(body: Body, span: Span) -> str:
    text = " ".join(body.rules.text(span).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
