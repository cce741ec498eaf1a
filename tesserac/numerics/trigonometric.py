"""sin and cos for every finite argument. See Note [Angles].

Enters: a draft and its input. Leaves: the value of the function: its argument is n quarter turns and a rest r.
"""

from __future__ import annotations

from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.pairs import quick_sum, sum_of_three, two_product, two_sum
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.types.dtype import DType

_WINDOW = 5
"""How many consecutive pieces of 2/pi decide the rest of a huge angle."""


def sin(d: Draft, x: Ref) -> Ref:
    """sin(|x|) with the sign of x, so that it is odd, also for -0."""
    return _wave(d, d.step("abs", x), 0.0) * d.step("copysign", d.constant(1.0), x)


def cos(d: Draft, x: Ref) -> Ref:
    """A quarter turn ahead of sin."""
    return _wave(d, d.step("abs", x), 1.0)


def _wave(d: Draft, x: Ref, ahead: float) -> Ref:
    """sin(x + ahead quarter turns) of a number that is not negative."""
    n = d.step("rint", x * d.constant(parts("two_over_pi", d.dtype)[0]))
    r = x
    for part in parts("half_pi", d.dtype):
        r = d.fma(n, d.constant(-part), r)
    huge = d.constant(2.0 ** format_of(d.dtype).huge_angle) <= x
    return d.when(huge, _huge_wave(d.dtype, ahead), [x], _turned(d, r, n, ahead))


def _turned(d: Draft, r: Ref, n: Ref, ahead: float) -> Ref:
    """sin(r + (n + ahead) quarter turns). floor(n / 2) is rint(n / 2 - 1/4): exact, and no tie."""
    one, two, half, quarter = (d.constant(v) for v in (1.0, -2.0, 0.5, -0.25))
    z = r * r
    sine = d.fma(fitted(d, "sin", z), r * z, r)
    cosine = d.fma(fitted(d, "cos", z), z * z, d.fma(z, d.constant(-0.5), one))
    turns = n + d.constant(ahead) if ahead else n
    halves = d.step("rint", d.fma(turns, half, quarter))
    odd = d.fma(halves, two, turns)
    wholes = d.step("rint", d.fma(halves, half, quarter))
    sign = d.fma(d.fma(wholes, two, halves), two, one)
    return d.select(d.constant(0.0) < odd, cosine, sine) * sign


def _huge_wave(dtype: DType, ahead: float) -> Program:
    """The same for a huge number; of inf it is NaN."""
    d = Draft(dtype, 1)
    [x] = d.inputs
    n, fraction, fraction_low = _quarter_turns(d, x)
    high, low = (d.constant(part) for part in parts("half_pi", dtype)[:2])
    r, r_low = two_product(d, fraction, high)
    r = r + (r_low + d.fma(fraction, low, fraction_low * high))
    return d.finish(f"huge_wave_{ahead:.0f}", _turned(d, r, n, ahead) + (x - x))


def _quarter_turns(d: Draft, x: Ref) -> tuple[Ref, Ref, Ref]:
    """x * 2/pi modulo 4 as a whole number and a fraction, the fraction in twice the precision."""
    places = float(d.dtype.significand)
    pieces, shift = _window(d, d.step("logb", x))
    factor = d.step("significand", x) * d.step("pow2", shift + d.constant(places))
    terms: list[Ref] = []
    for place, piece in enumerate(pieces):
        high, low = two_product(d, factor, piece)
        # behind these places a product is below 2: products shrink by 2**places from one piece to the next
        terms += [_modulo_4(d, high) if place < 3 else high, _modulo_4(d, low) if place < 2 else low]
        factor = factor * d.constant(2.0**-places)
    high, middle, low = sum_of_three(d, terms[:-1])
    n = d.step("rint", high)
    fraction, lost = two_sum(high - n, middle)
    return (n, *quick_sum(fraction, lost + low))


def _window(d: Draft, exponent: Ref) -> tuple[list[Ref], Ref]:
    """The pieces of 2/pi that matter at this exponent, and what is left of the exponent. Earlier pieces make whole
    multiples of 4 turns of every number so large. Binary digits of the number of the first piece, one after
    the other, shift the row of pieces."""
    places, start = d.dtype.significand, format_of(d.dtype).huge_angle
    row = [d.constant(piece) for piece in (0.0, *parts("two_over_pi_pieces", d.dtype))]
    step = 1 << ((format_of(d.dtype).highest_exponent - start) // places).bit_length() - 1
    while step:
        further = d.constant(float(start + step * places)) <= exponent
        exponent = d.select(further, exponent - d.constant(float(step * places)), exponent)
        kept = min(len(row), _WINDOW + step - 1)
        row = [d.select(further, row[i + step], row[i]) if i + step < len(row) else row[i] for i in range(kept)]
        step //= 2
    return row, exponent


def _modulo_4(d: Draft, x: Ref) -> Ref:
    """x less the nearest multiple of 4: exact, and zero where x is so large that it is one."""
    return d.fma(d.step("rint", x * d.constant(0.25)), d.constant(-4.0), x)


# Note [Angles]
# Below 2**17 (f64: 2**30) the rest is x - n pi/2 by three fma with three parts of pi/2. The first is exact: x and
# n times the first part are multiples of the last place of a number near 1, and so is their difference, which
# is small. The other two round once each, relative to what is left, however much has cancelled.
# Above that a step `when` holds a program that most calls skip. It multiplies x by 2/pi exactly, but only by
# those pieces (one significand long each) that can be seen: what is a multiple of 4 quarter turns goes, what is
# below 2**-55 (f64: 2**-129) does not matter, since no number of the format is nearer than 2**-30 (2**-61) to a
# multiple of pi/2. No table in memory and no integer arithmetic is needed: five pieces are chosen by comparisons.
