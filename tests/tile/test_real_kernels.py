"""That kernels are what they say: nothing hangs on names, or on the library having them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessera
from tesserac.base.resources import stdlib_files
from tesserac.graph.build import build_module
from tesserac.graph.dialect import KERNEL_CALL
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import place_kernels
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.modules.library import load_library
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES, PROGRAM_PASSES, schedule_passes, tile_passes
from tesserac.schedule.machine import AARCH64, Machine
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.trial import tiles_of
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import check_text, compile_to_forms
from tests.tile.test_programs_gpu import lowered

OWN = """
def own_parts(s):
    top = max(s, axis=-1)
    m = where(top == -INF, -INF, exp_int(top))
    p = where(s == -INF, 0.0, where(s == INF, INF - INF, exp_lifted(s, m[..., None])))
    return p, m, (p @ ones(s.shape[-1], 1))[..., 0]

def own_move(m, top):
    return where(m == -INF, 0.0, m - top)

def own_join(acc, m, l, p, v, mc, lc):
    top = maximum(m, mc)
    old, new = own_move(m, top), own_move(mc, top)
    return ldexp(acc, old[..., None]) + ldexp(p @ v, new[..., None]), top, ldexp(l, old) + ldexp(lc, new)
"""
KERNEL = """
@kernel.schedule(Schedule(block=(32, 64)))
def attend(q: KTile[S, 16, f32], k: KTile[L, 16, f32], v: KTile[L, 16, f32]):
    T = tile.context()
    Q = tile.load(q, rows=T.m, cols=T.d)
    acc = tile.zeros((T.m, T.d), f32)
    m = tile.full((T.m,), -INF)
    l = tile.zeros((T.m,), f32)
    for n in tile.range_n(k, T.n):
        P, mc, lc = PARTS(tile.dot(Q, tile.transpose(tile.load(k, n, cols=T.d))))
        acc, m, l = JOIN(acc, m, l, P, tile.load(v, n, cols=T.d), mc, lc)
    return acc / l[:, None]

def f(q: Tensor[S, 16, f32], k: Tensor[L, 16, f32], v: Tensor[L, 16, f32]):
    return attend(q, k, v)
"""
BY_HAND = OWN + KERNEL.replace("PARTS", "own_parts").replace("JOIN", "own_join")
OF_LIBRARY = KERNEL.replace("PARTS", "tile.softmax_online").replace("JOIN", "tile.softmax_accumulate")
LENGTHS = """
def f(q: Tensor[2, H, S, 8, F], k: Tensor[2, G, T, 8, F], v: Tensor[2, G, T, 8, F], n: Tensor[2, i32]):
    return GROUPED(q, k, v, causal=True, lengths=n, window=WINDOW)
