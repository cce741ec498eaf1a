"""PTX of the four programs: correctly rounded operations only, assembled without spills, products not serialised."""

from __future__ import annotations

import re

import pytest

from tesserac.base.source import SourceFile
from tesserac.target.nvptx import ptx as ptx_module
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx, find_ptxas
from tesserac.tile.gpu.model.errors import NotSelectableError
from tests.support.folding import folded
from tests.support.gpu_kernels import KERNELS, assembled, lowered, ptx, text, tile, tile_of


def variants() -> list[tuple[str, str, str]]:
    """Each way of multiplying once: deep variants differ in the size of an array, f32 products are the same on both."""
    return [
        (name, arch, variant)
        for name, arch in KERNELS
        for variant in lowered(name, arch)
        if not variant.endswith(("_deep", "_workspace")) and not (arch == "sm_90a" and name == "matmul_f32")
    ]


needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")


@pytest.mark.one_in(3)
@folded(("name", "arch", "variant"), variants, one_in=48)
def test_arithmetic_is_correctly_rounded(name: str, arch: str, variant: str) -> None:
    """Nothing approximate, nothing flushed, and no `add` or `mul` that the assembler may contract into an fma."""
    code = ptx(name, arch, variant)
    assert not re.search(r"\.(approx|full|ftz)\b", code)
    assert not re.search(r"\b(add|sub|mul|mad)\.f(32|64)\b", code)
    assert f".target {arch}" in code


@needs_ptxas
@folded(("name", "arch", "variant"), variants, one_in=48)
def test_kernels_assemble_without_spills(name: str, arch: str, variant: str) -> None:
    result = assembled(name, arch, variant)
    assert result.spilled_bytes == 0
    assert result.notes == ()
    assert result.cubin.startswith(b"\x7fELF")


@pytest.mark.one_in(12)
@needs_ptxas
def test_the_assembler_reports_what_it_dislikes() -> None:
    """The reader of the report is not blind: a kernel with too few registers spills."""
    from tesserac.target.nvptx.ptx import assemble

    code = text("matmul_f32", "sm_80", "$0").llvm
    limited = code.replace('"nvvm.minctasm"="1"', '"nvvm.maxnreg"="64"')
    assert assemble(emit_ptx(limited, "sm_80"), "sm_80").spilled_bytes > 0


@pytest.mark.one_in(24)
def test_wgmma_kernel() -> None:
    code = ptx("matmul_bf16", "sm_90a", "$1")
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n256k16\.f32\.bf16\.bf16", code)) == 4
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d", code)) == 5, "one panel of A, four of B"
    assert len(re.findall(r"setmaxnreg\.(?:inc|dec)", code)) == 2
    assert len(re.findall(r"mbarrier\.init", code)) == 8
    assert "mma.sync" not in code


