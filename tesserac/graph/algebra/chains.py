"""Chains of products: which two neighbours are multiplied first.

Enters: the factors of a product, from left to right. Leaves: trees over them that are optimal for some sizes, by
dynamic programming over all splits. Which of these trees is taken is decided by costs for all sizes: see `engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tesserac.graph.algebra.costs import counted, counted_all
from tesserac.graph.algebra.terms import Term
from tesserac.types.dims import ONE, Dim

Tree = int | tuple["Tree", "Tree"]
"""A factor by its number, or two trees multiplied."""
SMALL, MEDIUM, LARGE = 4, 64, 1024
"""Sizes that trees are made for where a size is a symbol."""
MAX_SAMPLES = 5


def trees(factors: Sequence[Term], expected: Mapping[str, int]) -> Iterator[Tree]:
    """Orders that are optimal for sizes of some kind: all alike, or one of them small or large; what is told to expect
    is as large as that in all of them."""
    edges = [_rows(factors[0]), *(_inner(factor) for factor in factors[1:]), _columns(factors[-1])]
    weights = [_per_vector(factor) for factor in factors]
    symbols = sorted({name for dim in (*edges, *weights) for name in dim.symbols()})
    seen: set[Tree] = set()
    for sample in _samples([name for name in symbols if name not in expected]):
        sizes = {**sample, **expected}
        tree = _optimal([_at(edge, sizes) for edge in edges], [_at(weight, sizes) for weight in weights])
        if tree not in seen:
            seen.add(tree)
            yield tree


def may_reassociate(factors: Sequence[Term]) -> bool:
    """Whether an order means anything: vectors only at the ends, batches only where no vector meets them."""
    vectors = [factor.rank < 2 for factor in factors]
    batches = [factor.rank > 2 for factor in factors]
    if any(vectors[1:-1]) or any(batches[1:]):
        return False
    return not (vectors[0] and batches[-1])


def _samples(symbols: Sequence[str]) -> Sequence[Mapping[str, int]]:
    """Few, and the same for equal programs."""
    alike = dict.fromkeys(symbols, MEDIUM)
    if not symbols:
        return [alike]
    larger = [alike | {name: LARGE} for name in symbols[1:]]
    smaller = [alike | {name: SMALL} for name in symbols[1:]]
    return [alike, *larger, *smaller][:MAX_SAMPLES]


def _optimal(edges: Sequence[int], weights: Sequence[int]) -> Tree:
    """Dynamic programming over all splits; of equal ones the last, which is the order as programs write it. `rows` has
    the costs of what starts at a factor, `columns` those of what ends at one."""
    count = len(weights)
    rows, columns = [[0] for _ in range(count)], [[0] for _ in range(count)]
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            area = edges[first] * edges[last + 1]
            inner = edges[first + 1 : last + 1]
            parts = zip(rows[first], reversed(columns[last]), inner, strict=True)
            costs = [before + behind + area * size for before, behind, size in parts]
            costs[0] += min(weights[first] * edges[last + 1] - area * inner[0], 0)
            costs[-1] += min(weights[last] * edges[first] - area * inner[-1], 0)
            low = min(costs)
            splits[first, last] = last - 1 - costs[::-1].index(low)
            rows[first].append(low)
            columns[last].append(low)
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


def _per_vector(factor: Term) -> Dim:
    """What applying a factor to one vector costs."""
    size = counted_all(factor.shape)
    match factor.head:
        case "eye" | "diag" | "perm":
            return counted(factor.shape[0])
        case "t" | "neg":
            return _per_vector(factor.args[0])
        case "add" | "sub":
            return _per_vector(factor.args[0]) + _per_vector(factor.args[1])
        case "mm":
            return _per_vector(factor.args[0]) + _per_vector(factor.args[1])
        case "kron":
            a, b = factor.args
            return counted_all((*a.shape, b.shape[1])) + counted_all((a.shape[0], *b.shape))
    return size


def _at(dim: Dim, sizes: Mapping[str, int]) -> int:
    fraction = dim.substitute({name: Dim.const(sizes[name]) for name in dim.symbols()}).fraction
    assert fraction is not None
    return max(int(fraction), 1)
