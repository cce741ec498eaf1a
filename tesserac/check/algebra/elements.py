"""The numbers that an operator is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesserac.check.algebra.pool import Pool
from tesserac.types.algebra import Tree, leaves_of, said_dtypes
from tesserac.types.dtype import C64, C128, F32, F64, DType, complex_of, component
from tesserac.types.ty import FunctionType, TensorType, Type, number_types

SAID: dict[str, DType] = {dtype.name: dtype for dtype in (F32, F64, C64, C128)}
"""What may be said of an operator without numbers of its own, by the name in its tree, where "" is nothing."""


def element(pool: Pool, tree: Tree) -> DType:
    """The real dtype of an operator's numbers: its own, else that of what stands beside it, else f32."""
    beside = [*(type_.dtype for type_ in numbers_in(pool.types)), *(SAID[name] for name in pool.said)]
    return component([*own_dtypes(pool, tree), *beside, F32][0])


def number_dtype(pool: Pool, tree: Tree, is_complex: bool) -> DType | None:
    """The dtype of an operator's matrix; None of one that has no numbers of its own, and takes those that it meets."""
    own = own_dtypes(pool, tree)
    real = component(own[0]) if own else None
    is_said = any(SAID[name].is_complex for name in said_dtypes(tree))
    return (complex_of(real) or real) if real is not None and (is_complex or is_said) else real


def own_dtypes(pool: Pool, tree: object) -> list[DType]:
    """Those of the tensors that an operator is made of, and those that were said."""
    numbers = numbers_in(pool.types[place] for place in leaves_of(tree))
    return [*(type_.dtype for type_ in numbers), *(SAID[name] for name in said_dtypes(tree))]


def remembered(pool: Pool, parts: object) -> str:
    """What is to be said of an operator that a law makes of these, which has none of their numbers."""
    found = [dtype for dtype in own_dtypes(pool, parts) if dtype.name in SAID]
    return next((dtype.name for dtype in sorted(found, key=lambda dtype: not dtype.is_complex)), "")


def numbers_in(leaves: Iterable[Type]) -> Iterator[TensorType]:
    """The tensors of numbers that an operator is made of, those that its functions captured among them."""
    for leaf in leaves:
        if isinstance(leaf, FunctionType):
            yield from numbers_in(captured for _, captured in leaf.captures)
        else:
            yield from number_types([leaf])
