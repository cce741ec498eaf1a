"""How an operator is held, as the numbers that other languages read: the descriptor of a binary interface.

    A.descriptor()      Descriptor(repr=<Representation.FACTORIZED: 1>, payload=(u, v), tag=0, flags=6)

`repr` is one of four, `payload` the arrays and numbers that it is made of, in their order. `tag` says the rule of an
implicit one, and `flags` has one bit for each thing that the laws prove. Numbers that stand here stay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple


class Representation(IntEnum):
    """How an operator is held: as a matrix, as factors, as numbers of a rule, as entries or blocks at their places."""

    DENSE = 0
    FACTORIZED = 1
    IMPLICIT = 2
    BLOCK_SPARSE = 3


class Flags(IntFlag):
    UNITARY = 1
    SELF_ADJOINT = 2
    NORMAL = 4
    PSD = 8
    DIAGONAL = 16
    LOWER = 32
    UPPER = 64
    TRIANGULAR = 128


NAMES = {
    "Dense": Representation.DENSE,
    "Factorized": Representation.FACTORIZED,
    "Implicit": Representation.IMPLICIT,
    "BlockSparse": Representation.BLOCK_SPARSE,
}
"""By what the language calls them."""
TAGS = {
    "Eye": 1, "Zero": 2, "Diag": 3, "Permutation": 4, "Banded": 5, "Toeplitz": 6, "Conv1d": 7, "Fourier": 8,
    "Kronecker": 9, "DirectSum": 10, "Grid": 11, "Sum": 12, "Compose": 13, "Inverse": 14, "Implicit": 15,
    "Jacobian": 16, "ToeplitzAdjoint": 17,
}  # fmt: skip
"""Rules of implicit operators, by the kind that the compiler calls them."""
_AROUND = {"Adjoint": 1, "Conjugate": 1, "Scaled": 3}
"""Kinds that change the numbers of another one, and where that one stands in their row."""


class Descriptor(NamedTuple):
    repr: Representation
    payload: tuple[object, ...]
    tag: int
    flags: Flags


def describe(representation: str, tree: str, parts: Sequence[object], flags: Sequence[str]) -> Descriptor:
    kind = NAMES[representation]
    tag = TAGS[_innermost(json.loads(tree))] if kind is Representation.IMPLICIT else 0
    bits = Flags(0)
    for flag in flags:
        bits |= Flags[flag.upper()]
    return Descriptor(kind, tuple(parts), tag, bits)


def _innermost(row: list[object]) -> str:
    head = str(row[0])
    inner = row[_AROUND[head]] if head in _AROUND else None
    return _innermost(inner) if isinstance(inner, list) else head
