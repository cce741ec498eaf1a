"""Kernels as tile programs on a GPU: one launch under every schedule, the bits of the meaning, what products became.

Kernels of f32 run here, thread by thread; those of bf16 are assembled, and their tiles looked at.
"""

from __future__ import annotations

import math
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.types import AxisType
from tesserac.numerics.elementary import program
from tesserac.numerics.program import evaluate
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.gpu.model.types import RISES, VARIES, WORK
from tesserac.tile.gpu.model.values import fragment, is_persistent, memory, stages
from tesserac.types.dtype import F32, I32
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, count, tile_of
from tests.support.kernel_programs import BLOCKS, PROGRAMS, arguments, scheduled
from tests.support.sampling import spread
from tests.support.source_support import compile_to_forms

ARCH = "sm_90a"
RUN = [(name, blocks) for name in ("attention", "causal", "bias", "product", "largest") for blocks in BLOCKS[2:]]
ATTENTION = """
half = bf16 @accum(f32)

def f(q: Tensor[B, S, 64, half], k: Tensor[B, L, 64, half], v: Tensor[B, L, 64, half]):
    return attention(q, k, v, causal=True)
"""


@cache
def lowered(text: str) -> Module:
    tiles = tile_of(SourceFile("m.tess", text), "f", ARCH)
    return run_passes(tiles, [gpu_pass(PLATFORMS[ARCH].schedule)], verify=True)


def kernel(text: str) -> Op:
    """The preferred variant of the one kernel."""
    module = lowered(text)
    assert len({op.attrs["variant_of"] for op in kernels_of(module)}) == 1, print_module(module)
    return kernels_of(module)[0]


def emulated(text: str) -> Emulated:
    module, file = lowered(text), SourceFile("m.tess", text)
    symbol = SESSION.function(file, "f").symbol
    program = gpu_program(module, symbol, PLATFORMS[ARCH], SESSION.locate, name="f", returns_tuple=True)
    return Emulated(program, kernels_of(module))


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("name", "blocks"), spread(RUN, 6))
def test_threads_give_the_bits_of_the_meaning(name: str, blocks: tuple[int, ...] | None) -> None:
    run = emulated(scheduled(PROGRAMS[name], blocks))
    for s, other in ((5, 9), (70, 33)):
        args = arguments(name, s, other)
        meaning = run_function(compile_to_forms(PROGRAMS[name]), "m.f", args)
        for got, wanted in zip(run(*args), meaning, strict=True):
            same_bits(got, wanted)


@pytest.mark.one_in(4)
def test_a_schedule_sets_blocks_warps_and_stages() -> None:
    program = PROGRAMS["causal"].replace("@kernel", "@kernel.schedule(Schedule(block=(64, 32, 8), warps=2, stages=3))")
    chosen = kernel(program)
    assert chosen.attrs["warps"] == 2
    depths = sorted(stages(op.result).depth for op in chosen.walk() if op.name == "gpu.alloc")
    assert depths == [1, 1, 3, 3]  # queries and terms stay; keys and values stream
    assert str(chosen.attrs["grid"]) != str(kernel(scheduled(PROGRAMS["causal"], (8, 16, 7))).attrs["grid"])


def test_a_transposed_operand_is_copied_as_it_lies() -> None:
    rings = [stages(op.result).layout for op in kernel(PROGRAMS["attention"]).walk() if op.name == "gpu.alloc"]
    assert [layout.transposed for layout in rings].count(True) == 1


@pytest.mark.one_in(6)
def test_attention_in_bf16_is_one_kernel_on_matrix_units() -> None:
    chosen = kernel(ATTENTION)
    units = [op.attrs["unit"].name for op in chosen.walk() if "unit" in op.attrs]  # type: ignore[union-attr]
    assert units and set(units) == {"wgmma"}
    # Of each round beside the next one, of the last behind the loop.
    assert count(chosen, "gpu.multiply_held") == 2 and count(chosen, "gpu.put") == 0
    plain = lowered(ATTENTION).lookup(chosen.symbol + "_mma")
    assert {op.attrs["unit"].name for op in plain.walk() if "unit" in op.attrs} == {"mma"}  # type: ignore[union-attr]
    stored = [memory(op.operands[1]) for op in chosen.walk() if op.name == "gpu.store"]
    assert [str(mem.dtype) for mem in stored] == ["bf16"]


@pytest.mark.one_in(4)
def test_a_round_runs_beside_the_one_before() -> None:
    """The scores of a round and the product of the one before are both under way when the first of them is waited for,
    and the second is waited for behind the exponentials."""
    loop = next(op for op in kernel(ATTENTION).walk() if op.name == "gpu.for" and op.results)
    names = [op.name for op in loop.body.ops]
    waits = [op.attrs["pending"] for op in loop.body.ops if op.name == "gpu.wait_mma"]
    assert names.index("gpu.multiply") < names.index("gpu.multiply_held") < names.index("gpu.wait_mma")
    assert waits == [1, 0] and names.index("gpu.round") > names.index("gpu.wait_mma", names.index("gpu.wait_mma") + 1)


