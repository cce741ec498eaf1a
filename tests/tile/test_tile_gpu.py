"""Lowering to the GPU dialect: it verifies, prints and parses back, and has the structure it promises."""

from __future__ import annotations

import re

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module, print_op
from tesserac.ir.verify import verify_module
from tesserac.schedule.machine import SM_80, SM_90A
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.gpu.layouts.variants import variants
from tesserac.tile.gpu.lower import lower_kernel, lower_module
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.types import StagesType, TensorMapType
from tesserac.tile.gpu.model.values import integer, kernel_conditions, kernel_parameters, text
from tesserac.types.dims import ONE
from tests.support.gpu_kernels import KERNELS, count, lowered, source, tile, tile_of, variants_of


def neutral_text(name: str, arch: str) -> str:
    return print_op(tile(name, arch).ops[0])


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_lowered_kernels_print_and_parse_back(name: str, arch: str) -> None:
    for kernel in lowered(name, arch).values():
        printed = print_op(kernel)
        again = parse_module(printed)
        verify_module(again)
        assert print_module(again).strip() == printed


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_nothing_abstract_is_left(name: str, arch: str) -> None:
    for kernel in lowered(name, arch).values():
        for gone in ("gpu.stage", "gpu.dot", "gpu.reduce", "gpu.scratch", "gpu.convert"):
            assert count(kernel, gone) == 0


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_policies_survive(name: str, arch: str) -> None:
    elements = set(re.findall(r"memref<\[[^\]]*\], ([^,>]*)", neutral_text(name, arch)))
    for kernel in lowered(name, arch).values():
        text = re.sub(r".*gpu\.alloc\(\) \{waiting = true\}.*", "", print_op(kernel))  # sums, in f32
        assert set(re.findall(r"memref<\[[^\]]*\], ([^,>]*)", text)) == elements


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_the_last_variant_of_a_kernel_takes_every_size(name: str, arch: str) -> None:
    last = {text(op, "variant_of"): op for op in lowered(name, arch).values()}
    assert all(kernel_conditions(op) == () for op in last.values())


def test_variants_of_the_bf16_product() -> None:
    kernel = tile("matmul_bf16", "sm_90a").ops[0]
    names = [(v.suffix, v.unit) for v in variants(kernel, SM_90A)]
    assert names == [("", "wgmma"), ("_mma", "mma"), ("_deep", "mma")]
    assert [v.unit for v in variants(kernel, SM_80)] == ["mma", "mma"]


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("a", "b", "product", "rank"),
    [("M, K", "N, K", "a @ b.T", 2), ("K, M", "K, N", "a.T @ b", 2), ("B, M, K", "B, K, N", "a @ b", 3)],
)
def test_transposed_and_batched_operands_are_copied_as_they_lie(a: str, b: str, product: str, rank: int) -> None:
    parameters = f"a: Tensor[{a}, half], b: Tensor[{b}, half]"
    text = f"half = bf16 @accum(f32)\ndef f({parameters}):\n    return {product}\n"
    kernels = variants_of(tile_of(SourceFile("product.tess", text), "f", "sm_90a"), "f", "sm_90a")
    first = next(iter(kernels.values()))
    maps = [v.type for v in kernel_parameters(first) if isinstance(v.type, TensorMapType)]
    assert [len(ty.dims) for ty in maps] == [rank, rank] and all(ty.strides[-1] == ONE for ty in maps)
    assert "wgmma.mma_async" in emit_ptx(emit_kernel(first).llvm, "sm_90a")


@pytest.mark.parametrize(("variant", "warps", "registers"), [("$1", 12, [232, 40]), ("$4", 8, [0, 0])])
def test_roles_of_the_wgmma_kernels(variant: str, warps: int, registers: list[int]) -> None:
    kernel = lowered("matmul_bf16", "sm_90a")[variant]
    roles = {text(op, "name"): op for op in kernel.walk() if op.name == "gpu.role"}
    assert list(roles) == ["consumer", "producer"]
    assert integer(kernel, "warps") == warps
    assert count(roles["producer"], "gpu.tensor_copy") == 2
    assert count(roles["producer"], "gpu.multiply") == 0
    assert count(roles["consumer"], "gpu.multiply") == 1
    waits = [op for op in roles["consumer"].walk() if op.name == "gpu.wait_mma"]
    assert [integer(op, "pending") for op in waits] == [1, 0], "in a round for the one before, behind the loop"
    assert [integer(r, "registers") for r in roles.values()] == registers
    assert sum(integer(r, "registers") * integer(r, "warps") * 32 for r in roles.values()) <= 65536


@pytest.mark.parametrize(("name", "arch"), [("matmul_f32", "sm_80"), ("matmul_bf16", "sm_80")])
def test_pipelines_copy_ahead(name: str, arch: str) -> None:
    """Two operands, depth - 1 blocks before the loop and one inside."""
    products = [k for k in lowered(name, arch).values() if count(k, "gpu.multiply")]
    for kernel in products:
        rings = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
        depth, other = [ring.depth for ring in rings if isinstance(ring, StagesType)]
        assert depth == other >= 2
        assert count(kernel, "gpu.copy") == 2 * depth
        assert count(kernel, "gpu.commit") == depth
        pending = [integer(op, "pending") for op in kernel.walk() if op.name == "gpu.wait"]
        assert pending == [depth - 2, 0]
        assert count(kernel, "gpu.barrier") == 2


