"""Random bits: the generator against its published vectors, keys and streams, and the same bits however a program is
run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import tessera
from tessera.random_stream import STEP, fold_in
from tesserac.graph.interp import run_function
from tesserac.numerics.elementary import program
from tesserac.numerics.program import evaluate
from tesserac.types.dtype import U64
from tests.support.checking import check_text
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

VECTORS = [  # counter, key, result: the known answers that Random123 publishes for philox4x32-10
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def joined(low: int, high: int) -> np.ndarray:
    return np.array(low | high << 32, np.uint64)


def philox(key: int, low: np.ndarray, high: int) -> list[np.ndarray]:
    """Philox4x32-10 once more, with Python's integers."""
    results: list[list[int]] = []
    for counter in low.ravel().tolist():
        k0, k1 = key % 2**32, key >> 32
        c = [counter % 2**32, counter >> 32, high % 2**32, high >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k0, b % 2**32, (a >> 32) ^ c[3] ^ k1, a % 2**32]
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        results.append(c)
    return [np.array(column, np.uint64).reshape(low.shape) for column in zip(*results, strict=True)]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_the_published_vectors(counter: str, key: str, result: str) -> None:
    c, k, r = words(counter), words(key), words(result)
    operands = joined(*k), joined(*c[:2]), joined(*c[2:])
    assert evaluate(program("philox", U64), *operands) == joined(*r[:2])
    assert evaluate(program("philox_high", U64), *operands) == joined(*r[2:])


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1, 0x0123456789ABCDEF])
def test_elements_are_counted_in_row_major_order(key: int) -> None:
    m = tessera.compile("def f(k: Key): return random_bits(k, 3, 5, 4), random_bits(k, 60, high=True)")
    low, high = m.f(np.uint64(key))
    expected = philox(key, np.arange(60, dtype=np.uint64), 0)
    assert np.array_equal(low.ravel(), expected[0] | expected[1] << np.uint64(32))
    assert np.array_equal(high, expected[2] | expected[3] << np.uint64(32))


def test_fold_in_counts_apart_from_draws() -> None:
    m = tessera.compile("def f(k: Key, i: Tensor[N, i64]): return fold_in(k, i), fold_in(k, 7)")
    i = np.array([0, 1, -1, 2**40])
    many, one = m.f(np.uint64(99), i)
    expected = philox(99, i.astype(np.uint64), 1)
    assert np.array_equal(many, expected[0] | expected[1] << np.uint64(32))
    assert one == fold_in(99, 7)
    assert [fold_in(99, int(n) % 2**64) for n in i] == many.tolist()


@pytest.mark.one_in(2)
def test_a_small_draw_is_the_beginning_of_a_large_one() -> None:
    m = tessera.compile("""
def f(x: Tensor[N, f32], k: Key): return uniform(N, key=k), normal(N, key=k), uniform(N, 3, key=k, dtype=f64)
""")
    key = np.uint64(5)
    small, large = m.f(np.zeros(10, "f4"), key), m.f(np.zeros(1000, "f4"), key)
    for few, many in zip(small, large, strict=True):
        same_bits(few, many[:10])


DRAWS = """
def draw() -> Tensor[4, f32]: return uniform(4)
def two(): return draw(), draw()
def seeded(s: Tensor[i64]): return uniform(4, seed=s), uniform(4, key=key(s)), uniform(4, seed=3)
def loops(n: Tensor[i32]):
    a = zeros(3, 4)
    b = zeros(3, 4)
    for i in range(3):
        a = a.at[i].set(draw())
        for j in range(5, -1, -2):
            b = b.at[i].set(b[i] + draw())
    c = zeros(4)
    i = cast(0, i32)
    while i < n:
        i += 1
        c = c + draw() + draw()
    return a, b, c
def branch(c: Tensor[bool]):
    if c:
        x = uniform(4)
    else:
        x = uniform(4)
    return x, uniform(4)
def counted(n: Tensor[i32]):
    a = zeros(4)
    for i in range(n):
        a = a + draw()
    return a
def unrolled(): return [uniform(4) for i in (1, 2, 3)]
def shared(): return 0.0 <= uniform() <= 1.0
"""