@pytest.mark.one_in(4)
def test_before_the_first_round_there_is_no_product() -> None:
    """Warps go round it where the axis of its terms is empty, and those who wait count as many products as ever."""
    chosen = kernel(ATTENTION)
    late, last = [op for op in chosen.walk() if op.name == "gpu.multiply_held"]
    assert isinstance(late.operands[-1].type, AxisType) and not isinstance(last.operands[-1].type, AxisType)
    code = emit_kernel(chosen).llvm
    assert code.count('"wgmma.commit_group.sync.aligned;"') == 1


@pytest.mark.one_in(6)
def test_sums_of_terms_are_columns_of_the_product() -> None:
    """Of 64 values and 8 ones; of other units and of wide values they are a product of their own, in the same chain."""
    chosen = kernel(ATTENTION)
    assert count(chosen, "gpu.sum_rows") == 0 and count(chosen, "gpu.fill_ones") == 1
    assert "wgmma.mma_async.sync.aligned.m64n72k16" in emit_ptx(emit_kernel(chosen).llvm, ARCH)
    plain = lowered(ATTENTION).lookup(chosen.symbol + "_mma")
    assert count(plain, "gpu.sum_rows") >= 1 and count(plain, "gpu.fill_ones") == 0
    wide = kernel(ATTENTION.replace("64, half", "256, half"))
    assert count(wide, "gpu.sum_rows") >= 1 and count(wide, "gpu.fill_ones") == 0


@pytest.mark.one_in(3)
def test_what_terms_lack_is_multiplied_behind_the_loop() -> None:
    loop = next(op for op in kernel(ATTENTION).walk() if op.name == "gpu.for" and op.results)
    factors = [op.attrs["value"] for op in loop.walk() if op.name == "scalar.constant"]
    assert 2.0**-33 in factors and 2.0**33 not in factors
    everywhere = [op.attrs["value"] for op in kernel(ATTENTION).walk() if op.name == "scalar.constant"]
    assert everywhere.count(2.0**33) == 2  # of the values' sums, and of the terms'


@pytest.mark.one_in(12)
def test_a_score_that_nothing_hides_costs_no_more() -> None:
    """Of a block that a reduction has masked: no zero is added, terms outside need no mask, and are rounded late."""
    loop = next(op for op in kernel(ATTENTION.replace("causal=True", "")).walk() if op.name == "gpu.for" and op.results)
    terms = next(op for op in loop.body.ops if op.regions and any("exp_lifted" in inner.name for inner in op.body.ops))
    assert [op.name for op in terms.body.ops[:2]] == ["scalar.constant", "scalar.mul"]
    assert count(loop, "gpu.mask") == 1 and count(loop, "gpu.round") == 1


@pytest.mark.one_in(8)
def test_a_maximum_is_looked_for_where_a_score_may_exceed_it() -> None:
    """The bits of scores are asked as integers; folds of floats and exchanges among lanes are in the other way. What
    stores its maxima needs all of them."""
    loop = next(op for op in kernel(ATTENTION).walk() if op.name == "gpu.for" and op.results)
    (unless,) = (op for op in loop.body.ops if op.name == "gpu.unless")
    assert count(unless, "gpu.butterfly") == count(loop, "gpu.butterfly") == 2
    folded = [op for op in loop.body.ops if op.name == "gpu.fold"]
    assert [fragment(op.result).dtype for op in folded] == [I32]
    assert unless.result in loop.body.terminator.operands
    both = ATTENTION.replace("attention(q, k, v, causal=True)", "vjp(lambda q: attention(q, k, v), q)[1](q)")
    assert all(count(kernel_, "gpu.unless") == 0 for kernel_ in kernels_of(lowered(both)))


@pytest.mark.one_in(16)
def test_masks_of_narrow_numbers_take_no_pairs_apart() -> None:
    """Those of terms, in the way back to keys: what a branch chooses are words."""
    both = ATTENTION.replace("attention(q, k, v, causal=True)", "vjp(lambda k: attention(q, k, v), k)[1](q)")
    keys = next(op for op in kernels_of(lowered(both)) if count(op, "gpu.multiply") == 2)
    assert count(keys, "gpu.mask") == 2 and "phi bfloat" not in emit_kernel(keys).llvm


