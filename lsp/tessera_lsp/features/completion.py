"""The names that fit at the cursor.

What fits is read off the text before the cursor: policies behind `@` in a type, decorators behind `@` at the start of a
line, functions and attributes behind a dot, sizes and dtypes in the brackets of a type, machines in the string that a
schedule's `on` takes; elsewhere all names in scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal
from weakref import WeakKeyDictionary

from tessera_lsp.features.describe import describe
from tessera_lsp.features.meanings import global_meaning, library_items, named_nodes
from tessera_lsp.features.members import members_of
from tessera_lsp.features.places import Place, place_at
from tessera_lsp.features.scopes import visible
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.base.targets import TARGETS
from tesserac.check.declarations.decorators import ACCEPTED
from tesserac.check.declarations.target_schedules import ON
from tesserac.check.names.refs import BUILTINS, OPERATIONS, LibraryRef, NamespaceRef
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.incremental.outline import defined_names
from tesserac.ops.registry import OPERATORS
from tesserac.syntax import ast
from tesserac.syntax.lexer import vocabulary
from tesserac.types import dtype as dtypes

Kind = Literal["local", "size", "function", "struct", "constant", "operator", "dtype", "type", "attribute", "keyword"]

POLICIES = {
    "accum(f32)": "Computes and accumulates in f32, rounds once to the dtype.",
    "saturate": "Rounding clamps to the largest finite value.",
    "stochastic_round": "Rounds up or down by chance, in proportion.",
    "loss_scale(1024)": "Gradients carry this factor.",
    "scale(axis=0)": "Integers with one scale per index of an axis.",
}
TENSOR_ATTRIBUTES = {
    "T": "The last two dims swapped.",
    "shape": "The sizes.",
    "dtype": "The dtype and policy.",
    "rank": "The number of dims.",
}
TYPES = ("Tensor", "int", "float", "bool", "str", "fn")
SOFT_KEYWORDS = ("struct", "param", "buffer", "test", "where", "uses")

_WORD = re.compile(r"[^\W\d]?\w*\Z")
_IN_BRACKETS = re.compile(r"\[([^\[\]]*)")
_SIZE = re.compile(r"\b[A-Z]\w*")
_NO_SIZES = ("True", "False", "None")
_TARGET = re.compile(rf"\.{ON}\(\s*[\"']([^\"']*)\Z")
"""A target that is being written, up to the word at the cursor."""
_TENSOR = re.compile(r"\b[^\W\d]\w*\s*\Z")


@dataclass(frozen=True)
class Suggestion:
    """`rank` orders groups: what is nearest comes first. `doc` is what `description` would not find."""

    name: str
    kind: Kind
    rank: int
    detail: str = ""
    doc: str = ""


def completion(session: Session, source: SourceFile, offset: int) -> list[Suggestion]:
    line_start = source.text.rfind("\n", 0, offset) + 1
    before = _WORD.sub("", source.text[line_start:offset])
    if (named := _TARGET.search(before)) is not None:
        return list(_targets(named[1]))
    if _in_comment_or_string(before):
        return []
    anchor = _anchor(source, line_start, offset)
    analysis = session.check_at(source, anchor)
    place = place_at(analysis, anchor)
    if before.rstrip().endswith("@"):
        return list(_after_at(before))
    if before.endswith("."):
        return list(_after_dot(session, analysis, place, before))
    if _in_type(source.text[max(0, offset - 2000) : offset]):
        return _unique([*_sizes(analysis, anchor), *_dtypes(), *_module(analysis, sizes_only=True)])
    return _unique([*_locals(place), *_module(analysis), *_library(session), *_dtypes(), *_words()])


def description(session: Session, source: SourceFile, name: str) -> str:
    """What a suggested name is, once somebody looks at it; in Markdown."""
    meaning = global_meaning(session, session.check_visible(source), name)
    return describe(meaning) if meaning is not None else ""


def _unique(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """The nearest meaning of each name."""
    found: dict[str, Suggestion] = {}
    for suggestion in suggestions:
        found.setdefault(suggestion.name, suggestion)
    return list(found.values())


# ------------------------------------------------------------------------------------------------ the text before


def _anchor(source: SourceFile, line_start: int, offset: int) -> int:
    """On an indented line, the end of what was written last: the item ends there, and the cursor is still in it."""
    indented = source.text[line_start : line_start + 1].isspace()
    return len(source.text[:offset].rstrip()) if indented else offset


def _in_comment_or_string(before: str) -> bool:
    """Whether a line up to the cursor ends inside a comment or a string; a quoted size in a type is none of these."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", before)
    if "#" in bare:
        return True
    return ("'" in bare or '"' in bare) and not _in_type(before.rstrip("\"'"))


