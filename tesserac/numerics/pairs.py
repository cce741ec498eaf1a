"""Error-free sums and products: a result and what its rounding lost, both values of the dtype.

Enters: values of a draft. Leaves: a pair (high, low) whose exact sum is the exact result, barring underflow of `low`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.numerics.program import Draft, Ref


def two_sum(a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """a + b, whatever their sizes."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def quick_sum(large: Ref, small: Ref) -> tuple[Ref, Ref]:
    """The same where `large` is zero or no smaller than `small`."""
    total = large + small
    return total, (large - total) + small


def two_product(d: Draft, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """a * b."""
    product = a * b
    return product, d.fma(a, b, -product)


def sum_of_three(d: Draft, terms: Sequence[Ref]) -> tuple[Ref, Ref, Ref]:
    """The sum of all terms in three times the precision; only the smallest part collects rounding errors."""
    high, middle, low = terms[0], d.constant(0.0), d.constant(0.0)
    for term in terms[1:]:
        high, lost = two_sum(high, term)
        middle, lost = two_sum(middle, lost)
        low = low + lost
    return high, middle, low
