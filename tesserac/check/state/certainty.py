"""What is certainly wrong with a definition that waits for the value of an int, or for the length of a list.

Enters: the diagnostics of its body, and the types of its expressions. Leaves: those that every call would bring about.
What is made of a missing value has no type, and no rule says anything of it; so what is said does not depend on it,
but for two things. A list is a tuple as soon as a call gives its length, and some rules take tuples only; those that
know lists note where they have judged one. And where an int decides between branches, each call keeps one of them: what
the branches bind need not agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tesserac.base.source import Span
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0203, E0212
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax import ast
from tesserac.types.ty import ListType, Type

_OF_BRANCHES = (E0203.id, E0212.id)


def certain(body: Body, diagnostics: Iterable[Diagnostic], types: Mapping[ast.Expr, Type]) -> list[Diagnostic]:
    found = [d for d in diagnostics if not (body.forks and d.code in _OF_BRANCHES)]
    lists = [node.span for node, type_ in types.items() if isinstance(type_, ListType)] if found else []
    calls = [node for node in types if isinstance(node, ast.Call)] if lists else []
    places = [_place(d.primary.span, calls) for d in found]
    pairs = zip(found, places, strict=True)
    return [d for d, at in pairs if d.primary.span in body.judged or not any(_holds(at, inner) for inner in lists)]


def _place(span: Span, calls: Iterable[ast.Call]) -> Span:
    """Where something is wrong; a call, for what is said at the name of its function."""
    return next((call.span for call in calls if _holds(call.function.span, span)), span)


def _holds(outer: Span, inner: Span) -> bool:
    return outer.file == inner.file and outer.start <= inner.start and inner.end <= outer.end
