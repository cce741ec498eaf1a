"""Schedules, decorators, meshes and pipelines: values that are checked, and never change a bit."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.diag.diagnostic import Severity
from tests.support.checking import check_text

KERNEL = """
base = Schedule(block=(128, 128), warps=8, stages=3)

{decorator}
def product(a: KTile[M, K, f32], b: KTile[K, N, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k), tile.load(b, k, None))
    return acc

def settings(x: Tensor[M, N, f32]):
    return read(x)

@kernel.schedule(base.with_warps(4).vector(8))
def read(x: KTile[M, N, f32]):
    T = tile.context()
    return tile.load(x, rows=T.m) + float(T.warps) * 100.0 + float(T.stages) * 10.0 + float(T.vector)

special = product.with_schedule(base.with_block(32, 32))

def both(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):
    return special(a, b), op.matmul(a, b, tile_shape=(64, 64, 32))
"""


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    "decorator",
    [
        "@kernel.schedule(Schedule().block(64, 64).k(32).warps(4).swizzle('xor'))",
        "@kernel.autotune(space=dict(BM=[64, 128], BN=[64], warps=[4, 8]), metric='latency_ms', budget_ms=5)",
        '@kernel.autotune(space={"block": [(64, 64), (128, 64)], "stages": [2, 3]}, cache="~/.sched")',
        "@jit @autodiff @export\n@kernel(implements=matmul, target='cpu')",
    ],
)
def test_no_schedule_changes_a_bit(decorator: str) -> None:
    m = tessera.compile(KERNEL.format(decorator=decorator))
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 40)).astype("f4"), rng.normal(size=(40, 6)).astype("f4")
    special, library = m.both(a, b)
    assert np.array_equal(m.product(a, b), library) and np.array_equal(special, library)
    assert np.allclose(library, a @ b, rtol=1e-5, atol=1e-5)


MEANING = """
def scaled(a: Tensor[M, K, {dtype}], b: Tensor[K, N, {dtype}]): return a @ b * 2.0

@kernel(implements={meaning})
def own(a: KTile[M, K, {dtype}], b: KTile[K, N, {dtype}]){result}:
    T = tile.context()
    return {body}
