"""Cotangents of values that are declared `@loss_scale(k)` are kept k times as large, so that few bits hold them.

Enters: a cotangent, and the scales of the values it goes from and to. Leaves: the cotangent times their quotient. Where
a derivative begins and ends there is no scale: a gradient is the gradient. See Note [Where scales change].
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer


def scale_of(value: Value) -> int:
    """How many times as large the cotangents of a value are kept."""
    return tensor_type(value).policy.loss_scale or 1


def scaled(write: Writer, cotangent: Value, factor: float) -> Value:
    return cotangent if factor == 1 else write("mul", cotangent, write.number(factor, tensor_type(cotangent)))


def across(
    write: Writer, cotangent: Value, old: int, new: int, transpose: Callable[[Value], Value | None]
) -> Value | None:
    """What a linear operation sends back from a value of one scale to one of another: it grows before that, and shrinks
    after it, so that on both ways it is a large number that is rounded to few bits."""
    back = transpose(scaled(write, cotangent, new / old if new > old else 1))
    return back if back is None or new >= old else scaled(write, back, new / old)


# Note [Where scales change]
# Operators take and give values of one policy, so their transposes send scaled cotangents to where the same scale is
# expected. Only conversions (`cast`, `wide`) have a policy on one side and another, or none, on the other. The rule is
# about types alone, so it holds for operations that a derivative wrote too, and derivatives of any order have no scale
# left in them.
