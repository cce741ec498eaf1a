"""What every optimiser does to the weights, in NumPy's float64: the references that compiled steps are held against.

A reference takes all weights as arrays and their gradients, and keeps what the optimiser keeps: `step(w, g)` gives the
new weights. L-BFGS is of a quadratic, which it evaluates itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Weights = list[Array]
Rate = Callable[[int], float]


class Reference:
    """One weight at a time: `rule(w, g, kept, t, lr)` gives the new weight and changes what is kept of it."""

    def __init__(self, rule: Callable[[Array, Array, dict[str, Any], int, float], Array], rate: Rate) -> None:
        self._rule = rule
        self._rate = rate
        self._kept: list[dict[str, Any]] = []
        self._steps = 0

    def step(self, weights: Weights, grads: Weights) -> Weights:
        self._kept = self._kept or [{} for _ in weights]
        lr, self._steps = self._rate(self._steps), self._steps + 1
        rows = zip(weights, grads, self._kept, strict=True)
        return [self._rule(w, g, kept, self._steps, lr) for w, g, kept in rows]


def sgd(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    return w - lr * (g + 0.1 * w)


def sign_sgd(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    return w - lr * (np.sign(g) + 0.1 * w)


def momentum(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float, *, nesterov: bool = False) -> Array:
    g = g + 0.1 * w
    m = kept["m"] = 0.8 * kept.get("m", 0.0) + g
    return w - lr * (g + 0.8 * m if nesterov else m)


def nesterov(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    return momentum(w, g, kept, t, lr, nesterov=True)


def lion(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    m = kept.get("m", 0.0)
    kept["m"] = 0.99 * m + 0.01 * g
    return w - lr * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w)


def _means(g: Array, kept: dict[str, Any], t: int) -> tuple[Array, Array]:
    m = kept["m"] = 0.9 * kept.get("m", 0.0) + 0.1 * g
    v = kept["v"] = 0.99 * kept.get("v", 0.0) + 0.01 * g * g
    return m / (1 - 0.9**t), v / (1 - 0.99**t)


def adam(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    mean, square = _means(g + 0.1 * w, kept, t)
    return w - lr * mean / (np.sqrt(square) + 1e-8)


def adamw(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    mean, square = _means(g, kept, t)
    return w - lr * (mean / (np.sqrt(square) + 1e-8) + 0.1 * w)


def adam_atan2(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    mean, square = _means(g, kept, t)
    return w - lr * (1.27 * np.arctan2(mean, np.sqrt(square)) + 0.1 * w)


def adafactor(w: Array, g: Array, kept: dict[str, Any], t: int, lr: float) -> Array:
    new, squares = t**-0.8, g * g + 1e-30
    axes = (-1, -2) if w.ndim >= 2 else ()
    seen = [squares.mean(axis, keepdims=True) for axis in axes] or [squares]
    before = kept.get("seen", [0.0] * len(seen))
    rows, *columns = kept["seen"] = [old * (1 - new) + own * new for old, own in zip(before, seen, strict=True)]
    along = g / np.sqrt(rows / rows.mean(-2, keepdims=True) * columns[0] if columns else rows)
    along = along / max(1.0, np.sqrt((along**2).mean()))
    return w - lr * (max(0.001, np.sqrt((w**2).mean())) * along + 0.1 * w)


RULES = {
    rule.__name__: rule
    for rule in (sgd, sign_sgd, momentum, nesterov, lion, adam, adamw, adam_atan2, adafactor)
}


class Lbfgs:
    """Of x^T A x / 2 - b x: two loops over the last pairs; a search by halving and doubling for the weak Wolfe
    conditions."""

    def __init__(self, a: Array, b: Array, history: int) -> None:
        self._a, self._b, self._history = a, b, history
        self._pairs: list[tuple[Array, Array]] = []

    def step(self, x: Array) -> Array:
        along = -self._times_inverse(self._slope(x))
        new = x + self._length(x, along) * along
        self._pairs = [*self._pairs, (new - x, self._slope(new) - self._slope(x))][-self._history :]
        return new

    def _slope(self, x: Array) -> Array:
        return self._a @ x - self._b

    def _value(self, x: Array) -> float:
        return float(0.5 * x @ self._a @ x - self._b @ x)

    def _times_inverse(self, q: Array) -> Array:
        if not self._pairs:
            return q / max(1.0, float(np.sqrt(q @ q)))
        shares = []
        for move, change in reversed(self._pairs):
            shares.append((move @ q) / (move @ change))
            q = q - shares[-1] * change
        move, change = self._pairs[-1]
        q = q * (move @ change) / (change @ change)
        for (move, change), share in zip(self._pairs, reversed(shares), strict=True):
            q = q + (share - (change @ q) / (move @ change)) * move
        return q

    def _length(self, x: Array, along: Array) -> float:
        slope, low, high, length = along @ self._slope(x), 0.0, 0.0, 1.0
        for _ in range(25):
            here = x + length * along
            lower = self._value(here) <= self._value(x) + 1e-4 * length * slope
            if lower and along @ self._slope(here) >= 0.9 * slope:
                return length
            low, high = (length, high) if lower else (low, length)
            length = 0.5 * (low + high) if high > 0 else 2 * length
        raise AssertionError("the search of the reference ends")
