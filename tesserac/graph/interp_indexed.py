"""The oracle's rules for the forms of `ir/indexed.py`.

Enters: an operation, its operands as arrays, the sizes of symbols. Leaves: the array of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.numerics.exact import Array
from tesserac.numerics.narrow import storage

Sizes = Mapping[str, int]


def _assemble(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    ty = tensor_type(op.result)
    whole = np.zeros([dim.evaluate(sizes) for dim in ty.dims], storage(ty.dtype))
    for part, box in zip(operands, assembled_boxes(op), strict=True):
        starts = [start.evaluate(sizes) for start in box.starts]
        rows = [s + np.arange(n) * t for s, n, t in zip(starts, part.shape, box.steps, strict=True)]
        whole[np.ix_(*rows)] = part
    return whole


INDEXED_FORMS: dict[str, Callable[[Op, list[Array], Sizes], Array]] = {
    "form.assemble": _assemble,
}