def test_softmax_is_dealt_to_teams() -> None:
    kernel = lowered("softmax_rows", "sm_90a")["$0"]
    steps = [integer(op, "step") for op in kernel.walk() if op.name == "gpu.for"]
    assert steps == [4096, 4096], "eight teams of 16 threads take a block of 512 each"
    told = [(op.name, integer(op, "lane")) for op in kernel.walk() if op.name in ("gpu.butterfly", "gpu.halve")]
    assert told[:4] == [("gpu.butterfly", lane) for lane in (8, 4, 2, 1)], "a maximum, of one number each"
    halved = [("gpu.halve", 8), ("gpu.halve", 4)]
    assert told[4:] == [*halved, *(("gpu.butterfly", lane) for lane in (2, 1, 4, 8))], "32, 16, 8, 4, 2, 1 of a sum"
    assert count(kernel, "gpu.publish") == count(kernel, "gpu.collect") == 2
    assert all(op.attrs.get("team") == 16 for op in kernel.walk() if op.name == "gpu.store")


def test_values_pass_through_shared_memory_behind_barriers() -> None:
    kernel = lowered("softmax_rows", "sm_90a")["$0"]
    for block in {op.parent for op in kernel.walk() if op.name == "gpu.collect"}:
        assert block is not None
        names = [op.name for op in block.ops]
        between = names[names.index("gpu.publish") : names.index("gpu.collect")]
        assert "gpu.barrier" in between


def test_scratch_that_does_not_fit_becomes_workspace() -> None:
    shared, outside, *_ = lowered("softmax_rows", "sm_80").values()  # then those for short rows
    assert [g.kind for g in kernel_conditions(shared)] == ["at_least"]
    assert "memref<[N], f32, shared>" in print_op(shared)
    assert "memref<[M, N], f32, global>" in str(outside.body.args[-1].type)
    assert count(outside, "gpu.program") == 1


def test_a_loop_that_carries_a_sum_is_not_dealt() -> None:
    printed = neutral_text("softmax_rows", "sm_80")
    kernel = parse_module(printed.replace("scalar.max(%l, %r)", "scalar.add(%l, %r)")).ops[0]
    first, *_ = lower_kernel(kernel, SM_80)
    steps = [integer(op, "step") for op in first.walk() if op.name == "gpu.for"]
    assert steps == [512, 4096]


@pytest.mark.one_in(2)
def test_columns_are_folded_by_all_warps() -> None:
    """What eight warps hold of a column meets in shared memory, once for the maximum and once for the sum."""
    name = "softmax_columns"
    kernel = variants_of(tile_of(source("benchmarks/bits.tess"), name, "sm_80"), name, "sm_80")["$0"]
    rooms = {op.result for op in kernel.walk() if op.name == "gpu.alloc" and op.result.name.startswith("exchange")}
    touching = [op.name for op in kernel.walk() if rooms & set(op.operands)]
    assert touching == ["gpu.store", "gpu.load"] * 2
    assert count(kernel, "gpu.publish") == 0


@pytest.mark.parametrize(
    ("name", "arch", "old", "new", "message"),
    [
        ("matmul_f32", "sm_80", r" \{stage = #stage<[^>]*>\}", "", "not staged"),
        ("softmax_rows", "sm_90a", "#blocks<block=512, lanes=64>", "#blocks<block=1024, lanes=32>", "in the order"),
    ],
)
def test_what_has_no_rule_is_an_error(name: str, arch: str, old: str, new: str, message: str) -> None:
    kernel = parse_module(re.sub(old, new, neutral_text(name, arch))).ops[0]
    with pytest.raises(LoweringError, match=message):
        lower_kernel(kernel, SM_90A)


def test_segments_that_end_inside_a_block_are_copied_by_threads() -> None:
    """Tensor copies end with the memory alone: what they would bring of the next segment is no term of this one."""
    changed = re.sub(r"\{dim = `4096`\}", "{dim = `4100`}", neutral_text("matmul_bf16", "sm_90a"))
    assert all(count(op, "gpu.tensor_copy") == 0 for op in lower_kernel(parse_module(changed).ops[0], SM_90A))


def test_lowering_leaves_the_neutral_module_alone() -> None:
    module = tile("matmul_bf16", "sm_90a")
    before = print_module(module)
    lower_module(module, SM_90A)
    assert print_module(module) == before


def test_threads_wait_around_a_scan() -> None:
    """What one thread walks, others have written before and read behind."""
    program = "def f(x: Tensor[M, N, bf16 @accum(f32)]):\n    return cumsum(x, axis=1)\n"
    kernels = variants_of(tile_of(SourceFile("scan.tess", program), "f", "sm_90a"), "f", "sm_90a").values()
    scans = [op for kernel in kernels for op in kernel.walk() if op.name == "gpu.scan_rows"]
    assert len(scans) == 3, "of whole rows, of the totals of blocks, and of blocks"
    for scan in scans:
        assert scan.parent is not None
        rooms = set(scan.operands[:2])
        touched = [op for op in scan.parent.ops if op.name == "gpu.barrier" or rooms & set(op.operands)]
        place = touched.index(scan)
        assert touched[place - 1].name == "gpu.barrier" == touched[place + 1].name
