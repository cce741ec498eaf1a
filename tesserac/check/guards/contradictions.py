"""`where` facts that can never all hold.

Enters: the facts of a signature, as its definition is checked. Leaves: a diagnostic at the fact that contradicts those
before it, with only those shown that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model.specs import Fact
from tesserac.check.sizes.facts import Facts
from tesserac.check.state.body import Body
from tesserac.diag.codes.effects import E0609
from tesserac.diag.codes.shapes import E0322

MAX_TITLE = 78


def report_contradiction(body: Body, signed: frozenset[str], facts: Sequence[Fact]) -> None:
    """One diagnostic for the last of `facts`, which the ones before refute. `signed` are ints that no size tells."""
    *before, last = facts
    needed = list(before)
    for fact in before:
        fewer = [other for other in needed if other is not fact]
        if _refuted(signed, fewer, last):
            needed = fewer
    clause = body.rules.text(last.span)
    if not needed:
        draft = body.sink.error(E0609, at=last.span, fact=clause)
        if not (last.left.symbols() | last.right.symbols()) <= signed:
            draft.remark("sizes are whole numbers of 0 or more")
        return
    others = " and ".join(f"`{text}`" for text in dict.fromkeys(body.rules.text(fact.span) for fact in needed))
    told = {"fact": f"`{clause}`", "others": others}
    if sum(map(len, told.values())) > MAX_TITLE:
        told = {"fact": "this fact", "others": "those before it"}
    names = [f'"{name}"' for name in sorted(last.left.symbols() | last.right.symbols())]
    meet = "satisfies" if len(names) == 1 else "satisfy"
    label = f"no {' and '.join(names)} {meet} {'both' if len(needed) == 1 else 'all'}"
    draft = body.sink.error(E0322, at=last.span, label=label, **told)
    for fact in needed[:4]:
        draft.note(fact.span, "given this")


def _refuted(signed: frozenset[str], facts: Sequence[Fact], last: Fact) -> bool:
    known = Facts()
    known.allow_negative(signed)
    for fact in facts:
        known.state(fact.kind, fact.left, fact.right)
    return known.refutes(last.kind, last.left, last.right)
