"""Derivatives of linear algebra in f64: by central differences, forward against reverse, at repeated eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import tessera
from tests.support.sampling import spread

pytestmark = pytest.mark.one_in(144)

SQUARE = {
    "solve": "solve(a, w)",
    "inv": "inv(a)",
    "det": "det(a) * w",
    "slogdet": "slogdet(a)[1] * w",
    "qr": "all_of_qr(a, w)",
    "svd": "all_of_svd(a, w)",
    "svdvals": "svdvals(a) * w",
    "expm": "expm(a * 0.5)",
    "lower": "triangular_solve(a, w)",
    "upper": "triangular_solve(a, w, lower=False)",
    "lower_t": "triangular_solve(a, w, transpose=True)",
    "matrix_power": "matrix_power(a, 3)",
}
SYMMETRIC = {
    "cholesky": "cholesky(a)",
    "cholesky_solve": "cholesky_solve(cholesky(a), w)",
    "eigh": "all_of_eigh(a, w)",
    "eigvalsh": "eigvalsh(a) * w",
}
FORMS = """
def of_{name}(a: Tensor[N, N, f64], w: Tensor[N, N, f64], d: Tensor[N, N, f64], c: Tensor[N, N, f64]):
    value, change = jvp(lambda a: {text}, (a,), (d,))
    return value, change, grad(lambda a: sum(c * ({text})))(a)
"""
MORE = """
def all_of_qr(a: Tensor[N, N, f64], w: Tensor[N, N, f64]) -> Tensor[N, N, f64]:
    q, r = qr(a)
    return q + w * r

def all_of_svd(a: Tensor[N, N, f64], w: Tensor[N, N, f64]) -> Tensor[N, N, f64]:
    u, s, vh = svd(a)
    return u + w * s + 2.0 * vh

def all_of_eigh(a: Tensor[N, N, f64], w: Tensor[N, N, f64]) -> Tensor[N, N, f64]:
    s, v = eigh(a)
    return s * w + v

def tall_q(a: Tensor[M, N, f64], c: Tensor[M, min(M, N), f64], e: Tensor[min(M, N), N, f64]):
    return grad(lambda v: sum(c * qr(v)[0]) + sum(e * qr(v)[1]))(a)

def tall_value(a: Tensor[M, N, f64], c: Tensor[M, min(M, N), f64], e: Tensor[min(M, N), N, f64]) -> Tensor[f64]:
    return sum(c * qr(a)[0]) + sum(e * qr(a)[1])

def thin_s(a: Tensor[M, N, f64], c: Tensor[M, N, f64]):
    return grad(lambda v: sum(c * reconstructed(v)))(a)

def reconstructed(a: Tensor[M, N, f64]) -> Tensor[M, N, f64]:
    u, s, vh = svd(a)
    return (u * tanh(s)[None, :]) @ vh

def of_space(a: Tensor[4, 4, f64], c: Tensor[4, 4, f64]) -> (Tensor[f64], Tensor[4, 4, f64]):
    def weighed(x: Tensor[4, 4, f64]) -> Tensor[f64]:
        w, v = eigh(x)
        return sum(c * (v[:, :3] @ v[:, :3].T)) + sin(sum(w[:3]))
    return value_and_grad(weighed)(a)

def twice(a: Tensor[N, N, f64], b: Tensor[N, f64], d: Tensor[N, N, f64]):
    return jvp(lambda u: grad(lambda v: sum(solve(v, b) ** 2))(u), (a,), (d,))

def in_batches(a: Tensor[B, N, N, f64], b: Tensor[B, N, f64]):
    return grad(lambda v: sum(solve(v, b) ** 2))(a)
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    parts = [FORMS.format(name=name, text=text) for name, text in {**SQUARE, **SYMMETRIC}.items()]
    return tessera.compile("".join(parts) + MORE)


def matrix(rng: np.random.Generator, name: str) -> np.ndarray:
    a = rng.normal(size=(4, 4)) + 3 * np.diag([1.0, 2.0, 3.0, 4.0])
    return a @ a.T / 4 if name in SYMMETRIC else a


