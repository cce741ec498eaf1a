"""Chains of products: which two neighbours are multiplied first.

Enters: the factors of a product, from left to right. Leaves: trees over them that are optimal for some sizes, by
dynamic programming over all splits. Which of these trees is taken is decided by costs for all sizes: see `engine.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from tesserac.graph.algebra.costs import Facts, counted, counted_all, is_polynomial, never_above, total
from tesserac.graph.algebra.terms import Shape, Term, is_transpose
from tesserac.types.dims import ONE, ZERO, Dim

Tree = int | tuple["Tree", "Tree"]
"""A factor by its number, or two trees multiplied."""
SMALL, MEDIUM, LARGE = 4, 64, 1024
"""Sizes that trees are made for where a size is a symbol."""
MAX_SAMPLES = 5
LONGEST_FOR_ALL = 40
"""Factors up to which all samples are looked at: the splits of a chain grow with the third power of its length."""


def trees(factors: Sequence[Term], expected: Sequence[tuple[str, int]]) -> Sequence[Tree]:
    """Orders that are optimal for sizes of some kind: all alike, or one of them small or large; what is told to expect
    is as large as that in all of them."""
    batch = _batch(factors)
    rows = _inner(factors[0]) if batch else _rows(factors[0])
    edges = (rows, *map(_inner, factors[1:]), _columns(factors[-1]))
    in_batch = tuple(bool(batch) and factor.rank > 2 for factor in factors)
    weights = tuple(
        counted_all(factor.shape[-2:]) if own else _per_vector(factor)
        for factor, own in zip(factors, in_batch, strict=True)
    )
    return _trees_of(edges, weights, (in_batch, counted_all(batch)), tuple(expected))


@lru_cache(maxsize=2048)
def _trees_of(
    edges: tuple[Dim, ...],
    weights: tuple[Dim, ...],
    batch: tuple[tuple[bool, ...], Dim],
    expected: tuple[tuple[str, int], ...],
) -> Sequence[Tree]:
    """By sizes alone, in which the products of one expression are much alike."""
    told = dict(expected)
    in_batch, count = batch
    symbols = sorted({name for dim in {*edges, *weights, count} for name in dim.symbols()})
    found: dict[Tree, None] = {}
    samples = samples_of([name for name in symbols if name not in told])
    affordable = max(2, MAX_SAMPLES * LONGEST_FOR_ALL**3 // len(weights) ** 3)
    for sample in samples[:affordable]:
        sizes = {**sample, **told}
        at = {dim: size_at(dim, sizes) for dim in {*edges, *weights, count}}
        times = [at[count] if each else 1 for each in in_batch]
        found[_optimal([at[edge] for edge in edges], [at[weight] for weight in weights], times)] = None
    return tuple(found)


def mirrored(factors: Sequence[Term]) -> int:
    """Of a form `x @ A.T @ M @ A @ x`, which is the same from both ends, how many factors stand on each side; 0 of
    any other product."""
    count = len(factors)
    half = count // 2
    if count < 4 or factors[0].rank > 1 or factors[0] != factors[-1]:
        return 0
    return half if all(is_transpose(factors[place], factors[-1 - place]) for place in range(1, half)) else 0


def may_reassociate(factors: Sequence[Term]) -> bool:
    """Whether an order means anything: vectors only at the ends, and one batch of some or all factors, or of the first
    where no vector meets it."""
    if _batch(factors):
        return True
    vectors = [factor.rank < 2 for factor in factors]
    batches = [factor.rank > 2 for factor in factors]
    if any(vectors[1:-1]) or any(batches[1:]):
        return False
    return not (vectors[0] and batches[-1])


def _batch(factors: Sequence[Term]) -> Shape:
    """The dims of a batch of chains, in which some matrices may be the same for all elements; those of a batch that
    only the first factor has are rows of it."""
    batches = {factor.shape[:-2] for factor in factors[1:] if factor.rank > 2}
    if len(batches) != 1 or any(factor.rank < 2 for factor in factors):
        return ()
    [batch] = batches
    return batch if factors[0].shape[:-2] in ((), batch) else ()


def samples_of(symbols: Sequence[str]) -> Sequence[Mapping[str, int]]:
    """Few, and the same for equal programs."""
    alike = dict.fromkeys(symbols, MEDIUM)
    if not symbols:
        return [alike]
    larger = [alike | {name: LARGE} for name in symbols[1:]]
    smaller = [alike | {name: SMALL} for name in symbols[1:]]
    return [alike, *larger, *smaller][:MAX_SAMPLES]


def _optimal(edges: Sequence[int], weights: Sequence[int], times: Sequence[int]) -> Tree:
    """Dynamic programming over all splits; of equal ones the last, which is the order as programs write it. `rows` has
    the costs of what starts at a factor, `columns` those of what ends at one; `times` is how many there are of each
    factor."""
    count = len(weights)
    rows, columns = [[0] for _ in range(count)], [[0] for _ in range(count)]  # the latter from the longest on
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            often = max(times[first : last + 1])
            area = edges[first] * edges[last + 1] * often
            inner = edges[first + 1 : last + 1]
            parts = zip(rows[first], columns[last], inner, strict=True)
            costs = [before + behind + area * size for before, behind, size in parts]
            costs[0] += min(weights[first] * edges[last + 1] * often - area * inner[0], 0)
            costs[-1] += min(weights[last] * edges[first] * often - area * inner[-1], 0)
            low = min(costs)
            splits[first, last] = last - 1 - costs[::-1].index(low)
            rows[first].append(low)
            columns[last].insert(0, low)
    return _tree(splits, 0, count - 1)


def _tree(splits: Mapping[tuple[int, int], int], first: int, last: int) -> Tree:
    if first == last:
        return first
    at = splits[first, last]
    return _tree(splits, first, at), _tree(splits, at + 1, last)


def _rows(factor: Term) -> Dim:
    return counted_all(factor.shape[:-1]) if factor.rank > 1 else ONE


def _inner(factor: Term) -> Dim:
    return counted(factor.shape[-2] if factor.rank > 1 else factor.shape[-1])


def _columns(factor: Term) -> Dim:
    return counted(factor.shape[-1]) if factor.rank > 1 else ONE


@lru_cache(maxsize=4096)
def _per_vector(factor: Term) -> Dim:
    """What applying a factor to one vector costs."""
    size = counted_all(factor.shape)
    match factor.head:
        case "eye" | "diag" | "perm":
            return counted(factor.shape[0])
        case "t" | "neg" | "scale":
            return _per_vector(factor.args[-1])
        case "add" | "sub":
            return _per_vector(factor.args[0]) + _per_vector(factor.args[1])
        case "mm":
            return _per_vector(factor.args[0]) + _per_vector(factor.args[1])
        case "outer":
            return counted(factor.shape[0]) + counted(factor.shape[1])
        case "rows":
            return counted(factor.shape[0]) + _per_vector(factor.args[1])
        case "columns":
            return counted(factor.shape[1]) + _per_vector(factor.args[0])
        case "kron":
            a, b = factor.args
            return counted_all((*a.shape, b.shape[1])) + counted_all((a.shape[0], *b.shape))
    return size


def pays_apart(summands: Sequence[Term], vectors: Dim) -> bool:
    """Whether it may cost less to apply the terms of a sum by what they are made of, and to add what they give, than to
    form the sum first."""
    size, count = counted_all(summands[0].shape), counted(vectors)
    costs = tuple((_per_vector(part), _forming(part)) for part in summands)
    return _may_pay(costs, size, counted(summands[0].shape[0]), count)


@lru_cache(maxsize=2048)
def _may_pay(costs: tuple[tuple[Dim, Dim], ...], size: Dim, rows: Dim, vectors: Dim) -> bool:
    if not any(_pays_alone(cost, forming, size, vectors) for cost, forming in costs):
        return False
    formed = total([size * (len(costs) - 1), size * vectors, *(forming for _, forming in costs)])
    least = total([rows * vectors * (len(costs) - 1), *(_least(cost, size) * vectors for cost, _ in costs)])
    return not never_above(formed, least, Facts())


@lru_cache(maxsize=2048)
def _pays_alone(per_vector: Dim, forming: Dim, size: Dim, vectors: Dim) -> bool:
    """Whether it may cost less to apply a term by what it is made of than to form it first."""
    return per_vector != size and not never_above(forming + size * vectors, per_vector * vectors, Facts())


@lru_cache(maxsize=2048)
def _least(per_vector: Dim, size: Dim) -> Dim:
    """What applying a term to one vector costs at least, whichever way; 0 where sizes decide between them."""
    if per_vector == size or never_above(size, per_vector, Facts()):
        return size
    return per_vector if never_above(per_vector, size, Facts()) else ZERO


@lru_cache(maxsize=4096)
def _forming(factor: Term) -> Dim:
    """What is computed of a factor before it is a matrix, as far as `_per_vector` looks into it."""
    match factor.head:
        case "mm" | "add" | "sub" | "rows" | "columns":
            return _forming(factor.args[0]) + _forming(factor.args[1]) + factor.own_cost
        case "t" | "neg" | "scale":
            return _forming(factor.args[-1])
        case "kron" | "outer" | "made":
            return factor.own_cost
    return ZERO


def size_at(dim: Dim, sizes: Mapping[str, int]) -> int:
    if is_polynomial(dim):
        values = (c * prod([sizes[str(atom)] ** power for atom, power in monomial]) for monomial, c in dim.terms)
        return max(int(sum(values)), 1)
    fraction = dim.substitute({name: Dim.const(sizes[name]) for name in dim.symbols()}).fraction
    assert fraction is not None
    return max(int(fraction), 1)
