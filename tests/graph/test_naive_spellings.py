"""However an expression is written, its laws are found: a number in front, a sign, a sum, `keep=True`, an einsum or a
cut between a product and what is left of it change nothing of that no whole product is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.ir.forms import tensor_type
from tesserac.types.dims import Dim
from tests.support.source_support import compile_to_forms

SIZE = 12
MATRICES = {name: np.random.default_rng(place).standard_normal((SIZE, SIZE)) for place, name in enumerate("abc")}
VECTORS = {name: np.random.default_rng(place).standard_normal(SIZE) for place, name in enumerate("vwd", 3)}
PARAMS = ", ".join(
    [f"{name}: Tensor[N, N, f64]" for name in MATRICES] + [f"{name}: Tensor[N, f64]" for name in VECTORS]
)
SPELLINGS: dict[str, Any] = {
    "trace(2.0 * (a @ b))": lambda a, b, c, v, w, d: np.trace(2 * a @ b),
    "trace(-(a @ b) / 3.0)": lambda a, b, c, v, w, d: np.trace(-a @ b / 3),
    "trace(a @ b - c)": lambda a, b, c, v, w, d: np.trace(a @ b - c),
    "diagonal((a @ b) / v[0])": lambda a, b, c, v, w, d: np.diagonal(a @ b) / v[0],
    "sum(v[0] * (a @ b))": lambda a, b, c, v, w, d: v[0] * np.sum(a @ b),
    "sum(-(a @ b), axis=0)": lambda a, b, c, v, w, d: -np.sum(a @ b, axis=0),
    "sum(a @ b, axis=0, keep=True)": lambda a, b, c, v, w, d: np.sum(a @ b, axis=0, keepdims=True),
    "mean(a @ b, axis=1, keep=True)": lambda a, b, c, v, w, d: np.mean(a @ b, axis=1, keepdims=True),
    "sum(reshape(a @ b, (N * N,)))": lambda a, b, c, v, w, d: np.sum(a @ b),
    'einsum("qr->q", a @ b)': lambda a, b, c, v, w, d: np.sum(a @ b, axis=1),
    'einsum("ij->ji", a @ b) @ v': lambda a, b, c, v, w, d: (a @ b).T @ v,
    "(2.0 * (a @ b))[1]": lambda a, b, c, v, w, d: 2 * (a @ b)[1],
    "(c - a @ b)[:, 1]": lambda a, b, c, v, w, d: (c - a @ b)[:, 1],
    "(a @ b).T[2:4]": lambda a, b, c, v, w, d: (a @ b).T[2:4],
    "((a @ b) * v[0] + c) @ w": lambda a, b, c, v, w, d: ((a @ b) * v[0] + c) @ w,
    "-(a @ b) @ v": lambda a, b, c, v, w, d: -(a @ b) @ v,
    "(d[:, None] * (a @ b)) @ v": lambda a, b, c, v, w, d: (d[:, None] * (a @ b)) @ v,
    "v @ ((a @ b) * d)": lambda a, b, c, v, w, d: v @ ((a @ b) * d),
    "(outer(v, w) * (a @ b)) @ d": lambda a, b, c, v, w, d: (np.outer(v, w) * (a @ b)) @ d,
    "sum(outer(v, w) * (a @ b))": lambda a, b, c, v, w, d: np.sum(np.outer(v, w) * (a @ b)),
    "(a @ b)[argsort(d)] @ v": lambda a, b, c, v, w, d: (a @ b)[np.argsort(d)] @ v,
    "(c @ (a - ones(N, N, dtype=f64) / 3.0)) @ v": lambda a, b, c, v, w, d: c @ (a - 1 / 3) @ v,
    "a @ b @ v - a @ b @ w": lambda a, b, c, v, w, d: a @ b @ (v - w),
    "matrix_power(a, 5) @ v": lambda a, b, c, v, w, d: np.linalg.matrix_power(a, 5) @ v,
    "(lambda q: (q @ c + q.T) @ v)(a @ b)": lambda a, b, c, v, w, d: (a @ b @ c + (a @ b).T) @ v,
    "(lambda q: q @ (q @ v))(a @ b)": lambda a, b, c, v, w, d: a @ b @ (a @ (b @ v)),
    "roll(a @ b, 2, 0) @ v": lambda a, b, c, v, w, d: np.roll(a @ b, 2, 0) @ v,
    "roll(a @ b, 2, 1)[1]": lambda a, b, c, v, w, d: np.roll(a @ b, 2, 1)[1],
    "flip(a @ b, 1) @ v": lambda a, b, c, v, w, d: np.flip(a @ b, 1) @ v,
    "flip(a @ b)[:, 2]": lambda a, b, c, v, w, d: np.flip(a @ b)[:, 2],
    "trace(flip(a @ b, 0))": lambda a, b, c, v, w, d: np.trace(np.flip(a @ b, 0)),
    "sum((a @ b)[::-1], axis=1)": lambda a, b, c, v, w, d: np.sum((a @ b)[::-1], axis=1),
    "concat([a @ b, c]) @ v": lambda a, b, c, v, w, d: np.concatenate([a @ b, c]) @ v,
    "v @ concat([a @ b, c, b], axis=1)": lambda a, b, c, v, w, d: v @ np.concatenate([a @ b, c, b], axis=1),
    "concat([a @ b, c], axis=1) @ concat([v, w])": lambda a, b, c, v, w, d: a @ b @ v + c @ w,
    "sum(concat([a @ b, c]), axis=0)": lambda a, b, c, v, w, d: np.sum(a @ b + c, axis=0),
    "stop_gradient(a @ b) @ v": lambda a, b, c, v, w, d: a @ b @ v,
    "trace(stop_gradient(2.0 * (a @ b)))": lambda a, b, c, v, w, d: 2 * np.trace(a @ b),
    "v @ a @ (b @ b.T) @ a.T @ v": lambda a, b, c, v, w, d: np.sum((v @ a @ b) ** 2),
    "cumsum(a @ b, axis=0)[-1]": lambda a, b, c, v, w, d: np.sum(a @ b, axis=0),
    "cumsum(a @ b)[:, -1]": lambda a, b, c, v, w, d: np.sum(a @ b, axis=1),
    "cumsum(a @ b)[2]": lambda a, b, c, v, w, d: np.cumsum((a @ b)[2]),
    "cumsum(a @ b, axis=0) @ v": lambda a, b, c, v, w, d: np.cumsum(a @ b, axis=0) @ v,
    "v @ cumsum(a @ b, axis=0)": lambda a, b, c, v, w, d: v @ np.cumsum(a @ b, axis=0),
    "cumsum(a @ b @ v)": lambda a, b, c, v, w, d: np.cumsum(a @ b @ v),
    "sum(where(d[:, None] > 0.0, a @ b, 0.0), axis=0)": lambda a, b, c, v, w, d: np.sum((a @ b)[d > 0], axis=0),
    "where(d > 0.0, a @ b, 0.0) @ v": lambda a, b, c, v, w, d: np.where(d > 0, a @ b, 0) @ v,
    "((a @ b) * c)[1] + slice(c * (a @ b), 2, 1)[0]": lambda a, b, c, v, w, d: ((a @ b) * c)[1] + ((a @ b) * c)[2],
    "trace(c * -(a @ b))": lambda a, b, c, v, w, d: -np.trace((a @ b) * c),
    "(a @ b)[argmax(d)]": lambda a, b, c, v, w, d: (a @ b)[np.argmax(d)],
    "one_hot(argmax(d), N, dtype=f64) @ (a @ b)": lambda a, b, c, v, w, d: (a @ b)[np.argmax(d)],
    "one_hot(argsort(d) + 6, N, dtype=f64) @ (a @ v)": lambda a, b, c, v, w, d: np.r_[a @ v, [0] * 6][
        np.argsort(d) + 6
    ],
    "one_hot(argsort(d), N, dtype=f64).T @ (a @ v)": lambda a, b, c, v, w, d: (a @ v)[np.argsort(np.argsort(d))],
    "inv(a) @ a @ v + a.T @ inv(a).T @ w": lambda a, b, c, v, w, d: v + w,
    "(lambda u: sum((u @ u.T) ** 2))(a[:, :2])": lambda a, b, c, v, w, d: np.sum((a[:, :2] @ a[:, :2].T) ** 2),
    "mean((a[:, :2] @ b[:2]) * (c[:, :1] @ b[:1]))": lambda a, b, c, v, w, d: np.mean(
        (a[:, :2] @ b[:2]) * (c[:, :1] @ b[:1])
    ),
    "eye(N, dtype=f64)[1] @ a + a @ eye(N, dtype=f64)[:, 2]": lambda a, b, c, v, w, d: a[1] + a[:, 2],
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("text", SPELLINGS)
def test_no_whole_product_is_computed(text: str) -> None:
    source = f"def f({PARAMS}): return {text}\n"
    made = [op for op in compile_to_forms(source).walk() if op.name == "form.contract"]
    assert all(tensor_type(op.result).dims != (Dim.sym("N"), Dim.sym("N")) for op in made), text
    found = tessera.compile(source).f(*MATRICES.values(), *VECTORS.values())
    np.testing.assert_allclose(found, SPELLINGS[text](**MATRICES, **VECTORS), rtol=1e-10, atol=1e-10)


def test_a_diagonal_is_seen_behind_an_identity_whose_rows_have_numbers() -> None:
    text = f"def f({PARAMS}): return (eye(N, dtype=f64) * d[:, None]) @ a, (v * eye(N, dtype=f64)) @ b\n"
    assert not any(op.name == "form.contract" for op in compile_to_forms(text).walk())


def test_numbers_of_rows_stay_where_products_alone_need_nothing_less() -> None:
    """A matrix that others need too is made, and its product is of it."""
    text = f"def f({PARAMS}): return (a * d) @ v, a * d\n"
    module = compile_to_forms(text)
    assert sum(op.name == "form.contract" for op in module.walk()) == 1


@pytest.mark.parametrize("text", ["(a @ v) + (b @ v)", "a @ b + c"])
def test_sums_without_a_common_factor_stay(text: str) -> None:
    products = [op for op in compile_to_forms(f"def f({PARAMS}): return {text}\n").walk() if op.name == "form.contract"]
    assert len(products) == text.count("@")


QUOTIENTS = {
    "trace((a @ a) / s)": 4.0,
    "((a @ a) / s) @ w": 1.0,
    "trace(2.0 * ((a @ a) / s))": 8.0,
    "trace(-(a @ a) / s) / 3.0": -4.0 / 3.0,
    "sum(outer(a @ w, a @ w) / s)": 16.0,
}


@pytest.mark.parametrize("text", QUOTIENTS)
@pytest.mark.parametrize(("size", "divisor"), [(1e-19, 2.0**-130), (1e18, 3e38)])
def test_what_is_divided_is_divided(text: str, size: float, divisor: float) -> None:
    """The inverse of a number that is close to zero is infinite, and that of a large one has few digits."""
    source = f"def f(a: Tensor[N, N, f32], w: Tensor[N, f32], s: f32): return {text}\n"
    w, s = np.ones(4, "f4"), np.float32(divisor)
    found = tessera.compile(source).f(np.float32(size) * np.eye(4, dtype="f4"), w, s)
    np.testing.assert_allclose(found, QUOTIENTS[text] * size**2 / float(s), rtol=1e-4)


def products(text: str) -> list[Any]:
    return [op for op in compile_to_forms(f"def f({PARAMS}): return {text}\n").walk() if op.name == "form.contract"]


@pytest.mark.one_in(4)
def test_a_form_that_is_the_same_from_both_ends_has_one_half() -> None:
    assert len(products("v @ a.T @ a @ v")) == len(products("v @ (a @ b @ b.T @ a.T) @ v")) - 1 == 1
    assert len(products("v @ a.T @ c @ a @ v")) == 2 and len(products("v @ a.T @ a @ w")) == 2


@pytest.mark.one_in(4)
def test_a_row_of_the_identity_is_a_row() -> None:
    assert not products("eye(N, dtype=f64)[1] @ a + a @ eye(N, dtype=f64)[:, 2]")


@pytest.mark.one_in(4)
def test_triangles_of_ones_are_running_sums() -> None:
    low, up = "tril(ones(N, N, dtype=f64))", "triu(ones(N, N, dtype=f64))"
    text = f"{low} @ v + {up} @ w + v @ {low} + w @ {up}, {low} @ a @ {up} + a @ {low}"
    assert not products(text)
    found = tessera.compile(f"def f({PARAMS}): return {text}\n").f(*MATRICES.values(), *VECTORS.values())
    a, v, w, one = MATRICES["a"], VECTORS["v"], VECTORS["w"], np.tril(np.ones((SIZE, SIZE)))
    np.testing.assert_allclose(found[0], one @ v + one.T @ w + v @ one + w @ one.T, rtol=1e-10)
    np.testing.assert_allclose(found[1], one @ a @ one.T + a @ one, rtol=1e-10, atol=1e-10)


@pytest.mark.one_in(4)
def test_triangles_of_ones_without_the_diagonal_are_sums_before_and_after() -> None:
    low, up = "tril(ones(N, N, dtype=f64), -1)", "triu(ones(N, N, dtype=f64), 1)"
    text = f"{low} @ v + {up} @ w + v @ {low} + w @ {up}, {low} @ a @ {up} + a @ {low}.T"
    assert not products(text)
    found = tessera.compile(f"def f({PARAMS}): return {text}\n").f(*MATRICES.values(), *VECTORS.values())
    a, v, w, one = MATRICES["a"], VECTORS["v"], VECTORS["w"], np.tril(np.ones((SIZE, SIZE)), -1)
    np.testing.assert_allclose(found[0], one @ v + one.T @ w + v @ one + w @ one.T, rtol=1e-10)
    np.testing.assert_allclose(found[1], one @ a @ one.T + a @ one.T, rtol=1e-10, atol=1e-10)


@pytest.mark.one_in(4)
def test_the_gradient_of_a_form_has_one_product() -> None:
    """The cotangents that meet are of one matrix, from both sides."""
    assert len(products("grad(lambda q: trace(q.T @ b @ q))(a)")) == 1
    assert len(products('einsum("i,ik->ki", ones(N, dtype=f64), a) @ v')) == 1


@pytest.mark.one_in(4)
def test_a_matrix_whose_own_diagonal_is_taken_from_it_is_made() -> None:
    """Of what is left between them, the product has the rounding, not of the diagonal."""
    own = ["(a - diag(diagonal(a))) @ v", "(a - a * eye(N)) @ v"]
    given = ["(a - diag(d)) @ v", "-((diag(d) - a) @ v)", "v @ (a - diag(d)).T", "(a - diag(-(-d))) @ v"]
    columns = ["((a - diag(d)) @ stack([v, v], axis=1))[:, 0]", "vmap(lambda x: (a - diag(d)) @ x)(stack([v, v]))[1]"]
    params = "a: Tensor[N, N, f32], d: Tensor[N, f32], v: Tensor[N, f32]"
    text = f"def f({params}): return {', '.join(own + given + columns)}\n"
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 40)).astype("f4") + np.float32(1e6) * np.eye(40, dtype="f4")
    v = rng.standard_normal(40).astype("f4")
    wide = (a - np.diag(np.diag(a))).astype("f8") @ v
    for found in tessera.compile(text).f(a, np.diag(a).copy(), v):
        np.testing.assert_allclose(found, wide, rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(4)
def test_what_the_program_has_summed_is_a_diagonal_of_its_own() -> None:
    """Then the matrix is applied as it is, and the diagonal beside it; else one pass over the matrix does both."""
    assert len(products("(diag(sum(a, axis=1)) - a) @ w")) == 1
    assert not products("(a - diag(v)) @ w") and not products("w @ (diag(v) - a)")


@pytest.mark.one_in(4)
def test_the_length_of_a_product_that_cancels_keeps_its_digits() -> None:
    """It is as far off as the rounding of the product that is not made; its slope at 0 is 0."""
    text = """