def slope(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The change along d by central differences of fourth order."""
    h = 1e-4
    near, far = (function(x + k * h * d) - function(x - k * h * d) for k in (1, 2))
    return (8 * near - far) / (12 * h)


@pytest.mark.one_in(144)
@pytest.mark.parametrize("name", spread([*SQUARE, *SYMMETRIC], 6))
def test_forward_and_back(program: tessera.Module, name: str) -> None:
    rng = np.random.default_rng(len(name))
    a, w, d, c = matrix(rng, name), *(rng.normal(size=(4, 4)) for _ in range(3))
    function = getattr(program, f"of_{name}")
    _, change, back = function(a, w, d, c)
    expected = slope(lambda v: np.asarray(function(v, w, d, c)[0]), a, d)
    np.testing.assert_allclose(change, expected, rtol=2e-7, atol=2e-8)
    forward = np.sum(c * np.broadcast_to(change, c.shape))
    assert np.sum(back * d) == pytest.approx(forward, rel=1e-10, abs=1e-11)


@pytest.mark.one_in(144, "factors of decompositions")
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (3, 3), (1, 1)])
def test_factors_of_every_shape(program: tessera.Module, rows: int, columns: int) -> None:
    rng = np.random.default_rng(7)
    k = min(rows, columns)
    a, d, c, e = (rng.normal(size=s) for s in ((rows, columns), (rows, columns), (rows, k), (k, columns)))
    along = slope(lambda v: np.asarray(program.tall_value(v, c, e)), a, d)
    assert np.sum(program.tall_q(a, c, e) * d) == pytest.approx(along, rel=1e-6)
    c = rng.normal(size=(rows, columns))
    along = slope(lambda v: np.sum(c * program.reconstructed(v)), a, d)
    assert np.sum(program.thin_s(a, c) * d) == pytest.approx(along, rel=1e-6)


@pytest.mark.one_in(144, "spaces of decompositions")
@pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-9, 1e-3])
def test_a_space_of_equal_eigenvalues_has_an_exact_derivative(program: tessera.Module, gap: float) -> None:
    rng = np.random.default_rng(3)
    q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    a = (q * np.array([1.0, 1.0 + gap, 1.0 + gap, 2.0])) @ q.T
    c, d = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    along = slope(lambda v: np.asarray(program.of_space(v, c)[0]), a, d)
    lost = 2e-14 / gap if gap > 1e-12 else 0.0  # what rounding of the parts comes to that cancel, over the gap
    assert np.sum(program.of_space(a, c)[1] * d) == pytest.approx(along, rel=1e-8 + lost)


def test_second_order_goes_by_the_rules(program: tessera.Module) -> None:
    rng = np.random.default_rng(5)
    a, b, d = matrix(rng, "solve"), rng.normal(size=4), rng.normal(size=(4, 4))
    second = program.twice(a, b, d)[1]
    np.testing.assert_allclose(second, slope(lambda v: program.twice(v, b, d)[0], a, d), rtol=1e-7, atol=1e-9)


@pytest.mark.one_in(48)
def test_batches(program: tessera.Module) -> None:
    rng = np.random.default_rng(6)
    a = np.stack([matrix(rng, "solve") for _ in range(3)])
    b = rng.normal(size=(3, 4))
    alone = [program.in_batches(x[None], y[None])[0] for x, y in product(a[:1], b[:1])]
    np.testing.assert_array_equal(program.in_batches(a, b)[:1], alone)


def test_a_singular_matrix_has_no_derivative(program: tessera.Module) -> None:
    with pytest.raises(tessera.TesseraError, match="singular"):
        program.of_det(*(np.zeros((2, 2)) for _ in range(4)))


EQUAL = """
def rebuilt(a: Tensor[M, N, f64], g: Tensor[M, N, f64]):
    u, s, vh = svd(a)
    return sum(g * ((u * s[None, :]) @ vh))
def polar_factor(a: Tensor[M, N, f64], g: Tensor[M, N, f64]):
    u, s, vh = svd(a)
    return sum(g * (u @ vh))
def cubed(a: Tensor[M, N, f64], g: Tensor[M, N, f64]):
    u, s, vh = svd(a)
    return sum(g * ((u * (s ** 3)[None, :]) @ vh))
def nuclear(a: Tensor[M, N, f64], g: Tensor[M, N, f64]):
    u, s, vh = svd(a)
    return sum(s) + 0.0 * sum(g)
def corner(a: Tensor[M, N, f64], g: Tensor[M, N, f64]) where M >= 1, N >= 1:
    u, s, vh = svd(a)
    return u[0, 0] * g[0, 0]
def row(a: Tensor[M, N, f64], g: Tensor[M, N, f64]) where M >= 1, N >= 1:
    u, s, vh = svd(a)
    return sum(u[0] * g[0, 0])
def symmetric(a: Tensor[N, N, f64], g: Tensor[N, N, f64]):
    w, v = eigh(a)
    return sum(g * ((v * w[None, :]) @ v.T))
def exponential(a: Tensor[N, N, f64], g: Tensor[N, N, f64]):
    w, v = eigh(a)
    return sum(g * ((v * exp(w)[None, :]) @ v.T))
def vector(a: Tensor[N, N, f64], g: Tensor[N, N, f64]) where N >= 1:
    w, v = eigh(a)
    return sum(v[0] * g[0])
"""
EQUAL += "".join(
    f"def d_{name}(a: Tensor[M, N, f64], g: Tensor[M, N, f64]) where M >= 1, N >= 1:\n    return grad({name})(a, g)\n"
    for name in ("rebuilt", "polar_factor", "cubed", "nuclear", "corner", "row")
)
EQUAL += "".join(
    f"def d_{name}(a: Tensor[N, N, f64], g: Tensor[N, N, f64]) where N >= 1:\n    return grad({name})(a, g)\n"
    for name in ("symmetric", "exponential", "vector")
)
EQUAL += "".join(
    f"def j_{name}(a: Tensor[{dims}, f64], g: Tensor[{dims}, f64], d: Tensor[{dims}, f64]) where N >= 1:\n"
    f"    return jvp(lambda v: {name}(v, g), (a,), (d,))[1]\n"
    for names, dims in (("rebuilt polar_factor cubed nuclear", "M, N"), ("symmetric exponential", "N, N"))
    for name in names.split()
)
EQUAL += """
def d_called_thrice(a: Tensor[M, N, f64], g: Tensor[M, N, f64]):
    return grad(lambda b: sum(g * ((svd(b)[0] * svd(b)[1][None, :]) @ svd(b)[2])))(a)
def factors(a: Tensor[M, N, f64]):
    return svd(a)
def axes(a: Tensor[N, N, f64]):
    return eigh(a)
def leading(a: Tensor[M, N, f64], g: Tensor[M, N, f64]) where M >= 2, N >= 2:
    u, s, vh = svd(a)
    return sum(g * ((u[:, :2] * (s ** 2)[None, :2]) @ vh[:2]))
def d_leading(a: Tensor[M, N, f64], g: Tensor[M, N, f64]) where M >= 2, N >= 2:
    return grad(leading)(a, g)
def j_leading(a: Tensor[M, N, f64], g: Tensor[M, N, f64], d: Tensor[M, N, f64]) where M >= 2, N >= 2:
    return jvp(lambda v: leading(v, g), (a,), (d,))[1]
"""


def equal_values(rows: int, values: list[float], symmetric: bool) -> np.ndarray:
    rng = np.random.default_rng(len(values) + rows)
    q, r = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (rows, len(values)))
    found = q[:, : len(values)] @ np.diag(values) @ (q.T if symmetric else r)
    return (found + found.T) / 2 if symmetric else found


def central_slope(f: Callable[..., float], a: np.ndarray, g: np.ndarray) -> np.ndarray:
    found = np.zeros_like(a)
    for place in np.ndindex(a.shape):
        step = np.zeros_like(a)
        step[place] = 1e-5
        found[place] = (f(a + step, g) - f(a - step, g)) / 2e-5
    return found


@pytest.mark.one_in(144, "gradients of decompositions")
@pytest.mark.parametrize("values", [[2.0, 2.0, 1.0], [3.0, 3.0, 3.0], [2.0, 2.0, 0.5, 0.5], [3.0, 2.0, 1.0]])
def test_gradients_that_no_choice_of_basis_shows_are_right_at_equal_values(values: list[float]) -> None:
    module, rng = tessera.compile(EQUAL), np.random.default_rng(0)
    for name in spread(("rebuilt", "polar_factor", "cubed", "nuclear", "symmetric", "exponential"), 2):
        is_symmetric = name in ("symmetric", "exponential")
        a = equal_values(len(values) + (0 if is_symmetric else 1), values, is_symmetric)
        g = rng.normal(size=a.shape)
        found, expected = getattr(module, f"d_{name}")(a, g), central_slope(getattr(module, name), a, g)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.one_in(72)
def test_the_identity_rebuilt_has_a_gradient_of_ones() -> None:
    module, one = tessera.compile(EQUAL), np.ones((3, 3))
    np.testing.assert_allclose(module.d_rebuilt(np.eye(3), one), one, atol=1e-14)
    np.testing.assert_allclose(module.d_called_thrice(np.eye(3), one), one, atol=1e-14)
    np.testing.assert_allclose(module.d_symmetric(np.eye(3), one), 2 * np.tril(one) - np.eye(3), atol=1e-14)


@pytest.mark.one_in(144)
@pytest.mark.parametrize("name", ["corner", "row", "vector"])
def test_a_gradient_of_a_chosen_basis_is_an_error(name: str) -> None:
    """In the basis of the identity itself `corner` is at its largest: no small turn changes it (docs/linalg.md)."""
    module, turned = tessera.compile(EQUAL), np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))[0]
    for a in {"corner": [turned], "row": [np.eye(3), turned], "vector": [np.eye(3)]}[name]:
        with pytest.raises(tessera.TesseraError, match="depends on the basis"):
            getattr(module, f"d_{name}")(a, np.ones((3, 3)))


@pytest.mark.one_in(144)
def test_qr_of_dependent_columns_has_no_derivative() -> None:
    module = tessera.compile("def d(a: Tensor[N, N, f64]):\n    return grad(lambda a: sum(qr(a)[0] + qr(a)[1]))(a)\n")
    a = np.random.default_rng(4).standard_normal((4, 4))
    assert np.isfinite(module.d(a * [1.0, 1e9, 1e-9, 1.0])).all(), "columns of other sizes are independent"
    for dependent in (a[:, [0, 1, 0, 2]], a * [1.0, 1.0, 0.0, 1.0], a[:, :2] @ a[:2]):
        with pytest.raises(tessera.TesseraError, match="depends on those before it"):
            module.d(dependent)


def basis(module: tessera.Module, a: np.ndarray, is_symmetric: bool) -> tuple[np.ndarray, ...]:
    if not is_symmetric:
        return tuple(module.factors(a))
    w, v = module.axes(a)
    return v, w, v.T


def unmixed(module: tessera.Module, a: np.ndarray, is_symmetric: bool) -> np.ndarray:
    """A change that leaves vectors of equal values where they are, and turns those of U against those of V."""
    u, s, vh = basis(module, a, is_symmetric)
    change = np.random.default_rng(11).normal(size=a.shape)
    change = (change + change.T) / 2 if is_symmetric else change
    inside = u.T @ change @ vh.T
    level = (np.abs(s[:, None] - s) < 1e-9) & ~np.eye(len(s), dtype=bool)
    return change - u @ np.where(level, (inside + inside.T) / 2, 0.0) @ vh


@pytest.mark.one_in(144, "changes of decompositions")
@pytest.mark.parametrize("values", [[2.0, 2.0, 1.0], [3.0, 3.0, 3.0], [2.0, 2.0, 0.5, 0.5], [3.0, 2.0, 1.0]])
@pytest.mark.parametrize(
    "name", spread(["rebuilt", "polar_factor", "cubed", "nuclear", "symmetric", "exponential"], 3)
)
def test_a_change_that_mixes_no_vectors_of_equal_values_has_an_exact_jvp(name: str, values: list[float]) -> None:
    module, is_symmetric = tessera.compile(EQUAL), name in ("symmetric", "exponential")
    a = equal_values(len(values) + (0 if is_symmetric else 1), values, is_symmetric)
    g, d, f = np.random.default_rng(0).normal(size=a.shape), unmixed(module, a, is_symmetric), getattr(module, name)
    expected = (f(a + 1e-5 * d, g) - f(a - 1e-5 * d, g)) / 2e-5
    assert getattr(module, f"j_{name}")(a, g, d) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.one_in(144, "mixing changes of decompositions")
@pytest.mark.parametrize("name", ["rebuilt", "nuclear", "symmetric"])
@pytest.mark.parametrize("size", [1.0, 0.0])
def test_a_change_that_mixes_vectors_of_equal_values_is_an_error(name: str, size: float) -> None:
    module, a, one = tessera.compile(EQUAL), size * np.eye(3), np.ones((3, 3))
    with pytest.raises(tessera.TesseraError, match="the change mixes"):
        getattr(module, f"j_{name}")(a, one, np.random.default_rng(4).normal(size=(3, 3)))
    u, _, vh = basis(module, a, name == "symmetric")
    own = u @ np.diag([1.0, 2.0, 3.0]) @ vh
    assert getattr(module, f"j_{name}")(a, one, own) == pytest.approx(6.0 if name == "nuclear" else np.sum(own))


@pytest.mark.one_in(144, "mixing changes of decompositions")
def test_singular_values_that_are_0_stay_so_or_are_an_error() -> None:
    module, rng = tessera.compile(EQUAL), np.random.default_rng(6)
    a, g = equal_values(5, [2.0, 1.0, 0.0, 0.0], False), rng.normal(size=(5, 4))
    u, _, vh = module.factors(a)
    kept = u[:, :2] @ rng.normal(size=(2, 4)) + rng.normal(size=(5, 2)) @ vh[:2]
    expected = (module.leading(a + 1e-5 * kept, g) - module.leading(a - 1e-5 * kept, g)) / 2e-5
    assert module.j_leading(a, g, kept) == pytest.approx(expected, rel=1e-6)
    assert np.sum(module.d_leading(a, g) * kept) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(module.d_nuclear(a, g), u @ vh, atol=1e-12)
    with pytest.raises(tessera.TesseraError, match="the change mixes"):
        module.j_leading(a, g, u[:, 2:] @ np.array([[1.0, 2.0], [3.0, 4.0]]) @ vh[2:])
    with pytest.raises(tessera.TesseraError, match="raises the rank"):
        module.j_leading(a, g, (np.eye(5) - u @ u.T) @ rng.normal(size=(5, 4)))
    for name, said in (("rebuilt", "is not known"), ("polar_factor", "depends on the basis|is infinite")):
        with pytest.raises(tessera.TesseraError, match=said):
            getattr(module, f"d_{name}")(a, g)


@pytest.mark.parametrize(("dtype", "unit"), [("f32", 2.0**-149), ("f64", 2.0**-1074)])
def test_lengths_of_the_smallest_numbers_have_slopes(dtype: str, unit: float) -> None:
    text = f"def slope(x: Tensor[M, N, {dtype}]):\n    return grad(lambda x: sum(norm(x, axis=1)))(x)\n"
    units = np.array([[1.0, 0.0], [2.0, 3.0], [-3.0, 4.0], [0.0, 0.0]])
    lengths = np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-9)
    found = tessera.compile(text).slope((units * unit).astype({"f32": "f4", "f64": "f8"}[dtype]))
    np.testing.assert_allclose(found, units / lengths, rtol=1e-6)


def test_derivatives_of_large_systems_go_back_by_the_factors() -> None:
    """Blocks of 32 columns, the last narrow, with exchanged rows: against the formulas; alone as in a batch."""
    text = """
def value(a: Tensor[N, N, f64], v: Tensor[N, f64]) -> Tensor[f64]:
    return 0.5 * sum(v * solve(a, v)) + 0.5 * slogdet(a)[1]

def reverse(a: Tensor[N, N, f64], v: Tensor[N, f64]):
    return value_and_grad(value)(a, v)

def batch(a: Tensor[B, N, N, f64], v: Tensor[B, N, f64]):
    return vmap(value_and_grad(value))(a, v)

def second(a: Tensor[N, N, f64], v: Tensor[N, f64], d: Tensor[N, N, f64]):
    return grad(lambda a: sum(d * grad(value)(a, v)))(a)

def value_alone(a: Tensor[N, N, f64], v: Tensor[N, f64]): return value(a, v)
"""
    module, rng = tessera.compile(text), np.random.default_rng(3)
    for n in (33, 64, 75):
        a, v = rng.normal(size=(2, n, n)), rng.normal(size=(2, n))
        found = [module.reverse(*one) for one in zip(a, v, strict=True)]
        for one, y, (value, got) in zip(a, v, found, strict=True):
            assert value == module.value_alone(one, y)
            inverse = np.linalg.inv(one)
            wanted = 0.5 * inverse.T - 0.5 * np.outer(inverse.T @ y, inverse @ y)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9 * abs(wanted).max())
        values, together = module.batch(a, v)
        assert (np.stack([got for _, got in found]) == together).all()
        assert (np.stack([value for value, _ in found]) == values).all()
    a, d, step = rng.normal(size=(33, 33)) + 9 * np.eye(33), rng.normal(size=(33, 33)), 1e-5
    y, d = v[0][:33].copy(), d / np.linalg.norm(d)
    change = (module.reverse(a + step * d, y)[1] - module.reverse(a - step * d, y)[1]) / (2 * step)
    np.testing.assert_allclose(module.second(a, y, d), change, rtol=0, atol=1e-7 * abs(change).max())
    with pytest.raises(tessera.TesseraError, match="singular"):
        module.reverse(0 * a, y)
