"""The numbers that an operator is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesserac.check.algebra.pool import Pool
from tesserac.types.algebra import Tree, leaves_of
from tesserac.types.dtype import C64, C128, F32, F64, DType
from tesserac.types.ty import FunctionType, TensorType, Type, number_types

_REAL: dict[DType, DType] = {C64: F32, C128: F64}
_COMPLEX = {real: dtype for dtype, real in _REAL.items()}


def element(pool: Pool, tree: Tree) -> DType:
    """The real dtype of an operator's numbers: that of its tensors, else of those beside it, else f32."""
    own = numbers_in(pool.types[place] for place in leaves_of(tree))
    found = next((type_.dtype for type_ in (*own, *numbers_in(pool.types))), F32)
    return real_dtype(found)


def number_dtype(pool: Pool, tree: Tree, is_complex: bool) -> DType | None:
    """The dtype of an operator's matrix; None of one that has no numbers of its own, and takes those that it meets."""
    real = next((real_dtype(type_.dtype) for type_ in numbers_in(pool.types[place] for place in leaves_of(tree))), None)
    return _COMPLEX.get(real, real) if is_complex and real is not None else real


def numbers_in(leaves: Iterable[Type]) -> Iterator[TensorType]:
    """The tensors of numbers that an operator is made of, those that its functions captured among them."""
    for leaf in leaves:
        if isinstance(leaf, FunctionType):
            yield from numbers_in(captured for _, captured in leaf.captures)
        else:
            yield from number_types([leaf])


def real_dtype(dtype: DType) -> DType:
    return _REAL.get(dtype, dtype)
