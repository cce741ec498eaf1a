"""Equalities that remember why: union-find with a proof forest.

Enters: pairs that are equal, each with its reason. Leaves: whether two things are equal, and the reasons that lead from
one to the other, in order. Classes are found through `_parent`, which is compressed; reasons through `_because`, a
forest whose edges are exactly the merges made, so that a path in it is a proof and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from tesserac.base.dataclass import dataclass

N = TypeVar("N", bound=Hashable)
R = TypeVar("R")


@dataclass(frozen=True)
class Link(Generic[N, R]):
    """One step of a proof: `left` is `right`, because of `reason`."""

    left: N
    right: N
    reason: R


class ProofForest(Generic[N, R]):
    """Grows by `merge`; asked by `same` and `explain`."""

    def __init__(self) -> None:
        self._parent: dict[N, N] = {}
        self._because: dict[N, Link[N, R]] = {}

    def copy(self) -> ProofForest[N, R]:
        """The same equalities, to which others can be added on trial."""
        other: ProofForest[N, R] = ProofForest()
        other._parent, other._because = dict(self._parent), dict(self._because)
        return other

    def merge(self, left: N, right: N, reason: R) -> bool:
        """States an equality. False if it followed already: then nothing is stored, since a proof needs it not."""
        if self.same(left, right):
            return False
        self._turn(left)
        self._because[left] = Link(left, right, reason)
        self._parent[self.find(left)] = self.find(right)
        return True

    def find(self, node: N) -> N:
        """The node that stands for the class."""
        root = node
        while root in self._parent:
            root = self._parent[root]
        while node != root:
            above = self._parent[node]
            self._parent[node] = root
            node = above
        return root

    def same(self, left: N, right: N) -> bool:
        return left == right or self.find(left) == self.find(right)

    def explain(self, left: N, right: N) -> tuple[Link[N, R], ...] | None:
        """The equalities that lead from left to right; None if they are not equal."""
        if not self.same(left, right):
            return None
        ours, theirs = self._path(left), self._path(right)
        while ours and theirs and ours[-1] is theirs[-1]:
            ours.pop()
            theirs.pop()
        back = [Link(link.right, link.left, link.reason) for link in reversed(theirs)]
        return (*ours, *back)

    def members(self, node: N) -> frozenset[N]:
        """Everything that is equal to a node."""
        seen = {node, *self._because, *(link.right for link in self._because.values())}
        return frozenset(other for other in seen if self.same(other, node))

    def _path(self, node: N) -> list[Link[N, R]]:
        """The edges from a node to the root of its tree."""
        path: list[Link[N, R]] = []
        while node in self._because:
            path.append(self._because[node])
            node = path[-1].right
        return path

    def _turn(self, node: N) -> None:
        """Makes a node the root of its tree: every edge on its way up is turned around."""
        for link in reversed(self._path(node)):
            del self._because[link.left]
            self._because[link.right] = Link(link.right, link.left, link.reason)
