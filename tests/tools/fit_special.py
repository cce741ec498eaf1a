"""Fits the tables of `stdlib/math/special_*.tess` that are Chebyshev's polynomials, and prints them.

    python -m tests.tools.fit_special [NAME ...]

Each is the interpolation at Chebyshev's points in 40 digits, cut where the rest is below a quarter of a unit of f64;
the highest comes first, as `_chebyshev` takes them. Two of the elliptic tables are solved for together with those of a
logarithm; that of Lambert's function is a series turned round. The names are those of the library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 40
Function = Callable[[Any], Any]
MOST = 80


def chebyshev(function: Function, most: int = MOST) -> list[Any]:
    """Coefficients on [-1, 1], the lowest first, as far as f64 knows them."""
    angles = [mp.pi * (2 * i + 1) / (2 * most) for i in range(most)]
    values = [function(mp.cos(a)) for a in angles]
    found = [2 * mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angles, strict=True)) / most for k in range(most)]
    found[0] /= 2
    size = min(abs(v) for v in values)
    kept = most
    while mp.fsum(abs(c) for c in found[kept - 1 :]) < size * mp.mpf(2) ** -55:
        kept -= 1
    return found[:kept]


def between(low: float, high: float, function: Function) -> Function:
    """Of what lies between two numbers."""
    return lambda u: function((mp.mpf(low) + high) / 2 + u * (mp.mpf(high) - low) / 2)


def beyond(scale: float, function: Function) -> Function:
    """In 2 scale / x - 1, of all x from scale on."""
    return lambda u: function(2 * mp.mpf(scale) / (1 + u))


def beyond_square(scale: float, function: Function) -> Function:
    """In 2 (scale / x)^2 - 1."""
    return lambda u: function(mp.sqrt(2 / (1 + u)) * scale)


def folded(scale: float, start: float, function: Function) -> Function:
    """In (x - start - scale) / (x - start + scale), of all x from start on."""
    return lambda u: function(start + scale * (1 + u) / (1 - u))


def _waves(x: Any) -> tuple[Any, Any]:
    """The sizes of si and ci along their cosine and sine: f and g of Abramowitz and Stegun, 5.2."""
    e = mp.exp(1j * x) * mp.expint(1, 1j * x)
    return -e.imag, e.real


def _fresnel_waves(x: Any) -> tuple[Any, Any]:
    """The same of Fresnel's integrals: (f, g) with c - 1/2 = f sin - g cos, s - 1/2 = -f cos - g sin."""
    with mp.workdps(60):
        w = mp.erfc(mp.sqrt(mp.pi) / 2 * (1 - 1j) * x) * (1 + 1j) / 2 * mp.exp(-1j * mp.pi / 2 * x * x)
    return w.imag, w.real


def _dawson(x: Any) -> Any:
    with mp.workdps(60 + int(x * x)):
        return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _dawson_rest(x: Any) -> Any:
    """2 x dawsn(x) - 1, times x^2; by its series where that is exact."""
    if x < 15:
        return (2 * x * _dawson(x) - 1) * x * x
    term = total = mp.mpf(1) / 2
    for k in range(1, 120):
        term *= (2 * k + 1) / (2 * x * x)
        total += term
    return total


def _series(function: Function, power: int) -> Function:
    """A function of t by what it is in the 1/power-th power of t, next to 0 too."""
    return lambda t: function(mp.root(t, power) if t > mp.mpf(10) ** -36 else mp.mpf(10) ** (-36 / power))


def _airy_waves(t: Any, slope: int) -> tuple[Any, Any]:
    """What Ai(-t), or its slope, is along the wave that it tends to, and across it; the latter times zeta."""
    zeta = 2 * t ** mp.mpf(1.5) / 3
    c, s = mp.cos(zeta - mp.pi / 4), mp.sin(zeta - mp.pi / 4)
    a, b = mp.airyai(-t, derivative=slope), mp.airybi(-t, derivative=slope)
    size = mp.sqrt(mp.pi) * mp.root(t, 4) ** (-1 if slope else 1)
    if slope:
        return size * (s * a + c * b), size * (s * b - c * a) * zeta
    return size * (c * a - s * b), size * (s * a + c * b) * zeta


