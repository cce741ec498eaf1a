"""NumPy's dtype objects by name; the narrow ones come from ml_dtypes, which is imported only when one is met."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_NARROW = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e8m0fnu", "int4", "uint4"})

_WIDE = frozenset({
    "float64", "float32", "float16", "complex64", "complex128", "bool",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
})  # fmt: skip


def is_stored(dtype: np.dtype[np.generic]) -> bool:
    """Whether a dtype of the language has this form in memory."""
    return dtype.name in _WIDE | _NARROW and dtype.isnative


def is_narrow(name: str) -> bool:
    """Whether NumPy itself does not know it."""
    return name in _NARROW


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The dtype called `name`. NumPy keeps one object per such type, which compiled code compares by address."""
    import numpy as np

    if name in _NARROW:
        import ml_dtypes

        narrow: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
        return narrow
    return np.dtype(name)