@pytest.fixture
def draws() -> Iterator[tessera.Module]:
    yield tessera.compile(DRAWS)


def all_differ(*draws: np.ndarray) -> bool:
    values = np.concatenate([np.ravel(d) for d in draws])
    return len(np.unique(values)) == values.size


@pytest.mark.one_in(8)
def test_every_place_and_turn_draws_differently(draws: tessera.Module) -> None:
    assert all_differ(*draws.two(), *draws.two(), draws.draw())
    a, b, c = draws.loops(np.int32(2))
    assert all_differ(a, b, c, draws.loops(np.int32(1))[2])
    assert all_differ(*draws.unrolled())
    assert all_differ(*(draws.counted(np.int32(n)) for n in (1, 2, 3)))


@pytest.mark.one_in(2)
def test_a_turn_draws_the_same_however_many_follow(draws: tessera.Module) -> None:
    draws.seed(1)
    one = draws.loops(np.int32(1))[2]
    draws.seed(1)
    two = draws.loops(np.int32(2))[2]
    draws.seed(1)
    assert all_differ(one, two) and np.array_equal(one, draws.loops(np.int32(1))[2])


def test_branches_are_places(draws: tessera.Module) -> None:
    draws.seed(0)
    yes = draws.branch(np.bool_(True))
    draws.seed(0)
    no = draws.branch(np.bool_(False))
    assert all_differ(yes[0], no[0], yes[1]) and np.array_equal(yes[1], no[1])


def test_an_expression_that_is_read_twice_is_drawn_once(draws: tessera.Module) -> None:
    assert all(draws.shared() for _ in range(5))


def test_a_seed_makes_a_draw_pure(draws: tessera.Module) -> None:
    first, second = draws.seeded(np.int64(3)), draws.seeded(np.int64(3))
    for draw in (*first, *second):
        same_bits(draw, first[0])
    assert all_differ(first[0], draws.seeded(np.int64(-1))[0])


def test_the_stream_of_a_module(draws: tessera.Module) -> None:
    fresh = draws.draw()
    following = draws.draw()
    draws.seed(0)
    same_bits(draws.draw(), fresh)
    same_bits(draws.draw(), following)
    draws.seed(STEP)  # the key of a call is the seed and so many steps
    same_bits(draws.draw(), following)
    same_bits(tessera.compile(DRAWS).draw(), fresh)
    with pytest.raises(tessera.TesseraError, match="a seed is an int, not a float"):
        draws.seed(1.5)  # type: ignore[arg-type]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", ["two", "loops", "branch", "unrolled"])
def test_the_interpreter_gives_the_same_bits(draws: tessera.Module, name: str) -> None:
    args = {"loops": [np.int32(2)], "branch": [np.bool_(False)]}.get(name, [])
    module = compile_to_forms(DRAWS)
    draws.seed(11)
    compiled = getattr(draws, name)(*args)
    interpreted = run_function(module, f"m.{name}", [*map(np.asarray, args), np.array(11, np.uint64)])
    for got, expected in zip(compiled, interpreted, strict=True):
        same_bits(got, expected)


@pytest.mark.one_in(2)
def test_threads_do_not_show() -> None:
    m = tessera.compile("def f(k: Key): return normal(100, 1000, key=k), sum(uniform(300000, key=k))")
    results = []
    for threads in (1, 2):
        tessera.set_num_threads(threads)
        results.append(m.f(np.uint64(1)))
    for one, two in zip(*results, strict=True):
        same_bits(np.asarray(one), np.asarray(two))


@pytest.mark.one_in(2)
def test_fusion_does_not_show() -> None:
    m = tessera.compile("""
def alone(k: Key): return normal(50, 70, key=k)
def fused(k: Key, x: Tensor[70, 50, f32]): return normal(50, 70, key=k).T * x
""")
    x = np.random.default_rng(0).normal(size=(70, 50)).astype("f4")
    same_bits(m.fused(np.uint64(4), x), m.alone(np.uint64(4)).T * x)


