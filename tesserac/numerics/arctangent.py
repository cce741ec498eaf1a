"""atan, and atan2 in all four quadrants.

Enters: a draft and its inputs. Leaves: the value of the function. The tangent is at most 1 after a reflection at the
diagonal: t + t**3 p(t**2) is its angle, and a right angle less that, by the two parts of pi/2, the one beyond.
"""

from __future__ import annotations

from tesserac.numerics.formats import fitted, parts
from tesserac.numerics.program import Draft, Ref


def atan(d: Draft, x: Ref) -> Ref:
    """Computed for |x| and given its sign."""
    size, one = d.step("abs", x), d.constant(1.0)
    steep = one < size
    angle = _near(d, d.select(steep, one / size, size))
    return d.step("copysign", _turned_back(d, steep, 1.0, angle), x)


def atan2(d: Draft, y: Ref, x: Ref) -> Ref:
    """The angle of the point (x, y), with the sign of y; zeros and infinities count as points on the axes and diagonals
    that they approach. A quotient that is NaN reaches the result."""
    one, zero = d.constant(1.0), d.constant(0.0)
    height, width = d.step("abs", y), d.step("abs", x)
    flat = height < width
    small, large = d.select(flat, height, width), d.select(flat, width, height)
    quotient = d.select(d.step("eq", small, large), one, small / large)
    angle = _near(d, d.select(d.step("eq", large, zero), small, quotient))
    steep = width < height
    quarter = _turned_back(d, steep, 1.0, angle)
    left = d.step("copysign", one, x) < zero
    return d.step("copysign", _turned_back(d, left, 2.0, quarter), y)


def _near(d: Draft, t: Ref) -> Ref:
    """atan(t) for t from 0 to 1."""
    square = t * t
    return d.fma(fitted(d, "atan", square), t * square, t)


def _turned_back(d: Draft, condition: Ref, quarters: float, angle: Ref) -> Ref:
    """So many right angles less the angle, where the condition holds."""
    high, low = (d.constant(quarters * part) for part in parts("half_pi", d.dtype)[:2])
    return d.select(condition, high - (angle - low), angle)
