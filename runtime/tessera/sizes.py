"""Size expressions as plain data, and their value.

N                          "N"
2*K*M + 1                  ("+", ("*", 2, "K", "M"), 1)
D/heads                    ("/", "D", "heads")          exact: a rest is an error
ceil_div(N, 64)            ("ceil_div", "N", 64)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from tessera.container import Row

Tree: TypeAlias = "int | str | tuple[Tree, ...]"


LARGEST_SIZE = 2**63 - 1
"""Of the numbers that compiled code computes sizes with."""


class SizeError(ValueError):
    """The expression has no whole value for these sizes; the message says why."""


class Size(NamedTuple):
    """A size: the expression, and its text for people."""

    text: str
    tree: Tree

    def evaluate(self, symbols: Mapping[str, int]) -> int:
        return evaluate(self.tree, symbols)

    def symbols(self) -> frozenset[str]:
        return _symbols(self.tree)


def read_size(row: Row) -> Size:
    """A size as JSON holds it."""
    text, tree = row
    return Size(text, _tree(tree))


def _tree(value: Any) -> Tree:
    return tuple(map(_tree, value)) if isinstance(value, list) else value


def _symbols(tree: Tree) -> frozenset[str]:
    if isinstance(tree, tuple):
        return frozenset[str]().union(*map(_symbols, tree[1:]))
    return frozenset({tree}) if isinstance(tree, str) else frozenset()


def evaluate(tree: Tree, symbols: Mapping[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return symbols[tree]
    operator, *operands = tree
    assert isinstance(operator, str)
    values = [evaluate(operand, symbols) for operand in operands]
    if operator in _FOLDS:
        return _FOLDS[operator](values)
    return reduce(_DIVISIONS[operator], values)


def _exact(left: int, right: int) -> int:
    if right == 0 or left % right:
        raise SizeError(f"{right} does not divide {left}")
    return left // right


def _rounded(divide: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(left: int, right: int) -> int:
        if right <= 0:
            raise SizeError(f"{left} is divided by {right}")
        return divide(left, right)

    return checked


_FOLDS: dict[str, Callable[[list[int]], int]] = {"+": sum, "*": math.prod, "min": min, "max": max}
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "/": _exact,
    "//": _rounded(lambda a, b: a // b),
    "%": _rounded(lambda a, b: a % b),
    "ceil_div": _rounded(lambda a, b: -(-a // b)),
}
