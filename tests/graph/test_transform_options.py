"""What transforms are told besides a function: the way a scan goes and what it keeps, results that are the same for all
elements, Jacobians of complex functions and of trees, each against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tests.support.checking import check_text

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 5)), RNG.normal(size=4)

FOLDS = """
struct Pair[M, N]:
    a: Tensor[M, N, f64]
    b: Tensor[N, f64]

def back(x: Tensor[M, N, f64]): return scan(lambda c, v: (0.5 * c + v, c * v), zeros(N, dtype=f64), x, reverse=True)
def along(x: Tensor[M, N, f64]): return scan(lambda c, v: (c * 0.5 + v, sum(v)), zeros(M, dtype=f64), x, axis=-1)
def named(x: Tensor[M, N, f64]): return reduce(lambda c, v: c * 0.5 + v, zeros(M, dtype=f64), x, axis="N", reverse=True)
def pairs(x: Tensor[M, N, f64]):
    return reduce(lambda c, p: 0.5 * c + sum(p.a) * p.b, cast(0.0, f64), Pair(a=x, b=x[0]), axis=-1)
def mapped(x: Tensor[M, N, f64]): return map(lambda v: v * sum(v), x, in_axes=1, out_axes=-1)
def kept(x: Tensor[M, N, f64]):
    turn, start = lambda c, u: (tanh(c + u), c), zeros(N, dtype=f64)
    value = lambda v: sum(scan(turn, start, v, reverse=True, checkpoint=2)[1] ** 2)
    plain = lambda v: sum(scan(turn, start, flip(v, axis=0))[1] ** 2)
    return grad(value)(x), grad(plain)(x)
"""


@pytest.mark.one_in(4)
def test_folds_go_over_any_dim_in_both_directions() -> None:
    module: Any = tessera.compile(FOLDS)
    carry, results = np.zeros(5), np.zeros((3, 5))
    for i in (2, 1, 0):
        results[i] = carry * X[i]
        carry = 0.5 * carry + X[i]
    last, found = module.back(X)
    np.testing.assert_allclose(last, carry, rtol=1e-15)
    np.testing.assert_allclose(found, results, rtol=1e-15)
    weights = 0.5 ** np.arange(5)
    last, sums = module.along(X)
    np.testing.assert_allclose(last, X @ weights[::-1], rtol=1e-13)
    np.testing.assert_allclose(sums, X.sum(0), rtol=1e-13)
    np.testing.assert_allclose(module.named(X), X @ weights, rtol=1e-13)
    np.testing.assert_allclose(module.pairs(X), (X.sum(0) * X[0]) @ weights[::-1], rtol=1e-13)
    np.testing.assert_allclose(module.mapped(X), X * X.sum(0), rtol=1e-13)


@pytest.mark.one_in(3)
def test_a_scan_that_keeps_less_has_the_bits_of_one_that_keeps_all() -> None:
    checkpointed, plain = tessera.compile(FOLDS).kept(X)
    assert checkpointed.tobytes() == plain.tobytes() and np.abs(plain[1:]).min() > 0


AXES = """
mesh = dist.Mesh(axes=["dp"], devices=range(1))

def both(x: Tensor[M, N, f64], y: Tensor[K, f64]):
    return vmap(lambda v, w: (v * sum(w), (w * 2.0, 3)), in_axes=(-1, None), out_axes=(-1, None))(x, y)
def on_mesh(x: Tensor[M, N, f64], y: Tensor[K, f64]):
    f = pmap(lambda v, w: (v * sum(w), w), in_axes=("N", None), out_axes=(-1, None), axis_name="dp", mesh=mesh)
    return f(x, y)
def nested(x: Tensor[M, N, f64], y: Tensor[K, f64]):
    inner = lambda v: vmap(lambda u, w: (u + sum(w), exp(w)), in_axes=(0, None), out_axes=(0, None))(v, y)
    return vmap(inner, in_axes=-1, out_axes=(1, None))(x)
def slope(x: Tensor[M, N, f64], y: Tensor[K, f64]):
    return grad(lambda w: sum(vmap(lambda v, w: (v, w * w), in_axes=(0, None), out_axes=(0, None))(x, w)[1]))(y)
"""


@pytest.mark.one_in(2)
def test_results_that_are_the_same_for_all_elements_have_no_mapped_dim() -> None:
    module: Any = tessera.compile(AXES)
    scaled, (doubled, three) = module.both(X, Y)
    np.testing.assert_allclose(scaled, X * Y.sum(), rtol=1e-14)
    assert np.array_equal(doubled, 2 * Y) and three == 3
    scaled, same = module.on_mesh(X, Y)
    np.testing.assert_allclose(scaled, X * Y.sum(), rtol=1e-14)
    assert np.array_equal(same, Y)
    moved, once = module.nested(X, Y)
    np.testing.assert_allclose(moved, X + Y.sum(), rtol=1e-14)
    np.testing.assert_allclose(once, np.exp(Y), rtol=1e-15)
    np.testing.assert_allclose(module.slope(X, Y), 2 * Y, rtol=1e-15)


@pytest.mark.parametrize("value", ["v * w", "normal(3)", "w if sum(v) > 0.0 else 2.0 * w"])
def test_a_result_of_the_element_needs_an_axis(value: str) -> None:
    call = f"vmap(lambda v, w: {value}, (0, None), None)(x, y)"
    text = f"def f(x: Tensor[B, 3, f32], y: Tensor[3, f32]):\n    return {call}\n"
    with pytest.raises(tessera.TesseraError, match=r"E0720.*depends on the element\n --> <text>:2:12"):
        tessera.compile(text).f(np.ones((2, 3), "f4"), np.ones(3, "f4"))


COMPLEX = """
def analytic(z: Tensor[N, c128]) -> Tensor[N, c128]: return exp(z) * sum(z) + z * z
def curve(x: Tensor[N, f64]) -> Tensor[N, c128]: return complex(x * sum(x), sin(x))
def height(z: Tensor[N, c128]) -> Tensor[f64]: return sum(real(z) ** 2 + 3.0 * imag(z))

