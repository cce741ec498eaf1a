"""What is likely a mistake although the program means something: names that nothing uses, or that hide others.

Enters: the items of a module with what each uses. Leaves: warnings, for a module without errors: an error is often the
reason that something is not used, and is enough to read at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tesserac.base.source import SourceFile, Span
from tesserac.check.names.captures import Captured
from tesserac.check.names.usage import LocalName, Usage, usage_of
from tesserac.diag.codes.names import W0211, W0212, W0213, W0214
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit
from tesserac.diag.sink import Sink
from tesserac.syntax import ast

PACKAGE = "__init__.tess"
"""What such a file imports it offers to others."""

SHOWN = 2
"""Names that a title lists."""


class Piece(NamedTuple):
    """Items with what they use, which may stand `by` characters before where they are now."""

    items: Sequence[ast.Item]
    usage: Usage
    by: int


def lint_module(module: ast.Module, source: SourceFile) -> tuple[Diagnostic, ...]:
    return lint([Piece((item,), usage_of((item,)), 0) for item in module.items], source)


def lint(pieces: Sequence[Piece], source: SourceFile) -> tuple[Diagnostic, ...]:
    sink = Sink()
    used: frozenset[str] = frozenset().union(*(piece.usage.names for piece in pieces))
    defined = {name: kind for piece in pieces for item in piece.items for name, kind in _defined(item)}
    for piece in pieces:
        if os.path.basename(source.path) != PACKAGE:
            for item in piece.items:
                _unused_import(item, used, piece.by, source, sink)
        for local in piece.usage.unread:
            _unread(local, piece.by, source, sink)
        for captured in piece.usage.stale:
            _stale(captured, piece.by, sink)
        for local in piece.usage.locals:
            if local.name.id in defined:
                _hides(local, defined[local.name.id], piece.by, sink)
    return sink.diagnostics


def _defined(item: ast.Item) -> Iterator[tuple[str, str]]:
    """Names that a local should not take, with what they are. Constants are values, as locals are."""
    match item:
        case ast.FunctionDef(name=name):
            yield name, "function"
        case ast.StructDef(name=name):
            yield name, "struct"
        case ast.Import() | ast.FromImport():
            yield from ((name, "import") for name, _, _ in _imported(item))


def _moved(span: Span, by: int) -> Span:
    return Span(span.file, span.start + by, span.end + by)


# ---------------------------------------------------------------------------------------------------- imports


def _imported(item: ast.Import | ast.FromImport) -> Iterator[tuple[str, ast.Node, bool]]:
    """Each name that an import binds, with its place, and whether it is meant for others (`f as f`)."""
    if isinstance(item, ast.Import):
        for module in item.modules:
            yield (module.alias.id if module.alias else next(iter(module.path.names), "")), module, False
    else:
        for name in item.names:
            alias = name.alias or name.name
            yield alias.id, name, name.alias is not None and name.alias.id == name.name.id


def _unused_import(item: ast.Item, used: frozenset[str], by: int, source: SourceFile, sink: Sink) -> None:
    if not isinstance(item, ast.Import | ast.FromImport):
        return
    bound = list(_imported(item))
    unused = [(name, node) for name, node, offered in bound if name not in used and not offered]
    if not unused:
        return
    names = ", ".join(f"`{name}`" for name, _ in unused[:SHOWN]) + (" and others" if len(unused) > SHOWN else "")
    draft = sink.warning(W0211, at=_moved(unused[0][1].span, by), names=names)
    gone = {id(node) for _, node in unused}
    kept = [source.slice(_moved(node.span, by)) for _, node, _ in bound if id(node) not in gone]
    edit = Edit(_moved(item.span, by), _import_of(item, kept, by, source)) if kept else _without(item, by, source)
    draft.fix("remove it" if len(unused) == 1 else "remove them", edit, applicability=Applicability.SAFE)


def _import_of(item: ast.Import | ast.FromImport, kept: Sequence[str], by: int, source: SourceFile) -> str:
    if isinstance(item, ast.Import):
        return f"import {', '.join(kept)}"
    return f"from {source.slice(_moved(item.path.span, by))} import {', '.join(kept)}"


# ----------------------------------------------------------------------------------------------------- locals


def _unread(local: LocalName, by: int, source: SourceFile, sink: Sink) -> None:
    name, at = local.name.id, _moved(local.name.span, by)
    draft = sink.warning(W0212, at=at, name=name)
    if local.alone and _has_own_line(local.statement, by, source):
        edit = _without(local.statement, by, source)
        draft.fix("remove the statement", edit, applicability=Applicability.SAFE)
    else:
        draft.replace(f"call it `_{name}` to say that it is not meant to be read", at, f"_{name}")


def _hides(local: LocalName, kind: str, by: int, sink: Sink) -> None:
    name = local.name.id
    draft = sink.warning(W0213, at=_moved(local.name.span, by), name=name, kind=kind)
    draft.remark(f"to the end of this function `{name}` is a value, and the {kind} cannot be reached")


def _stale(captured: Captured, by: int, sink: Sink) -> None:
    name = captured.name.id
    draft = sink.warning(W0214, at=_moved(captured.name.span, by), name=name, inner=captured.inner)
    draft.remark(f"a function has the names around it as they were where it is written; as an argument `{name}` is new")


def _has_own_line(node: ast.Node, by: int, source: SourceFile) -> bool:
    """Whether nothing else but a comment stands on the lines of a statement."""
    span = _moved(node.span, by)
    before = source.text[source.text.rfind("\n", 0, span.start) + 1 : span.start]
    after = source.text[span.end :].partition("\n")[0].strip()
    return not before.strip() and (not after or after.startswith("#"))


def _without(node: ast.Node, by: int, source: SourceFile) -> Edit:
    """Takes a statement away, with its lines where it has them for itself."""
    span = _moved(node.span, by)
    if not _has_own_line(node, by, source):
        return Edit(span, "")
    start = source.text.rfind("\n", 0, span.start) + 1
    end = source.text.find("\n", span.end)
    return Edit(Span(span.file, start, end + 1 if end >= 0 else len(source.text)), "")