@pytest.mark.one_in(2)
def test_warp_groups_start_products_in_turns() -> None:
    loop = next(op for op in kernel(ATTENTION).walk() if op.name == "gpu.for" and op.results)
    names = [op.name for op in loop.body.ops]
    start, end = names.index("gpu.take_turn"), names.index("gpu.pass_turn")
    assert start < names.index("gpu.multiply") < names.index("gpu.multiply_held") < end < names.index("gpu.wait_mma")


@pytest.mark.one_in(8)
def test_a_mask_is_computed_only_where_a_block_needs_it() -> None:
    """Whether it keeps all of a block is asked once for a warp; a whole block has no comparison for each element."""
    text = emit_kernel(kernel(ATTENTION)).llvm
    without = emit_kernel(kernel(ATTENTION.replace("causal=True", "causal=False"))).llvm
    assert text.count("call i1 @llvm.nvvm.vote.any.sync") == without.count("call i1 @llvm.nvvm.vote.any.sync") + 1


@pytest.mark.one_in(6)
def test_words_are_exchanged_before_they_are_stored() -> None:
    ptx = emit_ptx(emit_kernel(kernel(ATTENTION)).llvm, ARCH)
    assert "st.global.v2.b32" in ptx and "st.global.b16" in ptx  # whole blocks, and the ends of memory


@pytest.mark.one_in(4)
def test_many_quotients_by_one_divisor_are_rounded_as_divisions() -> None:
    text = "def f(x: Tensor[N, 256, f32]):\n    return x / max(x, axis=1, keep=True)\n"
    run, rng = emulated(text), np.random.default_rng(7)
    bits = rng.integers(0, 2**32, (4, 256), dtype=np.uint32).view(np.float32)
    near = (1 + rng.integers(0, 2**23, (4, 256)) / 2**23).astype(np.float32)
    far = np.ldexp(near, rng.integers(-120, 60, (4, 256))).astype(np.float32)
    zeros = near * rng.choice(np.float32([0.0, -0.0, -1.0, 1.0]), (4, 256))
    steps = np.rint((rng.integers(0, 2**20, (4, 256)) + 0.5) * near[:, :1])  # halfway between subnormals, or next to it
    small = np.ldexp(np.concatenate([steps, rng.integers(0, 99, (4, 256))]), -149).astype(np.float32)
    small[:, :1] = np.concatenate([near[:, :1], np.float32([[2], [6], [10], [24]])])
    for x in (bits, near, far, small, zeros, -near, near * np.float32(2.0**-100), np.zeros((4, 256), np.float32)):
        with np.errstate(all="ignore"):
            same_bits(run(x)[0], x / x.max(axis=1, keepdims=True))
    count_of = emit_kernel(kernel(text)).llvm.count("fdiv")
    assert count_of < 8  # those of each row, and one in the loop of the rare ones


@pytest.mark.one_in(12)
def test_quotients_side_by_side_are_rounded_as_divisions() -> None:
    """With a reciprocal that is wrong in its last place, as the hardware's may be."""
    run = emulated("def f(x: Tensor[N, 256, f32], y: Tensor[N, 256, f32]):\n    return x / y\n")
    rng = np.random.default_rng(9)
    near = (1 + rng.integers(0, 2**23, (4, 256)) / 2**23).astype(np.float32)
    signs = rng.choice(np.float32([0.0, -0.0, 1.0, -1.0]), (4, 256))
    inside = np.ldexp(near, rng.integers(-59, 60, (4, 256))).astype(np.float32) * np.sign(rng.standard_normal((4, 256)))
    bits = rng.integers(0, 2**32, (4, 256), dtype=np.uint32).view(np.float32)
    kinds = [near, near * signs, inside.astype(np.float32), bits]
    for x in kinds:
        for y in (rng.permuted(kind, axis=1) for kind in kinds):
            with np.errstate(all="ignore"):
                same_bits(run(x, y)[0], x / y)


@pytest.mark.one_in(4)
def test_quotients_within_elementary_functions_have_their_bits_and_no_jumps() -> None:
    rng = np.random.default_rng(10)
    bits = rng.integers(0, 2**32, 1024, dtype=np.uint32).view(np.float32)
    x = np.concatenate([np.linspace(-25, 25, 1024, dtype=np.float32), bits]).reshape(8, 256)
    text = "def f(x: Tensor[N, 256, f32]):\n    return erfc(x), tanh(x)\n"
    for name, result in zip(("erfc", "tanh"), emulated(text)(x), strict=True):
        same_bits(result, evaluate(program(name, F32), x))
    assert "fdiv" not in emit_kernel(kernel(text.replace(", tanh(x)", ""))).llvm


@pytest.mark.one_in(6)
def test_programs_of_equal_work_follow_each_other_and_long_ones_come_first() -> None:
    ways = ("causal=True", "causal=False", "window=(99, 0)")
    longest, equal, window = (kernel(ATTENTION.replace("causal=True", way)) for way in ways)
    assert longest.attrs[WORK] == RISES and is_persistent(longest)
    assert WORK not in equal.attrs and is_persistent(equal)
    assert window.attrs[WORK] == VARIES


