"""Products of many matrices: the order that is found has the fewest operations that any order has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest

from tesserac.graph.algebra import terms
from tesserac.graph.algebra.costs import Facts
from tesserac.graph.algebra.engine import Engine
from tesserac.graph.algebra.terms import Term, make
from tesserac.ir.core import Block
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType


def matrix(rows: int, columns: int) -> Term:
    shape = Dim.const(rows), Dim.const(columns)
    return terms.leaf(Block([TensorType(shape, F32)], ["x"]).args[0], shape)


def as_written(edges: Sequence[int]) -> Term:
    found = matrix(edges[0], edges[1])
    for rows, columns in pairwise(edges[1:]):
        found = make("mm", found, matrix(rows, columns))
    return found


def operations(term: Term) -> int:
    """Multiplications of all products in a term."""
    sizes = [(part.args[0].shape, part.args[1].shape) for part in term.parts() if part.head == "mm"]
    return sum((left[0] * left[1] * right[1]).constant or 0 for left, right in sizes)


def fewest(edges: Sequence[int]) -> int:
    """What dynamic programming finds over every place to split at."""

    @cache
    def least(first: int, last: int) -> int:
        if last - first == 1:
            return 0
        splits = range(first + 1, last)
        return min(least(first, k) + least(k, last) + edges[first] * edges[k] * edges[last] for k in splits)

    return least(0, len(edges) - 1)


@pytest.mark.parametrize("count", range(3, 13))
def test_the_order_of_a_chain_is_the_best_there_is(count: int) -> None:
    rng = random.Random(count)
    for _ in range(4):
        edges = [rng.randrange(1, 400) for _ in range(count + 1)]
        found = Engine(Facts()).simplify(as_written(edges))
        assert operations(found) == fewest(edges), edges
