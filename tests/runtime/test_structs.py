"""Structs from end to end: built, passed, returned and computed with, from Python and within the language."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessera

NET = '''
struct Linear[D, H]:
    """One layer."""
    w: Tensor[D, H, f32] = full((D, H), 0.25)
    b: Tensor[H, f32] = ones(H)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        return x @ self.w + self.b

    def bias(self):
        return self.b

struct MLP[D, H, C]:
    l1: Linear[D, H]
    l2: Linear[H, C]
    power: int = 2
    scale: float = 0.5

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, C, f32]:
        h = maximum(self.l1(x), 0.0)
        return self.l2(h ** self.power) * self.scale

struct Deep[L, D]:
    blocks: List[L, Linear[D, D]]

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
        for block in self.blocks:
            x = x + block(x)
        return x

struct Plain[D]:
    w: Tensor[D, f32]
    v: Tensor[D, f32] = zeros(D)

def forward(m: MLP[D, H, C], x: Tensor[B, D, f32]):
    return m(x)

def step(m: MLP[D, H, C], g: MLP[D, H, C], *, lr: f32 = 0.1) -> (MLP[D, H, C], Tensor[f32]):
    return m - lr * g, sum(m.l1.w)

def swap(pair: (Plain[D], Plain[E])):
    return pair[1], pair[0]

def loop(m: Plain[D], steps: int) -> Plain[D]:
    for i in range(steps):
        m.w += m.v
        m = m * 2.0
    return m

def any_plain(m: Plain):
    return m.w + m.v

def no_types(m, x):
    return m(x)

def inside(x: Tensor[3, 4, f32]):
    return MLP[4, 5, 2](power=3)(x), Deep[2, 4]()(x)

def from_fields(w: Tensor[D, E, f32], x: Tensor[B, D, f32]):
    l1, l2 = Linear(w=w, b=zeros(E)), Linear(w=w.T, b=zeros(D))
    return MLP(l1=l1, l2=l2, power=1)(x)

def sizes(m: Linear[D, H]):
    return D * H, m.bias(), None
'''


@pytest.fixture(scope="module")
def net() -> Any:
    return tessera.compile(NET)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def mlp(net: Any, d: int, h: int, c: int, power: int = 2) -> Any:
    l1, l2 = net.Linear(w=normal(d, h), b=normal(h)), net.Linear(w=normal(h, c), b=normal(c))
    return net.MLP(l1=l1, l2=l2, power=power, scale=0.5)


def reference(m: Any, x: np.ndarray) -> np.ndarray:
    h = np.maximum(x @ m.l1.w + m.l1.b, 0) ** m.power
    return (h @ m.l2.w + m.l2.b) * m.scale


def test_initialisers_run_for_the_sizes_given(net: Any) -> None:
    m = net.MLP(3, 4, 5, seed=0)
    assert m.l1.w.shape == (3, 4) and m.l2.b.shape == (5,)
    assert np.all(m.l1.w == 0.25) and np.all(m.l2.b == 1) and (m.power, m.scale) == (2, 0.5)
    given = net.Plain(4, w=normal(4))
    assert np.array_equal(given.w, normal(4)) and np.array_equal(given.v, np.zeros(4, "f4"))


@pytest.mark.one_in(6)
def test_a_call_of_a_struct(net: Any) -> None:
    m, x = mlp(net, 4, 7, 3), normal(5, 4)
    for result in (net.forward(m, x), m(x), m.apply(x)):
        assert np.allclose(result, reference(m, x), rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(12)
def test_static_fields_choose_the_code(net: Any) -> None:
    x = normal(5, 4)
    for power in (1, 3):
        m = mlp(net, 4, 7, 3, power)
        assert np.allclose(net.forward(m, x), reference(m, x), rtol=1e-4, atol=1e-4)


@pytest.mark.one_in(3)
def test_dicts_and_other_objects(net: Any) -> None:
    m, x = mlp(net, 4, 7, 3), normal(5, 4)
    expected = net.forward(m, x)
    as_dict = {"l1": {"w": m.l1.w, "b": m.l1.b}, "l2": m.l2, "power": 2, "scale": 0.5}
    as_object = SimpleNamespace(l1=SimpleNamespace(w=m.l1.w, b=m.l1.b), l2=m.l2, power=2, scale=0.5)
    assert np.array_equal(net.forward(as_dict, x), expected)
    assert np.array_equal(net.forward(as_object, x), expected)


def test_structs_are_vectors(net: Any) -> None:
    m, g = mlp(net, 4, 7, 3), mlp(net, 4, 7, 3)
    after, total = net.step(m, g, lr=0.5)
    assert isinstance(after, net.MLP) and isinstance(after.l1, net.Linear)
    assert np.array_equal(after.l1.w, m.l1.w - np.float32(0.5) * g.l1.w)
    assert np.array_equal(after.l2.b, m.l2.b - np.float32(0.5) * g.l2.b)
    assert after.power == 2 and np.isclose(total, m.l1.w.sum(), rtol=1e-5)
    assert np.array_equal(net.step(m, g)[0].l1.b, m.l1.b - np.float32(0.1) * g.l1.b)


def test_tuples_of_structs_and_loops(net: Any) -> None:
    a, b = net.Plain(w=normal(3), v=normal(3)), net.Plain(w=normal(5), v=normal(5))
    first, second = net.swap((a, b))
    assert np.array_equal(first.w, b.w) and np.array_equal(second.v, a.v)
    expected, v = a.w, a.v
    for _ in range(3):
        expected, v = (expected + v) * np.float32(2), v * np.float32(2)
    assert np.allclose(net.loop(a, 3).w, expected, rtol=1e-6)


@pytest.mark.one_in(4)
def test_lists_are_as_long_as_they_are(net: Any) -> None:
    for count in (1, 3):
        blocks = [net.Linear(w=normal(4, 4) / 4, b=normal(4)) for _ in range(count)]
        x = expected = normal(2, 4)
        for block in blocks:
            expected = expected + expected @ block.w + block.b
        assert np.allclose(net.Deep(blocks=blocks)(x), expected, rtol=1e-4, atol=1e-4)
    assert len(net.Deep(2, 4).blocks) == 2


@pytest.mark.one_in(3)
def test_structs_without_sizes_and_without_types(net: Any) -> None:
    m, x = mlp(net, 4, 7, 3), normal(5, 4)
    assert np.array_equal(net.no_types(m, x), net.forward(m, x))
    assert np.array_equal(net.any_plain(net.Plain(w=x[0], v=x[1])), x[0] + x[1])


@pytest.mark.one_in(6)
def test_construction_inside(net: Any) -> None:
    x = normal(3, 4)
    first, second = net.inside(x)
    assert np.allclose(first, reference(net.MLP(4, 5, 2, power=3), x), rtol=1e-4, atol=1e-4)
    assert np.array_equal(second, net.Deep(2, 4)(x))


@pytest.mark.one_in(3)
def test_construction_from_fields_alone(net: Any) -> None:
    w, x = normal(4, 7), normal(5, 4)
    assert np.allclose(net.from_fields(w, x), np.maximum(x @ w, 0) @ w.T * 0.5, rtol=1e-4, atol=1e-4)


def test_sizes_and_none_in_results(net: Any) -> None:
    size, bias, nothing = net.sizes(net.Linear(2, 3))
    assert (size, nothing) == (6, None) and np.array_equal(bias, np.ones(3, "f4"))


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("E0921", lambda net, m, x: net.forward(3, x)),
        ("E0921", lambda net, m, x: net.forward(m.l1, x)),
        ("E0921", lambda net, m, x: net.forward({"l1": m.l1}, x)),
        ("E0921", lambda net, m, x: net.forward({**vars(m), "extra": 1}, x)),
        ("E0921", lambda net, m, x: net.Deep(blocks=7)(x)),
        ("E0921", lambda net, m, x: net.swap((net.Plain(3, w=normal(3)),))),
        ("E0922", lambda net, m, x: net.any_plain({"w": normal(3), "v": np.ones(3)})),
        ("E0922", lambda net, m, x: net.forward({**vars(m), "l1": {"w": np.ones((4, 7)), "b": m.l1.b}}, x)),
        ("E0924", lambda net, m, x: net.forward(m, normal(5, 3))),
        ("E0924", lambda net, m, x: net.forward({**vars(m), "l1": net.Linear(4, 9)}, x)),
        ("E0920", lambda net, m, x: net.MLP(1, 2)),
        ("E0920", lambda net, m, x: net.MLP(1, 2, 3, depth=4)),
        ("E0920", lambda net, m, x: net.Plain(4)),
        ("E0920", lambda net, m, x: net.Linear()),
        ("E0920", lambda net, m, x: m()),
        ("E0921", lambda net, m, x: net.forward({**vars(m), "power": "two"}, x)),
    ],
)
def test_misuse_is_said(net: Any, code: str, call: Any) -> None:
    with pytest.raises(tessera.TesseraError) as caught:
        call(net, mlp(net, 4, 7, 3), normal(5, 4))
    assert caught.value.code == code


@pytest.mark.one_in(3)
def test_equal_sizes_without_types() -> None:
    m = tessera.compile("def f(x, y): return x + y\ndef g(x, y): return x @ y\n")
    a, b = normal(3, 4), normal(4)
    assert np.array_equal(m.f(a, b), a + b)
    assert np.array_equal(m.f(b, b), b + b)
    assert np.array_equal(m.f(a, a[:1]), a + a[:1])
    assert np.array_equal(m.f(a, 2.0), a + np.float32(2))
    assert np.array_equal(m.f(a, 3), a + np.float32(3))
    assert np.allclose(m.g(a, normal(4, 5)), a @ normal(4, 5), rtol=1e-5, atol=1e-5)
    with pytest.raises(tessera.TesseraError, match="E0302"):
        m.f(a, normal(3))


HIDING = """
struct Box[N]:
    interface: Tensor[N, f32] = ones(N)
    maker: Tensor[N, f32] = zeros(N)

    def of_fields(self) -> Tensor[N, f32]:
        return self.interface + self.maker

