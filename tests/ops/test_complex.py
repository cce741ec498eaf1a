"""Complex numbers: the bits of the oracle in compiled code, NumPy's values, and what callers pass and get."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.numerics.exact import fma
from tests.support.checking import check_text
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

PROGRAM = """
struct Filter[N]:
    gain: Tensor[N, c64]
    offset: c64

    def apply(self, x: Tensor[N, c64]) -> Tensor[N, c64]:
        return x * self.gain + self.offset

param W: Tensor[3, c64]

def arithmetic(x: Tensor[N, c64], y: Tensor[N, c64]):
    a = where(real(x) > 0.0, x, y)
    return x + y, x - y, x * y, x / y, -x, x == y, x != y, a, 2.0 * x, x / 3, 1 - x, x * complex(0.0, -1.0)

def functions(z: Tensor[N, c64]):
    return abs(z), exp(z), sqrt(z), z ** 3, z.real, z.imag, conj(z), z * conj(z), polar(abs(z), imag(z))

def doubles(x: Tensor[N, c128], y: Tensor[N, c128]):
    return x * y, x / y, abs(x), exp(x), sqrt(x)

def shapes(z: Tensor[M, N, c64]):
    return z.T, z.H, reshape(z, (N * M,)), z[:, None], flip(z, axis=1), roll(z, 1, axis=0), pad(z, 1, 2, axis=0)

def places(z: Tensor[M, N, c64], i: Tensor[K, i32]) -> Tensor[M, N, c64] where N >= 1:
    z[:, 0] = z[i[0]][0]
    return z.at[i].set(z[i])

def added(z: Tensor[M, N, c64], i: Tensor[K, i32]) -> Tensor[M, N, c64]:
    return z.at[i].add(z[i])

def sums(z: Tensor[M, N, c64]):
    return sum(z, axis=1), mean(z, axis=0), sum(z), cumsum(z, axis=1)

def multiplied(z: Tensor[M, N, c64], i: Tensor[K, i32]) -> Tensor[M, N, c64]:
    return z.at[i].mul(z[i])

def products(z: Tensor[M, N, c64]):
    return prod(z), prod(z, axis=0), prod(z, axis=1, keep=True), cumprod(z, axis=0), cumprod(z)

def product(x: Tensor[M, K, c64], y: Tensor[K, N, c64]) -> Tensor[M, N, c64]:
    return x @ y

def dot(x: Tensor[K, c128], y: Tensor[K, c128]) -> c128:
    return x @ y

def mixed(x: Tensor[M, K, c64], y: Tensor[K, N, f32]) -> Tensor[M, N, c64]:
    return x @ cast(y, c64)

def batched(x: Tensor[B, M, K, c64], y: Tensor[B, N, K, c64]):
    return einsum("bmk,bnk->bmn", x, y), einsum("bmk,bmk->bm", x, x)

def control(z: Tensor[N, c64], c: Tensor[f32]) -> Tensor[N, c64]:
    w = z
    for i in range(3):
        w = w * z + complex(c, float(i))
    if c > 0.0:
        w = conj(w)
    else:
        w = w + 1.0
    while abs(sum(w)) > 10.0:
        w = w * 0.5
    return w

def lengths(z: Tensor[N, c64]) -> Tensor[f32]:
    total = cast(0.0, f32)
    for i in range(2):
        total = total + sum(abs(z * complex(cast(1.0, f32), float(i))))
    return total

def same(z: Tensor[N, c64]):
    return z, z, real(z)

def from_real(x: Tensor[N, f32]):
    z = cast(x, c64)
    return z, -z * 2.0, sum(z), zeros(2, dtype=c64), ones(N, dtype=c128)