def _airy_wave(slope: int, part: int) -> Function:
    """In 2 (125 / t^3) - 1."""
    return lambda u: _airy_waves(5 * mp.cbrt(2 / (1 + u)), slope)[part]


def _airy_tail(slope: int) -> Function:
    """In (zeta - 5 / 3) / (zeta + 1 / 3), from zeta = 2 / 3 on."""

    def tail(u: Any) -> Any:
        zeta = mp.mpf(2) / 3 + (1 + u) / (1 - u)
        x = mp.cbrt((1.5 * zeta) ** 2)
        size = mp.root(x, 4) ** (-1 if slope else 1)
        with mp.workdps(60 + int(min(zeta, 10**4))):
            return mp.airyai(x, derivative=slope) * mp.exp(zeta) * size if zeta < 1000 else _airy_series(zeta, slope)

    return tail


def _growing(slope: int) -> Function:
    """What Bi, or its slope, is beside exp(zeta)."""

    def size(x: Any) -> Any:
        zeta = 2 * x ** mp.mpf(1.5) / 3
        if zeta > 300:
            return 2 * abs(_airy_series(-zeta, slope))
        return mp.airybi(x, derivative=slope) * mp.exp(-zeta) * mp.root(x, 4) ** (-1 if slope else 1)

    return size


def _growing_tail(slope: int) -> Function:
    """In 2 zeta(5) / zeta - 1."""
    return lambda u: _growing(slope)(mp.cbrt((mp.sqrt(125) * 2 / (1 + u)) ** 2))


def _debye(most: int = 10) -> list[list[Any]]:
    """Debye's polynomials u_k from u_1 on, over p^k, in p^2: each is p^2 (1 - p^2) / 2 times the slope of the last, and
    an eighth of the integral of (1 - 5 p^2) times it."""
    found = [[mp.mpf(1)]]
    for k in range(most):
        before = [*found[-1], mp.mpf(0)]
        shares = [c * (mp.mpf(k + 2 * j) / 2 + mp.mpf(1) / (8 * (k + 2 * j + 1))) for j, c in enumerate(before)]
        lost = [c * (mp.mpf(k + 2 * j) / 2 + mp.mpf(5) / (8 * (k + 2 * j + 3))) for j, c in enumerate(before)]
        found.append([share - (lost[j - 1] if j else 0) for j, share in enumerate(shares)])
    return found[1:]


def _airy_series(zeta: Any, slope: int) -> Any:
    total = term = mp.mpf(1)
    for k in range(1, 40):
        term *= -mp.mpf((6 * k - 5) * (6 * k - 1)) / (72 * k * zeta)
        total += term * (mp.mpf(6 * k + 1) / (1 - 6 * k) if slope else 1)
    return total / (2 * mp.sqrt(mp.pi)) * (-1 if slope else 1)


def elliptic(function: Function, terms: int = 12) -> list[Any]:
    """(p, q) with function(m) = p(1 - m) - log(1 - m) q(1 - m): through as many points as there are coefficients, dense
    next to 0. The lowest first."""
    count = 2 * terms
    points = [((1 - mp.cos(mp.pi * (2 * i + 1) / (2 * count))) / 2) ** 2 for i in range(count)]
    rows = [[x**k for k in range(terms)] + [-mp.log(x) * x**k for k in range(terms)] for x in points]
    found = mp.lu_solve(mp.matrix(rows), mp.matrix([function(1 - x) for x in points]))
    return [found[i] for i in range(count)]


def branch(terms: int = 22) -> list[Any]:
    """w + 1 over p, where w exp(w) = x and p^2 / 2 = 1 + e x: with s = w + 1 the square is s^2 times the sum of
    2 (k - 1) / k! s^(k - 2), its root s r(s), and by Lagrange the n-th term that of s^(n - 1) in r^-n / n."""
    square = [2 * mp.mpf(k - 1) / mp.factorial(k) for k in range(2, terms + 2)]
    root, inverse = [mp.mpf(1)], [mp.mpf(1)]
    for i in range(1, terms):
        root.append((square[i] - mp.fsum(root[j] * root[i - j] for j in range(1, i))) / 2)
    for i in range(1, terms):
        inverse.append(-mp.fsum(root[j] * inverse[i - j] for j in range(1, i + 1)))
    found, power = [], inverse
    for n in range(terms):
        found.append(power[n] / (n + 1))
        power = [mp.fsum(power[j] * inverse[i - j] for j in range(i + 1)) for i in range(terms)]
    return found