def _in_type(text: str) -> bool:
    """Whether the innermost open bracket is that of a type: `Tensor[`, or another name with a capital, or `List[`."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        character = text[index]
        if character in ")]}":
            depth += 1
        elif character in "([{":
            if depth == 0:
                name = _TENSOR.search(text, 0, index)
                return character == "[" and name is not None and name[0][:1].isupper()
            depth -= 1
    return False


def _after_at(before: str) -> Iterator[Suggestion]:
    if before.strip() in ("@", "") or re.fullmatch(r"\s*(@\w+\s*)*@\s*", before):
        yield from (Suggestion(name, "function", 0, "decorator") for name in ACCEPTED)
    else:
        yield from (Suggestion(text, "attribute", 0, "policy", doc) for text, doc in POLICIES.items())


def _targets(begun: str) -> Iterator[Suggestion]:
    """What is missing of the targets that begin like this: a colon and a hyphen end a word."""
    yield from (
        Suggestion(target.removeprefix(begun), "constant", 0, target)
        for target in TARGETS
        if target.startswith(begun) and target != begun
    )


def _after_dot(session: Session, analysis: Analysis, place: Place | None, before: str) -> Iterator[Suggestion]:
    """Functions of the library under its name; fields and methods of a struct; else attributes of tensors, and
    functions as methods."""
    receiver = re.search(r"(?<!\.)\b([^\W\d]\w*)\.\Z", before)
    members = members_of(session, analysis, place, receiver[1]) if receiver is not None else []
    if members:
        kinds: dict[str, Kind] = {"field": "attribute", "method": "function"}
        yield from (Suggestion(member.name, kinds[member.kind], 0, member.type) for member in members)
    elif receiver is None or not _is_library(analysis, receiver[1]):
        yield from (Suggestion(name, "attribute", 0, "", doc) for name, doc in TENSOR_ATTRIBUTES.items())
        yield from (suggestion for suggestion in _module(analysis) if suggestion.kind == "function")
        yield from (suggestion for suggestion in _library(session) if suggestion.kind in ("function", "operator"))
    else:
        yield from _library(session)


def _is_library(analysis: Analysis, name: str) -> bool:
    checked = (view.result.checker.names for view in analysis.items if view.result is not None)
    names = next(checked, None)
    return name == "op" if names is None else names.lookup(name) in (LibraryRef(), NamespaceRef("op"))


# ----------------------------------------------------------------------------------------------------- candidates


def _locals(place: Place | None) -> Iterator[Suggestion]:
    function = place.function if place is not None else None
    if place is None or function is None:
        return
    for name, binding in visible(function, place.offset).items():
        type_ = place.view.type_of(binding.value) if binding.value is not None else None
        kind: Kind = "size" if binding.kind == "size" else "local"
        yield Suggestion(name, kind, 0, type_.show() if type_ is not None else binding.kind)


def _sizes(analysis: Analysis, offset: int) -> Iterator[Suggestion]:
    """Names of sizes in the item, read off its text: a signature that is being typed does not parse yet."""
    index = analysis.outline.index_at(offset)
    text = analysis.source.slice(analysis.outline.items[index].span) if index is not None else ""
    names = (name for inside in _IN_BRACKETS.findall(text) for name in _SIZE.findall(inside))
    yield from (Suggestion(name, "size", 0, "size") for name in names if name not in _NO_SIZES)


def _module(analysis: Analysis, *, sizes_only: bool = False) -> Iterator[Suggestion]:
    for item, view in zip(analysis.outline.items, analysis.items, strict=True):
        names = defined_names(item.parsed)
        for node, span in named_nodes(view.nodes):
            name = analysis.source.slice(view.now(span))
            constant = isinstance(node, ast.ConstDef | ast.StructDef | ast.ParamDecl)
            if name in names and (constant or not sizes_only):
                yield Suggestion(name, _kind(node), 1)


def _kind(node: ast.Item) -> Kind:
    if isinstance(node, ast.StructDef):
        return "struct"
    return "function" if isinstance(node, ast.FunctionDef | ast.FromImport) else "constant"


_OF_LIBRARY: WeakKeyDictionary[Session, tuple[Suggestion, ...]] = WeakKeyDictionary()


def _library(session: Session) -> tuple[Suggestion, ...]:
    """Functions of the library, operators, and what the language itself knows."""
    known = _OF_LIBRARY.get(session)
    if known is None:
        known = _OF_LIBRARY[session] = tuple(_library_names(session))
    return known


def _library_names(session: Session) -> Iterator[Suggestion]:
    for result in session.library:
        for item in library_items(session, result):
            yield Suggestion(item.source.slice(item.span), _kind(item.node), 2)
    for operator in OPERATORS.values():
        if operator.surface:
            yield Suggestion(operator.name, "operator", 2, "operator")
    yield from (Suggestion(name, "function", 2) for name in (*BUILTINS, *OPERATIONS))


def _dtypes() -> Iterator[Suggestion]:
    yield from (Suggestion(dtype.name, "dtype", 3, "dtype") for dtype in dtypes.ALL)


def _words() -> Iterator[Suggestion]:
    yield from (Suggestion(name, "type", 3, "type") for name in TYPES)
    yield from (Suggestion(word, "keyword", 4) for word in (*sorted(vocabulary().keywords), *SOFT_KEYWORDS))