@pytest.mark.one_in(12)
def test_few_passes_leave_as_little_of_a_product_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of groups of warps have their own, and without them as many instructions; other kernels have all."""
    few, many = ptx("matmul_bf16", "sm_90a", "$1"), ptx("softmax_rows", "sm_80", "$0")
    monkeypatch.setattr(ptx_module, "_simplify", lambda module, machine: None)
    assert emit_ptx(text("matmul_bf16", "sm_90a", "$1").llvm, "sm_90a") == few
    assert len(emit_ptx(text("softmax_rows", "sm_80", "$0").llvm, "sm_80")) > len(many)
    monkeypatch.undo()
    monkeypatch.setattr(ptx_module, "MATRIX_UNIT", "none")
    whole = emit_ptx(text("matmul_bf16", "sm_90a", "$1").llvm, "sm_90a")
    assert abs(whole.count("\n") - few.count("\n")) < whole.count("\n") / 100


@pytest.mark.one_in(4)
def test_mma_kernel() -> None:
    code = ptx("matmul_bf16", "sm_80", "$0")
    assert len(re.findall(r"mma\.sync\.aligned\.m16n8k16", code)) == 4 * 4 * 2
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.shared", code)) == 4 * 2
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans", code)) == 2 * 2


@pytest.mark.one_in(6)
def test_f32_product_is_one_chain_per_output() -> None:
    code = ptx("matmul_f32", "sm_80", "$0")
    assert len(re.findall(r"fma\.rn\.f32", code)) == 128 * (16 + 1), "the last term of a round stands behind, too"
    assert "cp.async.cg.shared.global" in code and "cp.async.ca.shared.global" in code


def test_maps_use_16_byte_accesses() -> None:
    code = ptx("add", "sm_80", "$0")
    assert len(re.findall(r"ld\.global\.(?:nc\.)?v4", code)) == 2 * 2
    assert len(re.findall(r"st\.global\.v4", code)) == 2


@pytest.mark.one_in(6)
def test_kernels_that_begin_early_wait_before_they_touch_memory() -> None:
    """For the launch before theirs; then the next one may begin to wait."""
    for name, variant in (("add", "$0"), ("softmax_rows", "$0"), ("matmul_bf16", "$0"), ("matmul_bf16", "$0_mma")):
        code = emit_ptx(emit_kernel(lowered(name, "sm_90a")[variant], early=True).llvm, "sm_90a")
        assert "ld.global.nc" not in code, "the assembler moves loads of constant memory before the wait"
        waits, lets = (code.index(f"griddepcontrol.{word};") for word in ("wait", "launch_dependents"))
        touched = re.search(r"\b(ld|st)\.global|cp\.async|mbarrier", code)
        assert touched is not None and waits < lets < touched.start()
    assert "griddepcontrol" not in ptx("add", "sm_80", "$0")


@pytest.mark.one_in(4)
def test_softmax_folds_by_lanes() -> None:
    code = ptx("softmax_rows", "sm_80", "$0")
    assert len(re.findall(r"shfl\.sync\.bfly", code)) == 4 + 7 + 2  # a maximum, a sum, two teams
    # One reciprocal for all of a row, one division in the loop of those at the ends of the range.
    assert len(re.findall(r"rcp\.rn\.f32", code)) == len(re.findall(r"div\.rn\.f32", code)) == 1


@pytest.mark.one_in(4)
def test_parts_of_a_sum_are_all_read_before_two_are_added() -> None:
    from tesserac.target.nvptx.build import PLATFORMS, ptx_text

    text = "def sums(x: Tensor[8192, 768, f32]):\n    return sum(x, axis=0)\n"
    code = ptx_text(tile_of(SourceFile("sums.tess", text), "sums", "sm_90a"), PLATFORMS["sm_90a"], verify=True)
    joined = code[code.index(".entry main_sums$0_joined") :]
    assert len(re.findall(r"ld\.global", joined)) == 8192 // 512
    assert ".local" not in joined and "bra.uni" not in joined


def test_an_unknown_intrinsic_never_reaches_the_code_generator() -> None:
    body = "%y = call float @llvm.sin.f32(float %x)\nret float %y"
    code = f"declare float @llvm.sin.f32(float)\ndefine float @f(float %x) {{\n{body}\n}}"
    with pytest.raises(NotSelectableError, match="not known to take `llvm"):
        emit_ptx(code, "sm_80")


@pytest.mark.one_in(16)
@needs_ptxas
def test_all_kernels_of_a_program_are_one_text() -> None:
    from tesserac.target.nvptx.build import PLATFORMS, ptx_text
    from tesserac.target.nvptx.ptx import assemble

    code = ptx_text(tile("softmax_rows", "sm_80"), PLATFORMS["sm_80"], verify=True)
    kernels = re.findall(r"\.entry (\S+?)\(", code)
    assert set(kernels) >= {"main_softmax_rows$0", "main_softmax_rows$0_workspace"}
    assert len(kernels) == len(set(kernels)), "rows of a run-time length have a kernel for each class of lengths"
    assert assemble(code, "sm_80").cubin.startswith(b"\x7fELF")
