"""i4 at rest: two per byte, the low nibble first.

Arrays in a call hold one i4 per byte, as NumPy's views and strides need it (`ml_dtypes.int4`); files hold two.
Enters and leaves: arrays of either form. Along the last dim an odd element leaves the last high nibble 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.errors import WRONG_DTYPE, WRONG_RANK, failure

if TYPE_CHECKING:
    from tessera.arguments import Array


def pack_i4(x: Array) -> Array:
    """An int4 array [..., N] as bytes [..., ceil(N / 2)]."""
    import numpy as np

    if x.dtype != numpy_dtype("int4"):
        raise failure(WRONG_DTYPE, f"`pack_i4` takes an array of int4, not of {x.dtype}")
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

    if packed.dtype != np.uint8:
        raise failure(WRONG_DTYPE, f"`unpack_i4` takes an array of uint8, not of {packed.dtype}")
    if not packed.ndim or packed.shape[-1] != (count + 1) // 2:
        raise failure(WRONG_RANK, f"{count} elements are {(count + 1) // 2} bytes, but the shape is {packed.shape}")
    codes = packed.view(np.uint8)
    pairs = np.stack([codes & 0xF, codes >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
    return np.ascontiguousarray(pairs[..., :count]).view(numpy_dtype("int4"))
