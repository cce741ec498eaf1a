"""How NumPy's arrays lie in memory, as compiled entries read them, and the check that this NumPy agrees.

The offsets are those of a 64-bit build with a global interpreter lock. A process in which they do not hold (a build
without the lock, a NumPy to come) takes the slower entry in `call.py`, which asks NumPy instead.
"""

from __future__ import annotations

import ctypes
from functools import cache

TYPE_OFFSET = 8
DATA_OFFSET, RANK_OFFSET, SHAPE_OFFSET, DTYPE_OFFSET, FLAGS_OFFSET = 16, 24, 32, 56, 64
SCALAR_OFFSET = 16
"""Where the number of a scalar is that has 32 or 64 bits."""
C_CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400

EMPTY, RETURN = 184, 76
"""Positions in NumPy's table of functions: PyArray_Empty and PyArray_Return."""
_ABI_VERSION, _ABI_MAJOR = 0, 0x02


@cache
def api_table() -> int:
    """The address of NumPy's table of C functions."""
    from numpy._core._multiarray_umath import _ARRAY_API  # type: ignore[import-not-found]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(_ARRAY_API, None)
    assert isinstance(address, int)
    return address


def api_function(position: int) -> int:
    return _word(api_table() + 8 * position)


@cache
def layout_holds() -> bool:
    """Whether this process lays arrays out as the offsets above say."""
    import numpy as np

    probe = np.zeros((3, 5), dtype=np.float32)
    at = id(probe)
    if ctypes.sizeof(ctypes.c_void_p) != 8 or _word(at + TYPE_OFFSET) != id(np.ndarray):
        return False
    shape = _word(at + SHAPE_OFFSET)
    read = (
        _word(at + DATA_OFFSET),
        _word(at + RANK_OFFSET) & 0xFFFFFFFF,
        _word(at + DTYPE_OFFSET),
        _word(at + FLAGS_OFFSET) & (C_CONTIGUOUS | ALIGNED),
    )
    if read != (probe.ctypes.data, 2, id(probe.dtype), C_CONTIGUOUS | ALIGNED):
        return False
    return (_word(shape), _word(shape + 8)) == probe.shape and _table_holds() and _scalars_hold()


def _scalars_hold() -> bool:
    import numpy as np

    scalars: list[np.generic] = [np.float32(1.25), np.float64(-2.5), np.int32(-3), np.int64(1 << 40)]
    return all(ctypes.string_at(id(s) + SCALAR_OFFSET, s.dtype.itemsize) == s.tobytes() for s in scalars)


def _table_holds() -> bool:
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(api_function(_ABI_VERSION))()
    return bool(version >> 24 == _ABI_MAJOR)


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