def forward(z: Tensor[N, c128]): return jacfwd(analytic, holomorphic=True)(z)
def reverse(z: Tensor[N, c128]): return jacrev(analytic, holomorphic=True)(z)
def along(x: Tensor[N, f64]): return jacfwd(curve)(x)
def down(z: Tensor[N, c128]): return jacrev(height)(z), grad(height)(z)
def second(z: Tensor[N, c128]): return hessian(lambda v: sum(v * v * v) + v[0] * v[1], holomorphic=True)(z)
"""


@pytest.mark.one_in(8)
def test_jacobians_of_complex_functions() -> None:
    """Analytic: the complex derivative. By real arguments: d re + i d im. Of real results: d/dx - i d/dy, as `grad`."""
    module: Any = tessera.compile(COMPLEX)
    z = RNG.normal(size=3) + 1j * RNG.normal(size=3)
    jacobian = np.diag(np.exp(z) * z.sum() + 2 * z) + np.exp(z)[:, None]
    np.testing.assert_allclose(module.forward(z), jacobian, rtol=1e-13)
    np.testing.assert_allclose(module.reverse(z), jacobian, rtol=1e-13)
    x = z.real
    expected = np.diag(x.sum() + 1j * np.cos(x)) + x[:, None]
    np.testing.assert_allclose(module.along(x), expected, rtol=1e-13)
    by_rows, gradient = module.down(z)
    np.testing.assert_allclose(by_rows, 2 * z.real - 3j, rtol=1e-13)
    assert np.array_equal(by_rows, gradient)
    mixed = np.diag(6 * z)
    mixed[0, 1] = mixed[1, 0] = 1
    np.testing.assert_allclose(module.second(z), mixed, rtol=1e-13)


WRONG = {
    "jacfwd(lambda v: v * v)(z)": "`jacfwd` goes by real arguments",
    "jacrev(lambda v: v * v)(z)": "`jacrev` is of real results",
    "jacrev(lambda v: complex(v, v))(x)": "`jacrev` is of real results",
    "jacfwd(lambda v: v * v, holomorphic=True)(x)": "`holomorphic=True` is for complex arguments",
    "hessian(lambda v: sum(abs(v)))(z)": "`hessian` goes by real arguments",
    "hessian(lambda v: sum(v * v))(z)": "`jacrev` is of real results",
    "jacfwd(lambda v: v * v, holomorphic=1)(z)": "expected True or False",
    "grad(lambda v: sum(v), holomorphic=True)(x)": "no parameter `holomorphic`",
    "scan(lambda c, v: (c, v), 0.0, x, reverse=1)": "expected True or False",
    "scan(lambda c, v: (c, v), 0.0, x, checkpoint=0)": "`checkpoint` is a number of iterations, at least 1",
    "scan(lambda c, v: (c, v), 0.0, x, axis=1)": "has no axis 1",
    "map(lambda v: v, x, axes=0)": "`map` takes a function and the tensors",
}


@pytest.mark.parametrize("call", WRONG)
def test_options_that_do_not_fit_are_told(call: str) -> None:
    text = f"def f(z: Tensor[N, c128], x: Tensor[N, f64]):\n    return {call}\n"
    assert WRONG[call] in " ".join(d.title for d in check_text(text).diagnostics)


TREES = """
struct Point[N]:
    a: Tensor[N, f64]
    b: (Tensor[f64], Tensor[2, f64])

def both(p: Point[N]) -> (Tensor[f64], Point[N]):
    value = sum(p.a ** 3) * p.b[0] + sum(p.b[1]) * p.a[0]
    return value, Point(a=p.a * p.b[0], b=(value, p.b[1] * p.b[1]))

def energy(p: Point[N]) -> Tensor[f64]: return both(p)[0] ** 2
def rows(p: Point[N]): return jacrev(both)(p), jacfwd(both)(p)
def product(p: Point[N], v: Point[N]): return hvp(energy)(p, v), hessian(energy)(p)
"""


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flat(item)]
    return flat((value.a, value.b)) if hasattr(value, "a") else [np.asarray(value)]


@pytest.mark.one_in(8)
def test_derivatives_of_trees_are_trees_of_blocks() -> None:
    module: Any = tessera.compile(TREES)
    p, v = (module.Point(a=RNG.normal(size=3), b=(np.float64(RNG.normal()), RNG.normal(size=2))) for _ in range(2))
    reverse, forward = module.rows(p)
    for one, other in zip(flat(reverse), flat(forward), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert [leaf.shape for leaf in flat(reverse[1])] == [(3, 3), (3,), (3, 2), (3,), (), (2,), (2, 3), (2,), (2, 2)]
    np.testing.assert_allclose(reverse[1].a.a, np.eye(3) * p.b[0], rtol=1e-14)
    product, blocks = module.product(p, v)
    sizes = [np.size(leaf) for leaf in flat(p)]
    entries = iter(flat(blocks))
    matrix = np.block([[next(entries).reshape(rows, columns) for columns in sizes] for rows in sizes])
    direction = np.concatenate([np.ravel(leaf) for leaf in flat(v)])
    found = np.concatenate([np.ravel(leaf) for leaf in flat(product)])
    np.testing.assert_allclose(found, matrix @ direction, rtol=1e-11)
