"""Products of many matrices, and contractions of many tensors: the order that is found has the fewest operations that
any order has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

from tesserac.graph.algebra import terms
from tesserac.graph.algebra.costs import Facts
from tesserac.graph.algebra.engine import Engine
from tesserac.graph.algebra.terms import Term, contracted, equation_of, make
from tesserac.ir.core import Block, Value
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


# --------------------------------------------------------------------------------------------- contractions by letters


def contraction(rng: random.Random, count: int) -> tuple[Term, dict[str, int]]:
    """An einsum of tensors with up to three of six letters each."""
    operands = ["".join(rng.sample("abcdef", rng.randrange(1, 4))) for _ in range(count)]
    letters = sorted({*"".join(operands)})
    output = "".join(rng.sample(letters, rng.randrange(min(3, len(letters) + 1))))
    sizes = {letter: rng.randrange(1, 9) for letter in letters}
    leaves = [tensor([sizes[letter] for letter in operand]) for operand in operands]
    return make(contracted(f"{','.join(operands)}->{output}"), *leaves), sizes


def tensor(sizes: Sequence[int]) -> Term:
    shape = tuple(map(Dim.const, sizes))
    return terms.leaf(Block([TensorType(shape, F32)], ["x"]).args[0], shape)


def fewest_of_pairs(operands: Sequence[str], output: str, sizes: dict[str, int]) -> int:
    """What trying every pair finds, and then every pair of what is left."""
    if len(operands) == 1:
        return 0
    found = []
    for one, two in combinations(range(len(operands)), 2):
        rest = [operand for place, operand in enumerate(operands) if place not in (one, two)]
        both = {*operands[one], *operands[two]}
        kept = "".join(sorted(both & {*output, *"".join(rest)}))
        found.append(prod(sizes[letter] for letter in both) + fewest_of_pairs([*rest, kept], output, sizes))
    return min(found)


def evaluated(term: Term, values: dict[Value, Any]) -> Any:
    if term.leaf is not None:
        return values[term.leaf]
    return np.einsum(equation_of(term.head) or "", *(evaluated(arg, values) for arg in term.args))


@pytest.mark.parametrize("count", range(3, 6))
def test_the_order_of_a_contraction_is_the_best_there_is_and_means_the_same(count: int) -> None:
    rng, numbers = random.Random(count), np.random.default_rng(count)
    for _ in range(8):
        written, sizes = contraction(rng, count)
        operands, _, output = str(equation_of(written.head)).partition("->")
        found = Engine(Facts()).simplify(written)
        assert found.cost.constant == fewest_of_pairs(operands.split(","), output, sizes), written
        shapes = {arg.leaf: [dim.constant or 0 for dim in arg.shape] for arg in written.args}
        values = {leaf: numbers.integers(-4, 5, shape) for leaf, shape in shapes.items() if leaf is not None}
        assert np.array_equal(evaluated(found, values), evaluated(written, values)), written