"""


def numbers(*shape: int, seed: int = 0, dtype: str = "c8") -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def run(name: str, *args: object) -> object:
    return compiled_equals_oracle(PROGRAM)(name, *args)


def close(got: object, expected: object, rtol: float = 2e-6) -> None:
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == np.asarray(other).dtype and np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.one_in(4)
@given(st.sampled_from([0, 1, 3, 17, 130]))
@settings(max_examples=5, deadline=None)
def test_arithmetic(size: int) -> None:
    x, y = numbers(size), numbers(size, seed=1)
    where = np.where(x.real > 0, x, y)
    one = np.complex64(1)
    expected = (x + y, x - y, x * y, x / y, -x, x == y, x != y, where, 2 * x, x / np.complex64(3), one - x, x * -1j)
    close(run("arithmetic", x, y), expected)


@pytest.mark.one_in(3)
def test_functions() -> None:
    z = numbers(200)
    turned = (abs(z) * np.exp(1j * z.imag)).astype("c8")
    squares = z * z.conj()
    expected = (abs(z), np.exp(z), np.sqrt(z), z**3, z.real, z.imag, z.conj(), squares, turned)
    close(run("functions", z), expected, 5e-6)
    assert not np.any(run("functions", z)[7].imag)


def test_doubles_do_not_overflow_on_the_way() -> None:
    with np.errstate(all="ignore"):
        x = np.array([1e300 + 1e300j, 1e-300 + 1e-300j, 3 + 4j, 0, 1e200, 5e-324j])
        y = np.array([1e300 - 1e300j, 1e-300 + 1e-300j, 3 - 4j, 1j, 1e200j, 5e-324j])
        _, quotient, size, _, root = run("doubles", x, y)
        np.testing.assert_allclose(quotient, [1j, 1, (3 + 4j) / (3 - 4j), 0, -1j, 1], rtol=1e-15)
        np.testing.assert_allclose(size, np.abs(x), rtol=3e-16)
        np.testing.assert_allclose(root, np.sqrt(x), rtol=1e-15)


def test_corners() -> None:
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in values for b in values], "c8")
    size, exponential, root = run("functions", z)[:3]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(size, np.abs(z))
        finite = np.isfinite(z)
        np.testing.assert_allclose(root[finite], np.sqrt(z[finite]), rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(root[finite].imag), np.signbit(np.sqrt(z[finite]).imag))
        np.testing.assert_allclose(exponential[finite], np.exp(z[finite]), rtol=1e-6)


def test_a_quotient_by_zero_is_numpys() -> None:
    x = np.array([1, -1, 1j, 0, complex(1, 1)], "c8")
    with np.errstate(all="ignore"):
        expected = x / np.zeros(5, "c8")
    np.testing.assert_array_equal(run("arithmetic", x, np.zeros(5, "c8"))[3], expected)


def test_numbers_without_an_imaginary_part_multiply_part_by_part() -> None:
    z = np.array([complex(np.inf, 1), complex(2, -np.inf)], "c8")
    doubled, third = run("arithmetic", z, z)[8:10]
    assert np.isinf(doubled).all() and not np.isnan(doubled).any() and not np.isnan(third).any()


@pytest.mark.one_in(24)
@given(st.sampled_from([(1, 0), (1, 1), (5, 7), (40, 3)]))
@settings(max_examples=4, deadline=None)
def test_shapes_and_sums(shape: tuple[int, int]) -> None:
    z = numbers(*shape)
    rolled, padded = np.roll(z, 1, 0), np.pad(z, ((1, 2), (0, 0)))
    close(run("shapes", z), (z.T, z.T.conj(), z.ravel(), z[:, None], z[:, ::-1], rolled, padded), 0)
    with np.errstate(all="ignore"):
        close(run("sums", z), (z.sum(1), z.mean(0), z.sum(), z.cumsum(1)))


@pytest.mark.one_in(2)
def test_places() -> None:
    z, i = numbers(5, 4), np.array([1, 3], "i4")
    expected = z.copy()
    expected[:, 0] = expected[1, 0]
    np.testing.assert_array_equal(run("places", z, i), expected)
    repeated, total = np.array([1, 3, 1], "i4"), z.copy()
    np.add.at(total, repeated, z[repeated])
    np.testing.assert_allclose(run("added", z, repeated), total, rtol=1e-6)


@pytest.mark.one_in(12)
@given(st.sampled_from([(0, 3), (3, 0), (1, 1), (5, 7), (2, 65)]))
@settings(max_examples=5, deadline=None)
def test_products_of_many(shape: tuple[int, int]) -> None:
    z = numbers(*shape)
    z = z / np.maximum(abs(z), 1e-3)
    close(run("products", z), (z.prod(), z.prod(0), z.prod(1, keepdims=True), z.cumprod(0), z.cumprod(1)), 2e-5)


@pytest.mark.one_in(3)
def test_a_product_of_many_has_one_order() -> None:
    """Cut from the start at lengths that are powers of two, rising; each cut halved down to single factors."""
    z = numbers(1, 11)

    def halved(x: np.ndarray) -> np.ndarray:
        return x[0] if len(x) == 1 else times(halved(x[: len(x) // 2]), halved(x[len(x) // 2 :]))

    def times(a: np.complex64, b: np.complex64) -> np.complex64:
        return np.complex64(complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real))

    expected = times(times(halved(z[0, :1]), halved(z[0, 1:3])), halved(z[0, 3:]))
    assert run("products", z)[0] == expected


def test_products_of_infinite_factors_are_not_multiplied_by_one() -> None:
    z = np.array([[complex(2, np.inf)]], "c8")
    assert run("products", z)[0] == z[0, 0]


@pytest.mark.one_in(2)
def test_places_multiply() -> None:
    z, repeated = numbers(5, 4), np.array([1, 3, 1, 1, -2], "i4")
    total = z.copy()
    np.multiply.at(total, repeated, z[repeated])
    np.testing.assert_allclose(run("multiplied", z, repeated), total, rtol=1e-5)


@pytest.mark.one_in(12)
def test_derivatives_of_products() -> None:
    """Zeros are factors like others."""
    text = """
    def slope(z: Tensor[N, c64], dz: Tensor[N, c64]):
        return jvp(lambda a: prod(a), (z,), (dz,))[1], jvp(lambda a: cumprod(a), (z,), (dz,))[1]
    """
    z, dz = numbers(4), numbers(4, seed=1)
    z[1] = 0
    total, running = tessera.compile(dedent(text)).slope(z, dz)
    others = [np.prod(np.delete(z, i)) * dz[i] for i in range(4)]
    np.testing.assert_allclose(total, sum(others), rtol=1e-5)
    cumulative = [sum(np.prod(np.delete(z[: k + 1], i)) * dz[i] for i in range(k + 1)) for k in range(4)]
    np.testing.assert_allclose(running, cumulative, rtol=1e-5)


def chain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The complex chain as the language defines it, one segment after another."""
    parts = []
    for start in range(0, x.shape[1], 4096):
        re = im = np.zeros((x.shape[0], y.shape[1]), np.float32)
        for k in range(start, min(start + 4096, x.shape[1])):
            a, b = x[:, k, None], y[None, k, :]
            re = fma(-a.imag, b.imag, fma(a.real, b.real, re))
            im = fma(a.imag, b.real, fma(a.real, b.imag, im))
        parts.append((re, im))
    while len(parts) > 1:
        pairs = list(zip(parts[::2], parts[1::2], strict=False))
        parts = [(a[0] + b[0], a[1] + b[1]) for a, b in pairs] + parts[2 * len(pairs) :]
    re, im = (part + np.float32(0) for part in parts[0])
    return re + 1j * im


