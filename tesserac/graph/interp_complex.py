"""The oracle's rules for complex numbers at the edge of a function: in memory a number is its two parts in a row.

It runs functions after `split_complex`, which says what complex arithmetic is; so these two are all it needs.
"""

from __future__ import annotations

import numpy as np

from tesserac.numerics.exact import Array

_PARTS = {"complex64": np.float32, "complex128": np.float64}
_WHOLE = {"float32": np.complex64, "float64": np.complex128}


def parts_of(x: Array) -> Array:
    whole = np.ascontiguousarray(x)
    return whole.view(_PARTS[whole.dtype.name]).reshape(*x.shape, 2)


def complex_from(parts: Array) -> Array:
    return np.ascontiguousarray(parts).view(_WHOLE[parts.dtype.name]).reshape(parts.shape[:-1])
