"""The types of IR values. Shape, element type and precision policy are part of a type at every level.

    tensor<[M, K], bf16 @accum(f32)>            a value of the Graph and of Schedule bodies
    scalar<f32>                                 one element, inside the body of a map
    index                                       a size, an offset or a loop counter known at run time
    memref<[M, K], f32, strides=[K, 1], global> memory of the host program and of kernels
    tile<[128, 64], bf16 @accum(f32)>           a block of elements, the work of one program
    axis<128>                                   up to 128 consecutive indices of one dim, cut at its end
    token<async>                                an asynchronous copy or matrix product under way
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType

__all__ = [
    "AxisType",
    "IndexType",
    "INDEX",
    "MemRefType",
    "ScalarType",
    "TensorType",
    "TileType",
    "TokenType",
    "Type",
    "row_major",
]


class Type(Protocol):
    """Anything hashable that prints itself; the classes here and those that lowered dialects add."""

    def __hash__(self) -> int: ...
    def __str__(self) -> str: ...


def element(dtype: DType, policy: Policy) -> str:
    text = str(policy).strip()
    return f"{dtype.name} {text}" if text else dtype.name


@dataclass(frozen=True)
class ScalarType:
    dtype: DType

    def __str__(self) -> str:
        return f"scalar<{self.dtype.name}>"


@dataclass(frozen=True)
class IndexType:
    def __str__(self) -> str:
        return "index"


INDEX = IndexType()


@lru_cache(4096)
def row_major(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The strides, in elements, of a contiguous array whose last dim varies fastest."""
    strides = [Dim.const(1)]
    for dim in reversed(dims[1:]):
        strides.append(strides[-1] * dim)
    return tuple(reversed(strides)) if dims else ()


@dataclass(frozen=True)
class MemRefType:
    """Memory with a shape. `space` is `global` (inputs, outputs, workspace) or `local` (scratch of one program).

    `layout` is `strided`, or `panels`: blocks of a width that the lowering to a target chooses, each stored whole,
    the form in which its micro-kernel reads an operand of a contraction; or `tiles`, those of a matrix unit.
    """

    dims: tuple[Dim, ...]
    dtype: DType
    policy: Policy = NO_POLICY
    strides: tuple[Dim, ...] = ()
    space: str = "global"
    layout: str = "strided"

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", row_major(self.dims))

    @property
    def contiguous(self) -> bool:
        return self.layout == "strided" and self.strides == row_major(self.dims)

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.dims))
        parts = [f"[{dims}]", element(self.dtype, self.policy)]
        if self.strides != row_major(self.dims):
            parts.append("strides=[" + ", ".join(map(str, self.strides)) + "]")
        parts.append(self.space)
        if self.layout != "strided":
            parts.append(self.layout)
        return f"memref<{', '.join(parts)}>"


@dataclass(frozen=True)
class TileType:
    shape: tuple[int, ...]
    dtype: DType
    policy: Policy = NO_POLICY

    def __str__(self) -> str:
        return f"tile<[{', '.join(map(str, self.shape))}], {element(self.dtype, self.policy)}>"


@dataclass(frozen=True)
class AxisType:
    block: int

    def __str__(self) -> str:
        return f"axis<{self.block}>"


@dataclass(frozen=True)
class TokenType:
    kind: str

    def __str__(self) -> str:
        return f"token<{self.kind}>"