@pytest.mark.one_in(48)
@pytest.mark.parametrize("shape", [(3, 5, 4), (33, 70, 19), (1, 9, 1), (2, 9000, 3), (4, 0, 2)])
def test_a_product_is_the_chain_of_the_specification(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, y = numbers(m, k), numbers(k, n, seed=1)
    got = run("product", x, y)
    np.testing.assert_allclose(got, x.astype("c16") @ y.astype("c16"), rtol=1e-3, atol=1e-3)
    if k:
        np.testing.assert_array_equal(got, chain(x, y))


@pytest.mark.parametrize(("text", "copies"), [("x @ v", 1), ("x.T @ v", 1), ("x.T @ x", 2), ("(x + 1.0) @ v", 2)])
def test_a_left_factor_whose_parts_lie_in_rows_is_not_copied(text: str, copies: int) -> None:
    """The right one is put together of its parts always, what is computed as well, and one that is turned and read
    often."""
    forms = compile_to_forms(f"def f(x: Tensor[N, N, c64], v: Tensor[N, c64]): return sum(abs({text}))\n")
    assert [op.name for op in forms.walk()].count("form.assemble") == copies
    x, v = numbers(9, 9), numbers(9, seed=1)
    found = tessera.compile(f"def f(x: Tensor[N, N, c64], v: Tensor[N, c64]): return {text}\n").f(x, v)
    left = x + np.complex64(1) if "+" in text else x.T if "T" in text else x
    right = v[:, None] if text.endswith("v") else x
    np.testing.assert_array_equal(found.reshape(9, -1), chain(left, right))


@pytest.mark.one_in(8)
def test_other_contractions() -> None:
    x, y = numbers(30, dtype="c16"), numbers(30, seed=1, dtype="c16")
    np.testing.assert_allclose(run("dot", x, y), x @ y, rtol=1e-13)
    a, b = numbers(2, 3, 8), numbers(2, 5, 8, seed=1)
    close(run("batched", a, b), (np.einsum("bmk,bnk->bmn", a, b), np.einsum("bmk,bmk->bm", a, a)), 1e-5)
    w = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
    np.testing.assert_allclose(run("mixed", a[0], w), a[0] @ w, rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("c", [0.5, -0.5])
def test_control_flow_carries_both_parts(c: float) -> None:
    z = numbers(6)
    w = z
    for i in range(3):
        w = w * z + np.complex64(complex(c, i))
    w = w.conj() if c > 0 else w + 1
    while abs(w.sum()) > 10:
        w = w * np.float32(0.5)
    np.testing.assert_allclose(run("control", z, np.float32(c)), w, rtol=1e-4)
    np.testing.assert_allclose(run("lengths", z), abs(z).sum() + abs(z * (1 + 1j)).sum(), rtol=1e-5)


@pytest.mark.one_in(2)
def test_results_are_their_own_and_zero_parts_appear() -> None:
    z = numbers(4)
    first, second, real = run("same", z)
    assert not np.shares_memory(first, second) and not np.shares_memory(first, z)
    close((first, second, real), (z, z, z.real), 0)
    x = np.array([1, -2, 0], "f4")
    expected = (x.astype("c8"), (-2 * x).astype("c8"), np.complex64(-1), np.zeros(2, "c8"), np.ones(3, "c16"))
    close(run("from_real", x), expected, 0)


@pytest.fixture(scope="module")
def module() -> tessera.Module:
    return tessera.compile(PROGRAM + "\ndef weighted(x: Tensor[3, c64]):\n    return sum(W * x)\n"
                           "\ndef filtered(f: Filter[N], x: Tensor[N, c64]):\n    return f(x)\n"
                           "\ndef generic(x: Tensor[..., N]):\n    return x * x\n"
                           "\ndef scaled(x: Tensor[N, c64], c: c64):\n    return x * c\n")  # fmt: skip


@pytest.mark.one_in(3)
def test_callers_pass_numpy_numbers(module: tessera.Module) -> None:
    z = numbers(3)
    module.params = {"W": z}
    total = module.weighted(z)
    assert isinstance(total, np.complex64)
    np.testing.assert_allclose(total, (z * z).sum(), rtol=1e-6)
    model = module.Filter(gain=z, offset=np.complex64(2j))
    np.testing.assert_allclose(module.filtered(model, z), z * z + 2j, rtol=1e-6)
    np.testing.assert_allclose(module.scaled(z, 1 + 2j), z * (1 + 2j), rtol=1e-6)
    np.testing.assert_allclose(module.generic(numbers(2, 3, dtype="c16")), numbers(2, 3, dtype="c16") ** 2)


def test_strided_and_reversed_arguments(module: tessera.Module) -> None:
    z = numbers(9)
    np.testing.assert_array_equal(module.scaled(z[::-2], np.complex64(1)), z[::-2])
    with pytest.raises(tessera.TesseraError, match="has dtype float32"):
        module.scaled(z.real, np.complex64(1))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("z < z", "E0405"),
        ("max(z)", "E0405"),
        ("erf(z)", "E0405"),
        ("z // z", "E0405"),
        ("z * y", "E0402"),
        ("where(y > 0.0, y, z)", "E0402"),
        ("concat([z, x])", "E0402"),
        ("cast(z, f32)", "E0415"),
        ("cast(z, i32)", "E0415"),
        ("complex(h, h)", "E0405"),
        ("complex(x, z)", "E0405"),
        ("complex(True, 2.0)", "E0403"),
        ("argmax(z)", "E0405"),
        ("z & z", "E0405"),
    ],
)
def test_misuse_is_said(line: str, code: str) -> None:
    takes = "z: Tensor[N, c64], x: Tensor[N, f32], y: Tensor[N, f64], h: Tensor[N, bf16]"
    program = f"def f({takes}):\n    return {line}\n"
    assert [d.code for d in check_text(program).diagnostics] == [code]