@pytest.mark.one_in(16)
def test_terms_in_bf16_use_the_power_of_two_of_the_hardware() -> None:
    ptx = emit_ptx(emit_kernel(kernel(ATTENTION)).llvm, ARCH)
    assert "ex2.approx" in ptx
    assert "ex2.approx" not in emit_ptx(emit_kernel(kernel(PROGRAMS["attention"])).llvm, ARCH)


@pytest.mark.one_in(6)
def test_terms_in_bf16_are_right_however_large_the_scores_are() -> None:
    run = emulated("def f(x: Tensor[N, f32], m: f32):\n    return cast(exp_lifted(x, m), bf16 @accum(f32))\n")
    for top in (3.0, 400.0, -9.0e4, 1.3e6):
        x = (top - np.linspace(0, 60, 256)).astype(np.float32)
        m = np.float32(np.rint(float(x.max()) * math.log2(math.e)))
        exact = np.exp(x.astype(np.longdouble) - np.longdouble(m) * np.log(np.longdouble(2))) * 2.0**32
        (found,) = run(x, np.asarray(m))
        assert np.all(abs(found.astype(np.longdouble) / exact - 1) < 1.01 * 2.0**-8)
    assert np.all(run(np.float32([-np.inf, -500.0]), np.float32(0.0))[0] == 0)


@pytest.mark.one_in(24)
def test_terms_that_are_computed_in_bf16_have_the_bits_of_other_targets() -> None:
    """Threads have one of them each where there are few, and several otherwise."""
    for length in (5, 1024):
        text = f"def f(x: Tensor[{length}, bf16], m: Tensor[{length}, bf16]):\n    return exp_lifted(x, m)\n"
        x = -np.linspace(0, 60, length).astype(ml_dtypes.bfloat16)
        m = np.rint(np.linspace(-3, 30, length)).astype(ml_dtypes.bfloat16)
        (found,) = emulated(text)(x, m)
        same_bits(found, np.asarray(tessera.compile(text).f(x, m)))


@pytest.mark.one_in(6)
def test_rare_programs_give_their_bits_whatever_the_types_of_a_map() -> None:
    """They go through memory of the thread, one element after the other."""
    text = "def f(x: Tensor[N, f64]):\n    return cast(exp(x), f32), exp(cast(x, f32))\n"
    x = np.concatenate([np.linspace(-800, 800, 2000), [np.inf, -np.inf, np.nan, 0.0]])
    for got, wanted in zip(emulated(text)(x), tessera.compile(text).f(x), strict=True):
        same_bits(got, np.asarray(wanted))


def test_a_block_that_fits_no_unit_runs_as_its_meaning_and_says_why() -> None:
    file = SourceFile("m.tess", scheduled(PROGRAMS["product"], (1, 1, 1)))
    levels = SESSION.levels(file, SESSION.function(file, "f"), PLATFORMS[ARCH].schedule)
    ((_, why),) = placed_kernels(levels.forms.lookup("main.f" if levels.forms.find("main.f") else "m.f"))
    assert why


@pytest.mark.one_in(6)
def test_numbers_of_bf16_keys_do_not_depend_on_the_blocks() -> None:
    """On this machine: the same rounding of terms whatever the blocks of keys are."""
    import ml_dtypes

    rng = np.random.default_rng(3)
    shapes = ((2, 40, 64), (2, 300, 64), (2, 300, 64))
    args = [(rng.standard_normal(shape) * 2).astype(ml_dtypes.bfloat16) for shape in shapes]
    tiles = tessera.compile(ATTENTION).f(*args)
    meaning = tessera.compile(ATTENTION.replace("causal=True", "causal=True, mask=ones(S, L, dtype=bool)")).f(*args)
    same_bits(np.asarray(tiles), np.asarray(meaning))


RAGGED = """
def f(q: Tensor[B, 2, S, 64, {t}], k: Tensor[B, 2, L, 64, {t}], n: Tensor[B, i32]):
    return attention(q, k, k, lengths=n)
"""


@pytest.mark.one_in(12)
def test_terms_in_bf16_are_rescaled_where_a_row_has_a_new_maximum() -> None:
    """Their words stay words: what one arm of a branch gives, the other gives too."""
    text = RAGGED.format(t="bf16 @accum(f32)")
    file = SourceFile("m.tess", text)
    symbol = SESSION.function(file, "f").symbol
    program = gpu_program(lowered(text), symbol, PLATFORMS[ARCH], SESSION.locate, name="f", returns_tuple=True)
    assert all("ret;" in part.code() for part in program.kernels)
