"""Kernels that differ in their name and in how much memory of its own a thread has share their PTX."""

import gc

import pytest

from tesserac.target.nvptx import alike as sharing
from tesserac.target.nvptx.alike import alike
from tests.support.gpu_kernels import lowered, ptx, text

TEXT = """; NAME
define ptx_kernel void @NAME(ptr addrspace(1) %a0) nounwind {
  %v0 = alloca [SIZE x double], align 16
  ret void
}
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM is given."""
    texts = list[str]()

    def emit(text: str, arch: str) -> str:
        texts.append(text)
        name, size = text.partition("@")[2].partition("(")[0], text.partition("[")[2].partition(" x")[0]
        return f".entry {name}( .param .u64 {name}_param_0 ) .local .b8 __local_depot0[{8 * int(size)}]; // {arch}"

    monkeypatch.setattr(sharing, "emit_ptx_apart", emit)
    return texts


def kernel(name: str, size: int, more: str = "") -> str:
    return TEXT.replace("NAME", name).replace("SIZE", str(size)) + more


def test_each_has_its_name_and_its_room(made: list[str]) -> None:
    kernels = [alike(kernel(name, size), "sm_80") for name, size in (("f$3", 512), ("f$3_deep", 1280), ("g$7", 512))]
    codes = [kernel.ptx() for kernel in kernels]
    assert len(made) == 1
    assert codes[1] == ".entry f$3_deep( .param .u64 f$3_deep_param_0 ) .local .b8 __local_depot0[10240]; // sm_80"
    assert codes[2] == ".entry g$7( .param .u64 g$7_param_0 ) .local .b8 __local_depot0[4096]; // sm_80"


def test_other_code_and_other_machines_are_not_alike(made: list[str]) -> None:
    kernels = [alike(kernel("f", 8), "sm_80"), alike(kernel("f", 8), "sm_90a"), alike(kernel("f", 8, "; x"), "sm_80")]
    assert len({kernel.ptx() + str(kernel.shared) for kernel in kernels}) == len(made) == 3


@pytest.mark.parametrize("other", ["  %v1 = alloca [4 x float], align 16\n", "  %v1 = alloca i64, align 8\n"])
def test_the_size_of_one_room_among_several_stays(made: list[str], other: str) -> None:
    """Where in memory the others lie depends on it."""
    kernels = [alike(kernel("f", size, other), "sm_80") for size in (512, 1280)]
    assert ["[4096]" in kernels[0].ptx(), "[10240]" in kernels[1].ptx(), len(made)] == [True, True, 2]


def test_code_that_no_kernel_has_is_forgotten(made: list[str]) -> None:
    alike(kernel("f", 512), "sm_80").ptx()
    gc.collect()
    alike(kernel("f", 512), "sm_80").ptx()
    assert len(made) == 2


@pytest.mark.one_in(8)
def test_it_is_what_llvm_makes_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    from tesserac.target.nvptx.ptx import emit_ptx

    monkeypatch.setattr(sharing, "emit_ptx_apart", emit_ptx)
    names = [name for name in lowered("matmul_f32", "sm_80") if name in ("$0", "$0_deep")]
    kernels = [alike(text("matmul_f32", "sm_80", name).llvm, "sm_80") for name in names]
    assert [kernel.ptx() for kernel in kernels] == [ptx("matmul_f32", "sm_80", name) for name in names]
    assert len(names) == 2 and kernels[0].shared is kernels[1].shared
