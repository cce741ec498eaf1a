"""Operators that are applied without a matrix, as the Graph carries them: how they are made, and of which tensors.

Enters: an operator expression. Leaves: the two ends of an application (`ops/carried.py`), with a text that is the same
for equal operators wherever they are made. Of an operator and its adjoint the one whose text comes first is the
operator, and the other is that one turned; of an operator and its inverse the one that is not solved for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Inverse
from tesserac.check.algebra.flags import flags_of, is_real
from tesserac.check.algebra.kinds import Adjoint, Conv1d, Implicit
from tesserac.check.algebra.operands import lacks_size
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Grid, Kronecker
from tesserac.check.algebra.structured import Banded, Jacobian, Permutation, Placed, Toeplitz, ToeplitzAdjoint
from tesserac.check.model import typed
from tesserac.check.values.tuples import tuple_items
from tesserac.ops.carried import REAL, OperatorIn, OperatorOut
from tesserac.ops.held import FLAGS, UNITARY
from tesserac.types.algebra import Leaf, leaves_of
from tesserac.types.dims import Dim
from tesserac.types.ty import FunctionType, IntType, TensorType

_ALONE = (Permutation, Conv1d, Banded, Toeplitz, ToeplitzAdjoint, Placed, Implicit, Jacobian)
_OF_PARTS = (Kronecker, DirectSum, Grid)
"""What they apply are their parts: as a whole they matter where something is known of them that is not of one part."""


@dataclass(frozen=True)
class Ends:
    """The two ends of an application, and the tensors that both name."""

    into: OperatorIn
    out: OperatorOut
    parts: tuple[typed.Expr, ...]


def ends_of(pool: Pool, tree: Kind) -> Ends | None:
    """What the Graph says where this is applied; None where tensors say it, or where it cannot be said."""
    of = tree.of if isinstance(tree, Inverse) else tree
    known = flags_of(pool, of) if not lacks_size(of) else ()
    if not _is_carried(of, UNITARY in known):
        return None
    own, turned = _described(pool, of), _described(pool, of.adjoint(pool))
    if own is None or turned is None:
        return None
    is_turned = turned.text < own.text
    found = turned if is_turned else own
    flags = tuple(flag for flag in FLAGS if flag in known) + ((REAL,) if _is_surely_real(pool, of) else ())
    said = (found.text, found.sizes, flags, is_turned, isinstance(tree, Inverse))
    return Ends(OperatorIn(*said), OperatorOut(*said), found.parts)


def _is_surely_real(pool: Pool, tree: Kind) -> bool:
    """What a function computes may be complex though all that it is given is real."""
    functions = any(isinstance(pool.types[place], FunctionType) for place in leaves_of(tree))
    return is_real(pool, tree) and not functions


def _is_carried(tree: Kind, is_unitary: bool) -> bool:
    if isinstance(tree, Adjoint):
        return isinstance(tree.of, Conv1d)
    return isinstance(tree, _ALONE) or (isinstance(tree, _OF_PARTS) and is_unitary)


@dataclass(frozen=True)
class _Description:
    text: str
    sizes: tuple[Dim, ...]
    parts: tuple[typed.Expr, ...]


def _described(pool: Pool, tree: Kind) -> _Description | None:
    """A tree in words, with numbers for its tensors; None where it is made of what no tensor is."""
    parts: list[typed.Expr] = []
    sizes: list[Dim] = []
    places: dict[Leaf, str] = {}

    def leaf_text(leaf: Leaf) -> str:
        if leaf not in places:
            places[leaf] = _value_text(pool.values[leaf.index], parts, sizes)
        return places[leaf]

    def text(part: object) -> str:
        if isinstance(part, Leaf):
            return leaf_text(part)
        if isinstance(part, tuple):
            return f"[{', '.join(map(text, part))}]"
        return f"{_name(part)}({', '.join(inside(part))})" if is_dataclass(part) else str(part)

    def inside(part: object) -> Iterator[str]:
        for field in fields(part):  # type: ignore[arg-type]
            value = getattr(part, field.name)
            if value is False or value == "":  # a flag that it lacks, a dtype that nobody said
                continue
            yield field.name if value is True else text(value)

    try:
        return _Description(text(tree), tuple(sizes), tuple(parts))
    except _NoTensorError:
        return None


class _NoTensorError(Exception):
    """A part of an operator is neither a tensor nor known while compiling."""


def _value_text(value: typed.Expr, parts: list[typed.Expr], sizes: list[Dim]) -> str:
    match value.type:
        case TensorType():
            parts.append(value)
            return str(len(parts) - 1)
        case IntType(value=size):
            sizes.append(size)
            return f"size {len(sizes) - 1}"
        case FunctionType(module=module, name=name):
            inner = (_value_text(item, parts, sizes) for item in tuple_items(value, value.span))
            return f"{module}.{name}({', '.join(inner)})"
    raise _NoTensorError


def _name(part: object) -> str:
    name = type(part).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")
