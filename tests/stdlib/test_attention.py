"""Attention, positions and caches against NumPy in f64: within stated bounds, with the interpreter's bits as machine
code; the same bits for a row alone, in a batch, and decoded step by step."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import normal
from tests.support.source_support import run_both as run

Array = np.ndarray
INF, NAN = np.inf, np.nan
EPS = 2.0**-24


def exact(q: Array, k: Array, v: Array, seen: Array | None = None, scale: float | None = None) -> Array:
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    s = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) * scale
    s = s if seen is None else np.where(seen, s, -INF)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(np.float64)


def close(y: Array, expected: Array, q: Array, k: Array, v: Array) -> bool:
    """Scores are as uncertain as their length, and that of D terms; the rest are a few roundings."""
    score = np.abs(q).sum(-1).max() * np.abs(k).max()
    terms = k.shape[-1] + k.shape[-2] + 10
    return bool(np.all(np.abs(y - expected) <= EPS * terms * (1 + score) * np.abs(v).max()))


def triangle(s: int, t: int) -> Array:
    return np.arange(t)[None, :] <= np.arange(s)[:, None] + t - s


PLAIN = "def f(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, E, f32]) -> Tensor[B, S, E, f32]:\n"


@pytest.mark.one_in(4)
@pytest.mark.one_in(48)
@pytest.mark.parametrize(("call", "causal", "scale"), [
    ("attention(q, k, v)", False, None),
    ("attention(q, k, v, causal=True)", True, None),
    ("attention_safe(q, k, v, causal=True, scale=0.25)", True, 0.25),
])  # fmt: skip
def test_attention(call: str, causal: bool, scale: float | None) -> None:
    program = f"{PLAIN}    return {call}\n"

    @given(st.integers(1, 3), st.integers(1, 9), st.integers(0, 70), st.integers(1, 9), st.integers(0, 999))
    @settings(max_examples=8)
    def check(b: int, s: int, more: int, d: int, seed: int) -> None:
        t = s + more
        q, k, v = normal(seed, b, s, d), normal(seed + 1, b, t, d), normal(seed + 2, b, t, d + 1)
        y = run(program, q, k, v)
        assert close(y, exact(q, k, v, triangle(s, t) if causal else None, scale), q, k, v)
        same_bits(run(program, q[-1:], k[-1:], v[-1:]), y[-1:])
        last = tessera.compile(program).f(np.ascontiguousarray(q[:, -1:]), k, v)
        same_bits(np.asarray(last), np.ascontiguousarray(y[:, -1:]))

    check()


@pytest.mark.one_in(12)
def test_masks_of_bools_and_of_floats() -> None:
    q, k, v = normal(0, 2, 5, 4), normal(1, 2, 7, 4), normal(2, 2, 7, 3)
    seen = np.random.default_rng(3).random((5, 7)) < 0.6
    seen[:, 0] = True
    head = PLAIN.replace("[B, T, E, f32])", "[B, T, E, f32], m: Tensor[S, T, {}])")
    y = run(head.format("bool") + "    return attention(q, k, v, m)\n", q, k, v, seen)
    assert close(y, exact(q, k, v, seen), q, k, v)
    added = np.where(seen, 0, -INF).astype(np.float32)
    same_bits(run(head.format("f32") + "    return attention(q, k, v, m)\n", q, k, v, added), y)
    biased = head.format("f32") + "    return attention(q, k, v, bias=expand(m, (B, S, T)))\n"
    same_bits(run(biased, q, k, v, added), y)


@pytest.mark.one_in(24)
def test_rows_in_which_everything_is_masked() -> None:
    q, k, v = normal(0, 1, 4, 4), normal(1, 1, 3, 4), normal(2, 1, 3, 2)
    plain, safe = (run(f"{PLAIN}    return {name}(q, k, v, causal=True)\n", q, k, v)
                   for name in ("attention", "attention_safe"))  # fmt: skip
    assert np.isnan(plain[:, 0]).all() and np.isfinite(plain[:, 1:]).all()
    assert safe[:, 0].tolist() == [[0, 0]] and not np.signbit(safe[:, 0]).any()
    same_bits(np.ascontiguousarray(safe[:, 1:]), np.ascontiguousarray(plain[:, 1:]))


@pytest.mark.one_in(8)
def test_scores_that_are_not_finite() -> None:
    k, v = np.eye(3, dtype=np.float32)[None], normal(0, 1, 3, 2)
    q = np.float32([[[NAN, 0, 0], [INF, 1, 1], [0, 1, -1e30]]])
    y = run(f"{PLAIN}    return attention(q, k, v, scale=1.0)\n", q, k, v)
    assert np.isnan(y[0, :2]).all() and np.isfinite(y[0, 2]).all()


@pytest.mark.one_in(6)
def test_small_terms_are_kept() -> None:
    """A key 2^-140 times as likely as the best still has its share of the largest values."""
    q, k = np.float32([[[1.0]]]), np.float32([[[0.0], [-97.0]]])
    v = np.float32([[[0.0], [1e38]]])
    y = run(f"{PLAIN}    return attention(q, k, v, scale=1.0)\n", q, k, v)
    np.testing.assert_allclose(y, np.exp(-97.0) * 1e38, rtol=1e-6)


@pytest.mark.one_in(24)
def test_f16_is_rounded_once() -> None:
    q, k, v = (normal(i, 2, 5, 8).astype(np.float16) for i in range(3))
    program = f"{PLAIN}    return attention(q, k, v, causal=True)\n"
    narrow = run(program.replace("f32", "f16 @accum(f32)"), q, k, v)
    same_bits(narrow, run(program, *(x.astype(np.float32) for x in (q, k, v))).astype(np.float16))


@pytest.mark.one_in(48)
def test_terms_of_bf16_are_rounded_to_the_type_of_the_values() -> None:
    """Terms have a relative error of 2^-9, sums of them and of their products with values too, and so the result."""
    q, k, v = (normal(i, 2, 5, 8).astype(ml_dtypes.bfloat16) for i in range(3))
    program = f"{PLAIN}    return attention(q, k, v, causal=True)\n"
    narrow = run(program.replace("f32", "bf16 @accum(f32)"), q, k, v).astype(np.float64)
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    wide, sizes = run(program, q, k, v), run(program, q, k, abs(v))
    assert np.all(abs(narrow - wide) <= 2.0**-9 * (2.0 * sizes + abs(wide)) * 1.01)
    assert np.any(narrow != wide.astype(ml_dtypes.bfloat16).astype(np.float64))


# ----------------------------------------------------------------------------------------------------------- heads

GROUPED = (
    "def f(q: Tensor[B, 6, S, D, f32], k: Tensor[B, 2, T, D, f32], v: Tensor[B, 2, T, D, f32])"
    " -> Tensor[B, 6, S, D, f32]:\n    return {}\n"
)


@pytest.mark.one_in(48)
def test_grouped_attention_repeats_keys_without_copies() -> None:
    q, k, v = normal(0, 2, 6, 5, 8), normal(1, 2, 2, 9, 8), normal(2, 2, 2, 9, 8)
    grouped = run(GROUPED.format("grouped_attention(q, k, v, causal=True)"), q, k, v)
    repeated = run(GROUPED.format("attention(q, repeat_kv(k, 3), repeat_kv(v, 3), causal=True)"), q, k, v)
    same_bits(grouped, repeated)
    assert close(grouped, exact(q, k.repeat(3, 1), v.repeat(3, 1), triangle(5, 9)), q, k, v)


@pytest.mark.one_in(2)
def test_split_and_merge() -> None:
    x = normal(0, 2, 5, 24)
    program = "def f(x: Tensor[B, S, 3*D, f32]) where D % 4 == 0:\n    q, k, v = {}\n    return {}\n"
    for name, part in zip("qkv", np.split(x, 3, -1), strict=True):
        same_bits(run(program.format("split_qkv(x, heads=4)", f"merge_heads({name})"), x), np.ascontiguousarray(part))
    heads = run("def f(x: Tensor[B, S, 24, f32]):\n    return split_heads(x, 4)\n", x)
    assert np.array_equal(heads, x.reshape(2, 5, 4, 6).transpose(0, 2, 1, 3))


# ------------------------------------------------------------------------------------------------------- positions


def turned(x: Array, places: Array, base: float = 10000.0) -> Array:
    half = x.shape[-1] // 2
    angle = places[:, None] * base ** (-2 * np.arange(half) / x.shape[-1])
    a, b = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


@pytest.mark.one_in(48)
@given(st.integers(1, 3), st.integers(1, 30), st.sampled_from([2, 8, 10]), st.integers(0, 999))
@settings(max_examples=8)
def test_rotary_embedding(b: int, s: int, d: int, seed: int) -> None:
    x = normal(seed, b, s, d)
    bound = EPS * (8 + 4 * s) * np.abs(x).max()
    head = f"def f(x: Tensor[B, S, {d}, f32]{{}}) -> Tensor[B, S, {d}, f32]:\n    return rotary_embedding(x{{}})\n"
    y = run(head.format("", ""), x)
    assert np.all(np.abs(y - turned(x, np.arange(s))) <= bound)
    first = np.int32(7)
    late = run(head.format(", p: i32", ", p, base=500.0"), x, first)
    assert np.all(np.abs(late - turned(x, np.arange(s) + 7, 500.0)) <= 2 * bound + 16 * EPS * np.abs(x).max() * 7)
    places = np.random.default_rng(seed).permutation(s).astype(np.int32)
    moved = run(head.format(", p: Tensor[S, i32]", ", p"), x, places)
    same_bits(moved[:, places.argmin()], run(head.format("", ""), np.ascontiguousarray(x[:, [places.argmin()]]))[:, 0])
    assert np.all(np.abs(moved - turned(x, places)) <= bound)


def test_alibi() -> None:
    bias = run("def f(x: Tensor[S, T, f32]):\n    return alibi(4, S, T)\n", normal(0, 3, 5))
    distance = np.arange(5)[None, :] - np.arange(3)[:, None] - 2
    np.testing.assert_allclose(bias, 2.0 ** (-2.0 * np.arange(1, 5))[:, None, None] * distance, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------------- caches

CACHE = """
def step(
    q: Tensor[B, H, S, D, {0}], cache: KVCache[B, G, M, D, {0}], k: Tensor[B, G, S, D, {0}], v: Tensor[B, G, S, D, {0}]
) -> (Tensor[B, S, H*D, {0}], KVCache[B, G, M, D, {0}]) where H % G == 0:
    cache = cache.append(k, v)
    return flash_attention(q, cache, causal=True), cache

