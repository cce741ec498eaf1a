"""Types of the lowered GPU dialect, with their text.

    fragment<[128, 128], f32, r[1:1 0:8] l[1:2 1:4 0:1 0:2 0:4] w[0:64 1:32 1:64]>   a block spread over registers
    stages<4, [128, 64], bf16 @accum(f32), panel=64, swizzled>                       a ring of blocks in shared memory
    barriers<4, 8>                                  four barriers in shared memory, each passed by eight arrivals
    tensor_map<[N, M, K], bf16 @accum(f32), strides=[M*K, K, 1], box=[128, 64]>
                                                    how tensor copies read a memref, its dims in the order of their
                                                    strides; a box is as long as one along all but the last two
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.parser import parse_dims, parse_element, register_type, split_top
from tesserac.ir.types import ScalarType, TokenType, Type, element
from tesserac.tile.gpu.model.layout import Layout, parse_layout
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, DType
from tesserac.types.policy import Policy

FLAG = ScalarType(BOOL)
COPY = TokenType("copy")
GROUP = TokenType("group")
MATRIX = TokenType("matrix")

FIRST, HANDED, BESIDE, WAITING = "first", "handed", "beside", "waiting"
"""Attributes: the first of some columns; of shared memory that barriers of its own order, between roles; of a kernel of
whose grid so many rows are walked side by side; of shared memory in which each thread has sums of a tree that wait for
others."""
WORK, RISES, FALLS, VARIES = "work", "rises", "falls", "varies"
"""Of a kernel: whether programs have more or less to do the later they come along the last dim of its grid; of one
whose programs do not all do as much, and of which no more is known, the last come first."""
SUM_COLUMNS = 8
"""Columns of the smallest product: sums of rows are one with ones, in as many equal columns."""


@dataclass(frozen=True)
class FragmentType:
    shape: tuple[int, ...]
    dtype: DType
    policy: Policy
    layout: Layout

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"fragment<[{shape}], {element(self.dtype, self.policy)}, {self.layout}>"


@dataclass(frozen=True)
class StagesType:
    depth: int
    dtype: DType
    policy: Policy
    layout: SharedLayout

    def __str__(self) -> str:
        rows, columns = self.layout.shape
        parts = [str(self.depth), f"[{rows}, {columns}]", element(self.dtype, self.policy)]
        parts.append(f"panel={self.layout.panel}")
        parts += ["swizzled"] * self.layout.swizzled + ["transposed"] * self.layout.transposed
        parts += [f"pad={self.layout.pad}"] if self.layout.pad else []
        parts += ["with_ones"] * self.layout.ones
        return f"stages<{', '.join(parts)}>"


@dataclass(frozen=True)
class BarriersType:
    count: int
    arrivals: int

    def __str__(self) -> str:
        return f"barriers<{self.count}, {self.arrivals}>"


@dataclass(frozen=True)
class TensorMapType:
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    dtype: DType
    policy: Policy
    box: tuple[int, int]

    def __str__(self) -> str:
        dims, strides = (", ".join(map(str, sizes)) for sizes in (self.dims, self.strides))
        box = f"box=[{self.box[0]}, {self.box[1]}]"
        return f"tensor_map<[{dims}], {element(self.dtype, self.policy)}, strides=[{strides}], {box}>"


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in split_top(text.strip()[1:-1]))


def _pair(text: str) -> tuple[int, int]:
    first, second = _ints(text)
    return first, second


def _fragment(inner: str) -> Type:
    shape, elem, layout = split_top(inner)
    return FragmentType(_ints(shape), *parse_element(elem), parse_layout(layout))


def _stages(inner: str) -> Type:
    depth, shape, elem, panel, *flags = split_top(inner)
    dtype, policy = parse_element(elem)
    width = int(panel.removeprefix("panel="))
    pad = next((int(flag.removeprefix("pad=")) for flag in flags if flag.startswith("pad=")), 0)
    swizzled, transposed = "swizzled" in flags, "transposed" in flags
    layout = SharedLayout(_pair(shape), dtype.bits // 8, width, swizzled, transposed, pad, "with_ones" in flags)
    return StagesType(int(depth), dtype, policy, layout)


def _barriers(inner: str) -> Type:
    return BarriersType(*_ints(f"[{inner}]"))


def _tensor_map(inner: str) -> Type:
    dims, elem, strides, box = split_top(inner)
    layout = parse_dims(strides.removeprefix("strides="))
    return TensorMapType(parse_dims(dims), layout, *parse_element(elem), _pair(box.removeprefix("box=")))


register_type("fragment", _fragment)
register_type("stages", _stages)
register_type("barriers", _barriers)
register_type("tensor_map", _tensor_map)
