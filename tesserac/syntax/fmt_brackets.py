"""Tokens, brackets and lists: what every form of the language is laid out with.

In: leaves and branches of the concrete tree. Out: documents. Each leaf that is laid out, or dropped, brings its
comments along. A list in brackets stands on one line, or has one entry per line with a comma behind each; a comma
behind the last entry in the source asks for the second. Arguments and parameters may also share the one line between
their brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.syntax.comments import Comments
from tesserac.syntax.concrete import CLOSERS, GROUP, OPENERS, Branch, Leaf, Part
from tesserac.syntax.fmt_doc import Choice, Doc, Forced, Line, Remark, concat, group, indent, join_all, without_remarks

Lay = Callable[[Branch], Doc]

_SELF_CONTAINED = frozenset(("list_expr", "dict_expr", "list_comprehension", "dict_comprehension", "tuple_expr"))


class Brackets:
    """Lays out one item. `leaves` are all of its tokens."""

    def __init__(self, leaves: Sequence[Leaf], comments: Comments) -> None:
        self.leaves = leaves
        self.comments = comments
        self.has_remarks = False  # whether a comment was laid out in the middle of a statement

    # ------------------------------------------------------------------------------------------------- tokens

    def leaf(self, leaf: Leaf, text: str | None = None) -> Doc:
        """A token with its comments; `text` is what to write instead of it."""
        shown = leaf.text if text is None else text
        before = self.comments.take_before(leaf.number)
        behind = self.comments.take_behind(leaf.number)
        if not before and behind is None:
            return shown
        self.has_remarks = True
        remarks = [Remark(comment.text, own_line=True) for comment in before]
        return join_all([*remarks, shown, *([Remark(behind.text, own_line=False)] if behind else [])])

    def dropped(self, leaf: Leaf) -> Doc:
        """The comments of a token that is not written."""
        return self.leaf(leaf, "")

    def words(self, parts: Sequence[Part], lay: Lay) -> Doc:
        """Tokens and branches with spaces between them."""
        docs = [self.leaf(part) if isinstance(part, Leaf) else lay(part) for part in parts]
        return join_all(doc for i, word in enumerate(docs) for doc in ((" ", word) if i else (word,)))

    # ----------------------------------------------------------------------------------------------- brackets

    def enclosed(self, opener: Leaf, body: Doc, closer: Leaf) -> Doc:
        return group(self.open_enclosed(opener, body, closer))

    def open_enclosed(self, opener: Leaf, body: Doc, closer: Leaf) -> Doc:
        """Brackets that break when the group around them does."""
        behind = self.comments.take_behind(opener.number)
        start = [Remark(behind.text, own_line=False)] if behind else []
        end = [Remark(comment.text, own_line=True) for comment in self.comments.take_before(closer.number)]
        self.has_remarks = self.has_remarks or bool(start or end)
        inner = indent(join_all([*start, Line.SOFT, body, *end]))
        return concat(self.leaf(opener), inner, Line.SOFT, self.leaf(closer))

    def empty(self, opener: Leaf, closer: Leaf) -> Doc:
        if self.comments.any_within(opener.number, closer.number):
            return self.enclosed(opener, "", closer)
        return concat(self.leaf(opener), self.leaf(closer))

    def listed(self, opener: Leaf, listing: Branch | None, closer: Leaf, lay: Lay) -> Doc:
        """Arguments in their brackets; a comma behind a single one means nothing."""
        if listing is None:
            return self.empty(opener, closer)
        if self._hugs(opener, listing, closer):
            return join_all([self.leaf(opener), *map(lay, listing.branches), self.leaf(closer)])
        return self.enclosed(opener, self.packed(opener, listing, closer, lay), closer)

    def packed(self, opener: Leaf, listing: Branch, closer: Leaf, lay: Lay) -> Doc:
        """Arguments or parameters: on one line between their brackets, before each gets its own."""
        commented = self.comments.any_within(opener.number, closer.number)
        items = self.items(listing, lay)
        return items if commented else group(items)

    def items(self, listing: Branch, lay: Lay, sole_comma: str = "") -> Doc:
        """The entries of a list with their commas, and a break before each but the first.

        `sole_comma` is what follows a single entry on one line: a comma where that makes a tuple.
        """
        count = len(listing.branches)
        docs: list[Doc] = []
        last = listing.parts[-1]
        behind: tuple[Doc, ...] = ()
        for part in listing.parts:
            if isinstance(part, Branch):
                doc, behind = without_remarks(lay(part))
                docs.append(doc)
            elif part is not last:
                docs += (",", *behind, self.dropped(part), Line.SPACE)
        docs += (Choice(",", sole_comma if count == 1 else ""), *behind)
        if isinstance(last, Leaf):
            docs.append(self.dropped(last))
            docs += [Forced.BREAK] if count > 1 else []
        return join_all(docs)

    def _hugs(self, opener: Leaf, listing: Branch, closer: Leaf) -> bool:
        """A single entry with brackets of its own needs no lines for them: `f([` ... `])`."""
        entry = listing.parts[0]
        if len(listing.parts) > 1 or not isinstance(entry, Branch) or entry.kind != "argument":
            return False
        value = entry.parts[0]
        exposed = self.comments.any_within(opener.number, entry.first)
        exposed = exposed or self.comments.any_within(entry.last, closer.number)
        return isinstance(value, Branch) and value.kind in _SELF_CONTAINED and not exposed

    # ----------------------------------------------------------------------------------------------- grouping

    def grouped(self, branch: Branch, lay: Lay) -> Doc:
        """Brackets around a value, several pairs of them as one."""
        outer = branch
        openers: list[Doc] = []
        closers: list[Doc] = []
        while (inner := branch.branches[0]).kind == GROUP:
            openers.append(self.dropped(inner.leaves[0]))
            closers.insert(0, self.dropped(inner.leaves[-1]))
            branch = inner
        body = join_all([*openers, lay(inner), *closers])
        return self.enclosed(outer.leaves[0], body, outer.leaves[-1])

    def peeled(self, branch: Branch) -> Branch:
        """The value without brackets around it, unless a comment needs them."""
        inner = branch
        while inner.kind == GROUP:
            inner = inner.branches[0]
        return branch if inner is not branch and self._exposed_comment(branch, inner) else inner

    def _exposed_comment(self, outer: Branch, inner: Branch) -> bool:
        """Whether a comment of `outer` stands in no brackets but those around `inner`."""
        within = self.comments.any_within
        if not within(outer.first, outer.last):
            return False
        if within(outer.first, inner.first) or within(inner.last, outer.last):
            return True
        depth = 0
        for leaf in self.leaves[inner.first : inner.last]:
            opens, closes = leaf.kind in OPENERS, leaf.kind in CLOSERS
            if not depth and leaf.number > inner.first and leaf.number in self.comments.before:
                return True
            depth += opens - closes
            if not depth and leaf.number in self.comments.behind:
                return True
        return not depth and inner.last > inner.first and inner.last in self.comments.before


def optional(body: Doc) -> Doc:
    """Round brackets that are there only if the lines between them are needed."""
    return group(concat(Choice("(", ""), indent(concat(Line.SOFT, body)), Line.SOFT, Choice(")", "")))
