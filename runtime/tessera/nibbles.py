"""i4 at rest: two per byte, the low nibble first.

Arrays in a call hold one i4 per byte, as NumPy's views and strides need it (`ml_dtypes.int4`); files hold two.
Enters and leaves: arrays of either form. Along the last dim an odd element leaves the last high nibble 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.errors import WRONG_ARGUMENTS, WRONG_DTYPE, WRONG_KIND, WRONG_RANK, failure, kind_of

if TYPE_CHECKING:
    import numpy as np

    from tessera.arguments import Array


def _expect(x: object, dtype: np.dtype[np.generic], function: str) -> None:
    import numpy as np

    if not isinstance(x, np.ndarray):
        raise failure(WRONG_KIND, f"`{function}` takes an array, not {kind_of(x)}")
    if x.dtype != dtype:
        raise failure(WRONG_DTYPE, f"`{function}` takes an array of {dtype}, not of {x.dtype}")


def pack_i4(x: Array) -> Array:
    """An int4 array [..., N] as bytes [..., ceil(N / 2)]."""
    import numpy as np

    _expect(x, numpy_dtype("int4"), "pack_i4")
    if not x.ndim:
        raise failure(WRONG_RANK, "`pack_i4` takes an array with dims, not one number")
    codes = np.ascontiguousarray(x).view(np.uint8) & 0xF
    odd = [(0, 0)] * (x.ndim - 1) + [(0, x.shape[-1] % 2)]
    pairs = np.pad(codes, odd).reshape(*x.shape[:-1], -1, 2)
    packed: Array = pairs[..., 0] | (pairs[..., 1] << 4)
    return packed


def unpack_i4(packed: Array, count: int) -> Array:
    """Bytes [..., ceil(N / 2)] as an int4 array [..., N], where N is `count`."""
    import numpy as np

    _expect(packed, np.dtype(np.uint8), "unpack_i4")
    if not isinstance(count, int) or count < 0:
        raise failure(WRONG_ARGUMENTS, "`unpack_i4` takes the number of elements, an int from 0")
    if not packed.ndim or packed.shape[-1] != (count + 1) // 2:
        raise failure(WRONG_RANK, f"{count} elements are {(count + 1) // 2} bytes, but the shape is {packed.shape}")
    codes = packed.view(np.uint8)
    pairs = np.stack([codes & 0xF, codes >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
    return np.ascontiguousarray(pairs[..., :count]).view(numpy_dtype("int4"))
