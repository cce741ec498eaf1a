"""What lay in memory between two kernels of a GPU stands in shared memory of one that holds all of it."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, VerifyError
from tesserac.ir.types import MemRefType
from tesserac.tile.gpu.model.values import memory
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import BOOL, F64, DType
from tests.support.gpu_kernels import tile_of, variants_of

TEXT = "def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:\n    return gammaincc(exp(x), exp(y))\n"


def test_numbers_of_other_sizes_have_rooms_of_their_own() -> None:
    kernels = variants_of(tile_of(SourceFile("f.tess", TEXT), "f", "sm_90a"), "f", "sm_90a")
    views = [op for kernel in kernels.values() for op in kernel.walk() if op.name == "gpu.view"]
    assert {memory(view.result).dtype for view in views} == {BOOL, F64}
    for view in views:
        seen, mem = memory(view.result), memory(view.operands[0])
        assert seen.dtype == mem.dtype and seen.dims[0].evaluate({}) <= mem.dims[0].evaluate({})


def room(size: int, dtype: DType) -> MemRefType:
    return MemRefType((Dim.const(size),), dtype, space="shared")


def seen_as(size: int, dtype: DType) -> Op:
    b = Builder(Block())
    made = b.value("gpu.alloc", (), room(512, BOOL))
    ty = MemRefType((Dim.const(size), Dim.const(4)), dtype, strides=(ONE, ONE), space="shared")
    return b.op("gpu.view", (made,), (ty,))


@pytest.mark.parametrize(("size", "dtype"), [(513, BOOL), (512, F64)])
def test_a_view_beyond_its_memory_is_an_error(size: int, dtype: DType) -> None:
    fits, reaches = seen_as(512, BOOL), seen_as(size, dtype)
    fits.opdef.verify(fits)
    with pytest.raises(VerifyError):
        reaches.opdef.verify(reaches)
