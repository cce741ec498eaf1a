"""Values for a person: the type, a summary of what is large, then the values themselves, abbreviated."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tesserac.types import dtype as dtypes

MOST_VALUES = 200
"""A larger tensor is shown by its edges."""
WIDTH = 100

AnyArray = npt.NDArray[Any]


def show_value(value: object) -> str:
    """A result of `tessera run`: its type, then its values; of a large tensor those at the edges."""
    match value:
        case None:
            return ""
        case tuple():
            return "".join(map(show_value, value))
        case np.ndarray() | np.generic():
            return show_array(np.asarray(value))
    return f"{value}\n"


def show_array(array: AnyArray, head: str = "") -> str:
    """`head` is the type, where more is known of it than the array tells."""
    head = head or array_type(array)
    return f"{head} {array[()]}\n" if array.ndim == 0 else f"{head}\n{values_text(array)}\n"


def values_text(array: AnyArray) -> str:
    return np.array2string(array, threshold=MOST_VALUES, max_line_width=WIDTH, separator=", ")


def array_type(array: AnyArray) -> str:
    return f"Tensor[{', '.join([*map(str, array.shape), _dtype_name(array.dtype.name)])}]"


def _dtype_name(numpy_name: str) -> str:
    return next((d.name for d in dtypes.ALL if d.numpy_name == numpy_name), numpy_name)


def summary(array: AnyArray) -> str:
    """`min .. mean .. max .. nan ..` over the numbers in it; of complex values over their magnitudes."""
    if array.size == 0:
        return "no elements"
    if array.dtype.kind == "b":
        return f"{np.count_nonzero(array)} of {array.size} true"
    if array.dtype.kind in "iu":
        return _figures(array)
    wide = np.abs(array) if array.dtype.kind == "c" else array
    wide = wide.astype(np.float32) if wide.dtype.itemsize < 4 or wide.dtype.kind == "V" else wide
    missing = np.isnan(wide)
    count = int(np.count_nonzero(missing))
    numbers = wide[~missing] if count else wide
    infinite = int(np.count_nonzero(np.isinf(numbers)))
    figures = f"{_figures(numbers)}  " if numbers.size else ""
    return f"{'abs: ' * (array.dtype.kind == 'c')}{figures}nan {count}{f'  inf {infinite}' if infinite else ''}"


def _figures(numbers: AnyArray) -> str:
    with np.errstate(all="ignore"):
        mean = float(numbers.mean(dtype=np.float64))
    return f"min {numbers.min():.6g}  mean {mean:.6g}  max {numbers.max():.6g}"
