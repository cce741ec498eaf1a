"""Random numbers in kernels: those of an element's place in the problem, whatever blocks a schedule chooses."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.commands.inspection import DIFFERENTIATED, apart
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.tile.dialect import tile_type
from tesserac.types.dtype import BF16
from tests.support import tile_eval
from tests.support.checking import check_text as diagnose
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_kernels import tile_of
from tests.support.kernel_programs import ARGS, HEAD, TAIL, scheduled
from tests.support.paths import CASES
from tests.support.source_support import check_text, compile_to_forms, library
from tests.tile.test_programs import kernels, placed, tiles
from tests.tile.test_programs_gpu import emulated

DROPPED = TAIL.replace("        acc,", "        if p: P = dropout_in_kernel(P, p=p{key})\n        acc,")
ATTENTION = "@kernel\ndef drop(" + ARGS + "{more}, *, p: float):" + HEAD + DROPPED
OF = ARGS.replace("KTile[\"B*H\"", "Tensor[B").replace("KTile", "Tensor")
PROGRAMS = {
    "stream": ATTENTION.format(more="", key="") + f"\ndef f({OF}):\n    return drop(q, k, v, p=0.25)\n",
    "key": ATTENTION.format(more=", u: Key", key=", key=u")
    + f"\ndef f({OF}, u: Key):\n    return drop(q, k, v, u, p=0.25)\n",
    "two draws": """
@kernel
def noisy(x: KTile[S, L, f32]):
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t + normal((T.m, T.n)) * uniform((T.n,))[None, :]

def f(x: Tensor[S, L, f32]):
    return noisy(x)
""",
}


def arguments(name: str, rows: int, keys: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = [(rows, keys)] if name == "two draws" else [(3, rows, 8), (3, keys, 8), (3, keys, 8)]
    return [*(rng.standard_normal(shape).astype(np.float32) for shape in shapes), np.uint64(7)]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_belong_to_elements_and_not_to_blocks(name: str) -> None:
    text = PROGRAMS[name]
    meaning = compile_to_forms(text)
    for blocks in ((8, 16, 8), (5, 3, 7)):
        module = tiles(scheduled(text, blocks))
        assert [why for _, why in placed_kernels(placed(scheduled(text, blocks)).lookup("m.f"))] == [""]
        for size in ((9, 20), (1, 1)):
            args = arguments(name, *size)
            for got, wanted in zip(
                tile_eval.run_host(module, "m.f", args), run_function(meaning, "m.f", args), strict=True
            ):
                same_bits(got, wanted)


@pytest.mark.one_in(24)
def test_threads_of_a_gpu_draw_the_same() -> None:
    run, args = emulated(scheduled(PROGRAMS["stream"], (8, 16, 8))), arguments("stream", 9, 20)
    for got, wanted in zip(run(*args), run_function(compile_to_forms(PROGRAMS["stream"]), "m.f", args), strict=True):
        same_bits(got, wanted)


@pytest.mark.one_in(8)
def test_the_kernel_of_the_seeds_is_one_launch_without_scores_in_memory() -> None:
    """As it is written there, with its line `if dropout:`, which a known 0.0 decides."""
    text = (CASES / "seeds" / "flash_attention.tess").read_text(encoding="utf-8")
    cached = "KVCache[B, H, M, 64, bf16 @accum(f32)]"
    text += f'\ndef f(q: Tensor["B*H", S, 64, bf16 @accum(f32)], cache: {cached}):\n'
    text += "    return flash_attention(q, cache, dropout=0.0, causal=True)\n"
    module = tile_of(SourceFile("m.tess", text), "f", "sm_90a")
    buffers = [op for op in module.walk() if op.name == "schedule.buffer"]
    assert buffers
    assert len(kernels(module)) == 1 and not [op for op in buffers if op.attrs["role"] == "workspace"]
    dots = [op for op in module.walk() if op.name == "tile.dot"]
    kinds = {tile_type(value).dtype for op in dots for value in op.operands[:2]}
    assert kinds == {BF16}, "values behind the length of a cache are zeros of their type: matrix units take them"


@pytest.mark.one_in(8)
def test_a_float_from_python_decides_in_the_run() -> None:
    """`if dropout:` of a number that only a call knows: both branches are there, and 0.0 changes nothing."""
    text = "@kernel\ndef k(x: KTile[S, L, f32], *, dropout: float):\n    T = tile.context()\n"
    text += "    P = tile.load(x, rows=T.m, cols=T.n)\n    if dropout: P = dropout_in_kernel(P, p=dropout)\n"
    text += "    return P\ndef f(x: Tensor[S, L, f32], p: float): return k(x, dropout=p), uniform(3)\n"
    text += "def half(x: Tensor[S, L, f32]): return k(x, dropout=0.5), uniform(3)\n"
    x, module = np.ones((9, 40), np.float32), tessera.compile(text)

    def seeded(name: str, *args: object) -> list[np.ndarray]:
        module.seed(7)
        return [np.asarray(one) for one in getattr(module, name)(*args)]

    same_bits(seeded("f", x, 0.0)[0], x)
    assert set(np.unique(seeded("f", x, 0.5)[0])) == {0.0, 2.0}
    for got, wanted in zip(seeded("f", x, 0.5), seeded("half", x), strict=True):
        same_bits(got, wanted)  # of which one runs as its meaning, the other as tiles


def test_a_kernel_that_is_no_tile_program_says_why() -> None:
    head, body = "@kernel\ndef k(x: KTile[S, L, f32]):\n    T = tile.context()\n", "tile.load(x, rows=T.m, cols=T.n)"
    reasons = {
        f"{head}    t = {body}\n    print(max(x))\n    return t\n": "its programs have the effect io",
        f"param w: Tensor[S, L, f32]\n{head}    return {body} * tile.load(w, rows=T.m, cols=T.n)\n": "the param `w`",
        f"{head}    return {body}\n": DIFFERENTIATED,
    }
    for text, why in reasons.items():
        checked = check_text(text + "def f(x: Tensor[S, L, f32]):\n    return k(x)\n", "m", library())
        [(symbol, said)] = apart([], checked.functions.values())
        assert symbol == "m.k" and why in said, said


def test_a_draw_of_which_blocks_are_no_part_depends_on_blocks() -> None:
    text = "@kernel\ndef f(x: KTile[S, L, f32], u: Key):\n    T = tile.context()\n"
    text += "    return tile.load(x, rows=T.m, cols=T.n) + reshape(uniform(T.m * T.n, key=u), (T.m, T.n))\n"
    assert [found.code for found in diagnose(text).diagnostics] == ["E0511"]
