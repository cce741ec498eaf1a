"""Kernels of users on the CPU: the bits of the library in f32, NumPy's values within bounds, and mistakes are told."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tesserac.ir.types import MemRefType
from tests.support.checking import check_text
from tests.support.sampling import examples
from tests.tile.test_programs import tiles

PROGRAM = """
@kernel
def product(a: KTile[M, K, f32], b: KTile[K, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc

@kernel
def stored(a: KTile[M, K, bf16 @accum(f32)], b: KTile[K, N, bf16 @accum(f32)], c: KTile[M, N, bf16 @accum(f32)]):
    T = tile.context()
    acc = tile.load(c, rows=T.m, cols=T.n)
    for k in tile.range_k(a, T.k):
        acc = tile.mma(tile.load(a, None, k), tile.load(b, k, None), acc)
    tile.store(c, tile.relu(acc))

@kernel
def rows(x: KTile[M, N, f32]):
    T = tile.context()
    P, m, l = tile.softmax_online(tile.load(x, rows=T.m))
    return P / l[:, None]

@kernel
def online(s: KTile[M, N, f32], v: KTile[N, D, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, T.d), f32); m = tile.full((T.m,), -INF); l = tile.zeros((T.m,), f32)
    for j in tile.range_n(v.shape, T.n):
        P, mc, lc = tile.softmax_online(tile.load(s, None, j, rows=T.m))
        acc, m, l = tile.softmax_accumulate(acc, m, l, P, tile.load(v, j, cols=T.d), mc, lc)
    return acc / l[:, None], m

@kernel.auto
def scores(q: Tile, k: Tile) -> Tile:
    return tile.dot(q, k.T)

@kernel
def causal(s: KTile["B*H", M, N, f32]) -> Tile["B*H", M, N, f32]:
    T = tile.context()
    x = tile.load(s, rows=T.m, cols=T.n)
    tile.mask_causal(x, tile.row_index(), tile.col_index())
    return x

def library(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):
    return a @ b

def library_rows(x: Tensor[M, N, f32]):
    return softmax(x)

def two_blocks(s: Tensor[M, N, f32], t: Tensor[M, L, f32], v: Tensor[N, D, f32], w: Tensor[L, D, f32]):
    p, m, l = softmax_online(s)
    q, mc, lc = softmax_online(t)
    return softmax_accumulate(p @ v, m, l, q, w, mc, lc)

def heads(q: Tensor[B, H, S, D, bf16 @accum(f32)], k: Tensor[B, H, T, D, bf16 @accum(f32)]):
    return scores(q, k)

def merged(s: Tensor[B, H, M, N, f32]):
    return reshape(causal(s), (B, H, M, N))
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return tessera.compile(PROGRAM)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


@pytest.mark.one_in(6)
@examples(12)
@given(st.integers(1, 9), st.integers(0, 40), st.integers(1, 9))
def test_a_product_has_the_bits_of_the_library(m: Any, rows: int, inner: int, columns: int) -> None:
    a, b = normal(rows, inner), normal(inner, columns)
    assert np.array_equal(m.product(a, b), m.library(a, b))


@pytest.mark.one_in(3)
def test_a_long_contraction_is_cut_at_segments(m: Any) -> None:
    a, b = normal(3, 9000), normal(9000, 4)
    assert np.array_equal(m.product(a, b), m.library(a, b))


@pytest.mark.one_in(2)
def test_softmax_is_within_a_rounding_of_the_library(m: Any) -> None:
    x = normal(7, 33) * 20
    exact = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    assert np.allclose(m.rows(x), exact, rtol=3e-7, atol=1e-30)
    assert np.allclose(m.rows(x), m.library_rows(x), rtol=3e-7, atol=1e-30)


@pytest.mark.one_in(2)
def test_stores_round_once(m: Any) -> None:
    a, b, c = (x.astype(ml_dtypes.bfloat16) for x in (normal(4, 6), normal(6, 5), normal(4, 5)))
    exact = np.maximum(c.astype("f8") + a.astype("f8") @ b.astype("f8"), 0)
    found = m.stored(a, b, c)
    assert found.dtype == ml_dtypes.bfloat16
    assert np.allclose(found.astype("f8"), exact, rtol=2**-8)


@pytest.mark.one_in(8)
def test_online_softmax(m: Any) -> None:
    s, v = normal(5, 12), normal(12, 3)
    s[2] = -np.inf
    p = np.exp(s.astype("f8"))
    with np.errstate(invalid="ignore"):
        expected = p / p.sum(1, keepdims=True) @ v
    found, top = m.online(s, v)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert np.isnan(found[2]).all() and top[2] == -np.inf


@pytest.mark.one_in(4)
def test_blocks_of_a_row_join(m: Any) -> None:
    s, t, v, w = normal(4, 6) * 9, normal(4, 7) * 9, normal(6, 3), normal(7, 3)
    s[0] = -np.inf
    acc, _, total = m.two_blocks(s, t, v, w)
    p = np.exp(np.concatenate([s, t], 1).astype("f8"))
    expected = p / p.sum(1, keepdims=True) @ np.concatenate([v, w])
    assert np.allclose(acc / total[:, None], expected, rtol=2e-6, atol=1e-6)


@pytest.mark.one_in(3)
def test_leading_dims_are_one_program_each(m: Any) -> None:
    q, k = (x.astype(ml_dtypes.bfloat16) for x in (normal(2, 3, 4, 8), normal(2, 3, 5, 8)))
    found = m.heads(q, k)
    assert found.dtype == np.float32 and found.shape == (2, 3, 4, 5)
    assert np.allclose(found, q.astype("f4") @ k.astype("f4").transpose(0, 1, 3, 2), rtol=1e-5, atol=1e-5)


def test_arguments_of_a_program_mention_no_block() -> None:
    """A row that is read as one of a matrix has strides of the matrix: no host program knows the size of a block."""
    text = """
@kernel
def f(x: KTile[S, N, f32], c: KTile[N, f32]):
    T = tile.context()
    return tile.load(c, cols=T.n)[None, :] * tile.load(x, rows=T.m, cols=T.n)
"""
    (kernel,) = [op for op in tiles(text).ops if op.name == "tile.kernel"]
    types = [arg.type for arg in kernel.body.args if isinstance(arg.type, MemRefType)]
    assert len(types) == 3 and not any("T_" in str(ty) for ty in types)


@pytest.mark.one_in(24)
def test_a_product_has_no_terms_behind_the_length_of_a_cache() -> None:
    """Also where both of its operands are computed."""
    text = """
@kernel
def f(q: KTile[B, H, S, D, f32], c: KVCache[B, H, L, D]):
    T = tile.context()
    x = tile.load(q, rows=T.m)
    acc, other = tile.zeros((T.m, T.d), f32), tile.zeros((T.m, T.d), f32)
    for j in tile.range_n(c.K, T.n):
        s = 1.0 / tile.dot(x, tile.transpose(tile.load(c.K, j)))
        acc += tile.dot(s, exp(tile.load(c.V, j, cols=T.d)))
        other += tile.dot(s, tile.load(c.V, j, cols=T.d))
    return acc + other
"""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, size, 8), np.float32) for size in (3, 10, 10))
    got = np.asarray(tessera.compile(text).f(q, {"K": k, "V": v, "len": np.int32(6)}))[0, 0]
    terms = 1.0 / (q[0, 0] @ k[0, 0, :6].T)
    assert np.allclose(got, terms @ (np.exp(v) + v)[0, 0, :6], rtol=1e-4, atol=1e-4)


