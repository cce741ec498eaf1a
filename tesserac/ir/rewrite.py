"""The rewrite driver: local patterns applied to a module until none fits.

A pattern looks at one operation and either leaves it (returns False) or changes it through the `Rewriter` (returns
True). The driver visits in program order and again after a change, so rules need not know of each other. It stops
with an error after a bound that only a pair of rules undoing each other can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value, VerifyError
from tesserac.ir.ordering import has_place

Pattern = Callable[[Op, "Rewriter"], bool]

MAX_ROUNDS = 64


class Rewriter:
    """The only hands that change IR while patterns run: it keeps use lists right and knows what was removed."""

    def __init__(self) -> None:
        self.erased: set[Op] = set()

    def builder(self, op: Op) -> Builder:
        """New operations go before `op` and carry its span."""
        return Builder.before(op)

    def replace(self, op: Op, values: Sequence[Value]) -> None:
        """Every use of op's results goes to `values`; op is removed."""
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses(new)
        self.erase(op)

    def erase(self, op: Op) -> None:
        self.erased.update(op.walk())
        op.erase()


def rewrite(module: Module, patterns: Sequence[Pattern]) -> None:
    """Applies the patterns in place until a whole round changes nothing."""
    for _ in range(MAX_ROUNDS):
        if not _round(module, patterns):
            return
    names = ", ".join(getattr(p, "__name__", "?") for p in patterns)
    raise VerifyError(f"the rewrite rules do not come to rest: {names}")


def _round(module: Module, patterns: Sequence[Pattern]) -> bool:
    rewriter = Rewriter()
    changed = False
    for op in list(module.walk()):
        if op in rewriter.erased:
            continue
        changed |= any(pattern(op, rewriter) for pattern in patterns if op not in rewriter.erased)
    return changed


def erase_dead(module: Module) -> bool:
    """Removes pure operations whose results nobody uses. Returns whether anything went."""
    changed = False
    for top in module.ops:
        for op in reversed(list(top.walk())):
            if op is not top and not op.opdef.terminator and _unused(op) and is_pure(op):
                op.erase()
                changed = True
    return changed


def is_pure(op: Op) -> bool:
    """Whether neither the operation nor anything inside it does more than compute."""
    return all(inner.opdef.pure and not has_place(inner) for inner in op.walk())


def _unused(op: Op) -> bool:
    return bool(op.results) and not any(v.uses for v in op.results)