STRUCTS = """
struct Linear[D, H]:
    w: Tensor[D, H, f32] = normal(D, H)
    b: Tensor[H, f32] = uniform(H)
struct Net[D]:
    first: Linear[D, D]
    blocks: List[3, Linear[D, D]]
    last: Linear[D, D]
struct Partly[D]:
    a: Tensor[D, f32]
    b: Tensor[D, f32] = uniform(D)
def net(s: Tensor[i64]): return Net[2](seed=s)
def seven(): return Net[2](seed=7)
def free(): return Net[2](), Net[2]()
def partly(a: Tensor[D, f32]): return Partly(a=a, seed=5)
"""


def leaves(net: object) -> list[np.ndarray]:
    linears = [net.first, *net.blocks, net.last]  # type: ignore[attr-defined]
    return [array for linear in linears for array in (linear.w, linear.b)]


@pytest.mark.one_in(16)
def test_structs_have_a_stream_per_field() -> None:
    m = tessera.compile(STRUCTS)
    seven = leaves(m.seven())
    assert all_differ(*seven)
    for again in (m.Net(2, seed=7), m.net(np.int64(7)), m.Net(2, seed=np.int64(7))):
        for got, expected in zip(leaves(again), seven, strict=True):
            same_bits(got, expected)
    assert all_differ(*seven, *leaves(m.Net(2, seed=8)), *leaves(m.Net(2)), *leaves(m.Net(2)))
    one, two = m.free()
    assert all_differ(*leaves(one), *leaves(two))
    same_bits(m.partly(np.ones(3, "f4")).b, m.Partly(3, a=np.ones(3, "f4"), seed=5).b)
    given = m.Linear(2, 2, b=np.zeros(2, "f4"), seed=7)
    same_bits(given.w, m.Linear(2, 2, seed=7).w)
    with pytest.raises(tessera.TesseraError, match="a seed is an int"):
        m.Net(2, seed="7")


def test_the_effect_is_inferred_and_checked() -> None:
    codes = [d.code for d in check_text("""
def a() -> Tensor[3, f32] uses random: return uniform(3)
def b() -> Tensor[3, f32] uses none: return uniform(3, seed=0)
def c() -> Tensor[3, f32] uses none: return a()
def d(k: Key) -> Tensor[3, f32] uses random: return uniform(3, key=k)
""").diagnostics]
    assert codes == ["E0601", "W0601"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("uniform(3, seed=1.5)", "E0217"),
        ("uniform(3, seed=ones(2, dtype=i32))", "E0217"),
        ("uniform(3, key=ones(2))", "E0217"),
        ('key("a")', "E0210"),
        ("uniform(3, 2.5)", "E0210"),
        ("uniform(3, seed=0, key=key(1))", "E0217"),
        ("normal(3, dtype=4)", "E0217"),
        ("uniform(3, dtype=i32)", "E0217"),
        ("normal(3, dtype=bool)", "E0217"),
        ("next_key(3)", "E0205"),
    ],
)
def test_misuse(call: str, code: str) -> None:
    found = check_text(f"def f(): return {call}").diagnostics
    assert [d.code for d in found] == [code]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["i32", "i64", "u32", "u64", "i8", "u8"])
def test_shifts(dtype: str) -> None:
    """By any number of bits: as Python shifts, then wrapped."""
    f = tessera.compile(f"def f(x: Tensor[N, {dtype}], by: Tensor[N, {dtype}]): return x << by, x >> by").f
    kind = np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    limits, bits = np.iinfo(kind), kind.itemsize * 8
    values = [limits.min, limits.max, 1, 0, 5, limits.max // 3]
    counts = [0, 1, 3, bits - 1, bits, bits + 1, limits.max]
    x, by = (np.array(column, kind) for column in zip(*itertools.product(values, counts), strict=True))
    left, right = f(x, by)
    expected = [(a << min(b, 2 * bits), a >> min(b, 2 * bits)) for a, b in zip(x.tolist(), by.tolist(), strict=True)]
    assert left.tolist() == [int(np.array(a % 2**bits, np.uint64).astype(kind)) for a, _ in expected]
    assert right.tolist() == [b for _, b in expected]


def test_shifts_of_sizes_are_sizes() -> None:
    m = tessera.compile("def f(x: Tensor[N, f32]): return zeros(N << 2), zeros(N >> 1), zeros(1 << 3)")
    assert [y.size for y in m.f(np.zeros(5, "f4"))] == [20, 2, 8]
