"""`tessera run`: calls `main()` and shows what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tessera
from tesserac.commands.outcome import FAULT, MISTAKES, Outcome
from tesserac.faults import INTERNAL_FAULT
from tesserac.types import dtype as dtypes

MOST_VALUES = 200
"""A larger tensor is shown by its edges."""
WIDTH = 100


def run_main(path: str, threads: int | None) -> Outcome:
    """Loads a source or a bundle, and runs its `main`."""
    try:
        if threads is not None:
            tessera.set_num_threads(threads)
        return Outcome(show_value(tessera.load(path).main()))
    except tessera.TesseraError as error:
        return Outcome(remarks=f"{error.text}\n", status=FAULT if error.code == INTERNAL_FAULT else MISTAKES)


def show_value(value: object) -> str:
    """A result for a person: its type, then its values; of a large tensor those at the edges."""
    match value:
        case None:
            return ""
        case tuple():
            return "".join(map(show_value, value))
        case np.ndarray() | np.generic():
            return _show_array(np.asarray(value))
    return f"{value}\n"


def _show_array(array: npt.NDArray[Any]) -> str:
    head = f"Tensor[{', '.join([*map(str, array.shape), _dtype_name(array.dtype.name)])}]"
    if array.ndim == 0:
        return f"{head} {array[()]}\n"
    values = np.array2string(array, threshold=MOST_VALUES, max_line_width=WIDTH, separator=", ")
    return f"{head}\n{values}\n"


def _dtype_name(numpy_name: str) -> str:
    return next((d.name for d in dtypes.ALL if d.numpy_name == numpy_name), numpy_name)
