"""The call that is being written: what its function takes, and which of that stands at the cursor.

In: a place in a text that need not parse: a call is open while it is typed. Out: a `CallSignature`. What is called is
read off the text before the cursor; what it means, the checker knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tessera_lsp.features.describe import one_line
from tessera_lsp.features.markdown import documentation
from tessera_lsp.features.meanings import (
    BuiltinMeaning,
    ItemMeaning,
    Meaning,
    OperatorMeaning,
    global_meaning,
    qualified_meaning,
    struct_of,
)
from tessera_lsp.features.places import place_at
from tesserac.base.source import SourceFile
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.ops.registry import Operator
from tesserac.syntax import ast

_CALLED = re.compile(r"(?:\b([^\W\d]\w*)\.)?\b([^\W\d]\w*)\s*(?:\[[^\[\]]*\])?\s*\Z")
"""`name`, `owner.name`, `name[sizes]`: what stands before an open parenthesis."""
_DEFINED = re.compile(r"\bdef\s+\w+\s*\Z")
_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)")
_SILENT = re.compile(r"\"\"\".*?(?:\"\"\"|\Z)|\"[^\"\n]*\"?|'[^'\n]*'?|#[^\n]*", re.DOTALL)
"""Strings and comments, in which brackets and commas are text."""


class CallSignature(NamedTuple):
    """`parameters` are parts of `label`; `active` counts them, None where nothing more is taken."""

    label: str
    parameters: tuple[str, ...]
    active: int | None
    doc: str


class _OpenCall(NamedTuple):
    """`owner.name(arguments`, the last of which is under the cursor. `at` is where the name ends."""

    owner: str
    name: str
    arguments: tuple[str, ...]
    at: int


class _Taken(NamedTuple):
    """A parameter, as it is written and as it is named in a call."""

    text: str
    name: str


def signature(session: Session, source: SourceFile, offset: int) -> CallSignature | None:
    call = _open_call(source.text, offset)
    if call is None:
        return None
    analysis = session.check_visible(source)
    method = _method(session, analysis, call)
    if method is not None:
        node, owner = method
        return _shown(call, node.name, _parameters(owner, node)[1:], node.doc)
    meaning = _meaning(session, analysis, call)
    if isinstance(meaning, ItemMeaning) and isinstance(meaning.node, ast.FunctionDef):
        taken = _parameters(meaning, meaning.node)
        bound = 1 if call.owner and _is_value(analysis, call) else 0
        return _shown(call, call.name, taken[bound:], meaning.node.doc)
    if isinstance(meaning, ItemMeaning) and isinstance(meaning.node, ast.StructDef):
        fields = [_Taken(one_line(meaning.source, meaning.now(f.span)), f.name) for f in meaning.node.fields]
        return _shown(call, call.name, fields, meaning.node.doc, by_name=True)
    if isinstance(meaning, OperatorMeaning):
        return _shown(call, call.name, _operands(meaning.op), meaning.op.__doc__)
    if isinstance(meaning, BuiltinMeaning):
        said = BUILTIN_DOCS[meaning.name]
        return CallSignature(said.usage, (), None, said.text)
    return None


def _open_call(text: str, offset: int) -> _OpenCall | None:
    """The innermost parenthesis that is open at the cursor, if a name stands before it."""
    start = max(0, offset - 4000)
    before = _SILENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text[start:offset])
    depth, end, arguments = 0, len(before), []
    for index in range(len(before) - 1, -1, -1):
        character = before[index]
        if character in ")]}":
            depth += 1
        elif character in "([{" and depth:
            depth -= 1
        elif character == "," and depth == 0:
            arguments.append(text[start + index + 1 : start + end])
            end = index
        elif character == "(":
            called = _CALLED.search(before, 0, index)
            if called is None or _DEFINED.search(before, 0, index):
                return None
            arguments.append(text[start + index + 1 : start + end])
            return _OpenCall(called[1] or "", called[2], tuple(reversed(arguments)), start + called.end(2))
        elif character in "[{":  # a list in a call: the call goes on around it
            arguments, end = [], index + 1
        elif character == "\n" and depth == 0 and before[index + 1 : index + 2].strip():
            return None  # a line that begins at the margin begins another item
    return None


def _meaning(session: Session, analysis: Analysis, call: _OpenCall) -> Meaning | None:
    view = analysis.item_at(call.at)
    result = view.result if view is not None else None
    if call.owner:
        return qualified_meaning(session, analysis, call.owner, call.name, result)
    return global_meaning(session, analysis, call.name, result)


def _method(session: Session, analysis: Analysis, call: _OpenCall) -> tuple[ast.FunctionDef, ItemMeaning] | None:
    found = struct_of(session, analysis, place_at(analysis, call.at), call.owner) if call.owner else None
    if found is None or not isinstance(found.node, ast.StructDef):
        return None
    return next(((method, found) for method in found.node.methods if method.name == call.name), None)


def _is_value(analysis: Analysis, call: _OpenCall) -> bool:
    """Whether `owner.name(` hands its owner over: not where that is the library, a file or a part of the language."""
    view = analysis.item_at(call.at)
    return view is None or view.result is None or view.result.checker.names.lookup(call.owner) is None


def _parameters(owner: ItemMeaning, node: ast.FunctionDef) -> list[_Taken]:
    return [_Taken(one_line(owner.source, owner.now(p.span)), p.name) for p in node.parameters]


def _operands(op: type[Operator]) -> list[_Taken]:
    first = op.parsed[0]
    operands = [_Taken(f"*{part.name}" if part.many else part.name, part.name) for part in first.operands]
    options = [_Taken(s.name if s.default is None else f"{s.name}={s.default}", s.name) for s in first.statics]
    return operands + options


def _shown(
    call: _OpenCall, name: str, taken: Sequence[_Taken], doc: str | None, *, by_name: bool = False
) -> CallSignature:
    label = f"{name}({', '.join(part.text for part in taken)})"
    return CallSignature(label, tuple(part.text for part in taken), _active(call, taken, by_name), documentation(doc))


def _active(call: _OpenCall, taken: Sequence[_Taken], by_name: bool) -> int | None:
    """The parameter that the last argument is for."""
    named = _NAMED.match(call.arguments[-1])
    if named is not None:
        return next((index for index, part in enumerate(taken) if part.name == named[1]), None)
    place = len(call.arguments) - 1
    return place if place < len(taken) and not by_name else None