def struct_name(b: Box[N]) -> Box[N]:
    return b + b

{functions}
"""
INTERNAL = ("whole", "field", "make_struct", "structs", "weights", "stream", "tests", "run_test", "function", "home")
OWN = ("params", "load", "seed")


@pytest.fixture(scope="module")
def hiding() -> tessera.module.Module:
    functions = [f"def {name}(x: Tensor[N, f32]): return x + {i}.0" for i, name in enumerate(INTERNAL + OWN)]
    return tessera.compile(HIDING.format(functions="\n".join(functions)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", INTERNAL + OWN)
def test_no_function_of_a_program_is_out_of_reach(hiding: tessera.module.Module, name: str) -> None:
    expected = np.float32((INTERNAL + OWN).index(name))
    assert hiding[name](np.zeros(1, np.float32)) == expected
    assert name in dir(hiding)
    if name in INTERNAL:
        assert getattr(hiding, name)(np.zeros(1, np.float32)) == expected


def test_the_names_of_a_module_that_are_its_own_stay(hiding: tessera.module.Module) -> None:
    hiding.seed(3)
    assert hiding.params == {}
    with pytest.raises(tessera.TesseraError, match="has no function `lod`"):
        hiding["lod"]


def test_fields_and_methods_have_any_name(hiding: tessera.module.Module) -> None:
    box = hiding.struct_name(hiding.Box(3))
    np.testing.assert_array_equal(box.interface, np.full(3, 2, np.float32))
    np.testing.assert_array_equal(box.of_fields(), box.interface)
    assert repr(tessera.freeze(box)).startswith("freeze(Box(")


NESTED = """
struct Layer[D]:
    w: Tensor[D, f32] = normal(D)

