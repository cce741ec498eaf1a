"""Where comments and blank lines stand: between which two tokens of an item.

In: the text of an item and its leaves. Out: for each leaf the comments on lines of their own before it, the one behind
it on its line, and whether a blank line comes right before it. Whoever lays out a leaf takes its comments; they are
handed out once, so at the end `left` tells whether any was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.syntax.concrete import CLOSERS, OPENERS, Leaf

_COMMENT = re.compile(r"#[^\n]*")


class Comment(NamedTuple):
    """`column` is where it starts on its line; `blank_before` whether a blank line comes right before it."""

    text: str
    column: int
    blank_before: bool


@dataclass
class Comments:
    """By the number of a leaf; what follows the last leaf is before the number after it."""

    before: dict[int, list[Comment]] = field(default_factory=dict)
    behind: dict[int, Comment] = field(default_factory=dict)
    blanks: set[int] = field(default_factory=set)

    def take_before(self, index: int) -> list[Comment]:
        return self.before.pop(index, [])

    def take_behind(self, index: int) -> Comment | None:
        return self.behind.pop(index, None)

    def take_indented(self, index: int, column: int) -> list[Comment]:
        """The first of the comments before a leaf, as long as they start at `column` or further right: they stand
        at the end of the block that is indented so."""
        waiting = self.before.get(index, [])
        count = next((i for i, comment in enumerate(waiting) if comment.column < column), len(waiting))
        taken = waiting[:count]
        if count == len(waiting):
            self.before.pop(index, None)
        else:
            self.before[index] = waiting[count:]
        return taken

    def any_within(self, first: int, last: int) -> bool:
        """Whether a comment stands between the start of one leaf and the end of another."""
        if not self.before and not self.behind:
            return False
        inside = range(first, last + 1)
        return any(i in inside and i > first for i in self.before) or any(i in inside and i < last for i in self.behind)

    @property
    def left(self) -> bool:
        return bool(self.before or self.behind)


def find_comments(text: str, leaves: Sequence[Leaf], begin: int, end: int) -> Comments:
    """The comments from `begin` to `end`, where an item with these leaves stands."""
    found = Comments()
    position = begin
    for leaf in leaves:
        if leaf.start - position > 1:
            _scan(text, position, leaf.start, leaf.number, found)
        position = leaf.end
    if position < end:
        _scan(text, position, end, len(leaves), found)
    if found.behind:
        _move_into_brackets(leaves, found)
    return found


def _move_into_brackets(leaves: Sequence[Leaf], found: Comments) -> None:
    """A comment between a value and the bracket behind it (`f  # why` and then `(x)`) becomes the bracket's.

    The two are never on different lines again, so that is where it would be found the next time.
    """
    depth = 0
    for leaf, following in pairwise(leaves):
        depth += (leaf.kind in OPENERS) - (leaf.kind in CLOSERS)
        movable = following.kind in OPENERS and leaf.kind not in OPENERS and leaf.kind != ","
        if not depth or not movable or leaf.number not in found.behind or following.number in found.before:
            continue
        second = found.behind.get(following.number)
        found.behind[following.number] = found.behind.pop(leaf.number)
        if second is not None:
            found.before.setdefault(following.number + 1, []).insert(0, second)


def _scan(text: str, start: int, end: int, index: int, found: Comments) -> None:
    """One gap between leaves, the second of which has `index`."""
    position = start
    for match in _COMMENT.finditer(text, start, end):
        lines = text.count("\n", position, match.start())
        column = match.start() - (text.rfind("\n", 0, match.start()) + 1)
        comment = Comment(match[0].rstrip(), column, lines > 1)
        if lines or not index:
            found.before.setdefault(index, []).append(comment)
        else:
            found.behind[index - 1] = comment
        position = match.end()
    if text.count("\n", position, end) > 1:
        found.blanks.add(index)
