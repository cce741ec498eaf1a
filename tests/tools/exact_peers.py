"""What functions of one number are, by 60 digits of mpmath: the judge where we and a peer differ and the reason is that
the peer loses digits. It knows arguments from 1e-300 to 1e9 in magnitude; others it leaves to the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf

DIGITS, OF_SLOPES, STEP = 60, 420, mpf(10) ** -25
"""Slopes as small as 1e-308 of functions next to 1 are differences of numbers that agree in so many digits."""
Exact = Callable[[Any], Any]


def _tail(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _inverse_tail(y: Any) -> Any:
    """The inverse of erfc: by Newton's method on its logarithm where it is tiny, so that no digits are lost."""
    if y > 1:
        return -_inverse_tail(2 - y)
    return mp.erfinv(1 - y) if y > mpf("1e-20") else mp.findroot(lambda t: mp.log(mp.erfc(t)) - mp.log(y), _far(y))


def _far(y: Any) -> Any:
    return mp.sqrt(-mp.log(y * mp.sqrt(mp.pi * -mp.log(y))))


EXACT: dict[str, Exact] = {
    "expm1": mp.expm1, "asinh": mp.asinh, "sigmoid": _sigmoid, "sinc": mp.sincpi, "digamma": mp.digamma,
    "erfinv": mp.erfinv, "lgamma": lambda x: mp.log(abs(mp.gamma(x))), "ndtr": _tail,
    "log_ndtr": lambda x: mp.log(_tail(x)), "erfcinv": _inverse_tail, "log10": mp.log10,
    "ndtri": lambda p: -mp.sqrt(2) * _inverse_tail(2 * p), "tanhshrink": lambda x: x - mp.tanh(x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x), "j0": mp.j0, "j1": mp.j1, "y0": lambda x: mp.bessely(0, x),
    "y1": lambda x: mp.bessely(1, x), "k0": lambda x: mp.besselk(0, x), "k1": lambda x: mp.besselk(1, x),
    "k0e": lambda x: mp.exp(x) * mp.besselk(0, x), "k1e": lambda x: mp.exp(x) * mp.besselk(1, x), "gamma": mp.gamma,
    "factorial": mp.factorial, "exprel": lambda x: mp.expm1(x) / x, "gelu": lambda x: x * _tail(x),
    "silu": lambda x: x * _sigmoid(x), "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "softsign": lambda x: x / (1 + abs(x)), "softplus": lambda x: mp.log1p(mp.exp(x)),
}  # fmt: skip

AROUND_ZEROS: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("digamma", "lgamma'"), lambda x: 0.1), "sinc": lambda x: 1 / (1 + abs(x)),
    **dict.fromkeys(("j0", "j1", "y0", "y1"), lambda x: (1 + abs(x)) ** -0.5),
}  # fmt: skip
"""Functions and slopes with zeros where nothing is 0: next to these their errors are those of numbers of this size."""


def unproved(name: str, x: np.ndarray, found: np.ndarray, apart: np.ndarray, bound: float, slope: bool) -> int:
    """Of the places that are apart from a peer, how many of ours are not what 60 digits say either."""
    judge = EXACT.get(name)
    if judge is None:
        return 0
    size = np.abs(x.astype(np.float64))
    places = np.flatnonzero(apart & (size >= 1e-300) & (size <= 1e9))
    size_at = AROUND_ZEROS.get(f"{name}'" if slope else name) or AROUND_ZEROS.get(name, lambda x: 0.0)
    with mp.workdps(DIGITS):
        rooms = [bound * size_at(float(x[i])) + _underflow(float(x[i]), found.dtype) for i in places]
        judged = zip(places, rooms, strict=True)
        return sum(not _is_right(judge, float(x[i]), found[i], (bound, room), slope) for i, room in judged)


def _underflow(x: float, dtype: Any) -> float:
    """A factor may be off by a unit of the subnormal numbers, and is multiplied by x on the way."""
    return (4 + abs(x)) * float(np.finfo(dtype).smallest_subnormal)


def _is_right(judge: Exact, x: float, found: Any, bounds: tuple[float, float], slope: bool) -> bool:
    try:
        exact = judge(mpf(x))
        exact = _risen(judge, mpf(x)) if slope and mp.isfinite(exact) else exact
    except (ValueError, ZeroDivisionError, OverflowError):
        return not np.isfinite(found)
    if isinstance(exact, mpmath.mpc) or not mp.isfinite(exact):
        return not np.isfinite(found)
    if not np.isfinite(found):
        return bool(np.isinf(found) and abs(exact) > float(np.finfo(found.dtype).max) and (found > 0) == (exact > 0))
    relative, room = bounds
    return bool(abs(mpf(float(found)) - exact) <= relative * abs(exact) + room)


def _risen(judge: Exact, x: Any) -> Any:
    """The slope, by a central difference."""
    h = abs(x) * STEP
    with mp.workdps(OF_SLOPES):
        return (judge(x + h) - judge(x - h)) / (2 * h)
