"""Iterative methods as operations on every kind of operator, alone, mapped and differentiated.

Their tolerance is 1e-5 or more, in every type: their bounds are those of f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import linalg as la

from tests.support.operator_kinds import adjoint, exponential
from tests.support.operator_sweep import Operation, _cond, _norm

_REGULAR, _SYSTEM, _NORMAL = ("regular",), ("square", "regular"), ("independent columns",)
_STRETCHED = "power_iteration({} * (A.H ∘ A), tolerance=1e-3, max_steps=9000, dtype=x.dtype)[0]"
_LARGEST = "lanczos({} * sym(A), count=2, dtype=x.dtype)[0]"
_FOUND = "randomized_svd({} * A, 2, 4, 8, dtype=x.dtype)[1]"
_FACTORS = "cast(arange(1, 3), abs(x).dtype)"


def _gram(m: Any) -> Any:
    return adjoint(m) @ m


def _cond_of_gram(m: Any) -> float:
    return 2 * _cond(m) ** 2


def _two_conds(m: Any) -> float:
    return 2 * _cond(m)


def _largest(m: Any, z: Any) -> Any:
    return la.eigvalsh((m + adjoint(m)) / 2)[::-1][:2]


def _squared_norm(m: Any, z: Any) -> Any:
    return la.norm(m, 2) ** 2


def _two_values(m: Any, z: Any) -> Any:
    return la.svd(m)[1][:2]


def _twice(expected: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Of an operator and of its double."""
    return lambda m, z: np.multiply.outer([1.0, 2.0], expected(m, z))


def _summed(expected: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """By a factor in front of the operator, of which the numbers are multiples."""
    return lambda m, z: np.sum(expected(m, z))


def _slope(m: Any, z: Any) -> Any:
    """Of |A^-1 x|^2 by x, both real."""
    return 2 * la.solve(m.T, la.solve(m, z.x))


_METHODS = {
    "cg": Operation("cg(A.H ∘ A, x)[0]", lambda m, z: la.solve(_gram(m), z.x), _NORMAL, _cond_of_gram),
    "gmres": Operation("gmres(A, x)[0]", lambda m, z: la.solve(m, z.x), _SYSTEM, _two_conds),
    "lsqr": Operation("lsqr(A, y)[0]", lambda m, z: la.pinv(m) @ z.y, _REGULAR, _cond_of_gram),
    "lanczos": Operation("lanczos(sym(A), count=2)[0]", _largest, ("square",), lambda m: 20 * _norm(m)),
    "power_iteration": Operation(
        "power_iteration(A.H ∘ A, tolerance=1e-3, max_steps=9000)[0]", _squared_norm, _REGULAR, lambda m: 200.0
    ),
    "expm_action": Operation(
        "expm_action(A, x, 0.3)[0]", lambda m, z: exponential(0.3 * m) @ z.x, ("square",), lambda m: 20 * _norm(m)
    ),
    "randomized_svd": Operation(
        "randomized_svd(A, 2, 4, 8)[1]", _two_values, _REGULAR, _norm
    ),
    "cg, mapped": Operation(
        "vmap(lambda w: cg(A.H ∘ A, w)[0], in_axes=1, out_axes=1)(X)",
        lambda m, z: la.solve(_gram(m), z.X), _NORMAL, _cond_of_gram,
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
        lambda m, z: exponential(0.3 * m).sum(0), ("real", "square"), lambda m: 40 * _norm(m), when_short="E0933",
    ),
    "lanczos, mapped": Operation(
        f"vmap(lambda w: {_LARGEST.format('w')})({_FACTORS})", _twice(_largest), ("square",), lambda m: 20 * _norm(m)
    ),
    "lanczos, slope": Operation(
        f"grad(lambda w: sum({_LARGEST.format('w')}))(2.0 * abs(x[0]))", _summed(_largest), ("square",),
        lambda m: 40 * _norm(m),
    ),
    "power_iteration, mapped": Operation(
        f"vmap(lambda w: {_STRETCHED.format('w')})({_FACTORS})", _twice(_squared_norm), _REGULAR, lambda m: 200.0
    ),
    "power_iteration, slope": Operation(
        f"grad(lambda w: real({_STRETCHED.format('w')}))(2.0 * abs(x[0]))", _squared_norm, _REGULAR, lambda m: 2000.0
    ),
    "randomized_svd, mapped": Operation(
        f"vmap(lambda w: {_FOUND.format('w')})({_FACTORS})", _twice(_two_values), _REGULAR, _norm
    ),
    "randomized_svd, slope": Operation(
        f"grad(lambda w: sum({_FOUND.format('w')}))(2.0 * abs(x[0]))", _summed(_two_values), _REGULAR, _norm
    ),
}  # fmt: skip
METHODS = {name: replace(method, spacing=float(np.finfo("f4").eps)) for name, method in _METHODS.items()}