struct Whole[D]:
    bias: Tensor[D, f32] = zeros(D)
    head: Layer[2*D]
    tail: List[3, Layer[D]]

struct Part[D]:
    bias: Tensor[D, f32]
    head: Layer[2*D]
    tail: List[3, Layer[D]]
"""


@pytest.mark.one_in(4)
def test_structs_within_a_struct_are_made_where_another_field_must_be_given() -> None:
    m = tessera.compile(NESTED)
    bias = np.ones(4, np.float32)
    whole, part = m.Whole(4, seed=7), m.Part(4, bias=bias, seed=7)
    assert part.bias is bias
    np.testing.assert_array_equal(part.head.w, whole.head.w)
    assert part.head.w.shape == (8,)
    for mine, theirs in zip(part.tail, whole.tail, strict=True):
        np.testing.assert_array_equal(mine.w, theirs.w)
    with pytest.raises(tessera.TesseraError, match="also needs `bias`"):
        m.Part(4)


CACHES = """
def attend(q: Tensor[B, H, S, D, f32], cache: KVCache):
    return flash_attention(q, cache)

def attend_declared(q: Tensor[B, H, S, D, f32], cache: KVCache[B, H, M, D, f32]):
    return flash_attention(q, cache)

def extend(cache: KVCache, k: Tensor[B, H, S, D, f32]):
    return cache.append(k, k)

def add(x, y: Tensor[N, f32]):
    return x + y
