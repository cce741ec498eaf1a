"""Fits the polynomials and quotients of `tesserac/numerics/` and prints `tesserac/numerics/coefficients.py`.

    python tests/tools/fit_elementary.py > tesserac/numerics/coefficients.py

Each fit minimises the largest weighted error by Remez exchange in 60 digits and then rounds the coefficients to the
dtype. The error printed beside a fit is that of the rounded coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    dtype: str
    function: Function
    weight: Function
    low: mp.mpf
    high: mp.mpf
    terms: int


GRID = 400


def remez(fit: Fit) -> list[mp.mpf]:
    """The coefficients with the smallest largest error."""
    terms = fit.terms
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


@dataclass(frozen=True)
class Quotient:
    """`function(x)` on [0, high] by a polynomial of `terms` coefficients over one of a term more that starts with 1."""

    name: str
    dtype: str
    function: Function
    high: mp.mpf
    terms: int
    centre: mp.mpf
    """Half of the points of a fit lie below: the functions bend near 0 and are smooth far out."""

    def points(self, count: int) -> list[mp.mpf]:
        """From 0 to `high`: Chebyshev's, in (x - centre) / (x + centre)."""
        low, top = mp.mpf(-1), (self.high - self.centre) / (self.high + self.centre)
        places = ((low + top) / 2 - (top - low) / 2 * mp.cos(mp.pi * i / (count - 1)) for i in range(count))
        return [self.centre * (1 + q) / (1 - q) for q in places]


