"""Arrays of other libraries whose elements do not lie one behind the other, as copies in which they do.

Enters: an address on a device, a shape, strides of any kind: transposed, sliced, repeated, backwards. Leaves: an array
in row-major order, made by one kernel. Its text is written here for each number of dims and size of an element, since
the runtime has no compiler; thread i of it moves element i.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from tessera.cuda_driver import LAUNCH, LaunchConfig
from tessera.device_array import DeviceArray, empty
from tessera.devices import Gpu

if TYPE_CHECKING:
    import numpy as np

THREADS, MOST_BLOCKS = 256, 1 << 16
_NAME = "tessera_gather"
_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "v2.u64"}
"""How PTX moves an element of so many bytes."""


def in_order(
    gpu: Gpu, address: int, shape: tuple[int, ...], strides: Sequence[int], dtype: np.dtype[np.generic], stream: int
) -> DeviceArray:
    """A copy of an array; `strides` count elements. Needs the lock and the context of the device."""
    made = empty(gpu, shape, dtype, stream, "a copy in row-major order")
    count = math.prod(shape)
    if count:
        moved, parts = dtype.itemsize, 1
        while address % moved:  # elements that begin anywhere are moved part by part
            moved, parts = moved // 2, parts * 2
        dims = [(size, stride * parts) for size, stride in zip(shape, strides, strict=True) if size != 1]
        dims += [(parts, 1)] if parts > 1 else []
        values = [made.address, address, count * parts, *(d[0] for d in dims), *(d[1] for d in dims)]
        _launch(gpu, _function(gpu, len(dims), moved), values, stream)
    return made


def _launch(gpu: Gpu, function: int, values: Sequence[int], stream: int) -> None:
    words = (ctypes.c_int64 * len(values))(*values)
    start = ctypes.addressof(words)
    places = (ctypes.c_void_p * len(values))(*(start + 8 * place for place in range(len(values))))
    blocks = min(-(-values[2] // THREADS), MOST_BLOCKS)
    config = LaunchConfig(blocks, 1, 1, THREADS, 1, 1, 0, stream, None, 0)
    gpu.driver.call(LAUNCH, ctypes.addressof(config), function, ctypes.addressof(places), None)


_functions: dict[tuple[int, int, int], int] = {}


def _function(gpu: Gpu, rank: int, itemsize: int) -> int:
    key = (id(gpu), rank, itemsize)
    if key not in _functions:
        _functions[key] = gpu.driver.function(gpu.driver.load(gather_text(rank, itemsize).encode()), _NAME)
    return _functions[key]


@cache
def gather_text(rank: int, itemsize: int) -> str:
    """PTX: (target, source, count, sizes..., strides...), all 64 bits. Each thread takes element after element, a grid
    apart."""
    parameters = ", ".join(f".param .u64 p{number}" for number in range(3 + 2 * rank))
    value = "{%v1, %v2}" if itemsize == 16 else "%v1"
    lines = [
        ".version 7.1",
        ".target sm_80",
        ".address_size 64",
        f".visible .entry {_NAME}({parameters})",
        "{",
        ".reg .pred %p1; .reg .b32 %r<5>; .reg .b64 %i<16>; .reg .b64 %n<20>; .reg .b64 %s<20>;",
        f".reg .{'u64' if itemsize == 16 else _TYPES[itemsize].replace('u8', 'u16')} %v<3>;",
        "ld.param.u64 %i1, [p0]; ld.param.u64 %i2, [p1]; ld.param.u64 %i3, [p2];",
        *(f"ld.param.u64 %n{d}, [p{3 + d}]; ld.param.s64 %s{d}, [p{3 + rank + d}];" for d in range(rank)),
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;",
        "mul.wide.u32 %i4, %r1, %r2; cvt.u64.u32 %i5, %r3; add.u64 %i4, %i4, %i5; mul.wide.u32 %i6, %r4, %r2;",
        "NEXT: setp.ge.u64 %p1, %i4, %i3; @%p1 bra END;",
        "mov.u64 %i7, %i4; mov.u64 %i8, 0;",
        *(
            f"div.u64 %i9, %i7, %n{d}; mul.lo.u64 %i10, %i9, %n{d}; sub.u64 %i10, %i7, %i10;"
            f" mad.lo.s64 %i8, %i10, %s{d}, %i8; mov.u64 %i7, %i9;"
            for d in reversed(range(rank))
        ),
        f"mad.lo.s64 %i11, %i8, {itemsize}, %i2; ld.global.{_TYPES[itemsize]} {value}, [%i11];",
        f"mad.lo.s64 %i12, %i4, {itemsize}, %i1; st.global.{_TYPES[itemsize]} [%i12], {value};",
        "add.u64 %i4, %i4, %i6; bra NEXT;",
        "END: ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"