"""
DOT = "tile.dot(tile.load(a, rows=T.m), tile.load(b, cols=T.n))"


def meaning(dtype: str = "f32", meaning: str = "scaled", result: str = "", body: str = DOT) -> str:
    return MEANING.format(dtype=dtype, meaning=meaning, result=result, body=body)


@pytest.mark.one_in(16)
def test_a_kernel_is_held_to_the_bits_of_what_it_implements() -> None:
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.arange(12, dtype="f4").reshape(3, 4)
    a[0, 0] = np.nan
    m = tessera.compile(meaning(body=DOT + " * 2.0"))
    assert np.array_equal(m.own(a, b), m.scaled(a, b), equal_nan=True)
    wrong = tessera.compile(meaning(body=DOT + " * 2.0000002"))
    with pytest.raises(tessera.TesseraError, match="`own` gives the bits of `scaled`, which it implements"):
        wrong.own(a, b)


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        ("`scaled` gives another type", meaning(body=f"tile.cast({DOT}, bf16)")),
        ("`sum_of` gives another type", meaning(meaning="sum_of") + "def sum_of(a, b): return sum(a @ b)"),
        ("`relu` does not take what it takes", meaning(meaning="relu")),
        ("it has the effect random, which `scaled` has not", meaning(body=f"dropout_in_kernel({DOT}, p=0.5)")),
    ],
)
def test_a_kernel_that_is_not_what_it_implements(difference: str, text: str) -> None:
    found = check_text(text + "\n").diagnostics
    assert [(d.code, d.title) for d in found] == [("E0509", f"`own` is not what it implements: {difference}")]


def test_the_context_has_the_settings_of_the_schedule() -> None:
    m = tessera.compile(KERNEL.format(decorator="@kernel"))
    assert np.array_equal(m.settings(np.zeros((2, 3), "f4")), np.full((2, 3), 438, "f4"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E0507", "s = Schedule(8)"),
        ("E0507", "s = Schedule(BM=16, BM=32)"),
        ("E0507", "s = Schedule(warps=3)"),
        ("E0507", "s = Schedule(block=(0, 64))"),
        ("E0507", "s = Schedule(block=(64, 64, 64, 64))"),
        ("E0507", "s = Schedule().with_wraps(4)"),
        ("E0507", "s = Schedule().warps()"),
        ("E0507", "s = Schedule(swizzle='or')"),
        ("E0507", "s = Schedule(persistent=1)"),
        ("E0507", "s = Schedule().on()"),
        ("E0507", "s = Schedule().on(4, warps=4)"),
        ("E0507", "s = Schedule().on('cuda')"),
        ("E0507", "s = Schedule().on('cuda', 4)"),
        ("E0507", "s = Schedule().on('cuda', warps=3)"),
        ("E0507", "s = Schedule().on('cuda', wraps=4)"),
        ("E0507", "s = Schedule().on('cuda', Schedule().on('cpu', k=8))"),
        ("E0517", "s = Schedule().on('gpu', warps=4)"),
        ("E0517", "s = Schedule().on('cuda:sm_90', warps=4)"),
        ("E0507", "@kernel.autotune(space=Schedule(warps=[4, 8]).on('cpu', k=8))\ndef f(x: Tile): return x"),
        ("E0507", "def f(x: Tensor[N, f32]): return x\ng = f.with_schedule(3)"),
        ("E0507", "def f(x: Tensor[N, N, f32]): return op.matmul(x, x, tile_shape=(128, 0))"),
        ("E0507", "@kernel.autotune(space=dict(BX=[64]))\ndef f(x: Tile): return x"),
        ("E0507", "@kernel.autotune(space=dict(warps=[4, 5]))\ndef f(x: Tile): return x"),
        ("E0507", "@kernel.autotune(space=dict(warps=[]))\ndef f(x: Tile): return x"),
        ("E0508", "@kernel.autotune(space=4)\ndef f(x: Tile): return x"),
        ("E0508", "@kernel.autotune(spaces=dict(BM=[64]))\ndef f(x: Tile): return x"),
        ("E0508", "@kernel.autotune(budget_ms='soon')\ndef f(x: Tile): return x"),
        ("E0201", "@kernel.shedule(Schedule())\ndef f(x: Tile): return x"),
        ("E0508", "@kernel.schedule(4)\ndef f(x: Tile): return x"),
        ("E0508", "@kernel(implements=3)\ndef f(x: Tile): return x"),
        ("E0508", "@graph.module(4)\ndef f(x: Tensor[N, f32]): return x"),
        ("E0508", "@verify.numerics(bounded=[3])\ndef f(x: Tensor[N, f32]): return x"),
        ("E0508", "@verify.numerics(bounded=[3, -3])\ndef f(x: Tensor[N, f32]): return x"),
        ("E0508", "@verify.numerics(stable=2)\ndef f(x: Tensor[N, f32]): return x"),
        ("E0201", "@something\ndef f(x: Tensor[N, f32]): return x"),
        ("E0604", "m = dist.Mesh(axes=['a', 'a'])"),
        ("E0604", "m = dist.Mesh(axes=4)"),
        ("E0604", "m = dist.Mesh(axes=['a', 'b'], devices=range(8), shape=[2, 2])"),
        ("E0604", "m = dist.Mesh(axes=['a', 'b'], devices=range(8), shape=[8])"),
        ("E0604", "m = dist.Mesh(axes=['a'], devices=8)"),
        ("E0604", "s = dist.ShardSpec(('row', 'col'), ('a',))"),
        ("E0604", "t = dist.tensor((4, 4), layout=3)"),
        ("E0604", "t = dist.tensor((4,), layout=dist.ShardSpec(('row', 'col'), ('a', 'b')))"),
        ("E0208", "m = dist.Mash(axes=['a'])"),
        ("E0205", "y = op.pipeline(3)"),
        ("E0207", "y = op.pipeline([ones(3), 4])"),
        ("E0604", "m = dist.Mesh(axes=['a'])\ndef f(x: Tensor[N, f32]):\n    with m(layout=3): pass\n    return x"),
    ],
)
def test_wrong_values_are_told(code: str, text: str) -> None:
    found = check_text(text + "\n").diagnostics
    assert [d.code for d in found if d.severity is Severity.ERROR] == [code], [d.title for d in found]


@pytest.mark.parametrize(("name", "meant"), [("cuda:sm_90", "cuda:sm_90a"), ("sm_80", "cuda:sm_80"), ("cdua", "cuda")])
def test_a_target_that_is_misspelt_has_a_fix(name: str, meant: str) -> None:
    [problem] = check_text(f"s = Schedule().on('{name}', warps=4)\n").diagnostics
    [fix] = problem.fixes
    assert [edit.replacement for edit in fix.edits] == [f'"{meant}"']


def test_a_block_number_that_stands_for_a_size_is_said_where_it_belongs() -> None:
    text = KERNEL.format(decorator="@kernel").replace("tile.load(a, None, k)", "tile.load(a, rows=T.m, cols=k)")
    [problem] = check_text(text).diagnostics
    assert problem.code == "E0502" and "`tile.load(x, None, j)`" in problem.notes[0]


def test_conditions_of_a_kernel_are_where_and_not_when() -> None:
    problem = check_text(KERNEL.format(decorator="@kernel(implements=matmul, when=M > 4)")).diagnostics[0]
    assert problem.code == "E0508" and "`where M % 8 == 0`" in problem.notes[1]


def test_a_pipeline_applies_one_function_after_the_other() -> None:
    text = """
