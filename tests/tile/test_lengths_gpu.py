"""Lengths that only a run knows, on a GPU: a loop over the blocks of a cache ends where its `len` does, and tiles have
room for what there is of a whole dim."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module, Op
from tesserac.ir.kernels import KERNEL as FORM
from tesserac.ir.kernels import MOST_WHOLE, most_whole
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of
from tests.support.source_support import compile_to_forms

KERNEL = """
@kernel.schedule(Schedule(block=({rows}, {keys})))
def upto(q: KTile[B, S, D], k: KTile[B, L, D, q.dtype], v: KTile[B, L, D, q.dtype], n: KTile[B, 1, 1, i32]):
    C = tile.context()
    x, end = tile.load(q, rows=C.m), tile.load(n)
    acc = tile.zeros((C.m, D), f32)
    m = tile.full((C.m,), -INF, f32)
    l = tile.zeros((C.m,), f32)
    for j in tile.range_n(k, C.n):
        s = tile.dot(x, tile.transpose(tile.load(k, j)))
        s = where(tile.col_index(j)[None, :] < end, s, -INF)
        p, mc, lc = tile.softmax_terms(s{narrow})
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j), mc, lc)
    return acc, m[:, None], l[:, None]

def f(q: Tensor[B, S, {d}, {t}], k: Tensor[B, L, {d}, {t}], v: Tensor[B, L, {d}, {t}], n: Tensor[B, 1, 1, i32]):
    return upto(q, k, v, n)
"""
PLAIN = KERNEL.format(rows=16, keys=16, d=16, t="f32", narrow="")
WITH_ROLES = KERNEL.format(rows=64, keys=64, d=64, t="bf16 @accum(f32)", narrow=", v.dtype")
CACHE = """
def f(q: Tensor[1, 4, 8, f32], k: Tensor[1, 2, 4096, 8, f32], v: Tensor[1, 2, 4096, 8, f32], n: i32):
    return decode_attention(q, KVCache[1, 2, 4096, 8](K=k, V=v, len=n))
"""


@cache
def lowered(text: str, arch: str) -> Module:
    tiles = tile_of(SourceFile("m.tess", text), "f", arch)
    return run_passes(tiles, [gpu_pass(PLATFORMS[arch].schedule)], verify=True)


def emulated(text: str, arch: str = "sm_80") -> Emulated:
    module, file = lowered(text, arch), SourceFile("m.tess", text)
    symbol = SESSION.function(file, "f").symbol
    program = gpu_program(module, symbol, PLATFORMS[arch], SESSION.locate, name="f", returns_tuple=True)
    return Emulated(program, kernels_of(module))


def ends(kernel: Op) -> list[bool]:
    """For each loop over blocks with a product, or copies for one, whether an integer of memory says where it ends."""

    def follows(value: object, seen: set[Op]) -> bool:
        made = getattr(value, "defining_op", None)
        if made is None or made in seen:
            return False
        seen.add(made)
        return made.name == "gpu.index" or any(follows(v, seen) for v in made.operands)

    loops = [op for op in kernel.walk() if op.name == "gpu.for" and op.attrs["step"] != 1]  # segments count by one
    working = ("gpu.multiply", "gpu.multiply_held", "gpu.tensor_copy")
    found = [op for op in loops if any(inner.name in working for inner in op.body.ops)]
    return [follows(op.operands[1], set()) for op in found]


CASES = [(PLAIN, "sm_80"), (WITH_ROLES, "sm_80"), (WITH_ROLES, "sm_90a"), (CACHE, "sm_90a")]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("text", "arch"), CASES)
def test_loops_end_where_the_length_does(text: str, arch: str) -> None:
    """What copies and what computes alike: all variants of a kernel of products."""
    found = [ends(kernel) for kernel in kernels_of(lowered(text, arch))]
    assert any(found) and all(all(one) for one in found)


@pytest.mark.one_in(6)
def test_bits_are_those_of_the_meaning_and_nothing_behind_the_length_is_read() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.normal(size=(4, n, 16)).astype(np.float32) for n in (5, 70, 70))
    n = np.int32([0, 1, 37, 70]).reshape(4, 1, 1)
    meaning = run_function(compile_to_forms(PLAIN), "m.f", [q, k, v, n])
    for number, length in enumerate(n.ravel()):
        behind = -(-int(length) // 16) * 16  # blocks that begin behind it
        k[number, behind:], v[number, behind:] = np.nan, np.nan
    for got, wanted in zip(emulated(PLAIN)(q, k, v, n), meaning, strict=True):
        same_bits(got, wanted)


@pytest.mark.one_in(12)
def test_a_query_against_a_cache() -> None:
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(1, *s, 8)).astype(np.float32) for s in ((4,), (2, 4096), (2, 4096)))
    run, forms = emulated(CACHE), compile_to_forms(CACHE)
    for length in (33, 1):
        k[:, :, length:], v[:, :, length:] = np.inf, np.nan
        (got,) = run(q, k, v, np.int32(length))
        same_bits(got, run_function(forms, "m.f", [q, k, v, np.int32(length)])[0])


@pytest.mark.one_in(8)
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
def test_the_assembler_takes_both_sides() -> None:
    first = kernels_of(lowered(WITH_ROLES, "sm_90a"))[0]
    assert {op.attrs["name"] for op in first.walk() if op.name == "gpu.role"} == {"consumer", "producer"}
    assert not assemble(emit_ptx(emit_kernel(first).llvm, "sm_90a"), "sm_90a").spilled_bytes


SCALED_ROWS = """
@kernel
def scaled(x: KTile[M, N, f32], w: KTile[N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    return t * tile.load(w)[None, :] / max(abs(t), axis=1, keep=True)

def f(x: Tensor[M, N, f32], w: Tensor[N, f32]): return scaled(x, w)
"""


def test_tiles_have_little_room_where_a_whole_dim_is_small() -> None:
    file = SourceFile("m.tess", SCALED_ROWS)
    forms = SESSION.levels(file, SESSION.function(file, "f"), PLATFORMS["sm_80"].schedule).forms
    kernels = [op for op in forms.walk() if op.name == FORM]
    assert [most_whole(op) for op in kernels] == list(MOST_WHOLE)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [1, 64, 65, 128, 200, 256, 257])
def test_every_room_has_the_bits_of_the_meaning(length: int) -> None:
    rng = np.random.default_rng(length)
    args = [rng.standard_normal((5, length), "f4"), rng.standard_normal(length, "f4")]
    (wanted,) = run_function(compile_to_forms(SCALED_ROWS), "m.f", args)
    (got,) = emulated(SCALED_ROWS)(*args)
    same_bits(np.asarray(got), np.asarray(wanted))
