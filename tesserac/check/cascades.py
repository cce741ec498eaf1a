"""One mistake, one error.

Enters: the diagnostics of a module, and where its functions stand. Leaves: those that say something of their own. A
call that fails because its callee is wrong whoever calls it (E0217) repeats what is told at the definition; where a
signature names a size that no argument has, what does not fit in the body follows from that; and a name that stands in
a line that did not parse is missing elsewhere because of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.names import E0201, E0204, E0217
from tesserac.diag.codes.shapes import E0312
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.syntax import ast

_SHAPES = "E03"
_WORD = re.compile(r"\w+")


def without_cascades(diagnostics: Sequence[Diagnostic], functions: Iterable[ast.FunctionDef]) -> list[Diagnostic]:
    """What is left when consequences are taken out."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    wrong = {d.primary.span for d in errors if d.code != E0217.id}
    doubtful = [d.primary.span for d in errors if d.code in (E0204.id, E0312.id)]
    bodies = [node for node in functions if any(_is_in_signature(span, node) for span in doubtful)] if doubtful else []
    return [d for d in diagnostics if not _repeats(d, wrong) and not any(_follows(d, node) for node in bodies)]


def all_said(source: SourceFile, syntax: Sequence[Diagnostic], checked: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What is wrong with a file: its text, and its meaning without what that lacks because of the text."""
    broken = [d.primary.span for d in syntax if d.severity is Severity.ERROR and d.primary.span.file == source.path]
    unread = {word for span in broken for word in _WORD.findall(_line(source.text, span.start))}
    return [*syntax, *(d for d in checked if not _is_unread(d, source, unread))]


def _is_unread(diagnostic: Diagnostic, source: SourceFile, unread: set[str]) -> bool:
    file, start, end = diagnostic.primary.span
    return bool(unread) and diagnostic.code == E0201.id and file == source.path and source.text[start:end] in unread


def _line(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)]


def _repeats(diagnostic: Diagnostic, wrong: set[Span]) -> bool:
    return diagnostic.code == E0217.id and any(label.span in wrong for label in diagnostic.secondary[:1])


def _follows(diagnostic: Diagnostic, node: ast.FunctionDef) -> bool:
    """Whether it is about sizes in the body of a function whose signature is wrong."""
    span = diagnostic.primary.span
    return diagnostic.code.startswith(_SHAPES) and _is_in(span, node) and not _is_in_signature(span, node)


def _is_in_signature(span: Span, node: ast.FunctionDef) -> bool:
    return bool(node.body) and _is_in(span, node) and span.start < node.body[0].span.start


def _is_in(span: Span, node: ast.FunctionDef) -> bool:
    return span.file == node.span.file and node.span.start <= span.start and span.end <= node.span.end
