"""The cut of least cost through a graph of nodes: which of them to keep so that all that follows can be had.

Enters: nodes with costs, which nodes follow from which, which are there at the beginning and which are needed. Leaves:
nodes that cut every way from the beginning to what is needed, of least cost together; among several such cuts the one
nearest to what is needed. The algorithm is that of augmenting paths, shortest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import pairwise
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)
FOREVER = 1 << 4096
"""The cost of what cannot be cut."""
_SOURCE, _SINK = "source", "sink"
Half = tuple[str, object]
"""Each node is an arc from its `in` to its `out`; a cut goes through such arcs."""


class Network(Generic[Node]):
    def __init__(self) -> None:
        self._capacity: dict[Half, dict[Half, int]] = {(_SOURCE, None): {}, (_SINK, None): {}}
        self._nodes: list[Node] = []

    def add(self, node: Node, cost: int) -> None:
        self._nodes.append(node)
        self._arc(("in", node), ("out", node), cost)

    def begin(self, node: Node) -> None:
        """The node is there at the beginning, or cannot be made of others."""
        self._arc((_SOURCE, None), ("in", node), FOREVER)

    def follows(self, node: Node, other: Node) -> None:
        """`other` can be made once it and all else that it follows from are there."""
        self._arc(("out", node), ("in", other), FOREVER)

    def must_have(self, node: Node) -> None:
        self._arc(("out", node), (_SINK, None), FOREVER)

    def _arc(self, start: Half, end: Half, capacity: int) -> None:
        self._capacity.setdefault(start, {})[end] = capacity
        self._capacity.setdefault(end, {}).setdefault(start, 0)

    def cut(self) -> set[Node]:
        while (path := self._path()) is not None:
            steps = list(pairwise(path))
            flow = min(self._capacity[start][end] for start, end in steps)
            assert flow < FOREVER, "something needed can be neither kept nor made"
            for start, end in steps:
                self._capacity[start][end] -= flow
                self._capacity[end][start] += flow
        behind = self._reaching_sink()
        return {node for node in self._nodes if ("in", node) not in behind and ("out", node) in behind}

    def _path(self) -> list[Half] | None:
        """A shortest way on which more can flow."""
        came: dict[Half, Half | None] = {(_SOURCE, None): None}
        waiting: deque[Half] = deque(came)
        while waiting:
            half = waiting.popleft()
            if half == (_SINK, None):
                return _way_to(half, came)
            for other, capacity in self._capacity[half].items():
                if capacity > 0 and other not in came:
                    came[other] = half
                    waiting.append(other)
        return None

    def _reaching_sink(self) -> set[Half]:
        found: set[Half] = {(_SINK, None)}
        waiting: deque[Half] = deque(found)
        while waiting:
            half = waiting.popleft()
            for other in self._capacity[half]:
                if other not in found and self._capacity[other].get(half, 0) > 0:
                    found.add(other)
                    waiting.append(other)
        return found


def _way_to(half: Half, came: dict[Half, Half | None]) -> list[Half]:
    way: list[Half] = []
    step: Half | None = half
    while step is not None:
        way.append(step)
        step = came[step]
    return way[::-1]
