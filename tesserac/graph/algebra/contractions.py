"""Contractions of several tensors: which two are contracted first.

Enters: an einsum of three tensors or more. Leaves: the same by two at a time, in orders that are optimal for some
sizes; which is taken is decided by costs for all sizes, as of chains of products: see `engine.py`.

    einsum("bij,bjk,bk->bi", x, y, v)    einsum("bij,bj->bi", x, einsum("bjk,bk->bj", y, v))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from tesserac.graph.algebra.chains import Tree, samples_of, size_at
from tesserac.graph.algebra.costs import counted
from tesserac.graph.algebra.terms import Term, contracted, equation_of, make, needed_letters
from tesserac.types.dims import Dim

MOST_TENSORS = 7
"""Of one contraction: the ways to part them in two grow with the third power of 3 with each."""


def contraction_trees(term: Term, expected: Sequence[tuple[str, int]]) -> Sequence[Tree]:
    """Orders of the tensors of an einsum that are optimal for sizes of some kind."""
    equation = equation_of(term.head)
    assert equation is not None
    if not 2 < len(term.args) <= MOST_TENSORS:
        return ()
    return _trees_of(equation, tuple(tuple(map(counted, arg.shape)) for arg in term.args), tuple(expected))


def by_pairs(term: Term, tree: Tree) -> Term:
    """An einsum as einsums of two tensors each, in an order."""
    equation = equation_of(term.head)
    assert equation is not None
    terms, output = parsed(equation)
    found, letters = _contracted(term.args, terms, output, tree)
    assert letters == output
    return found


def parsed(equation: str) -> tuple[list[str], str]:
    operands, output = equation.split("->")
    return operands.split(","), output


def _contracted(args: Sequence[Term], terms: Sequence[str], output: str, tree: Tree) -> tuple[Term, str]:
    if isinstance(tree, int):
        return args[tree], terms[tree]
    (left, first), (right, second) = (_contracted(args, terms, output, part) for part in tree)
    inside = _places(tree)
    if len(inside) == len(terms):
        letters = output
    else:
        outside = [terms[place] for place in range(len(terms)) if place not in inside]
        letters = needed_letters(first + second, output + "".join(outside))
    return make(contracted(f"{first},{second}->{letters}"), left, right), letters


def _places(tree: Tree) -> set[int]:
    return {tree} if isinstance(tree, int) else _places(tree[0]) | _places(tree[1])


@lru_cache(maxsize=1024)
def _trees_of(
    equation: str, shapes: tuple[tuple[Dim, ...], ...], expected: tuple[tuple[str, int], ...]
) -> Sequence[Tree]:
    terms, output = parsed(equation)
    dims = dict(pair for term, shape in zip(terms, shapes, strict=True) for pair in zip(term, shape, strict=True))
    told = dict(expected)
    symbols = sorted({name for dim in dims.values() for name in dim.symbols()} - told.keys())
    samples = [{**sample, **told} for sample in samples_of(symbols)]
    sizes = ({letter: size_at(dim, sample) for letter, dim in dims.items()} for sample in samples)
    return tuple(dict.fromkeys(_optimal(terms, output, each) for each in sizes))


def _optimal(terms: Sequence[str], output: str, sizes: Mapping[str, int]) -> Tree:
    """Dynamic programming over sets of tensors, each a number whose bits are its members; of equal ones the last split,
    from left to right as programs write it."""
    every = (1 << len(terms)) - 1
    letters = {1 << place: term for place, term in enumerate(terms)}
    best: dict[int, tuple[int, Tree]] = {1 << place: (0, place) for place in range(len(terms))}
    for members in range(1, every + 1):
        if members in best:
            continue
        outside = "".join(term for place, term in enumerate(terms) if not members >> place & 1)
        inside = "".join(term for place, term in enumerate(terms) if members >> place & 1)
        letters[members] = needed_letters(inside, output + outside)
        splits = [part for part in _parts(members) if part < members - part]
        found = [_joined(best, letters, sizes, part, members - part) for part in splits]
        best[members] = min(found, key=lambda pair: pair[0])
    return best[every][1]


def _parts(members: int) -> list[int]:
    """Subsets of a set that are neither empty nor the whole."""
    found, part = [], (members - 1) & members
    while part:
        found.append(part)
        part = (part - 1) & members
    return found


def _joined(
    best: Mapping[int, tuple[int, Tree]], letters: Mapping[int, str], sizes: Mapping[str, int], part: int, other: int
) -> tuple[int, Tree]:
    (one, left), (two, right) = best[part], best[other]
    cost = one + two + prod(sizes[letter] for letter in {*letters[part], *letters[other]})
    return cost, (left, right)
