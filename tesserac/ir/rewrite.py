"""The rewrite driver: local patterns applied to a module until none fits.

A pattern looks at the operations of one name, its root, and either leaves one (returns False) or changes it through the
`Rewriter` (returns True). The driver visits in program order and again after a change, so rules need not know of each
other. It stops with an error after a bound that only a pair of rules undoing each other can reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value, VerifyError
from tesserac.ir.ordering import has_place

Change = Callable[[Op, "Rewriter"], bool]


@dataclass(frozen=True, eq=False)
class Pattern:
    """What is tried at the operations called `root`."""

    root: str
    change: Change


def at(root: str) -> Callable[[Change], Pattern]:
    """Makes a function a pattern."""

    def wrap(change: Change) -> Pattern:
        return Pattern(root, change)

    return wrap


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
    changes: dict[str, list[Change]] = defaultdict(list)
    for pattern in patterns:
        changes[pattern.root].append(pattern.change)
    for _ in range(MAX_ROUNDS):
        if not _round(module, changes):
            return
    names = ", ".join(getattr(pattern.change, "__name__", "?") for pattern in patterns)
    raise VerifyError(f"the rewrite rules do not come to rest: {names}")


def _round(module: Module, changes: Mapping[str, Sequence[Change]]) -> bool:
    rewriter = Rewriter()
    changed = False
    for op in [op for op in module.walk() if op.name in changes]:
        if op not in rewriter.erased:
            changed |= any(change(op, rewriter) for change in changes[op.name])
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
