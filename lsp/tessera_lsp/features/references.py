"""Every place that means the same as the name at a place: in its file, and in files of its project.

In: a place in a text. Out: `Reference`s, or the edits that rename them all. A word is a reference if what it means is
defined where the meaning of the first is, so that equal words of other functions are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from tessera_lsp.features.meanings import ItemMeaning, LocalMeaning, Meaning, MemberMeaning, meaning_of
from tessera_lsp.features.places import Word, place_at, word_at
from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import SourceFile, Span
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.project.layout import SUFFIX
from tesserac.syntax import ast
from tesserac.syntax.lexer import vocabulary

MOST_FILES = 2000
"""Of a project that are looked through."""


class NotRenamed(Exception):
    """Why a name stays what it is, for whoever asked for another."""


@dataclass(frozen=True)
class Reference:
    span: Span
    is_definition: bool


class _Target(NamedTuple):
    """What is looked for: a name that is defined at a place. `is_public` is seen from other files."""

    name: str
    word: Span
    defined: Span
    is_public: bool


def references(session: Session, source: SourceFile, offset: int, *, everywhere: bool = True) -> list[Reference]:
    """In this file, and `everywhere` in those of its project too."""
    analysis = session.check_at(source, offset)
    target = _target(session, analysis, offset)
    if target is None:
        return []
    found = list(_in_file(session, session.analyse(source), target))
    for path in _others(session, source, target) if everywhere and target.is_public else ():
        found += _in_other(session, path, target)
    return found


def name_at(session: Session, source: SourceFile, offset: int) -> Span:
    """The name that can be renamed. Raises NotRenamed."""
    target = _target(session, session.check_at(source, offset), offset)
    if target is None:
        raise NotRenamed("only names that are defined in this project can be renamed")
    if of_library(target.defined.file):
        raise NotRenamed(f"`{target.name}` belongs to the library")
    return target.word


def renamed(session: Session, source: SourceFile, offset: int, name: str) -> dict[str, list[Span]]:
    """The places in each file that `name` goes to. Raises NotRenamed, also where the program would be worse with it."""
    name_at(session, source, offset)
    if _errors(session.analyse(source).diagnostics):
        raise NotRenamed("the file has mistakes, with which not all that names mean is known; mend them first")
    if not name.isidentifier() or name in vocabulary().keywords:
        raise NotRenamed(f"`{name}` is no name")
    found: dict[str, list[Span]] = {}
    definer = source
    for reference in references(session, source, offset):
        found.setdefault(reference.span.file, []).append(reference.span)
        if reference.is_definition:
            definer = _text_of(session, reference.span.file) or source
    _refuse_worse(session, definer, found.get(definer.path, []), name)
    return found


def _refuse_worse(session: Session, source: SourceFile, places: list[Span], name: str) -> None:
    """The text with the new name is checked where that is defined: it may mean something else already."""
    text = source.text
    for span in sorted(places, reverse=True):
        text = text[: span.start] + name + text[span.end :]
    after = session.suppose(SourceFile(source.path, text))
    said = _errors(after) if after is not None else ["the checker fails on it"]
    if said:
        raise NotRenamed(f"with the name `{name}` the program has mistakes: {said[0]}")


def _errors(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    return [diagnostic.title for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]


# ------------------------------------------------------------------------------------------------------- one file


def _target(session: Session, analysis: Analysis, offset: int) -> _Target | None:
    found = _meaning_at(session, analysis, offset)
    if found is None:
        return None
    word, span, meaning = found
    defined = _defined(meaning)
    if defined is None:
        return None
    return _Target(word.text, span, defined, not isinstance(meaning, LocalMeaning) or _is_named_by_callers(meaning))


def _is_named_by_callers(meaning: LocalMeaning) -> bool:
    return meaning.binding.kind == "parameter"


def _meaning_at(session: Session, analysis: Analysis, offset: int) -> tuple[Word, Span, Meaning] | None:
    place = place_at(analysis, offset)
    word = word_at(place) if place is not None else None
    meaning = meaning_of(session, analysis, place, word) if place is not None and word is not None else None
    return (word, place.view.now(word.span), meaning) if place and word is not None and meaning is not None else None


def _defined(meaning: Meaning) -> Span | None:
    """The place of the name itself, by which it is known; none of names of the language."""
    if isinstance(meaning, LocalMeaning):
        return meaning.first
    if isinstance(meaning, ItemMeaning) and isinstance(meaning.node, ast.FromImport | ast.Import):
        return None  # of a file that is not there, or with an error
    return meaning.span if isinstance(meaning, ItemMeaning | MemberMeaning) else None


def _in_file(session: Session, analysis: Analysis, target: _Target) -> Iterator[Reference]:
    for match in re.finditer(rf"\b{re.escape(target.name)}\b", analysis.source.text):
        found = _meaning_at(session, analysis, match.start())
        if found is None:
            continue
        word, span, meaning = found
        if word.text == target.name and span.start <= match.start() < span.end and _defined(meaning) == target.defined:
            exact = Span(span.file, match.start(), match.end())  # of a quoted size without the quotes
            yield Reference(exact, exact == target.defined)


# ---------------------------------------------------------------------------------------------------- other files


def _others(session: Session, source: SourceFile, target: _Target) -> Iterator[str]:
    """Files of the project that say the name; without a project, those in the folder."""
    project = session.project_of(source.path)
    folder = os.path.dirname(os.path.abspath(source.path))
    if project is not None:
        paths: Iterator[str] = project.modules()
    else:
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        paths = (os.path.join(folder, name) for name in names if name.endswith(SUFFIX))
    for path, _ in zip(paths, range(MOST_FILES), strict=False):
        if os.path.abspath(path) != os.path.abspath(source.path):
            yield path


def _in_other(session: Session, path: str, target: _Target) -> Iterator[Reference]:
    is_open, source = session.edited_text(path) is not None, _text_of(session, path)
    if source is not None and target.name in source.text:
        yield from _in_file(session, session.analyse(source), target)
        if not is_open:
            session.forget(path)


def _text_of(session: Session, path: str) -> SourceFile | None:
    """As it is being edited, else as the disk has it."""
    read = session.edited_text(path) or session.read(path)
    return read if isinstance(read, SourceFile) else None
