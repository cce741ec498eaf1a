"""Where the sizes of one name came from, with no mistake around.

Enters: the body of a function, a name and a line. Leaves: the name's type and, for each dim, the chain from its
declaration to that line; for the name of a dim, where it is declared and what is known of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.model.scope import Binding
from tesserac.check.provenance.chains import node_text
from tesserac.check.provenance.origins import MAX_STEPS, trace
from tesserac.check.state.body import Body
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Link:
    """One step of a chain, earliest first: what happened, and where."""

    text: str
    span: Span


@dataclass(frozen=True)
class Chain:
    """How one dim came to be."""

    dim: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Origin:
    """A name at a line: its type in words, and a chain for each of its dims."""

    span: Span
    type: str
    chains: tuple[Chain, ...]


def origin_of(body: Body, name: str, line: int) -> Origin | None:
    """What a name is at a line, or at the nearest line before; None if the function has no such name."""
    if name in body.declared.dim_spans and name not in body.scope.bindings:
        return _origin_of_dim(body, name)
    known = [place for place in _places(body, name) if body.rules.line(place[0]) <= line]
    if not known:
        return _origin_of_dim(body, name) if name in body.declared.dim_spans else None
    span, binding = max(known, key=lambda place: (body.rules.line(place[0]), place[0].start))
    return Origin(span, binding.type.show(), tuple(_chains(body, span, binding)))


def _places(body: Body, name: str) -> Iterator[tuple[Span, Binding]]:
    """Every place where a name is read or bound, with what it stands for there."""
    for local, binding in body.origins.items():
        if local.name == name:
            yield local.span, binding
            yield binding.span, binding
    if name in body.scope.bindings:
        yield body.scope.bindings[name].span, body.scope.bindings[name]


def _chains(body: Body, span: Span, binding: Binding) -> Iterator[Chain]:
    if not isinstance(binding.type, TensorType):
        return
    local = typed.Local(binding.type, span, binding.name)
    body.origins[local] = binding
    for axis, dim in enumerate(binding.type.dims):
        yield Chain(dim_text(dim), tuple(_links(body, local, axis, dim)))


def _links(body: Body, local: typed.Local, axis: int, dim: Dim) -> Iterator[Link]:
    trail = trace(body, local, axis)
    if trail.declared is not None:
        yield Link(f"declared by `{trail.parameter}`", trail.declared)
    for step in reversed(trail.steps):
        name = f"{step.name} = " if step.name else ""
        yield Link(f"{name}{' '.join(body.rules.text(step.span).split())} : {step.shapes}", step.span)
    yield from _equalities(body, dim)


def _equalities(body: Body, dim: Dim) -> Iterator[Link]:
    """What a size is stated to be, then what it is called in the functions that it is passed to."""
    for link in body.facts.reasons(dim):
        if link.reason.span is not None:
            yield Link(f"is {node_text(link.right)}, by {link.reason.text}", link.reason.span)
    for link in body.facts.calls_with(dim)[:MAX_STEPS]:
        if link.reason.span is not None:
            yield Link(f"is {node_text(link.right)}: {link.reason.text}", link.reason.span)


def _checks(guard: typed.Guard) -> Iterator[Link]:
    """A check on entry, and the checks of called functions that it stands for; not of those in other files."""
    yield Link(f"checked on entry: {guard.text}", guard.span)
    origin = guard.origin
    while origin is not None and origin.span.file == guard.span.file:
        yield Link(f"since `{origin.text}` is needed there", origin.span)
        origin = origin.origin


def _origin_of_dim(body: Body, name: str) -> Origin:
    spans = body.declared.dim_spans[name]
    links = [Link("declared here", spans[0]), *(Link("the same dim here", span) for span in spans[1:4])]
    links += _equalities(body, Dim.sym(name))
    about = [guard for guard in body.sizes.guards.values() if name in guard.left.symbols() | guard.right.symbols()]
    links += [link for guard in about for link in _checks(guard)]
    return Origin(spans[0], "a dim", (Chain(dim_text(Dim.sym(name)), tuple(links)),))