def at_once(q: Tensor[B, H, S, D, {0}], k: Tensor[B, G, S, D, {0}], v: Tensor[B, G, S, D, {0}]) where H % G == 0:
    return merge_heads(grouped_attention(q, k, v, causal=True))

def empty() -> KVCache[2, 2, 16, 8, {0}]:
    return KVCache[2, 2, 16, 8, {0}]()

def unmasked(q: Tensor[B, H, S, D, {0}], cache: KVCache[B, H, M, D]) -> Tensor[B, S, H*D, {0}]:
    return flash_attention_2(q, cache, scale=0.5)
"""


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("bf16 @accum(f32)", ml_dtypes.bfloat16)])
def test_decoding_step_by_step_is_the_whole_pass(element: str, dtype: type) -> None:
    m = tessera.compile(CACHE.format(element))
    q, k, v = (normal(i, 2, h, 11, 8).astype(dtype) for i, h in enumerate((4, 2, 2)))
    cache, parts, start = m.empty(), [], 0
    for size in (5, 1, 1, 3, 1):
        cut = [np.ascontiguousarray(x[:, :, start : start + size]) for x in (q, k, v)]
        y, cache = m.step(cut[0], cache, *cut[1:])
        parts.append(np.asarray(y))
        start += size
    assert int(cache.len) == 11
    assert np.array_equal(np.asarray(cache.K)[:, :, :11].view("u1"), k.view("u1"))
    same_bits(np.concatenate(parts, 1), np.asarray(m.at_once(q, k, v)))


@pytest.mark.one_in(16)
def test_what_lies_behind_the_length_does_not_exist() -> None:
    m = tessera.compile(CACHE.format("f32"))
    K, V, q = normal(0, 1, 2, 6, 4), normal(1, 1, 2, 6, 4), normal(2, 1, 2, 3, 4)
    K[:, :, 4:], V[:, :, 4:] = NAN, INF
    y = m.unmasked(q, m.KVCache(K=K, V=V, len=np.int32(4)))
    expected = exact(q, K[:, :, :4], V[:, :, :4], scale=0.5).transpose(0, 2, 1, 3).reshape(1, 3, 8)
    assert close(np.asarray(y), expected, q, K[:, :, :4], V[:, :, :4])
    assert np.isnan(m.unmasked(q, m.KVCache(K=K, V=V, len=np.int32(0)))).all()


@pytest.mark.one_in(24)
def test_a_cache_that_is_full() -> None:
    m = tessera.compile(CACHE.format("f32"))
    x = normal(0, 2, 2, 9, 8)
    _, cache = m.step(x, m.empty(), x, x)
    with pytest.raises(tessera.TesseraError, match="the cache is full: it holds 9 of 16, 9 more do not fit"):
        m.step(x, cache, x, x)


@pytest.mark.one_in(3)
def test_other_names_of_the_library() -> None:
    x = normal(0, 3, 9)
    pairs = {"stable_softmax": "softmax", "efficient_layernorm": "layernorm"}
    for name, meaning in pairs.items():
        program = "def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:\n    return {}(x)\n"
        same_bits(run(program.format(name), x), run(program.format(meaning), x))


ROLLING = """
def rolled(
    cache: KVCache[1, 1, 5, 2, f32], k: Tensor[1, 1, S, 2, f32], v: Tensor[1, 1, S, 2, f32]
) -> KVCache[1, 1, 5, 2, f32]:
    return cache.append_rolling(k, v)

def empty() -> KVCache[1, 1, 5, 2, f32]: return KVCache[1, 1, 5, 2]()
"""


def test_a_rolling_window_keeps_the_last_positions() -> None:
    m = tessera.compile(ROLLING)
    cache, rows = m.empty(), np.arange(40, dtype="f4").reshape(1, 1, 20, 2)
    there = 0
    for size in (2, 1, 4, 5, 3):
        new = rows[:, :, there : there + size]
        cache, there = m.rolled(cache, new, -new), there + size
        kept = rows[:, :, max(0, there - 5) : there]
        assert cache.len == kept.shape[2]
        np.testing.assert_array_equal(np.asarray(cache.K)[:, :, : cache.len], kept)
        np.testing.assert_array_equal(np.asarray(cache.V)[:, :, : cache.len], -kept)
    with pytest.raises(tessera.TesseraError) as caught:
        m.rolled(cache, rows[:, :, :6], rows[:, :, :6])
    assert caught.value.code == "E0925"
