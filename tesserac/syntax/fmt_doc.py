"""A document printer in Wadler's manner: text with places where lines may break, laid out to a width.

In: a `Doc` built from the functions below. Out: lines of text. Every part knows its text on one line (`flat`), or that
it has none because a comment or an author's wish breaks it; so what fits is printed without being walked.

A comment ends its line. The printer keeps that promise wherever one stands in a document: a comment behind code waits
for the end of the line, a second one, and any on a line of its own, starts a line, and code never follows on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from tesserac.base.dataclass import dataclass

WIDTH = 100
INDENT = 4


class Line(Enum):
    """A place where a group that does not fit breaks; else it is the value."""

    SOFT = ""
    SPACE = " "


class Choice(NamedTuple):
    """Text that depends on whether the group around it is broken."""

    broken: str
    flat: str


class Remark(NamedTuple):
    """A comment, behind code or on a line of its own."""

    text: str
    own_line: bool


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Doc, ...]
    flat: str | None


@dataclass(frozen=True, slots=True)
class Indent:
    content: Doc
    flat: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Printed on one line if it fits there, else with every break of its own."""

    content: Doc
    flat: str | None


class Forced(Enum):
    """Nothing, but the groups around it are broken."""

    BREAK = 0


Doc = str | Line | Choice | Remark | Forced | Concat | Indent | Group


def flat(doc: Doc) -> str | None:
    """The document on one line; None if it has a comment or a forced break."""
    if isinstance(doc, str):
        return doc
    if isinstance(doc, Line):
        return doc.value
    return None if isinstance(doc, Remark | Forced) else doc.flat


def concat(*docs: Doc) -> Doc:
    return join_all(docs)


def join_all(docs: Iterable[Doc]) -> Doc:
    parts: list[Doc] = []
    for doc in docs:
        if isinstance(doc, Concat):
            parts += doc.parts
        elif doc != "":
            parts.append(doc)
    if len(parts) == 1:
        return parts[0]
    texts = [flat(part) for part in parts]
    known = [text for text in texts if text is not None]
    return Concat(tuple(parts), "".join(known) if len(known) == len(texts) else None)


def indent(content: Doc) -> Doc:
    return Indent(content, flat(content))


def group(content: Doc) -> Doc:
    """Comments before all of it, and behind its last line, are no reason to break it, so they are put outside."""
    text = flat(content)
    if text is not None or not isinstance(content, Concat):
        return Group(content, text)
    parts = content.parts
    first, last = 0, len(parts)
    while first < last and isinstance(remark := parts[first], Remark) and remark.own_line:
        first += 1
    while last > first and _stays_on_line(parts[last - 1]):
        last -= 1
    behind = [part for part in parts[last:] if isinstance(part, Remark)]
    inner = join_all([*parts[first:last], *(part for part in parts[last:] if not isinstance(part, Remark))])
    return join_all([*parts[:first], Group(inner, flat(inner)), *behind])


def without_remarks(doc: Doc) -> tuple[Doc, tuple[Doc, ...]]:
    """A document and the comments at its end that stand behind code."""
    parts = doc.parts if isinstance(doc, Concat) else (doc,)
    last = len(parts)
    while last and isinstance(remark := parts[last - 1], Remark) and not remark.own_line:
        last -= 1
    return (doc, ()) if last == len(parts) else (join_all(parts[:last]), parts[last:])


def _stays_on_line(part: Doc) -> bool:
    """Whether a comment before it may stand behind it as well."""
    if isinstance(part, Remark):
        return not part.own_line
    return isinstance(part, str) or (isinstance(part, Group) and part.flat is not None)


def render(doc: Doc, margin: int) -> str:
    """The document as lines, the first one indented by `margin` too; no line end after the last."""
    text = flat(doc)
    if text is not None and "\n" not in text and margin + len(text) <= WIDTH:
        return " " * margin + text
    printer = _Printer(margin)
    printer.run(doc)
    return "".join(printer.out)


@dataclass
class _Printer:
    margin: int
    out: list[str] = field(default_factory=list)
    column: int = 0
    fresh: bool = True  # nothing stands on this line yet, not even its indentation
    ended: bool = False  # by a comment
    waiting: str = ""
    stack: list[tuple[int, Doc]] = field(default_factory=list)

    def run(self, doc: Doc) -> None:
        self.stack.append((self.margin, doc))
        while self.stack:
            margin, part = self.stack.pop()
            match part:
                case str():
                    self.text(part, margin)
                case Line():
                    self.line(margin)
                case Choice():
                    self.text(part.broken, margin)
                case Remark():
                    self.remark(part, margin)
                case Forced():
                    pass
                case Concat():
                    self.stack.extend((margin, child) for child in reversed(part.parts))
                case Indent():
                    self.stack.append((margin + INDENT, part.content))
                case Group():
                    self.group(part, margin)
        self.out.append(self.waiting)

    def text(self, text: str, margin: int) -> None:
        if self.ended:
            self.line(margin)
        if self.fresh:
            text = text.lstrip(" ")
        if not text:
            return
        if self.fresh:
            self.out.append(" " * self.margin)
            self.column = self.margin
            self.fresh = False
        self.out.append(text)
        newline = text.rfind("\n")
        self.column = self.column + len(text) if newline < 0 else len(text) - newline - 1

    def line(self, margin: int) -> None:
        self.margin = margin
        if self.fresh and self.out:  # two breaks with nothing between them are one
            return
        while self.out and (stripped := self.out[-1].rstrip(" ")) != self.out[-1]:
            self.out[-1] = stripped
            if stripped:
                break
            self.out.pop()
        self.out += (self.waiting, "\n")
        self.waiting = ""
        self.fresh, self.ended = True, False

    def remark(self, remark: Remark, margin: int) -> None:
        if not remark.own_line and not self.waiting and not self.fresh and not self.ended:
            self.waiting = f"  {remark.text}"
            return
        if not self.fresh:
            self.line(margin)
        self.text(remark.text, margin)
        self.ended = True

    def group(self, part: Group, margin: int) -> None:
        if part.flat is not None and self.fits(part.flat, margin):
            self.text(part.flat, margin)
        else:
            self.stack.append((margin, part.content))

    def fits(self, text: str, margin: int) -> bool:
        """Whether the text fits here, with what must follow it on the line."""
        column = margin if self.ended else self.margin if self.fresh else self.column
        first, _, rest = text.partition("\n")
        if rest:
            return column + len(first) <= WIDTH and len(rest) - rest.rfind("\n") - 1 + self.tail(WIDTH) <= WIDTH
        room = WIDTH - column - len(first)
        return room >= 0 and self.tail(room) <= room

    def tail(self, limit: int) -> int:
        """The length of what follows up to the next place where the line may break; not exact beyond the limit."""
        length = 0
        todo: list[Doc] = []
        behind = iter(reversed(self.stack))  # most of it stands on later lines
        while length <= limit:
            if not todo:
                follows = next(behind, None)
                if follows is None:
                    break
                todo.append(follows[1])
            part = todo.pop()
            if isinstance(part, Concat):
                todo.extend(reversed(part.parts))
            elif isinstance(part, Indent | Group):
                todo.append(part.content)
            elif isinstance(part, Line) or (isinstance(part, Remark) and part.own_line):
                break
            else:
                first, newline, _ = _written(part).partition("\n")
                length += len(first)
                if newline:
                    break
        return length


def _written(part: str | Choice | Remark | Forced) -> str:
    """What the line gets of a part of a broken group; a comment waits for its end."""
    if isinstance(part, Choice):
        return part.broken
    return part if isinstance(part, str) else ""