ELLIPTIC: dict[str, Function] = {
    "_ELLIPTIC_B": lambda m: (mp.ellipe(m) - (1 - m) * mp.ellipk(m)) / m,
    "_ELLIPTIC_D": lambda m: (mp.ellipk(m) - mp.ellipe(m)) / m,
}
"""K = B + D and E = B + (1 - m) D, both of positive terms; the slopes are quotients of them."""
TABLES: dict[str, Function] = {
    "_E1": folded(3.0, 1.0, lambda x: (x + 1) * mp.exp(x) * mp.e1(x)),
    "_EI": between(0, 6, _series(lambda x: (mp.ei(x) - mp.log(x) - mp.euler) / x, 1)),
    "_EI_MIDDLE": lambda u: (lambda x: x * mp.exp(-x) * mp.ei(x))(24 / (2.5 + 1.5 * u)),
    "_EI_FAR": beyond(24, lambda x: x * mp.exp(-x) * mp.ei(x)),
    "_SI": between(0, 64, _series(lambda x: mp.si(x) / x, 2)),
    "_CI": between(0, 64, _series(lambda x: (mp.ci(x) - mp.log(x) - mp.euler) / x**2, 2)),
    "_SI_WAVE": beyond_square(8, lambda x: x * _waves(x)[0]),
    "_CI_WAVE": beyond_square(8, lambda x: x * x * _waves(x)[1]),
    "_FRESNEL_S": between(0, 16, _series(lambda x: mp.fresnels(x) / x**3, 4)),
    "_FRESNEL_C": between(0, 16, _series(lambda x: mp.fresnelc(x) / x, 4)),
    "_FRESNEL_F": lambda u: (lambda x: x * _fresnel_waves(x)[0])(2 * mp.root(2 / (1 + u), 4)),
    "_FRESNEL_G": lambda u: (lambda x: x**3 * _fresnel_waves(x)[1])(2 * mp.root(2 / (1 + u), 4)),
    "_DAWSON": between(0, 6.25, _series(lambda x: _dawson(x) / x, 2)),
    "_DAWSON_MIDDLE": lambda u: _dawson_rest(mp.sqrt(25 / (2.5 + 1.5 * u))),
    "_DAWSON_FAR": beyond_square(5, _dawson_rest),
    "_AI": between(-5, 1, mp.airyai),
    "_AI_SLOPE": between(-5, 1, lambda x: mp.airyai(x, derivative=1)),
    "_AI_TAIL": _airy_tail(0),
    "_AI_SLOPE_TAIL": _airy_tail(1),
    "_AI_COSINE": _airy_wave(0, 0),
    "_AI_SINE": _airy_wave(0, 1),
    "_AI_SLOPE_SINE": _airy_wave(1, 0),
    "_AI_SLOPE_COSINE": _airy_wave(1, 1),
    "_BI": between(-5, 1, mp.airybi),
    "_BI_SLOPE": between(-5, 1, lambda x: mp.airybi(x, derivative=1)),
    "_BI_MIDDLE": between(1, 5, _growing(0)),
    "_BI_SLOPE_MIDDLE": between(1, 5, _growing(1)),
    "_BI_TAIL": _growing_tail(0),
    "_BI_SLOPE_TAIL": _growing_tail(1),
}


def main() -> None:
    for name in sys.argv[1:] or [*TABLES, *ELLIPTIC, "_BRANCH", "_DEBYE"]:
        if name in TABLES:
            show(name, chebyshev(TABLES[name]))
            continue
        if name == "_BRANCH":
            show(name, branch())
            continue
        if name == "_DEBYE":
            for polynomial in _debye():
                show(name, polynomial)
            continue
        with mp.workdps(80):
            found = elliptic(ELLIPTIC[name])
        show(name, found[: len(found) // 2])
        show(f"{name}_LOG", found[len(found) // 2 :])


def show(name: str, found: list[Any]) -> None:
    print(f"{name} = (")
    print("".join(f"    {float(c)!r},\n" for c in reversed(found)) + ")\n")


if __name__ == "__main__":
    main()