def test_leading_dims_merge(m: Any) -> None:
    s = normal(2, 3, 4, 6)
    expected = np.where(np.arange(6)[None] <= np.arange(4)[:, None], s, -np.inf)
    assert np.array_equal(m.merged(s), expected)
    assert np.array_equal(m.causal(s.reshape(6, 4, 6)), expected.reshape(6, 4, 6))


HEAD = "@kernel\ndef f(x: KTile[M, N, f32], y: KTile[N, L, f32]):\n    T = tile.context()\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("E0301", "return tile.dot(tile.load(x, rows=T.m), tile.load(x, cols=T.n))"),
        ("E0302", "return tile.load(x, rows=T.m) + tile.load(y, cols=T.n)"),
        ("E0208", "return tile.lod(x, rows=T.m)"),
        ("E0208", "return tile.load(x, rows=T.q)"),
        ("E0205", "return tile.load(x, row=T.m)"),
        ("E0210", "return tile.load(T, rows=T.m)"),
        ("E0520", "return tile.load(x, 3, rows=T.m)"),
        ("E0502", "for k in tile.range_k(x, N): pass\n    return tile.load(x)"),
        ("E0521", "for k in tile.range_k(x, T.k): z = tile.load(y, k, rows=T.m)\n    return tile.load(x)"),
        ("E0503", "return tile.load(x, rows=T.m), tile.load(y, rows=T.m)"),
        ("E0522", "for i in range(3): tile.store(y, tile.load(y))"),
        ("E0308", "tile.store(y, tile.load(x))"),
        ("E0212", "a = tile.zeros((T.m,))\n    for k in tile.range_k(x, T.k): a = tile.load(x, None, k, rows=T.m)"),
    ],
)
def test_mistakes_in_kernels_are_told(code: str, lines: str) -> None:
    found = check_text(HEAD + "    " + lines + "\n").diagnostics
    assert code in [d.code for d in found], [d.title for d in found]