def length(u: Tensor[60, 4, f32], v: Tensor[4, 60, f32]): return norm(u @ v)
def slope(u: Tensor[60, 4, f32], v: Tensor[4, 60, f32]): return grad(length)(u, v)
"""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((60, 4)).astype("f4"), np.zeros((4, 60), "f4")
    u[:, 1], v[0], v[1] = -u[:, 0] * np.float32(1 + 2**-20), 1.0, 1.0
    module = tessera.compile(text)
    rounding = 1e-7 * np.linalg.norm(u) * np.linalg.norm(v)
    np.testing.assert_allclose(module.length(u, v), np.linalg.norm(u.astype("f8") @ v.astype("f8")), atol=rounding)
    assert module.length(u, 0 * v) == 0 and not module.slope(u, 0 * v).any()


@pytest.mark.one_in(4)
def test_no_gradient_flows_through_what_is_stopped() -> None:
    text = f"def f({PARAMS}): return grad(lambda x: sum(stop_gradient(x @ b) @ (x @ v)))(a)\n"
    found = tessera.compile(text).f(*MATRICES.values(), *VECTORS.values())
    a, b, v = MATRICES["a"], MATRICES["b"], VECTORS["v"]
    np.testing.assert_allclose(found, np.outer(np.sum(a @ b, axis=0), v), rtol=1e-10)


@pytest.mark.one_in(4)
def test_what_differs_on_the_diagonal_is_taken_before_it_is_added() -> None:
    """The traces of two matrices that are nearly one have fewer digits in common with their difference."""
    text = "def f(a: Tensor[N, N, f32], d: Tensor[N, f32]): return trace(a - diag(d)), trace(a - 3e4 * eye(N))\n"
    small = np.linspace(0.0, 1.0, 200, dtype="f4")
    d = np.float32(3e4) + small
    first, second = tessera.compile(text).f(np.diag(d), np.full(200, 3e4, "f4"))
    exact = np.sum(d.astype("f8") - np.float32(3e4))
    np.testing.assert_allclose([first, second], [exact, exact], rtol=1e-6)
