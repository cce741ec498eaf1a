"""What checking one item found, in a form that outlives edits elsewhere.

In: an item and its context, checked as a module of their own. Out: a `Finding`, which can be read again wherever the
same texts stand later. See Note [When a finding still holds].
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.infer import CheckResult
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.move import placed_diagnostic
from tesserac.incremental.grounds import Ground, quotes_lines
from tesserac.incremental.outline import Named, Outline, OutlineItem
from tesserac.syntax import ast
from tesserac.syntax.parse import ParsedItem

Key = tuple[int, tuple[ParsedItem, ...]]


def key_of(outline: Outline, index: int, context: Sequence[int]) -> Key:
    """What a finding is a function of, but for names and lines that messages may quote."""
    return context.index(index), tuple(outline.items[i].parsed for i in context)


@dataclass(frozen=True, eq=False)
class Finding:
    """`item`, its `nodes` and its `context` are where they stood when checked, in the text of the `ground`. `names`
    are those the module defined then, and `lines` those on which the context began, where there are diagnostics.

    Diagnostics are those of the whole context: another item that is wrong only because of this one is told here.
    There is no `ground` where the checker failed, or the whole file was checked.
    """

    item: OutlineItem
    nodes: tuple[ast.Item, ...]
    context: tuple[OutlineItem, ...]
    lines: tuple[int, ...]
    names: frozenset[Named]
    diagnostics: tuple[Diagnostic, ...]
    ground: Ground | None

    @property
    def result(self) -> CheckResult | None:
        return self.ground.result if self.ground is not None else None

    def holds(self, lines: tuple[int, ...], names: frozenset[Named]) -> bool:
        """Whether its messages are right where the context begins at these lines, in a module with these names."""
        return names == self.names and (lines == self.lines or not self._quotes_lines)

    @cached_property
    def _quotes_lines(self) -> bool:
        return any(map(quotes_lines, self.diagnostics))

    def placed(self, context: Sequence[OutlineItem]) -> tuple[Diagnostic, ...]:
        """The diagnostics where the context stands now."""
        pairs = sorted(zip(self.context, context, strict=True), key=lambda pair: pair[0].span.start)
        moves = [now.span.start - then.span.start for then, now in pairs]
        if not any(moves):
            return self.diagnostics
        starts = [then.span.start for then, _ in pairs]
        file = self.item.span.file

        def place(span: Span) -> Span:
            if span.file != file or not span.known:
                return span
            by = moves[max(bisect_right(starts, span.start) - 1, 0)]
            return Span(file, span.start + by, span.end + by)

        return tuple(placed_diagnostic(diagnostic, place) for diagnostic in self.diagnostics)


# Note [When a finding still holds]
# Checking is a function of the item's text, the texts of its context in their order, and the library. Two things more
# can be read off a message: a line number, and a name that nobody mentioned, offered instead of one that is unknown. So
# an item without diagnostics needs neither, and one with diagnostics is checked again when the names of the module
# change, or when it moves to another line and quotes one.
