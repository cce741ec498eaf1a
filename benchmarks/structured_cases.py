"""Programs over operators of known structure: in our language, and the same in each library that has them.

Inputs are made by name, so that every library has the same numbers; `linalg_` names are those of NumPy's linalg.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

LIBRARIES = ("tessera", "by hand", "numpy", "torch", "jax", "cola", "linear_operator", "pylops")


@dataclass(frozen=True)
class Case:
    """`ours` is as a program writes it, `hand` the form that an expert writes in the same language. `theirs` are the
    expressions of libraries, in which A is the operator that `made` makes."""

    name: str
    inputs: dict[str, tuple[int, ...]]
    ours: str
    hand: str = ""
    theirs: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    dtype: str = "f4"
    reference: str = ""
    """What NumPy computes in f64, for a figure of the error."""


def inputs_of(case: Case) -> dict[str, Any]:
    """The numbers: `a` and `b` are symmetric and positive where they are square, `d` is positive, so that systems are
    well-conditioned."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, shape in case.inputs.items():
        value = rng.standard_normal(shape)
        if name in "ab" and len(shape) == 2 and shape[0] == shape[1]:
            value = value @ value.T / shape[0] + np.eye(shape[0])
        if name == "d":
            value = abs(value) + 1
        if name == "g":  # a generator whose exponential is of the size of 1
            value = (value - value.T) / shape[0] ** 0.5 if len(shape) == 2 else value
        found[name] = value.astype(case.dtype)
    return found


def _kronecker(n: int) -> Case:
    naive = {"torch": "torch.kron(a, b) @ x", "jax": "jnp.kron(a, b) @ x"} if n < 100 else {}
    return Case(
        f"kron {n}^2 @ x",
        {"a": (n, n), "b": (n, n), "x": (n * n,)},
        "op.kronecker(op.dense(a), op.dense(b)) @ x",
        f"reshape(a @ reshape(x, ({n}, {n})) @ b.T, ({n * n},))",
        {
            "numpy": f"(a @ x.reshape({n}, {n}) @ b.T).ravel()",
            "cola": "A @ x",
            "linear_operator": "A @ x",
            "pylops": "A @ x",
            **naive,
        },
        {
            "cola": "cola.ops.Kronecker(cola.ops.Dense(a), cola.ops.Dense(b))",
            "linear_operator": _KRON["linear_operator"],
            "pylops": "pylops.Kronecker(pylops.MatrixMult(a, dtype=a.dtype), pylops.MatrixMult(b, dtype=a.dtype), "
            "dtype=a.dtype)",
        },
        reference=f"(a @ x.reshape({n}, {n}) @ b.T).ravel()",
    )


_KRON = {
    "cola": "cola.PSD(cola.ops.Kronecker(cola.PSD(cola.ops.Dense(a)), cola.PSD(cola.ops.Dense(b))))",
    "linear_operator": "lo.KroneckerProductLinearOperator(lo.DenseLinearOperator(a), lo.DenseLinearOperator(b))",
}


def _kronecker_systems(n: int) -> list[Case]:
    shapes = {"a": (n, n), "b": (n, n), "y": (n * n,)}
    return [
        Case(
            f"solve(kron {n}^2, y)",
            shapes,
            "solve(op.kronecker(op.dense(a), op.dense(b)), y)",
            f"reshape(solve(b, solve(a, reshape(y, ({n}, {n}))).T).T, ({n * n},))",
            {
                "numpy": f"linalg_solve(b, linalg_solve(a, y.reshape({n}, {n})).T).T.ravel()",
                "torch": "torch.linalg.solve(torch.kron(a, b), y)",
                "jax": "jnp.linalg.solve(jnp.kron(a, b), y)",
                "cola": "cola.inv(A) @ y",
                "linear_operator": "A.solve(y)",
            },
            _KRON,
            reference=f"linalg_solve(b, linalg_solve(a, y.reshape({n}, {n})).T).T.ravel()",
        ),
        Case(
            f"logdet(kron {n}^2)",
            {"a": (n, n), "b": (n, n)},
            "logdet(op.kronecker(op.dense(a), op.dense(b)))",
            f"{n}.0 * slogdet(a)[1] + {n}.0 * slogdet(b)[1]",
            {
                "numpy": f"{n} * (linalg_slogdet(a)[1] + linalg_slogdet(b)[1])",
                "torch": "torch.linalg.slogdet(torch.kron(a, b))[1]",
                "jax": "jnp.linalg.slogdet(jnp.kron(a, b))[1]",
                "cola": "cola.logdet(A)",
                "linear_operator": "A.logdet()",
            },
            _KRON,
            reference=f"{n} * (linalg_slogdet(a)[1] + linalg_slogdet(b)[1])",
        ),
    ]


def _update(n: int, k: int = 8) -> Case:
    hand = f"v / d - (u / d[:, None]) @ solve(eye({k}) + u.T @ (u / d[:, None]), u.T @ (v / d))"
    return Case(
        f"solve(diag + low rank, v), n = {n}, k = {k}",
        {"d": (n,), "u": (n, k), "v": (n,)},
        "solve(op.diag(d) + op.low_rank(u, u), v)",
        hand,
        {
            "numpy": f"v / d - (u / d[:, None]) @ linalg_solve(np.eye({k}, dtype='f4') + u.T @ (u / d[:, None]), "
            "u.T @ (v / d))",
            "torch": "torch.linalg.solve(torch.diag(d) + u @ u.T, v)",
            "jax": "jnp.linalg.solve(jnp.diag(d) + u @ u.T, v)",
            "cola": "cola.inv(cola.PSD(A)) @ v",
            "linear_operator": "A.solve(v)",
        },
        {
            "cola": "cola.ops.Sum(cola.ops.Diagonal(d), cola.ops.Product(cola.ops.Dense(u), cola.ops.Dense(u.T)))",
            "linear_operator": "lo.LowRankRootAddedDiagLinearOperator(lo.LowRankRootLinearOperator(u), "
            "lo.DiagLinearOperator(d))",
        },
        reference="linalg_solve(np.diag(d) + u @ u.T, v)",
    )