"""


@pytest.fixture(scope="module")
def caches() -> tessera.module.Module:
    return tessera.compile(CACHES)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("sizes", [(2, 3, 4, 9, 5), (2, 2, 3, 8, 4), (1, 2, 3, 8, 4), (1, 1, 1, 8, 1), (2, 2, 8, 8, 8)])
def test_a_bare_struct_meets_declared_sizes(caches: tessera.module.Module, sizes: tuple[int, ...]) -> None:
    batch, heads, length, longest, depth = sizes
    k = np.random.default_rng(0).normal(size=(batch, heads, length, depth)).astype(np.float32)
    cache = caches.extend(caches.KVCache(batch, heads, longest, depth), k)
    assert cache.len == length
    np.testing.assert_array_equal(cache.K[:, :, :length], k)
    np.testing.assert_array_equal(cache.K, caches.KVCache(batch, heads, longest, depth).append(k, k).K)
    np.testing.assert_array_equal(caches.attend(k, cache), caches.attend_declared(k, cache))


@pytest.mark.one_in(2)
def test_sizes_of_a_bare_struct_that_differ_are_an_error(caches: tessera.module.Module) -> None:
    with pytest.raises(tessera.TesseraError, match="E0307"):
        caches.attend(np.ones((3, 2, 4, 5), np.float32), caches.KVCache(2, 2, 8, 5))
    np.testing.assert_array_equal(caches.add(np.ones(1, np.float32), np.ones(3, np.float32)), np.full(3, 2, np.float32))
    with pytest.raises(tessera.TesseraError, match="E0302"):
        caches.add(np.ones(2, np.float32), np.ones(3, np.float32))


def test_structs_of_the_library_are_listed_where_a_function_takes_them(caches: tessera.module.Module) -> None:
    assert dir(caches) == ["KVCache", "add", "attend", "attend_declared", "extend"]
    assert dir(tessera.compile("def f(x: Tensor[N, f32]): return x")) == ["f"]


@pytest.mark.one_in(12)
def test_declared_sizes_that_are_equal_in_a_call_are_one_beside_arrays_without_any() -> None:
    m = tessera.compile("""
def product(x: Tensor[B, S, f32], w: Tensor) -> Tensor:
    return x @ w

def shifted(x: Tensor[B, S, f32], w: Tensor[S, f32], y):
    return x + y * w + float(S) - float(B)

def beside_a_number(x: Tensor[4, S, f32], y: Tensor) -> Tensor[4, S, f32]:
    return x + y
""")
    for rows, columns in ((4, 5), (4, 4), (1, 1), (4, 5), (3, 3)):
        x, w = np.ones((rows, columns), "f4"), np.ones((columns, rows), "f4")
        assert np.array_equal(m.product(x, w), x @ w)
        assert np.array_equal(m.shifted(x, np.ones(columns, "f4"), x), x + x + columns - rows)
    for columns in (6, 4, 1):
        x = np.ones((4, columns), "f4")
        assert np.array_equal(m.beside_a_number(x, x), x + x)


READ = """
struct Part[D]:
    heads: int
    wide: bool = False
    w: Tensor[D, f32] = full((D,), 1.0 / float(heads)) if wide else full((D,), float(heads))

    def apply(self, x: Tensor[D, f32]) -> Tensor[D, f32]:
        return x * self.w

struct Whole[D]:
    heads: int = 2
    part: Part[D] = Part[D](heads=heads + 1)
    parts: List[2, Part[D]] = [Part[D](heads=heads, wide=True) for _ in range(2)]

    def apply(self, x: Tensor[D, f32]) -> Tensor[D, f32]:
        return self.part(x) + self.parts[1](x)

def made(x: Tensor[3, f32]) -> Tensor[3, f32]:
    return Whole[3](heads=4)(x)
"""


def test_initial_values_read_numbers_before_them() -> None:
    """Ints and bools that are fields, given or not; within the language and from Python."""
    m, x = tessera.compile(READ), np.ones(3, "f4")
    np.testing.assert_array_equal(m.made(x), 5.25 * x)
    np.testing.assert_array_equal(m.Whole(3)(x), 3.5 * x)
    np.testing.assert_array_equal(m.Whole(3, heads=4)(x), 5.25 * x)
    np.testing.assert_array_equal(m.Part(3, heads=2, wide=True).w, 0.5 * x)
    assert m.Whole(3, heads=4).parts[0].heads == 4


def test_what_is_declared_behind_is_no_value() -> None:
    text = "struct S[N]:\n    w: Tensor[N, f32] = full((N,), float(k))\n    k: int = 2\n\n"
    text += "def f() -> S[3]:\n    return S[3]()\n"
    with pytest.raises(tessera.TesseraError, match="nothing here is called `k`"):
        tessera.compile(text)


def test_sizes_are_given_in_brackets_or_by_name() -> None:
    module: Any = tessera.compile(NET)
    by_place, in_brackets, by_name = module.Linear(2, 3), module.Linear[2, 3](seed=0), module.Linear(2, H=3)
    assert by_place.w.shape == in_brackets.w.shape == by_name.w.shape == module.Linear(H=3, D=2).w.shape == (2, 3)
    assert module.Deep[2, 3]().blocks[1].w.shape == (3, 3)
    assert module.Plain(w=np.ones(2, np.float32), D=2).v.shape == (2,)
    with pytest.raises(tessera.TesseraError, match="takes each of its sizes once: it needs `D`"):
        module.Linear(H=3)
    with pytest.raises(tessera.TesseraError, match="takes each of its sizes once"):
        module.Linear(2, 3, H=3)