MIXED = """
def f(x: Tensor[N, f32], z: Tensor[N, c64], w: Tensor[N, c64]):
    sums = x + z, z + x, x - z, z - x, x * z, z / x, x / z
    return sums, z ** w, z ** x, x ** w, z ** 2.5, z @ x, einsum("i,i->", x, z), where(x > 1.0, x, z), x == z, log(z)
def g(x: Tensor[N, f64], z: Tensor[N, c128], w: Tensor[N, c128]):
    sums = x + z, z + x, x - z, z - x, x * z, z / x, x / z
    return sums, z ** w, z ** x, x ** w, z ** 2.5, z @ x, einsum("i,i->", x, z), where(x > 1.0, x, z), x == z, log(z)
"""


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("name", "real", "number"), [("f", "f4", "c8"), ("g", "f8", "c16")])
def test_real_numbers_beside_complex_ones(name: str, real: str, number: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.uniform(0.5, 3, 40)).astype(real)
    z, w = ((rng.normal(size=40) * 2 + 1j * rng.normal(size=40)).astype(number) for _ in range(2))
    sums, *rest = getattr(tessera.compile(MIXED), name)(x, z, w)
    a, b, c = x.astype("c16"), z.astype("c16"), w.astype("c16")
    expected = [a + b, b + a, a - b, b - a, a * b, b / a, a / b, b**c, b**a, a**c, b**2.5, b @ a, a @ b]
    for found, exact in zip([*sums, *rest], [*expected, np.where(x > 1, a, b), a == b, np.log(b)], strict=True):
        assert np.asarray(found).dtype == (bool if exact.dtype == bool else number)
        np.testing.assert_allclose(found, exact, rtol=3e-6 if number == "c8" else 2e-14)


@pytest.mark.one_in(3)
def test_powers_at_zero_and_of_zero() -> None:
    run = compiled_equals_oracle("def f(z: Tensor[N, c64], w: Tensor[N, c64]):\n    return z ** w\n")
    inf, nan = np.inf, np.nan
    z = np.array([0, 0, 0, 0, 1 + 1j, complex(inf, 0), complex(nan, 1), -1], "c8")
    w = np.array([0, 2, 1 + 3j, -1, 0, 0, 0, 0.5], "c8")
    assert run("f", z, w)[:3].tolist() == [1, 0, 0] and np.isnan(run("f", z, w)[3])
    assert run("f", z, w)[4:7].tolist() == [1, 1, 1]
    np.testing.assert_allclose(run("f", z, w)[7], 1j, atol=1e-7)


def test_an_update_keeps_its_real_dtype() -> None:
    program = "def f(x: Tensor[N, f32], z: Tensor[N, c64]):\n    {}\n    return x\n"
    for line, code in (("x += z", "E0402"), ("x[0] = z[0]", "E0407")):
        assert code in [d.code for d in check_text(program.format(line)).diagnostics]
