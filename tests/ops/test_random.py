"""Random numbers have the distributions they are called after. Seeds are fixed, so a bound is met always or never; each
is a few standard deviations of the statistic, which a wrong constant or a lost bit exceeds by far."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import tessera
from tests.support.checking import check_text
from tests.support.cpu_kernels import same_bits

N = 100_000
KEY = np.uint64(20)


@pytest.fixture(scope="module")
def m() -> tessera.Module:
    return tessera.compile(f"""
def uniform32(k: Key): return uniform({N}, key=k)
def uniform64(k: Key): return uniform({N}, dtype=f64, key=k)
def uniform16(k: Key): return uniform({N}, dtype=bf16, key=k)
def between(k: Key): return uniform({N}, low=-3.0, high=5.0, key=k)
def normal32(k: Key): return normal({N}, key=k)
def normal64(k: Key): return normal({N}, dtype=f64, key=k)
def moved(k: Key): return normal({N}, mean=2.0, std=0.5, key=k)
def exponential32(k: Key): return exponential({N}, key=k)
def gumbel64(k: Key): return gumbel({N}, dtype=f64, key=k)
def coins(k: Key): return bernoulli(0.3, {N}, key=k)
def chances(p: Tensor[C, f32], k: Key): return bernoulli(p, {N // 10}, C, key=k)
def dice(k: Key): return randint(1, 7, {N}, dtype=i32, key=k)
def integers(low: Tensor[i64], high: Tensor[i64], k: Key): return randint(low, high, {N}, key=k)
def order(k: Key): return permutation(1000, key=k)
def rows(x: Tensor[R, C, f32], k: Key): return shuffle(x, key=k)
def choose(x: Tensor[R, C, f32], k: Key): return categorical(x, key=k)
def several(p: Tensor[R, C, f32], k: Key): return multinomial(p, 2, key=k), multinomial(p, 3, True, key=k)
def drop(x: Tensor[R, f32], p: float, k: Key): return dropout(x, p, key=k)
def drop16(x: Tensor[R, bf16 @accum(f32)], k: Key): return dropout(x, 0.25, key=k)
def add(x: Tensor[R, f32], y: Tensor[R, f32], k: Key):
    return residual(x, y, dropout=0.25, key=k), dropout(y, 0.25, key=k)
def halves(k: Key):
    a, b = split(k, 2)
    return a, b, fold_in(k, 0), fold_in(k, 1)
def glorot(k: Key): return glorot_uniform(300, 200, key=k), glorot_normal(300, 200, key=k), he_normal(300, 200, key=k)
""")


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in x])


DISTRIBUTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform32": lambda x: x,
    "uniform64": lambda x: x,
    "between": lambda x: (x + 3.0) / 8.0,
    "normal32": normal_cdf,
    "normal64": normal_cdf,
    "moved": lambda x: normal_cdf((x - 2.0) / 0.5),
    "exponential32": lambda x: 1.0 - np.exp(-x),
    "gumbel64": lambda x: np.exp(-np.exp(-x)),
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_distance_to_the_distribution(m: tessera.Module, name: str) -> None:
    """Kolmogorov's statistic: a true sample exceeds 2 / sqrt(n) once in 1500 times."""
    x = np.sort(getattr(m, name)(KEY).astype(np.float64))
    below = DISTRIBUTIONS[name](x)
    steps = np.arange(N + 1) / N
    assert max(np.max(steps[1:] - below), np.max(below - steps[:-1])) < 2.0 / math.sqrt(N)


MOMENTS = {
    "uniform32": (0.5, 1 / 12, 1 / 180),
    "uniform64": (0.5, 1 / 12, 1 / 180),
    "uniform16": (0.5, 1 / 12, 1 / 180),
    "between": (1.0, 64 / 12, 64**2 / 180),
    "normal32": (0.0, 1.0, 2.0),
    "normal64": (0.0, 1.0, 2.0),
    "moved": (2.0, 0.25, 0.125),
    "exponential32": (1.0, 1.0, 8.0),
    "gumbel64": (0.5772156649, math.pi**2 / 6, 4.4 * (math.pi**2 / 6) ** 2),
}
"""Mean, variance, and the variance of a squared distance to the mean."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", MOMENTS)
def test_means_and_variances(m: tessera.Module, name: str) -> None:
    """Within four standard deviations of the mean of n independent draws."""
    x = getattr(m, name)(KEY).astype(np.float64)
    mean, variance, spread = MOMENTS[name]
    assert abs(x.mean() - mean) < 4 * math.sqrt(variance / N)
    assert abs(x.var() - variance) < 4 * math.sqrt(spread / N)


@pytest.mark.parametrize("name", ["normal32", "normal64"])
def test_tails_of_the_normal_distribution(m: tessera.Module, name: str) -> None:
    x = np.concatenate([getattr(m, name)(np.uint64(key)).astype(np.float64) for key in range(10)])
    for limit in (2.0, 3.0, 4.0):
        expected = len(x) * math.erfc(limit / math.sqrt(2.0))
        assert abs(np.sum(np.abs(x) > limit) - expected) < 4 * math.sqrt(expected)


@pytest.mark.one_in(2)
def test_neighbours_do_not_know_of_each_other(m: tessera.Module) -> None:
    """Elements, keys and places next to each other: correlations of n pairs are within 4 / sqrt(n)."""
    places = tessera.compile(f"def f(): return normal({N}), normal({N})")
    here, there = places.f()
    again, _ = places.f()
    one, two = m.normal32(np.uint64(1)), m.normal32(np.uint64(2))
    folded = m.normal32(m.halves(np.uint64(1))[0])
    pairs = [(one[:-1], one[1:]), (one[:-4], one[4:]), (one, two), (one, folded), (here, there), (here, again)]
    for left, right in pairs:
        assert abs(np.corrcoef(left, right)[0, 1]) < 4 / math.sqrt(N)


def test_uniform_numbers_fill_their_range(m: tessera.Module) -> None:
    for name, bits in (("uniform32", 24), ("uniform64", 53)):
        x = getattr(m, name)(KEY)
        assert 0.0 <= x.min() < 1e-4 and 1.0 - 1e-4 < x.max() < 1.0
        assert np.array_equal(x * 2.0**bits, np.rint(x * 2.0**bits))
        assert np.any(x * 2.0 ** (bits - 1) != np.rint(x * 2.0 ** (bits - 1)))
    same_bits(m.uniform16(KEY), m.uniform32(KEY).astype(m.uniform16(KEY).dtype))


def test_bernoulli(m: tessera.Module) -> None:
    assert abs(m.coins(KEY).mean() - 0.3) < 4 * math.sqrt(0.21 / N)
    p = np.array([0.0, 0.1, 0.5, 1.0], "f4")
    found = m.chances(p, KEY).mean(axis=0)
    assert found[0] == 0.0 and found[3] == 1.0
    assert np.all(np.abs(found - p) < 4 * np.sqrt(p * (1 - p) / (N / 10)) + 1e-9)


@pytest.mark.one_in(3)
def test_integers_are_even_and_exact(m: tessera.Module) -> None:
    counts = np.bincount(m.dice(KEY), minlength=7)
    assert counts[0] == 0 and len(counts) == 7
    assert np.all(np.abs(counts[1:] - N / 6) < 4.5 * math.sqrt(N * 5 / 36))
    bits = tessera.compile(f"def f(k: Key): return random_bits(k, {N})").f(KEY).tolist()
    for low, high in [(0, 1), (-5, 5), (0, 2**32 + 1), (-(2**63), 2**63 - 1), (2**62, 2**62 + 10**9)]:
        found = m.integers(np.int64(low), np.int64(high), KEY)
        assert found.tolist() == [low + ((high - low) * b >> 64) for b in bits]


@pytest.mark.one_in(2)
def test_orders(m: tessera.Module) -> None:
    order = m.order(KEY)
    assert sorted(order.tolist()) == list(range(1000))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 4 / math.sqrt(1000)
    x = np.arange(12, dtype="f4").reshape(6, 2)
    shuffled = m.rows(x, KEY)
    assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, x.tolist()))
    assert not np.array_equal(shuffled, x)


def test_categories(m: tessera.Module) -> None:
    logits = np.log(np.array([0.1, 0.2, 0.0, 0.7], "f4"), out=np.full(4, -np.inf, "f4"), where=[1, 1, 0, 1])
    p = np.array([0.1, 0.2, 0.0, 0.7])
    counts = np.bincount(m.choose(np.tile(logits, (N, 1)), KEY), minlength=4)
    assert np.all(np.abs(counts - N * p) <= 4 * np.sqrt(N * p * (1 - p)))


@pytest.mark.one_in(16)
def test_several_of_one_row(m: tessera.Module) -> None:
    """Without replacement the second is drawn from what the first left; with it all are alike."""
    p = np.array([0.1, 0.2, 0.0, 0.7])
    count = N // 10
    pairs, alike = m.several(np.tile(p.astype("f4") * 3, (count, 1)), KEY)
    wanted = np.array([[0.0 if a == b else p[a] * p[b] / (1 - p[a]) for b in range(4)] for a in range(4)])
    found = np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16).reshape(4, 4) / count
    assert np.all(np.abs(found - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / count))
    for column in alike.T:
        shares = np.bincount(column, minlength=4) / count
        assert np.all(np.abs(shares - p) <= 4 * np.sqrt(p * (1 - p) / count))


@pytest.mark.one_in(2)
def test_dropout(m: tessera.Module) -> None:
    x = np.random.default_rng(0).normal(size=N).astype("f4")
    same_bits(m.drop(x, 0.0, KEY), x)
    assert not m.drop(x, 1.0, KEY).any()
    dropped = m.drop(x, 0.25, KEY)
    kept = dropped != 0
    same_bits(dropped[kept], (x * np.float32(1.0 / 0.75))[kept])
    assert abs(kept.mean() - 0.75) < 4 * math.sqrt(0.25 * 0.75 / N)
    narrow = x.astype(m.uniform16(KEY).dtype)
    got = m.drop16(narrow, KEY)
    same_bits(got, np.where(kept, narrow.astype("f4") * np.float32(1.0 / 0.75), 0).astype(narrow.dtype))
    whole, part = m.add(x, x, KEY)
    same_bits(whole, x + part)


def test_keys_split_into_keys(m: tessera.Module) -> None:
    a, b, first, second = m.halves(KEY)
    assert (a, b) == (first, second) and a != b


def test_initial_weights(m: tessera.Module) -> None:
    for w, variance in zip(m.glorot(KEY), (2 / 500, 2 / 500, 2 / 300), strict=True):
        assert w.shape == (300, 200)
        assert abs(w.var() / variance - 1) < 4 * math.sqrt(2 / w.size)
    assert abs(m.glorot(KEY)[0]).max() <= math.sqrt(6 / 500)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("p", "low", "high"), [(1.5, 0, 1), (-0.1, 0, 1), (math.nan, 0, 1), (0.5, 3, 3), (0.5, 4, 3)]
)
def test_numbers_of_the_run_are_checked(p: float, low: int, high: int) -> None:
    f = tessera.compile("""
def f(p: float, low: Tensor[i64], high: Tensor[i64]):
    return bernoulli(p, 3, seed=0), randint(low, high, 3, seed=0)
""").f
    with pytest.raises(tessera.TesseraError, match=r"E0933.*(a probability is from 0 to 1|`low` must be less)"):
        f(p, np.int64(low), np.int64(high))


@pytest.mark.parametrize("call", ["randint(3, 3, 2)", "randint(0.5, 3, 2)", "randint(0, ones(2), 2)"])
def test_numbers_of_the_program_are_checked(call: str) -> None:
    assert [d.code for d in check_text(f"def f(): return {call}").diagnostics] == ["E0217"]


def test_residual_without_dropout_is_pure() -> None:
    program = "def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses none: return residual(x, x{})"
    assert check_text(program.format("")).diagnostics == ()
    assert [d.code for d in check_text(program.format(", dropout=0.1")).diagnostics] == ["E0601"]


SPLIT = """
COUNT = 3

def looped(k: Key, n: int):
    keys = split(k, n)
    x = zeros((n, 2))
    for i in range(n):
        x[i] = normal(2, key=keys[i])
    return x

def mapped(x: Tensor[N, 2, f32], k: Key):
    return x + vmap(lambda k: normal(2, key=k))(split(k, N))

def written(k: Key):
    a, b, c = split(k, 3)
    d, e, f = split(k, COUNT)
    return stack([normal(2, key=a), normal(2, key=e), normal(2, key=c)])

def named(k: Key):
    n = 3
    two = [n, n]
    a, b, c = split(k, n)
    d, e = split(k, len(two))
    return stack([normal(2, key=a), normal(2, key=e), normal(2, key=c)])

def plain(n: int):
    total = normal(2, key=fold_in(7, 3)) - normal(2, key=fold_in(cast(7, u64), 3))
    for i in range(n):
        total += normal(2, key=fold_in(7, i)) - normal(2, key=fold_in(cast(7, u64), i))
    return total
"""


def test_keys_for_a_loop_and_for_a_map_are_those_of_the_tuple() -> None:
    m = tessera.compile(SPLIT)
    key = np.uint64(5)
    want = np.asarray(m.written(key))
    np.testing.assert_array_equal(np.asarray(m.looped(key, 3)), want)
    np.testing.assert_array_equal(np.asarray(m.mapped(np.zeros((3, 2), "f4"), key)), want)
    assert m.looped(key, 0).shape == (0, 2)


def test_a_plain_number_is_a_key() -> None:
    np.testing.assert_array_equal(np.asarray(tessera.compile(SPLIT).plain(3)), np.zeros(2))
