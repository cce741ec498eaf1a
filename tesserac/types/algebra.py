"""The shape of operator expressions, as far as types know them: trees whose leaves are places in a list of values.

Enters: nothing. Leaves: what `OperatorType` holds. The kinds of trees and their laws are in `check/algebra`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.types.ty import Type

_Tree = TypeVar("_Tree")

Shape = tuple[Dim | None, Dim | None]
"""The size of what an operator takes and of what it gives; None where any size will do, as for `fft`."""


@dataclass(frozen=True)
class Leaf:
    """A value that an operator is made of, by its place: a tensor, a number, a size or a function."""

    index: int


class Tree(ABC):
    """An operator as an expression; every subclass is a frozen dataclass of leaves, trees and plain values."""

    is_spectral: ClassVar[bool] = False
    """Whether it is held by its eigenvalues: a `SpectralOperator`."""

    @abstractmethod
    def shape(self, types: Sequence[Type]) -> Shape:
        """What it takes and gives, where its leaves have these types."""

    def unpromised(self) -> Tree:
        """The same expression of other numbers, of which nothing is known that was known of these."""
        return replace(self, **{f.name: _unpromised(getattr(self, f.name)) for f in fields(self)})  # type: ignore


def _unpromised(part: object) -> object:
    if isinstance(part, tuple):
        return tuple(map(_unpromised, part))
    return part.unpromised() if isinstance(part, Tree) else part


def leaves_of(tree: object) -> Iterator[int]:
    """The places of the leaves, in the order of the tree."""
    if isinstance(tree, Leaf):
        yield tree.index
    elif isinstance(tree, tuple):
        for item in tree:
            yield from leaves_of(item)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from leaves_of(getattr(tree, field.name))


def said_dtypes(tree: object) -> Iterator[str]:
    """The names of the dtypes that were said of parts without numbers of their own."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from said_dtypes(item)
    elif isinstance(tree, Tree):
        if said := getattr(tree, "dtype", ""):
            yield said
        for field in fields(tree):  # type: ignore[arg-type]
            yield from said_dtypes(getattr(tree, field.name))


def outline(tree: object) -> str:
    """What a tree is made of, without its values: `kronecker(dense, diag)`."""
    name = type(tree).__name__
    own = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")
    inside = ", ".join(map(outline, _inside(tree)))
    return f"{own}({inside})" if inside else own


def _inside(part: object) -> Iterator[Tree]:
    """The trees that a tree has directly in it."""
    values = part if isinstance(part, tuple) else [getattr(part, f.name) for f in fields(part)]  # type: ignore[arg-type]
    for value in values:
        if isinstance(value, Tree):
            yield value
        elif isinstance(value, tuple):
            yield from _inside(value)


def renumbered(tree: _Tree, place: Callable[[int], int]) -> _Tree:
    """The same tree over values in other places."""
    return mapped(tree, lambda leaf: Leaf(place(leaf.index)))


def mapped(tree: _Tree, change: Callable[[Leaf], Leaf | None]) -> _Tree:
    """The same tree with other leaves."""
    if isinstance(tree, Leaf):
        return change(tree)  # type: ignore[return-value]
    if isinstance(tree, tuple):
        return tuple(mapped(item, change) for item in tree)  # type: ignore[return-value]
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: mapped(getattr(tree, f.name), change) for f in fields(tree)})
    return tree
