"""Lowering to the GPU dialect: it verifies, prints and parses back, and has the structure it promises."""

from __future__ import annotations

import re

import pytest

from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module, print_op
from tesserac.ir.verify import verify_module
from tesserac.tile.gpu.dialect import integer, kernel_conditions, text
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.lower import lower_kernel, lower_module
from tesserac.tile.gpu.types import StagesType
from tesserac.tile.gpu.variants import SM_80, SM_90A, variants
from tests.gpu_kernels import CASES, KERNELS, count, lowered, neutral


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_lowered_kernels_print_and_parse_back(name: str, arch: str) -> None:
    for kernel in lowered(name, arch).values():
        printed = print_op(kernel)
        again = parse_module(printed)
        verify_module(again)
        assert print_module(again).strip() == printed


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_nothing_abstract_is_left(name: str, arch: str) -> None:
    for kernel in lowered(name, arch).values():
        for gone in ("gpu.stage", "gpu.dot", "gpu.reduce", "gpu.scratch"):
            assert count(kernel, gone) == 0


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_policies_survive(name: str, arch: str) -> None:
    elements = set(re.findall(r"memref<\[[^\]]*\], ([^,>]*)", print_module(neutral(name))))
    for kernel in lowered(name, arch).values():
        assert set(re.findall(r"memref<\[[^\]]*\], ([^,>]*)", print_op(kernel))) == elements


def test_the_last_variant_takes_every_size() -> None:
    for name, arch in KERNELS:
        *_, last = lowered(name, arch).values()
        assert kernel_conditions(last) == () or name == "vadd"


def test_variants_of_the_bf16_product() -> None:
    names = [(v.suffix, v.unit) for v in variants(neutral("matmul_bf16_sm90").ops[0], SM_90A)]
    assert names == [("", "wgmma"), ("_mma", "mma"), ("_deep", "mma")]
    on_ampere = [v.unit for v in variants(neutral("matmul_bf16_sm90").ops[0], SM_80)]
    assert on_ampere == ["mma", "mma"]


def test_roles_of_the_wgmma_kernel() -> None:
    kernel = lowered("matmul_bf16_sm90", "sm_90a")["matmul_bf16_sm90"]
    roles = {text(op, "name"): op for op in kernel.walk() if op.name == "gpu.role"}
    assert set(roles) == {"producer", "consumer"}
    assert integer(kernel, "warps") == 12
    assert count(roles["producer"], "gpu.tensor_copy") == 2
    assert count(roles["producer"], "gpu.multiply") == 0
    assert count(roles["consumer"], "gpu.multiply") == count(roles["consumer"], "gpu.settle") == 1
    for role, waits in roles.items():
        assert count(waits, "gpu.await") == 1, role
    registers = sum(integer(r, "registers") * integer(r, "warps") * 32 for r in roles.values())
    assert registers <= 65536


@pytest.mark.parametrize(
    ("name", "arch", "depth"),
    [("matmul_f32_gpu", "sm_80", 2), ("matmul_bf16_sm80", "sm_80", 3), ("matmul_bf16_sm90", "sm_80", 3)],
)
def test_pipelines_copy_ahead(name: str, arch: str, depth: int) -> None:
    """Two operands, depth - 1 blocks before the loop and one inside; the third case does not fit four stages."""
    for kernel in lowered(name, arch).values():
        rings = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
        assert [ring.depth for ring in rings if isinstance(ring, StagesType)] == [depth, depth]
        assert count(kernel, "gpu.copy") == 2 * depth
        assert count(kernel, "gpu.commit") == depth
        pending = [integer(op, "pending") for op in kernel.walk() if op.name == "gpu.wait"]
        assert pending == [depth - 2, 0]
        assert count(kernel, "gpu.barrier") == 2


def test_softmax_is_dealt_to_teams() -> None:
    kernel = lowered("softmax", "sm_90a")["softmax"]
    steps = [integer(op, "step") for op in kernel.walk() if op.name == "gpu.for"]
    assert steps == [4096, 4096], "eight teams of 16 threads take a block of 512 each"
    assert count(kernel, "gpu.butterfly") == 8, "32, 16, 8, 4 for the maximum and for the sum"
    lanes = [integer(op, "lane") for op in kernel.walk() if op.name == "gpu.butterfly"]
    assert lanes == [8, 4, 2, 1] * 2
    assert count(kernel, "gpu.publish") == count(kernel, "gpu.collect") == 2
    assert all(op.attrs.get("team") == 16 for op in kernel.walk() if op.name == "gpu.store")


def test_values_pass_through_shared_memory_behind_barriers() -> None:
    kernel = lowered("softmax", "sm_90a")["softmax"]
    for block in {op.parent for op in kernel.walk() if op.name == "gpu.collect"}:
        assert block is not None
        names = [op.name for op in block.ops]
        between = names[names.index("gpu.publish") : names.index("gpu.collect")]
        assert "gpu.barrier" in between


def test_scratch_that_does_not_fit_becomes_workspace() -> None:
    shared, outside = lowered("softmax", "sm_80").values()
    assert [g.kind for g in kernel_conditions(shared)] == ["at_least"]
    assert "memref<[N], f32, shared>" in print_op(shared)
    assert "memref<[M, N], f32, global>" in str(outside.body.args[-1].type)
    assert count(outside, "gpu.program") == 1


def test_a_loop_that_carries_a_sum_is_not_dealt() -> None:
    source = (CASES / "softmax.tile").read_text()
    kernel = parse_module(source.replace("scalar.max(%l, %r)", "scalar.add(%l, %r)")).ops[0]
    first, *_ = lower_kernel(kernel, SM_80)
    steps = [integer(op, "step") for op in first.walk() if op.name == "gpu.for"]
    assert steps == [512, 4096]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("matmul_f32_gpu", ' {stage = #stage<layout="panels", depth=2>}', "", "not staged"),
        ("softmax", "#blocks<block=512, lanes=64>", "#blocks<block=1024, lanes=32>", "in the order"),
        ("matmul_bf16_sm90", "{dim = `4096`}", "{dim = `4100`}", "whole blocks"),
        ("matmul_f32_gpu", "128", "96", "power of two"),
    ],
)
def test_what_has_no_rule_is_an_error(name: str, old: str, new: str, message: str) -> None:
    kernel = parse_module((CASES / f"{name}.tile").read_text().replace(old, new)).ops[0]
    with pytest.raises(LoweringError, match=message):
        lower_kernel(kernel, SM_90A)


def test_lowering_leaves_the_neutral_module_alone() -> None:
    module = neutral("matmul_bf16_sm90")
    before = print_module(module)
    lower_module(module, SM_90A)
    assert print_module(module) == before
