"""Every form of a library function for matrices of a structure (`@form_of(solve, "update")`) goes by an equation. Both
sides are evaluated on random matrices over a finite field, where they are equal exactly or not at all; equations that
are false must be refuted by the same test. That the library computes what the equation says, in floating point, is the
test of `test_linear_algebra.py`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tesserac.base.resources import stdlib_files
from tests.graph.test_laws import conjugated, identity, inverse, lower, on_diagonal, orthonormal
from tests.support.field import Number, random_numbers
from tests.support.folding import folded

N, M, P, K, R = 4, 2, 3, 2, 3
TURNS = 3


def quotient(x: Any, y: Any) -> Any:
    reciprocals = np.array(y, object)
    for place in np.ndindex(reciprocals.shape):
        reciprocals[place] = reciprocals[place].power((2**31 - 1) ** 2 - 2)
    return (reciprocals if reciprocals.shape else reciprocals[()]) * x


def det(a: Any, beside: Any = None) -> Any:
    """By elimination, with a right side beside the matrix or without."""
    rows = a.copy() if beside is None else np.concatenate([a, beside], axis=1)
    found = Number(1)
    for k in range(len(a)):
        pivot = next(i for i in range(k, len(a)) if rows[i, k] != Number(0))
        if pivot != k:
            rows[[k, pivot]], found = rows[[pivot, k]], -found
        found = found * rows[k, k]
        for i in range(k + 1, len(a)):
            rows[i] = rows[i] - rows[k] * quotient(rows[i, k], rows[k, k])
    return found


def solve(a: Any, b: Any) -> Any:
    return np.dot(inverse(a), b)


def substituted(a: Any, b: Any) -> Any:
    """A lower triangular system, from its first row on."""
    found: list[Any] = []
    for i, right in enumerate(b):
        left = sum((a[i, j] * x for j, x in enumerate(found)), Number(0))
        found.append(quotient(right - left, a[i, i]))
    return np.array(found, object)


def tril(a: Any) -> Any:
    return lower(a, lambda i, j: j <= i)


def power(x: Any, exponent: int) -> Any:
    return x.power(exponent)


def product(d: Any) -> Any:
    return np.prod(d)


WORDS: dict[str, Any] = {
    "quotient": quotient, "det": det, "inv": inverse, "solve": solve, "substituted": substituted, "tril": tril,
    "triu": lambda a: tril(a.T).T, "diag": on_diagonal, "kron": np.kron, "outer": np.outer, "dot": np.dot,
    "diagonal": np.diagonal, "product": product, "power": power, "sum": np.sum, "one": identity((K, K)), "I": Number(1),
    "H": lambda a: conjugated(a).T, "conj": conjugated, "flip": lambda a: a[::-1, ::-1], "M": M, "P": P,
    "grid": lambda x: x.reshape(M, P), "flat": np.ravel, "together": lambda x, y: np.column_stack([x, y]),
    "eye": identity((N, N)), "N": N,
}  # fmt: skip
SHAPES = {
    "A": (N, N), "B": (N, N), "Y": (N, R), "X": (R, K), "Z": (N, K), "x": (N,), "d": (N,), "u": (N,), "v": (N,),
    "V": (N, K), "W": (K, N), "F": (M, M), "G": (P, P), "z": (M * P,), "b": (N, 1),
}  # fmt: skip
NUMERIC = {("expm", "diagonal"), ("solve", "positive"), ("slogdet", "positive")}
"""What has exponentials and roots, which the field has not."""
WOODBURY = "quotient(x - dot(V, solve(one + dot(W, quotient(V, d[:, None])), dot(W, quotient(x, d)))), d)"
INNER = "solve(one + dot(W, quotient(V, d[:, None])), dot(W, quotient(eye, d[:, None])))"
INVERSE_UPDATE = f"quotient(eye - dot(V, {INNER}), d[:, None])"
INVERSE_RANK_ONE = (
    "diag(quotient(I, d)) - outer(quotient(u, d), quotient(v, d)) * quotient(I, I + dot(v, quotient(u, d)))"
)
SHERMAN = "quotient(x, d) - quotient(u, d) * quotient(dot(v, quotient(x, d)), I + dot(v, quotient(u, d)))"
DET_UPDATE = ("det(diag(d) + dot(V, W))", "product(d) * det(one + dot(W, quotient(V, d[:, None])))")
DET_KRON = ("det(kron(F, G))", "power(det(F), P) * power(det(G), M)")
EQUATIONS: dict[tuple[str, str], tuple[str, str]] = {
    ("solve", "diagonal"): ("solve(diag(d), x)", "quotient(x, d)"),
    ("inv", "diagonal"): ("inv(diag(d))", "diag(quotient(I, d))"),
    ("det", "diagonal"): ("det(diag(d))", "product(d)"),
    ("slogdet", "diagonal"): ("det(diag(d))", "product(d)"),
    ("norm", "diagonal"): ("sum(diag(d) * conj(diag(d)))", "sum(d * conj(d))"),
    ("norm", "outer"): ("sum(outer(u, v) * conj(outer(u, v)))", "sum(u * conj(u)) * sum(v * conj(v))"),
    ("norm", "kronecker"): ("sum(kron(F, G) * conj(kron(F, G)))", "sum(F * conj(F)) * sum(G * conj(G))"),
    ("norm", "gram"): ("sum(dot(V, H(V)) * conj(dot(V, H(V))))", "sum(dot(H(V), V) * conj(dot(H(V), V)))"),
    ("norm", "factors"): ("sum(dot(V, W) * dot(V, W))", "sum(dot(V.T, V) * dot(W, W.T))"),
    ("inv", "update"): ("inv(diag(d) + dot(V, W))", INVERSE_UPDATE),
    ("inv", "rank one"): ("inv(diag(d) + outer(u, v))", INVERSE_RANK_ONE),
    ("solve", "lower"): ("solve(tril(A), x)", "substituted(A, x)"),
    ("solve", "upper"): ("solve(triu(A), x)", "substituted(flip(A), x[::-1])[::-1]"),
    ("det", "lower"): ("det(tril(A))", "product(diagonal(A))"),
    ("det", "upper"): ("det(triu(A))", "product(diagonal(A))"),
    ("slogdet", "lower"): ("det(tril(A))", "product(diagonal(A))"),
    ("slogdet", "upper"): ("det(triu(A))", "product(diagonal(A))"),
    ("solve", "kronecker"): ("solve(kron(F, G), z)", "flat(solve(G, solve(F, grid(z)).T).T)"),
    ("inv", "kronecker"): ("inv(kron(F, G))", "kron(inv(F), inv(G))"),
    ("det", "kronecker"): DET_KRON,
    ("slogdet", "kronecker"): DET_KRON,
    ("solve", "update"): ("solve(diag(d) + dot(V, W), x)", WOODBURY),
    ("solve", "rank one"): ("solve(diag(d) + outer(u, v), x)", SHERMAN),
    ("det", "update"): DET_UPDATE,
    ("slogdet", "update"): DET_UPDATE,
    ("solve", "product"): ("solve(dot(A, B), x)", "solve(B, solve(A, x))"),
    ("det", "product"): ("det(dot(A, B))", "det(A) * det(B)"),
    ("slogdet", "product"): ("det(dot(A, B))", "det(A) * det(B)"),
    ("solve", "unitary"): ("solve(U, x)", "dot(H(U), x)"),
    ("inv", "unitary"): ("inv(U)", "H(U)"),
    ("inv", "applied"): ("dot(inv(A), Y)", "solve(A, Y)"),
    ("inv", "turned"): ("dot(inv(A).T, Y)", "solve(A.T, Y)"),
    ("solve", "applied"): ("dot(solve(A, Y), X)", "solve(A, dot(Y, X))"),
    ("solve", "turned"): ("dot(solve(A, Y).T, Z)", "dot(Y.T, solve(A.T, Z))"),
    ("inv", "inverse"): ("inv(inv(A))", "A"),
    ("solve", "inverse"): ("solve(inv(A), x)", "dot(A, x)"),
    ("det", "inverse"): ("det(inv(A))", "quotient(I, det(A))"),
    ("slogdet", "inverse"): ("det(inv(A))", "quotient(I, det(A))"),
    ("solve", "together"): ("solve(A, x)", "solve(A, together(x, Y))[:, 0]"),
    ("inv", "together"): ("inv(A)", "solve(A, together(eye, Y))[:, :N]"),
    ("det", "beside"): ("det(A)", "det(A, b)"),
    ("slogdet", "beside"): ("det(A)", "det(A, b)"),
}
FALSE_EQUATIONS = {
    "factors exchanged": ("solve(dot(A, B), x)", "solve(A, solve(B, x))"),
    "a solution applied too late": ("dot(solve(A, B), x)", "dot(B, solve(A, x))"),
    "a transpose forgotten": ("dot(solve(A, Y).T, Z)", "dot(Y.T, solve(A, Z))"),
    "an inverse for a matrix": ("solve(inv(A), x)", "solve(A, x)"),
    "a determinant for its reciprocal": ("det(inv(A))", "det(A)"),
    "sizes exchanged": ("det(kron(F, G))", "power(det(F), M) * power(det(G), P)"),
    "factors beside the wrong ones": ("sum(dot(V, W) * dot(V, W))", "sum(dot(H(V), V) * dot(W, W.T))"),
    "no core": ("solve(diag(d) + outer(u, v), x)", "quotient(x, d) - quotient(u, d) * dot(v, quotient(x, d))"),
    "column and row exchanged": ("solve(diag(d) + outer(v, u), x)", SHERMAN),
    "a transpose for an adjoint": ("inv(U)", "U.T"),
    "a triangle for a matrix": ("solve(A, x)", "substituted(A, x)"),
    "a column of another system": ("solve(A, x)", "solve(A, together(x, Y))[:, 1]"),
    "signs of exchanges forgotten": ("det(A[[1, 0, 2, 3]])", "det(A)"),
}


def holds(left: str, right: str) -> bool:
    for seed in range(TURNS):
        rng = np.random.default_rng(seed)
        values = {name: random_numbers(rng, shape) for name, shape in SHAPES.items()}
        values["U"] = orthonormal(rng, N, False)
        one, two = (eval(side, {**WORDS, **values}) for side in (left, right))
        if np.shape(one) != np.shape(two) or not np.all(np.asarray(one == two)):
            return False
    return True


@folded("form", list(EQUATIONS), ids=" ".join)
def test_the_equation_of_a_form_holds_over_a_finite_field(form: tuple[str, str]) -> None:
    assert holds(*EQUATIONS[form])


@folded("name", list(FALSE_EQUATIONS))
def test_a_false_equation_is_refuted(name: str) -> None:
    assert not holds(*FALSE_EQUATIONS[name])


def test_every_form_of_the_library_has_its_equation() -> None:
    written = re.compile(r'^@form_of\((\w+), "([\w ]+)"\)', re.MULTILINE)
    forms = {pair for text in stdlib_files().values() for pair in written.findall(text)}
    assert forms == {*EQUATIONS, *NUMERIC}
