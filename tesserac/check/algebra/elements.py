"""The numbers that an operator is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesserac.check.algebra.pool import Pool
from tesserac.types.algebra import Tree, leaves_of
from tesserac.types.dtype import C64, C128, F32, F64, DType
from tesserac.types.ty import FunctionType, TensorType, Type, number_types

_REAL: dict[DType, DType] = {C64: F32, C128: F64}


def element(pool: Pool, tree: Tree) -> DType:
    """The real dtype of an operator's numbers: that of its tensors, else of those beside it, else f32."""
    own = numbers_in(pool.types[place] for place in leaves_of(tree))
    found = next((type_.dtype for type_ in (*own, *numbers_in(pool.types))), F32)
    return real_dtype(found)


def numbers_in(leaves: Iterable[Type]) -> Iterator[TensorType]:
    """The tensors of numbers that an operator is made of, those that its functions captured among them."""
    for leaf in leaves:
        if isinstance(leaf, FunctionType):
            yield from numbers_in(captured for _, captured in leaf.captures)
        else:
            yield from number_types([leaf])


def real_dtype(dtype: DType) -> DType:
    return _REAL.get(dtype, dtype)