def fit_quotient(fit: Quotient) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Remez exchange for the relative error; it ends where rounding hides the alternation."""
    count = 2 * fit.terms + 1
    points, grid = fit.points(count), fit.points(GRID + 1)
    level = mp.mpf(0)
    for _ in range(10):
        above, below, level = levelled_quotient(fit, points, level)
        found = [horner(above, x) / horner(below, x) / fit.function(x) - 1 for x in grid]
        try:
            points = alternating_extrema(grid, found, count)
        except ValueError:
            break
    return above, below


def levelled_quotient(
    fit: Quotient, points: list[mp.mpf], level: mp.mpf
) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """The quotient whose relative error is equal and alternating at the points: a linear system per guess of it."""
    terms, count = fit.terms, len(points)
    for _ in range(6):
        matrix, right = mp.zeros(count), mp.ones(count, 1)
        for row, x in enumerate(points):
            sign = (-1) ** row
            for power in range(terms):
                matrix[row, power] = x**power / fit.function(x)
                matrix[row, terms + power] = -(1 + sign * level) * x ** (power + 1)
            matrix[row, count - 1] = -sign
        solution = list(mp.lu_solve(matrix, right))
        level = solution[-1]
    return solution[:terms], [mp.mpf(1), *solution[terms:-1]], level


def quotient_rounded(fit: Quotient) -> tuple[list[float], list[float], float]:
    """Both polynomials in the dtype, and the base-2 logarithm of their largest relative error. The one above is fitted
    again to what the one below was rounded to, and exact at 0."""
    below = [round_to(c, fit.dtype) for c in fit_quotient(fit)[1]]
    product = cache(lambda x: fit.function(x) * horner(below, x))
    start = fit.function(mp.mpf(0))
    slope = cache(lambda x: (product(x) - start) / x)
    again = Fit(fit.name, fit.dtype, slope, lambda x: x / product(x), mp.mpf(2) ** -6, fit.high, fit.terms - 1)
    above = [round_to(c, fit.dtype) for c in (start, *remez(again))]
    error = max(abs(horner(above, x) / product(x) - 1) for x in fit.points(GRID + 1))
    return above, below, float(mp.log(error, 2))


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


def fit_rounded(fit: Fit) -> tuple[list[float], float]:
    """Coefficients of the dtype, and the base-2 logarithm of their largest weighted error."""
    rounded = [round_to(c, fit.dtype) for c in remez(fit)]
    grid = [fit.low + (fit.high - fit.low) * i / GRID for i in range(GRID + 1)]
    return rounded, float(mp.log(max(map(abs, errors(fit, rounded, grid))), 2))


def round_to(x: mp.mpf, dtype: str) -> float:
    """The nearest value of the dtype; twice rounded, as f64 first, it would differ only on a tie."""
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


@cache
def exp2_tail(r: mp.mpf) -> mp.mpf:
    """(2**r - 1 - r ln2) / r**2"""
    return mp.log(2) ** 2 * exp_tail(r * mp.log(2))


@cache
def log2_tail(z: mp.mpf) -> mp.mpf:
    """What is left of log2((1+s)/(1-s)) / s behind its first two terms, over z**2, with z = s**2"""
    return 2 / mp.log(2) * mp.fsum(z**k / (2 * k + 5) for k in range(60))


@cache
def sin_tail(z: mp.mpf) -> mp.mpf:
    """(sin(x) - x) / x**3 with z = x**2"""
    return mp.fsum((-1) ** (k + 1) * z**k / mp.factorial(2 * k + 3) for k in range(30))


def sin_weight(z: mp.mpf) -> mp.mpf:
    x = mp.sqrt(z)
    return mp.mpf(0.001) + z * x / mp.sin(x) if z > 0 else mp.mpf(0.001)


@cache
def cos_tail(z: mp.mpf) -> mp.mpf:
    """(cos(x) - 1 + z / 2) / z**2 with z = x**2"""
    return mp.fsum((-1) ** k * z**k / mp.factorial(2 * k + 4) for k in range(30))


@cache
def atan_tail(z: mp.mpf) -> mp.mpf:
    """(atan(x) - x) / x**3 with z = x**2"""
    x = mp.sqrt(z)
    return -mp.mpf(1) / 3 if z < mp.mpf(10) ** -20 else (mp.atan(x) - x) / (x * z)


def atan_weight(z: mp.mpf) -> mp.mpf:
    x = mp.sqrt(z)
    return mp.mpf(0.001) + z * x / mp.atan(x) if z > 0 else mp.mpf(0.001)


@cache
def erf_near(z: mp.mpf) -> mp.mpf:
    """erf(x) / x - 1 with z = x**2"""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z > mp.mpf(10) ** -20 else 2 / mp.sqrt(mp.pi) - 1


@cache
def erf_far(x: mp.mpf) -> mp.mpf:
    """-log(1 - erf(x)) / x - 1"""
    return -mp.log(mp.erfc(x)) / x - 1


def scaled_erfc(x: mp.mpf) -> mp.mpf:
    """exp(x**2) erfc(x)"""
    return mp.exp(x * x) * mp.erfc(x)


def scaled_ndtr(x: mp.mpf) -> mp.mpf:
    """exp(x**2 / 2) times the normal distribution at -x"""
    return scaled_erfc(x / mp.sqrt(2)) / 2


def erf_far_weight(x: mp.mpf) -> mp.mpf:
    return x * mp.erfc(x) / mp.erf(x)


def both(name: str, function: Function, weight: Function, low: object, high: object, *terms: int) -> tuple[Fit, Fit]:
    """The same function and interval for f32 and f64, with their numbers of terms."""
    ends = mp.mpf(low), mp.mpf(high)
    return Fit(name, "f32", function, weight, *ends, terms[0]), Fit(name, "f64", function, weight, *ends, terms[1])


LOG_LIMIT = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
FITS = (
    # A little beyond ln2 / 2, 1/2 and pi / 4: rounding moves the boundary between two exponents or two quadrants.
    *both("exp", exp_tail, lambda r: r**2 / mp.exp(r) + mp.mpf(1e-4), -0.35, 0.35, 5, 11),
    *both("exp2", exp2_tail, lambda r: r**2 / 2**r + mp.mpf(1e-4), -0.501, 0.501, 5, 11),
    *both("log", log_tail, lambda z: z + mp.mpf(1e-3), 0, LOG_LIMIT, 3, 7),
    *both("log2", log2_tail, lambda z: z**2 + mp.mpf(1e-5), 0, LOG_LIMIT, 3, 8),
    *both("tanh", tanh_tail, tanh_weight, 0, mp.mpf(0.359375) ** 2, 4, 10),
    *both("sin", sin_tail, sin_weight, 0, mp.mpf(0.79) ** 2, 3, 6),
    *both("cos", cos_tail, lambda z: z**2 + mp.mpf(1e-3), 0, mp.mpf(0.79) ** 2, 3, 6),
    *both("erf_near", erf_near, lambda z: mp.mpf(1), 0, mp.mpf(0.875) ** 2, 6, 12),
    Fit("erf_far", "f32", erf_far, erf_far_weight, mp.mpf(0.875), mp.mpf(4), 6),
    Fit("erf_far", "f64", erf_far, erf_far_weight, mp.mpf(0.875), mp.mpf(6), 20),
    *both("atan", atan_tail, atan_weight, 0, 1, 10, 22),
)

QUOTIENTS = (
    Quotient("erfc", "f32", scaled_erfc, mp.mpf("10.1875"), 5, mp.mpf("1.77")),
    Quotient("erfc", "f64", scaled_erfc, mp.mpf("27.375"), 11, mp.mpf("1.77")),
    Quotient("ndtr", "f32", scaled_ndtr, mp.mpf("14.5"), 5, mp.mpf("2.5")),
    Quotient("ndtr", "f64", scaled_ndtr, mp.mpf("38.75"), 11, mp.mpf("2.5")),
)

CONSTANTS = {
    "ln2": (mp.log(2), 2),
    "log2e": (1 / mp.log(2), 2),
    "two_log2e": (2 / mp.log(2), 2),
    "third_of_two_log2e": (2 / (3 * mp.log(2)), 2),
    "log10e": (1 / mp.log(10), 2),
    "log10_2": (mp.log10(2), 2),
    "half_pi": (mp.pi / 2, 3),
    "two_over_pi": (2 / mp.pi, 1),
}
"""Numbers as unevaluated sums of so many values of a dtype."""

PIECES = {"f32": (24, 8), "f64": (53, 22)}
"""The length in bits and the number of the pieces of 2/pi, enough for the largest exponent."""


def constant_parts(name: str, dtype: str) -> list[float]:
    rest, count = CONSTANTS[name]
    found: list[float] = []
    for _ in range(count):
        found.append(round_to(rest, dtype))
        rest -= found[-1]
    return found


def two_over_pi_pieces(dtype: str) -> list[float]:
    """Consecutive bits of 2/pi, each piece a fraction below 1."""
    bits, count = PIECES[dtype]
    with mp.workprec(bits * (count + 2)):
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (bits * count)))
    return [float(digits >> (bits * (count - 1 - i)) & ((1 << bits) - 1)) * 2.0**-bits for i in range(count)]


def rows() -> Iterator[tuple[str, str, list[float], str]]:
    """Name, dtype, values and a remark, in the order of the file."""
    for fit in FITS:
        coefficients, error = fit_rounded(fit)
        yield fit.name, fit.dtype, coefficients, f"  # weighted error 2**{error:.1f}"
    for quotient in QUOTIENTS:
        above, below, error = quotient_rounded(quotient)
        remark = f"  # over {quotient.name}_below: relative error 2**{error:.1f}"
        yield f"{quotient.name}_above", quotient.dtype, above, remark
        yield f"{quotient.name}_below", quotient.dtype, below, ""
    for dtype in ("f32", "f64"):
        for name in CONSTANTS:
            yield name, dtype, constant_parts(name, dtype), ""
        yield "two_over_pi_pieces", dtype, two_over_pi_pieces(dtype), ""


def main() -> None:
    print('"""Coefficients of polynomials, lowest degree first, and parts of constants, largest first.')
    print('\nMade by `tests/tools/fit_elementary.py`.\n"""\n')
    print("TABLE: dict[tuple[str, str], tuple[float, ...]] = {")
    for name, dtype, values, remark in rows():
        key = f'    ("{name}", "{dtype}"): ('
        lines = "".join(f"        {value!r},\n" for value in values)
        print(f"{key}{values[0]!r},)," if len(values) == 1 else f"{key}{remark}\n{lines}    ),")
    print("}")


if __name__ == "__main__":
    main()