def double(x: Tensor[N, f32]): return x * 2.0
def f(x: Tensor[N, f32]):
    return op.pipeline([x, double, op.relu, lambda v: v + 1.0])
"""
    x = np.array([-1, 2, 3], "f4")
    assert np.array_equal(tessera.compile(text).f(x), np.maximum(x * 2, 0) + 1)


VERIFIED = """
@verify.numerics(stable=True)
def inverse(x: Tensor[N, f32]): return 1.0 / x

@verify.numerics(stable=True, bounded=[-100, 100])
@kernel.auto
def scores(q: Tile, k: Tile) -> Tile: return tile.dot(q, k.T)

@verify.numerics(bounded=[0, 10])
def pair(x: Tensor[N, f32], n: Tensor[N, i32]): return x, (n, sum(x))
"""


@pytest.mark.one_in(8)
def test_verified_numerics() -> None:
    m = tessera.compile(VERIFIED)
    assert np.array_equal(m.inverse(np.array([1, 2], "f4")), np.array([1, 0.5], "f4"))
    with pytest.raises(tessera.TesseraError, match="every element that `inverse` returns is finite"):
        m.inverse(np.array([1, 0], "f4"))
    assert np.array_equal(m.scores(np.ones((2, 3), "f4"), np.ones((4, 3), "f4")), np.full((2, 4), 3, "f4"))
    with pytest.raises(tessera.TesseraError, match=r"`scores` returns is in \[-100, 100\]"):
        m.scores(np.full((2, 3), 9, "f4"), np.full((2, 3), 9, "f4"))
    x, (n, total) = m.pair(np.array([1, 2], "f4"), np.array([-5, 5], "i4"))
    assert total == 3 and n[0] == -5 and x[0] == 1
    with pytest.raises(tessera.TesseraError, match="E0933"):
        m.pair(np.array([6, 7], "f4"), np.array([1, 2], "i4"))
    with pytest.raises(tessera.TesseraError, match="E0933"):
        m.pair(np.array([np.nan, 7], "f4"), np.array([1, 2], "i4"))