"""
KINDS = {
    "plain": {"H": "2", "G": "2", "F": "f32", "GROUPED": "attention_safe", "WINDOW": "None"},
    "groups in a window": {"H": "4", "G": "2", "F": "f32", "GROUPED": "grouped_attention_safe", "WINDOW": "(700, 0)"},
    "f16": {"H": "2", "G": "2", "F": "f16", "GROUPED": "attention_safe", "WINDOW": "None"},
}


def without_names(text: str) -> str:
    """IR without what programs call their values, and where they stand."""
    short = re.sub(r"%\w+", "%", re.sub(r"//.*", "", text))
    return re.sub(r'(digest|sym_name|name) = "[^"]*"', "", short)


def tile_module(text: str, machine: Machine) -> Module:
    checked = check_text(text, "m", load_library())
    graph = run_passes(build_module(list(checked.functions.values()), {"m.f"}), CALL_PASSES, verify=False)
    place = place_kernels(tiles_of(machine, PROGRAM_PASSES, schedule_passes(machine)))
    passes = [place, *GRAPH_PASSES, *schedule_passes(machine), *tile_passes(machine)]
    return run_passes(graph, passes, verify=False)


def tile_text(text: str) -> str:
    return without_names(print_module(tile_module(text, AARCH64)))


def ptx_texts(text: str, arch: str) -> list[str]:
    """The code of each kernel, without the names that programs and functions give."""
    machine = PLATFORMS[arch].schedule
    kernels = kernels_of(run_passes(tile_module(text, machine), [gpu_pass(machine)], verify=False))
    codes = [emit_ptx(emit_kernel(kernel, arch=arch).llvm, arch) for kernel in kernels]
    return [code.replace(kernel.symbol, "kernel") for code, kernel in zip(codes, kernels, strict=True)]


@pytest.mark.one_in(24)
def test_functions_of_the_library_may_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = re.compile(r"\b(softmax_online|softmax_accumulate|softmax_terms|attention_rows|_rows_by_blocks)\b")
    program = "def g(q: Tensor[S, 16, f32]):\n    return attention(q, q, q)\n" + OF_LIBRARY
    both = program.replace("return attend(q, k, v)", "return attend(q, k, v) + g(q)")
    wanted, code = tile_text(both), ptx_texts(both, "sm_90a")
    renamed = {path: names.sub(r"other_\1", text) for path, text in stdlib_files().items()}
    monkeypatch.setattr("tesserac.modules.library.stdlib_files", lambda: renamed)
    assert "tile.for" in wanted and tile_text(names.sub(r"other_\1", both)) == wanted
    assert len(code) > 1 and ptx_texts(names.sub(r"other_\1", both), "sm_90a") == code


COPIED = {
    "softmax_rows": "def f(x: Tensor[M, 96, f32]): return NAME(x)",
    "rmsnorm_rows": "def f(x: Tensor[M, 256, bf16 @accum(f32)], w: Tensor[256, bf16 @accum(f32)]): return NAME(x, w)",
    "layernorm_rows": "def f(x: Tensor[M, 200, f32]): return NAME(x, ones(200), zeros(200))",
    "transpose_tiles": "def f(x: Tensor[M, N, f32]): return NAME(x)",
}


def library_kernel(name: str) -> str:
    """The text of a kernel of the library, which implements nothing."""
    found = (re.search(rf"(?m)((?:^@.*\n)+)(def {name}\((?:.*\n)(?:[ )].*\n|\n)*)", x) for x in stdlib_files().values())
    (item,) = (one for one in found if one is not None)
    return re.sub(r"\(implements=\w+\)", "", item[1]) + item[2]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", COPIED)
def test_a_copy_of_a_kernel_is_the_same_code(name: str) -> None:
    """Nothing in the compiler knows a kernel of the library by its name, or by being there."""
    ours, copied = COPIED[name].replace("NAME", name), library_kernel(name).replace(name, "as_i_like")
    theirs = copied + "\n" + COPIED[name].replace("NAME", "as_i_like")
    assert "def as_i_like(" in copied and "implements" not in copied
    code = ptx_texts(ours, "sm_90a")
    assert code and ptx_texts(theirs, "sm_90a") == code
    assert tile_text(theirs) == tile_text(ours)


@pytest.mark.one_in(6)
def test_what_a_program_writes_itself_is_one_kernel_too() -> None:
    """Its blocks are pinned, and their sums are its meaning: bits are its own."""
    own, other = (kernels_of(lowered(text)) for text in (BY_HAND, OF_LIBRARY))
    variants = {str(op.attrs["variant_of"]) for op in other}
    assert len(own) == len(variants) == 1 and "workspace" not in print_module(lowered(BY_HAND))
    args = [np.random.default_rng(0).standard_normal((size, 16), np.float32) for size in (40, 150, 150)]
    numbers = [np.asarray(tessera.compile(text).f(*args)) for text in (BY_HAND, OF_LIBRARY)]
    assert np.allclose(*numbers, rtol=1e-5, atol=1e-6)


@pytest.mark.one_in(24)
def test_without_its_kernels_the_library_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention calls its kernel by name: what that implements stands in its place."""
    text = "def f(q: Tensor[S, 8, f32], k: Tensor[T, 8, f32]):\n    return attention(q, k, k, causal=True)\n"
    args = [np.random.default_rng(0).standard_normal((size, 8), np.float32) for size in (5, 1100)]
    wanted = tessera.compile(text).f(*args)
    call, meaning = "return _rows_by_blocks(", "return _rows("
    meant = {path: body.replace(call, meaning) for path, body in stdlib_files().items()}
    assert meant != stdlib_files()
    monkeypatch.setattr("tesserac.modules.library.stdlib_files", lambda: meant)
    checked = check_text(text, "m", load_library())
    graph = build_module(list(checked.functions.values()), {"m.f"})
    assert not any(op.name == KERNEL_CALL for op in run_passes(graph, CALL_PASSES, verify=False).walk())
    forms = run_passes(graph, [*CALL_PASSES, *GRAPH_PASSES], verify=False)
    same_bits(np.asarray(run_function(forms, "m.f", args)[0]), np.asarray(wanted))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("kind", KINDS)
def test_long_rows_of_any_length_have_the_bits_of_the_interpreter(kind: str) -> None:
    """Keys beyond one segment of 1024 and of 4096, lengths 0, 1 and all; what is behind a length is NaN and infinite,
    the key with the largest score has values of 0."""
    text = LENGTHS
    for name, value in KINDS[kind].items():
        text = re.sub(rf"\b{name}\b", value, text)
    dtype, heads = (np.float16 if kind == "f16" else np.float32), int(KINDS[kind]["H"])
    compiled, meaning = tessera.compile(text), compile_to_forms(text)
    for keys, lengths in ((1, (0, 1)), (1025, (1025, 1)), (4200, (4200, 4097))):
        rng = np.random.default_rng(keys)
        q, k, v = (
            rng.standard_normal((2, count, size, 8)).astype(dtype)
            for count, size in ((heads, 3), (2, keys), (2, keys))
        )
        k[:, :, 0], v[:, :, 0] = 3.0, 0.0
        for row, length in enumerate(lengths):
            k[row, :, length:], v[row, :, length:] = np.nan, np.inf
        args = [q, k, v, np.array(lengths, np.int32)]
        same_bits(np.asarray(compiled.f(*args)), np.asarray(run_function(meaning, "m.f", args)[0]))


ROUNDED = """
half = bf16 @accum(f32)

@kernel
def f(q: KTile[S, 64, half], k: KTile[L, 64, half], v: KTile[L, 64, half]) -> Tile[S, 64, half]:
    T = tile.context()
    x, acc = tile.load(q, rows=T.m), tile.zeros((T.m, T.d), f32)
    m, l = tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.load(k, j).T) * 0.125)
        acc, m, l = tile.softmax_accumulate(acc, m, l, {}, tile.load(v, j), mc, lc)
    return cast(acc / l[:, None], half)
"""


@pytest.mark.one_in(6)
def test_terms_that_a_program_rounds_as_the_library_does_are_rounded_once() -> None:
    """`cast(p, v.dtype)` is a habit of other tile languages; rounded twice, products waited for one another."""
    once = tile_text(ROUNDED.format("p"))
    assert tile_text(ROUNDED.format("cast(p, half)")) == once


@pytest.mark.parametrize(("scores", "terms"), [("* 0.125", "cast(p, half)"), ("* 0.125, dtype=half", "p")])
def test_terms_that_f16_does_not_hold_are_told(scores: str, terms: str) -> None:
    text = ROUNDED.format(terms).replace("bf16", "f16").replace("* 0.125", scores)
    with pytest.raises(tessera.TesseraError, match="terms carry 2\\*\\*32"):
        tessera.compile(text)
