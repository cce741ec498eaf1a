"""Systems of one matrix, mapped over their right sides, are one elimination of the columns of all; so are their
derivatives. Where the matrix is mapped too, each has its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.ir.forms import tensor_type
from tests.support.source_support import compile_to_forms

SIZE = 40
ARGS = "a: Tensor[N, N, f64], b: Tensor[N, N, f64], v: Tensor[N, f64]"
ONE = "solve(a, b)"
MAPPED: dict[str, tuple[str, str, str]] = {
    # as it is mapped, what has as many eliminations, and what NumPy computes with g = inv(a)
    "vectors": ("vmap(lambda x: solve(a, x))(b)", ONE, "b @ g.T"),
    "matrices": (
        "vmap(lambda x: solve(a, outer(x, x)))(b)",
        ONE,
        "np.stack([g @ np.outer(x, x) for x in b])",
    ),
    "twice": (
        "vmap(lambda x: vmap(lambda y: solve(a, x * y))(b))(b)",
        ONE,
        "np.stack([[g @ (x * y) for y in b] for x in b])",
    ),
    "an inverse": ("vmap(lambda x: v @ inv(a) @ x)(b)", ONE, "b @ g.T @ v"),
    "triangles": (
        "vmap(lambda x: triangular_solve(a, x))(b)",
        "triangular_solve(a, b)",
        "np.linalg.solve(np.tril(a), b.T).T",
    ),
    "slopes of right sides": (
        "vmap(grad(lambda x: sum(solve(a, x) ** 2)))(b)",
        "grad(lambda x: sum(solve(a, x) ** 2))(b)",
        "2.0 * b @ g.T @ g",
    ),
    "slopes of the matrix": (
        "vmap(lambda x: grad(lambda y: sum(v * solve(y, x)))(a))(b)",
        "grad(lambda y: sum(solve(y, b)))(a)",
        "-np.stack([np.outer(g.T @ v, g @ x) for x in b])",
    ),
    "a slope of all": (
        "grad(lambda y: sum(vmap(lambda x: v * solve(y, x))(b)))(a)",
        "grad(lambda y: sum(solve(y, b)))(a)",
        "-np.outer(g.T @ v, g @ np.sum(b, axis=0))",
    ),
    "bands": (
        "vmap(lambda x: solve(op.banded(b[:3] + 9.0, 1, 1), x))(b)",
        "solve(op.banded(b[:3] + 9.0, 1, 1), b)",
        "np.linalg.solve(np.diag(b[0, 1:] + 9, 1) + np.diag(b[1] + 9) + np.diag(b[2, :-1] + 9, -1), b.T).T",
    ),
    "a Cholesky factor": (
        "vmap(lambda x: solve(a.T @ a + eye(N, dtype=f64), x))(b)",
        "solve(a.T @ a + eye(N, dtype=f64), b)",
        "np.linalg.solve(a.T @ a + np.eye(len(a)), b.T).T",
    ),
    "tangents": (
        "vmap(lambda x: jvp(lambda y: solve(a, y * y), (x,), (v,))[1])(b)",
        "jvp(lambda y: solve(a, y * y), (v,), (v,))[1]",
        "2.0 * (b * v) @ g.T",
    ),
}


def values() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    matrices = {"a": rng.standard_normal((SIZE, SIZE)) + 9 * np.eye(SIZE), "b": rng.standard_normal((SIZE, SIZE))}
    return {**matrices, "v": rng.standard_normal(SIZE)}


def source(text: str) -> str:
    return f"def f({ARGS}): return {text}\n"


def carried(text: str) -> list[int]:
    """The ranks of what each loop of the program carries, the largest of them."""
    loops = [op for op in compile_to_forms(source(text)).walk() if op.name == "form.loop"]
    return [max(tensor_type(value).rank for value in op.results) for op in loops]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", MAPPED)
def test_one_elimination_serves_all(what: str) -> None:
    text, one, reference = MAPPED[what]
    assert carried(text) == carried(one)
    known = values()
    found = np.asarray(tessera.compile(source(text)).f(*known.values()))
    wanted = eval(reference, {"np": np, "g": np.linalg.inv(known["a"]), **known})
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


SYSTEMS = {
    "any": "solve(a, {x})",
    "turned": "solve(a.T, {x})",
    "an inverse": "inv(a) @ {x}",
    "lower": "triangular_solve(a, {x})",
    "upper": "triangular_solve(a, {x}, lower=False)",
    "bands": "solve(op.banded(a[:3] + 9.0, 1, 1), {x})",
    "turned bands": "solve(op.banded(a[:3] + 9.0, 1, 1).T, {x})",
    "positive": "solve(op.dense(conj(a.T) @ a, psd=True), {x})",
    "a factor": "cholesky_solve(a, {x})",
    "slopes": "grad(lambda y: sum(real({x} * solve(a, y))))({x})",
}
"""Of each kind that the library solves column by column."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("what", SYSTEMS)
def test_each_has_the_bits_that_it_has_alone(what: str, dtype: str) -> None:
    """Small systems, which are solved in lanes, and such of several blocks, the last of them narrow."""
    text = SYSTEMS[what]
    module = tessera.compile(
        f"def all(a: Tensor[N, N, {dtype}], b: Tensor[M, N, {dtype}]):\n"
        f"    return vmap(lambda x: {text.format(x='x')})(b)\n"
        f"def one(a: Tensor[N, N, {dtype}], v: Tensor[N, {dtype}]): return {text.format(x='v')}\n"
    )
    for rows, columns in ((5, 3), (5, 70), (40, 7), (100, 1), (100, 33)):
        a, b = _numbers(rows, columns, dtype)
        together = np.asarray(module.all(a, b))
        alone = np.stack([np.asarray(module.one(a, x)) for x in b])
        assert together.dtype == a.dtype and np.isfinite(together).all()
        assert together.tobytes() == alone.tobytes(), (rows, columns)


def _numbers(rows: int, columns: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    kind = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}[dtype]

    def drawn(*shape: int) -> Any:
        imaginary = 1j * rng.standard_normal(shape) if kind[0] == "c" else 0.0
        return (rng.standard_normal(shape) + imaginary).astype(kind)

    return drawn(rows, rows) + np.asarray(9.0 * np.eye(rows), kind), drawn(columns, rows)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "vmap(lambda x: solve(a + diag(x), x))(b)",
        "vmap(lambda x: solve(a, x) if x[0] > 0.0 else x)(b)",
    ],
)
def test_what_differs_between_elements_is_solved_for_each(text: str) -> None:
    known = values()
    a, b = known["a"], known["b"]
    found = np.asarray(tessera.compile(source(text)).f(*known.values()))
    if "diag" in text:
        wanted = [np.linalg.solve(a + np.diag(x), x) for x in b]
    else:
        wanted = [np.linalg.solve(a, x) if x[0] > 0 else x for x in b]
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_is_told_of() -> None:
    known = {**values(), "a": np.zeros((SIZE, SIZE))}
    with pytest.raises(tessera.TesseraError, match="E0933"):
        tessera.compile(source(MAPPED["vectors"][0])).f(*known.values())
