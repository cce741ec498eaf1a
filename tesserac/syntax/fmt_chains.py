"""Trees that lean to the left, as the sequences that people read: `a + b - c`, `x.f(y)[z]`."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tesserac.syntax.concrete import Branch, Leaf

_LEVELS = (
    ("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "//", "%", "@", "∘"), ("**",), ("and",), ("or",),
)  # fmt: skip
_LEVEL = {operator: level for level in _LEVELS for operator in level}
_LINKS = frozenset(("call", "attribute", "subscript"))


def operations(branch: Branch) -> tuple[Branch, list[tuple[Leaf, Branch]]]:
    """The first operand of a binary operation, then operators of one precedence with their right operands."""
    level = _LEVEL[branch.leaves[0].text]
    rest: list[tuple[Leaf, Branch]] = []
    while branch.kind in ("binary_op", "logical_op") and branch.leaves[0].text in level:
        left, right = branch.branches
        rest.insert(0, (branch.leaves[0], right))
        branch = left
    return branch, rest


class Chain(NamedTuple):
    """A value and what is applied to it, each link with everything before it as its first part."""

    head: Branch
    links: tuple[Branch, ...]

    @property
    def is_fluent(self) -> bool:
        """Whether it is a row of method calls, such as a schedule's: three calls, two of them of methods."""
        calls = sum(link.kind == "call" for link in self.links)
        methods = sum(a.kind == "attribute" and b.kind == "call" for a, b in pairwise(self.links))
        return calls > 2 and methods > 1

    def called_name(self, position: int) -> str:
        """The name of the function or method that the call at a position calls; empty if it has none."""
        before = self.links[position - 1] if position else self.head
        return before.leaves[-1].text if before.kind in ("attribute", "name") else ""

    def is_indexed(self, position: int) -> bool:
        """Whether an item is taken of what the link at a position gives."""
        return position + 1 < len(self.links) and self.links[position + 1].kind not in ("attribute", "call")


def chain_of(branch: Branch) -> Chain:
    links: list[Branch] = []
    while branch.kind in _LINKS:
        links.append(branch)
        branch = branch.branches[0]
    return Chain(branch, tuple(reversed(links)))