def _rings(n: int) -> list[Case]:
    by_transform = {
        "numpy": "np.fft.irfft(np.fft.rfft(c) * np.fft.rfft(x), len(x))",
        "torch": "torch.fft.irfft(torch.fft.rfft(c) * torch.fft.rfft(x), len(x))",
        "jax": "jnp.fft.irfft(jnp.fft.rfft(c) * jnp.fft.rfft(x), len(x))",
    }
    return [
        Case(
            f"circulant @ x, n = {n}",
            {"c": (n,), "x": (n,)},
            "op.circulant(c) @ x",
            f"irfft(rfft(c) * rfft(x), {n})",
            by_transform,
            reference="np.fft.irfft(np.fft.rfft(c) * np.fft.rfft(x), len(x))",
        ),
        Case(
            f"toeplitz @ x, n = {n}",
            {"c": (n,), "x": (n,)},
            "op.toeplitz(c) @ x",
            f"irfft(rfft(concat([c, zeros(1), flip(c[1:])])) * rfft(concat([x, zeros({n})])), {2 * n})[:{n}]",
            theirs={"numpy": "scipy.linalg.matmul_toeplitz(c, x)", "linear_operator": "A @ x"},
            made={"linear_operator": "lo.ToeplitzLinearOperator(c)"},
            reference="scipy.linalg.matmul_toeplitz(c, x)",
        ),
    ]


_CHAINS = (
    (10, 300, 12, 400),
    (200, 15, 350, 30, 400, 25),
    (300, 20, 400, 35, 260, 8, 310, 40, 5),
    (260, 18, 380, 44, 150, 300, 12, 270, 60, 420, 30, 350, 9),
)
"""Sizes between the matrices of products, drawn once."""


def _chain(sizes: tuple[int, ...]) -> Case:
    shapes = {f"m{name}": pair for name, pair in zip("abcdefghijkl", pairwise(sizes), strict=False)}
    product = " @ ".join(shapes)
    listed = ", ".join(shapes)
    return Case(
        f"chain of {len(shapes)} matrices",
        shapes,
        product,
        theirs={
            "numpy": f"np.linalg.multi_dot([{listed}])",
            "torch": f"torch.linalg.multi_dot([{listed}])",
            "jax": product,
            "cola": "A.to_dense()",
        },
        made={"cola": " @ ".join(f"cola.ops.Dense({name})" for name in shapes)},
        reference=f"np.linalg.multi_dot([{listed}])",
    )


def _exponentials() -> list[Case]:
    n = 128
    return [
        Case(
            f"expm(A) @ x, n = {n}, f64",
            {"g": (n, n), "x": (n,)},
            "expm(op.dense(g)) @ x",
            "expm(g) @ x",
            {
                "numpy": "scipy.linalg.expm(g) @ x",
                "torch": "torch.linalg.matrix_exp(g) @ x",
                "jax": "jax.scipy.linalg.expm(g) @ x",
                "cola": "cola.exp(A) @ x",
            },
            {"cola": "cola.ops.Dense(g)"},
            "f8",
            "scipy.linalg.expm(g) @ x",
        ),
        Case(
            "expm(A ⊕ B) @ x, 48 and 48, f64",
            {"a": (48, 48), "b": (48, 48), "x": (48 * 48,)},
            "expm(-0.5 * op.kronecker_sum(op.dense(a), op.dense(b))) @ x",
            "reshape(expm(-0.5 * a) @ reshape(x, (48, 48)) @ expm(-0.5 * b).T, (2304,))",
            {
                "numpy": "(scipy.linalg.expm(-0.5 * a) @ x.reshape(48, 48) @ scipy.linalg.expm(-0.5 * b).T).ravel()",
                "torch": "torch.linalg.matrix_exp(-0.5 * (torch.kron(a, torch.eye(48, dtype=a.dtype)) "
                "+ torch.kron(torch.eye(48, dtype=a.dtype), b))) @ x",
                "cola": "cola.exp(A) @ x",
            },
            {"cola": "cola.ops.KronSum(cola.ops.Dense(-0.5 * a), cola.ops.Dense(-0.5 * b))"},
            "f8",
            "(scipy.linalg.expm(-0.5 * a) @ x.reshape(48, 48) @ scipy.linalg.expm(-0.5 * b).T).ravel()",
        ),
    ]


def _truncated() -> Case:
    return Case(
        "truncated SVD, 2048 x 2048 of rank 32 and noise, 32 values",
        {"u": (2048, 32), "w": (32, 2048), "e": (2048, 2048)},
        "randomized_svd(u @ w + 0.01 * e, 32)[1]",
        theirs={
            "numpy": "scipy.sparse.linalg.svds(u @ w + np.float32(0.01) * e, 32)[1][::-1]",
            "torch": "torch.svd_lowrank(u @ w + 0.01 * e, 32, niter=2)[1]",
        },
        reference="scipy.sparse.linalg.svds(u @ w + 0.01 * e, 32)[1][::-1]",
    )


CASES = (
    *(_kronecker(n) for n in (64, 96, 512)),
    *_kronecker_systems(64),
    *(_update(n) for n in (512, 1001, 2048)),
    *(case for n in (256, 4096, 16384) for case in _rings(n)),
    *map(_chain, _CHAINS),
    *_exponentials(),
    _truncated(),
)