def test_tiles_of_a_kernel_have_blocks_for_dims() -> None:
    found = check_text(HEAD + "    return tile.load(x, rows=T.m) + tile.load(x, cols=T.n)\n").diagnostics
    assert '"T_m" would be added along "M"' in found[0].title


def test_what_only_one_branch_stores_is_missing_in_the_other() -> None:
    text = "@kernel\ndef f(x: KTile[M, N, f32], y: KTile[M, N, f32], on: bool):\n    T = tile.context()\n    if on:\n"
    store = "        tile.store(y, tile.load(x, rows=T.m))\n"
    assert [d.code for d in check_text(text + store).diagnostics] == ["E0523"]
    assert not check_text(f"{text}{store}    else:\n{store}").diagnostics


SIZED = """
param w: Tensor[N, f32]

@kernel
def twice(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m) * float(N)

@kernel
def scaled(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m) * w

def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return twice(x) + scaled(x)
"""


def test_a_param_that_only_has_a_size_of_an_argument_is_not_loaded_but_compared() -> None:
    functions = {one.name: one for one in check_text(SIZED).functions.values() if "program" not in one.symbol}
    assert functions["twice"].program is not None
    assert functions["scaled"].program is None and "reads the param `w`" in functions["scaled"].apart
    module: Any = tessera.compile(SIZED)
    module.params, x = {"w": np.ones(4, np.float32)}, np.ones((3, 4), np.float32)
    assert np.array_equal(module.twice(x), 4 * x)
    with pytest.raises(tessera.TesseraError, match="E0924"):
        module.twice(np.ones((3, 5), np.float32))


@pytest.mark.parametrize(
    ("parameters", "body", "note"),
    [
        ("w: KTile[24, V, f32]", "for j in tile.range_k(w, T.n): tile.load(w, None, j)", "`rows=24` loads all of 24"),
        ("w: KTile[B, N, f32]", "tile.load(w, rows=T.m)", 'what each has of its own is declared as ["B", 1, ...]'),
        ("w: KTile[E, N, K, f32]", "pass", 'reads any of the matrices of `Tensor[E, N, K, ...]`'),
    ],
)
def test_what_a_program_sees_of_other_parameters_is_told(parameters: str, body: str, note: str) -> None:
    text = f"""
@kernel
def f(x: KTile[B, M, N, f32], {parameters}):
    T = tile.context()
    t = tile.load(x, rows=T.m)
    {body}
    return t
"""
    assert note in " ".join(remark for one in check_text(text).diagnostics for remark in one.notes)
