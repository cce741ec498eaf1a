"""Iterative methods as operations on every kind of operator, alone, mapped and differentiated.

Those of systems ask for tolerance 1e-5: their bounds are of f32 and c64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import linalg as la

from tests.support.operator_kinds import adjoint, exponential
from tests.support.operator_sweep import Operation, _cond, _norm

_REGULAR, _SYSTEM = ("regular",), ("square", "regular")


def _gram(m: Any) -> Any:
    return adjoint(m) @ m


def _cond_of_gram(m: Any) -> float:
    return 2 * _cond(m) ** 2


def _two_conds(m: Any) -> float:
    return 2 * _cond(m)


def _largest(m: Any, z: Any) -> Any:
    return la.eigvalsh((m + adjoint(m)) / 2)[::-1][:2]


def _slope(m: Any, z: Any) -> Any:
    """Of |A^-1 x|^2 by x, both real."""
    return 2 * la.solve(m.T, la.solve(m, z.x))


METHODS: dict[str, Operation] = {
    "cg": Operation("cg(A.H ∘ A, x)[0]", lambda m, z: la.solve(_gram(m), z.x), _SYSTEM, _cond_of_gram),
    "gmres": Operation("gmres(A, x)[0]", lambda m, z: la.solve(m, z.x), _SYSTEM, _two_conds),
    "lsqr": Operation("lsqr(A, y)[0]", lambda m, z: la.pinv(m) @ z.y, _REGULAR, _cond_of_gram),
    "lanczos": Operation("lanczos(sym(A), count=2)[0]", _largest, ("square",), lambda m: 20 * _norm(m)),
    "power_iteration": Operation(
        "power_iteration(A.H ∘ A, tolerance=1e-3, max_steps=9000, dtype=x.dtype)[0]",
        lambda m, z: la.norm(m, 2) ** 2, _REGULAR, lambda m: 200.0,
    ),
    "expm_action": Operation(
        "expm_action(A, x, 0.3)[0]", lambda m, z: exponential(0.3 * m) @ z.x, ("square",), lambda m: 20 * _norm(m)
    ),
    "randomized_svd": Operation(
        "randomized_svd(A, 2, 4, 8, dtype=x.dtype)[1]", lambda m, z: la.svd(m)[1][:2], _REGULAR, _norm
    ),
    "cg, mapped": Operation(
        "vmap(lambda w: cg(A.H ∘ A, w)[0], in_axes=1, out_axes=1)(X)",
        lambda m, z: la.solve(_gram(m), z.X), _SYSTEM, _cond_of_gram,
    ),
    "gmres, mapped": Operation(
        "vmap(lambda w: gmres(A, w)[0], in_axes=1, out_axes=1)(X)", lambda m, z: la.solve(m, z.X), _SYSTEM, _two_conds
    ),
    "lsqr, mapped": Operation(
        "vmap(lambda w: lsqr(A, w)[0])(stack([y, 2.0 * y]))",
        lambda m, z: np.stack([la.pinv(m) @ z.y, 2 * la.pinv(m) @ z.y]), _REGULAR, _cond_of_gram,
    ),
    "expm_action, mapped": Operation(
        "vmap(lambda w: expm_action(A, w, 0.3)[0], in_axes=1, out_axes=1)(X)",
        lambda m, z: exponential(0.3 * m) @ z.X, ("square",), lambda m: 20 * _norm(m),
    ),
    "gmres, slope": Operation(
        "grad(lambda w: sum(gmres(A, w)[0] ** 2))(x)", _slope, ("real", *_SYSTEM), _cond_of_gram
    ),
    "expm_action, slope": Operation(
        "grad(lambda w: sum(expm_action(A, w, 0.3)[0]))(x)",
        lambda m, z: exponential(0.3 * m).sum(0), ("real", "square"), lambda m: 40 * _norm(m),
    ),
}  # fmt: skip
