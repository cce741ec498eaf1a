"""Items checked together as one module, and what of that holds for others that are checked later.

In: the items of a text that checking some of them can read, and an earlier `Ground`. Out: a `Layout`, the text that is
checked: the new items stand behind the text of that ground, so that what it knows of the others stays true where it
is. See Note [New items stand behind].
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult, EarlierPart
from tesserac.diag.diagnostic import Diagnostic
from tesserac.incremental.outline import Named, OutlineItem
from tesserac.syntax import ast
from tesserac.syntax.parse import ParsedItem, moved_item

GROWTH = 4
"""How much longer than the file a text may be that new items stand behind."""

_LINE = re.compile(r"\bline \d")
_PLACE = re.compile(r"\$\d")

Contexts = Mapping[ParsedItem, tuple[ParsedItem, ...]]
"""What checking each item can read, in the order of the text."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Items in a text that may be another one than that of the file: `items` are where they stand in it, in the order
    of the file. `ground` has found out of `known` what there is to say. `names` are offered for misspelt ones."""

    source: SourceFile
    items: tuple[OutlineItem, ...]
    contexts: Contexts
    names: frozenset[Named]
    ground: Ground | None = None
    known: frozenset[ParsedItem] = frozenset()

    @cached_property
    def places(self) -> Mapping[ParsedItem, OutlineItem]:
        return {item.parsed: item for item in self.items}

    @property
    def carried(self) -> dict[ParsedItem, tuple[Diagnostic, ...]]:
        """What is said of the known items."""
        return {item: self.ground.told[item] for item in self.known} if self.ground is not None else {}

    @cached_property
    def _ordered(self) -> list[OutlineItem]:
        return sorted(self.items, key=lambda item: item.span.start)

    def item_at(self, span: Span) -> OutlineItem | None:
        """The item that a place of this file is in."""
        if span.file != self.source.path or not span.known:
            return None
        index = bisect_right(self._ordered, span.start, key=lambda item: item.span.start) - 1
        return self._ordered[index] if index >= 0 and span.end <= self._ordered[index].span.end else None

    def earlier(self) -> EarlierPart | None:
        if self.ground is None:
            return None
        said = tuple(diagnostic for told in self.carried.values() for diagnostic in told)
        return EarlierPart(self.ground.result, tuple(i.span for i in self.items if i.parsed in self.known), said)

    def can_tell(self, diagnostic: Diagnostic) -> bool:
        """Whether a message would be the same in the file: it quotes no line or place, and points into items only."""
        if self.ground is None:
            return True
        own = (span for span in _spans(diagnostic) if span.file == self.source.path)
        return all(self.item_at(span) is not None for span in own) and not any(
            _LINE.search(text) or _PLACE.search(text) for text in _texts(diagnostic)
        )


@dataclass(frozen=True, eq=False)
class Ground:
    """What checking a layout has found. `told` has the items of which it is known what is wrong with them and with
    nothing else; `names` could be offered there. Where two items are the same text none is known."""

    source: SourceFile
    places: Mapping[ParsedItem, OutlineItem]
    contexts: Contexts
    names: frozenset[Named]
    is_distinct: bool
    told: Mapping[ParsedItem, tuple[Diagnostic, ...]]
    result: CheckResult

    @cached_property
    def clean(self) -> frozenset[ParsedItem]:
        """The items of whose contexts nothing is wrong."""
        right = {item for item, said in self.told.items() if not said}
        return frozenset(item for item, context in self.contexts.items() if right.issuperset(context))

    @cached_property
    def _told(self) -> frozenset[ParsedItem]:
        return frozenset(item for item, context in self.contexts.items() if self.told.keys() >= set(context))

    def known_of(self, contexts: Contexts, names: frozenset[Named]) -> frozenset[ParsedItem]:
        """The items whose findings hold in these contexts, among them all that any of them can read."""
        if not self.is_distinct:
            return frozenset()
        found = self._told if names == self.names else self.clean
        return frozenset(item for item, now in contexts.items() if item in found and self.contexts[item] == now)

    @cached_property
    def params(self) -> frozenset[ParsedItem]:
        return params_in(self.places)


def ground_of(layout: Layout, result: CheckResult) -> Ground:
    told = layout.carried
    before = {(d.code, d.primary.span) for said in told.values() for d in said}
    found = tuple(d for d in result.diagnostics if (d.code, d.primary.span) not in before)
    new = [item.parsed for item in layout.items if item.parsed not in layout.known]
    blamed = {item.parsed if item is not None else None for item in (layout.item_at(d.primary.span) for d in found)}
    if len(new) == 1:
        told[new[0]] = found
    elif None not in blamed:
        told |= {item: () for item in new if blamed.isdisjoint(layout.contexts[item])}
    is_distinct = len(layout.places) == len(layout.items)
    return Ground(layout.source, layout.places, layout.contexts, layout.names, is_distinct, told, result)


def laid_out(
    source: SourceFile,
    items: Sequence[OutlineItem],
    contexts: Contexts,
    wanted: Set[ParsedItem],
    names: frozenset[Named],
    grounds: Iterable[Ground],
) -> Layout:
    """The wanted items behind the ground that knows most of them; in their own text where none knows any. With them
    stand those that are known besides, for later checks to build on. `items` are those of the file, in its order."""
    ground, known = _best(source, contexts, wanted, names, grounds)
    found = [item for item in items if item.parsed in wanted or item.parsed in known]
    inner = {item.parsed: contexts[item.parsed] for item in found}
    if ground is None:
        return Layout(source, tuple(found), inner, names)
    text, at = [ground.source.text, "\n"], len(ground.source.text) + 1
    placed: list[OutlineItem] = []
    for item in found:
        if item.parsed in known:
            placed.append(ground.places[item.parsed])
            continue
        own = source.slice(item.span)
        placed.append(OutlineItem(item.parsed, source.span(at, at + len(own))))
        text += [own, "\n\n"]
        at += len(own) + 2
    return Layout(SourceFile(source.path, "".join(text)), tuple(placed), inner, names, ground, known)


def _best(
    source: SourceFile, contexts: Contexts, wanted: Set[ParsedItem], names: frozenset[Named], grounds: Iterable[Ground]
) -> tuple[Ground | None, frozenset[ParsedItem]]:
    """The ground that knows most of what is wanted, then most besides; the shortest of these."""
    params = params_in(contexts)
    best, most, known = None, (0, 0, 0), frozenset[ParsedItem]()
    for ground in dict.fromkeys(grounds):
        if ground.params != params or len(ground.source.text) > GROWTH * len(source.text):
            continue
        own = ground.known_of(contexts, names)
        rank = (len(own & wanted), len(own), -len(ground.source.text))
        if rank[0] and rank > most:
            best, most, known = ground, rank, own
    return best, known


def nodes_of(item: OutlineItem) -> tuple[ast.Item, ...]:
    """The trees of an item where it stands."""
    return (moved_item(item.parsed, item.by) if item.by else item.parsed).items


def params_in(items: Iterable[ParsedItem]) -> frozenset[ParsedItem]:
    return frozenset(item for item in items if any(isinstance(node, ast.ParamDecl) for node in item.items))


def quotes_lines(diagnostic: Diagnostic) -> bool:
    return any(_LINE.search(text) for text in _texts(diagnostic))


def _texts(diagnostic: Diagnostic) -> list[str]:
    labels = [diagnostic.primary, *diagnostic.secondary]
    return [
        diagnostic.title,
        *(label.text for label in labels),
        *(step.text for step in diagnostic.because),
        *diagnostic.notes,
        *(fix.title for fix in diagnostic.fixes),
    ]


def _spans(diagnostic: Diagnostic) -> list[Span]:
    labels = [diagnostic.primary, *diagnostic.secondary]
    edits = [edit.span for fix in diagnostic.fixes for edit in fix.edits]
    return [*(label.span for label in labels), *(step.span for step in diagnostic.because), *edits]


# Note [New items stand behind]
# A keystroke changes one item, and a check is a function of that item and of what it can read. Most of what it reads
# was checked before, as part of an earlier module: its types, signatures and instances are tables to take over. They
# are full of places, in trees and in messages to come; so what is new is checked in a text of its own, the text of the
# earlier check with the new items behind it. There every place means one thing, as at a prompt. What is found is moved
# to where the items stand in the file, as it is after any other edit. A message that quotes a line, or the place of a
# function without a name, is not to be had this way: then the items are checked in the text of the file.
