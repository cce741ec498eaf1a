"""Fits the polynomials of `tesserac/numerics/elementary.py` and prints `tesserac/numerics/coefficients.py`.

    python tests/tools/fit_elementary.py > tesserac/numerics/coefficients.py

Each fit minimises the largest weighted error by Remez exchange in 60 digits and then rounds the coefficients to the
dtype. The error printed beside a fit is that of the rounded coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """`function(x)` on [low, high] by a polynomial of `terms` coefficients; `weight` scales the error."""

    name: str
    function: Function
    weight: Function
    low: mp.mpf
    high: mp.mpf
    terms: dict[str, int]


GRID = 400


def remez(fit: Fit, terms: int) -> list[mp.mpf]:
    """The coefficients with the smallest largest error."""
    middle, radius = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    points = [middle + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * (terms + 1))) for i in range(terms + 1)]
    grid = [middle + radius * mp.cos(mp.pi * i / GRID) for i in range(GRID + 1)]
    for _ in range(8):
        solution = solve_levelled(fit, points, terms)
        points = alternating_extrema(grid, errors(fit, solution, grid), terms + 1)
    return solution


def errors(fit: Fit, coefficients: list[mp.mpf], grid: list[mp.mpf]) -> list[mp.mpf]:
    return [fit.weight(x) * (fit.function(x) - horner(coefficients, x)) for x in grid]


def horner(coefficients: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def solve_levelled(fit: Fit, points: list[mp.mpf], terms: int) -> list[mp.mpf]:
    """The polynomial whose weighted error is equal and alternating at the points."""
    matrix, right = mp.zeros(terms + 1), mp.zeros(terms + 1, 1)
    for row, x in enumerate(points):
        for column in range(terms):
            matrix[row, column] = x**column
        matrix[row, terms] = (-1) ** row / fit.weight(x)
        right[row] = fit.function(x)
    return list(mp.lu_solve(matrix, right))[:terms]


def alternating_extrema(grid: list[mp.mpf], errors: list[mp.mpf], count: int) -> list[mp.mpf]:
    """The largest error of every stretch of one sign; if there are too many, the outer smaller ones go."""
    extrema: list[int] = []
    for i, error in enumerate(errors):
        if extrema and (errors[extrema[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > count:
        extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
    if len(extrema) < count:
        raise ValueError("the error does not alternate often enough: too many terms for this function")
    return [grid[i] for i in extrema]


def fit_rounded(fit: Fit, dtype: str) -> tuple[list[float], float]:
    """Coefficients of the dtype, and the base-2 logarithm of their largest weighted error."""
    rounded = [round_to(c, dtype) for c in remez(fit, fit.terms[dtype])]
    grid = [fit.low + (fit.high - fit.low) * i / GRID for i in range(GRID + 1)]
    return rounded, float(mp.log(max(map(abs, errors(fit, rounded, grid))), 2))


def round_to(x: mp.mpf, dtype: str) -> float:
    return float(np.float32(float(x))) if dtype == "f32" else float(x)


@cache
def exp_tail(r: mp.mpf) -> mp.mpf:
    """(exp(r) - 1 - r) / r**2"""
    return mp.fsum(r**k / mp.factorial(k + 2) for k in range(40))


@cache
def log_tail(z: mp.mpf) -> mp.mpf:
    """(log((1+s)/(1-s)) - 2s) / s**3 with z = s**2: what `elementary` multiplies by s * z"""
    s = mp.sqrt(z)
    return mp.mpf(2) / 3 if z < mp.mpf(10) ** -20 else (2 * mp.atanh(s) - 2 * s) / (s * z)


@cache
def tanh_tail(z: mp.mpf) -> mp.mpf:
    """(tanh(x) - x) / x**3 with z = x**2"""
    x = mp.sqrt(z)
    return -mp.mpf(1) / 3 if z < mp.mpf(10) ** -20 else (mp.tanh(x) - x) / (x * z)


def tanh_weight(z: mp.mpf) -> mp.mpf:
    x = mp.sqrt(z)
    return mp.mpf(0.001) + z * x / mp.tanh(x) if z > 0 else mp.mpf(0.001)


LOG_LIMIT = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
FITS = (
    # A little beyond ln2 / 2: the rounding of x * log2e moves the boundary between two exponents.
    Fit("EXP", exp_tail, lambda r: r**2 / mp.exp(r) + mp.mpf(1e-4), mp.mpf(-0.35), mp.mpf(0.35), {"f32": 5, "f64": 11}),
    Fit("LOG", log_tail, lambda z: z + mp.mpf(1e-3), mp.mpf(0), LOG_LIMIT, {"f32": 3, "f64": 7}),
    Fit("TANH", tanh_tail, tanh_weight, mp.mpf(0), mp.mpf(0.625) ** 2, {"f32": 5, "f64": 13}),
)


def main() -> None:
    print('"""Polynomial coefficients, lowest degree first, made by `tests/tools/fit_elementary.py`."""\n')
    for fit in FITS:
        for dtype in ("f32", "f64"):
            coefficients, error = fit_rounded(fit, dtype)
            print(f"{fit.name}_{dtype.upper()} = (  # weighted error 2**{error:.1f}")
            print("".join(f"    {c!r},\n" for c in coefficients) + ")")


if __name__ == "__main__":
    main()
