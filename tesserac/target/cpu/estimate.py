"""Size expressions in floating point: near the true value, and never wrapped around.

Integers of 64 bits hold every size that memory can have, but not every product of sizes: an array without elements may
have a dim of 2^60 beside its dim of 0. Where a product decides how much memory is taken, its estimate is tested first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F64, Value, const_float
from tesserac.types.dims import Dim
from tesserac.types.polynomial import Atom, Symbol

LARGEST = 2.0**60
"""What is estimated to be smaller is exact in 64 bits, with room for what is added to it."""


def emit_estimate(b: Builder, dim: Dim, symbols: Mapping[str, Value]) -> Value:
    """A double close to the value of `dim`; infinite rather than wrong."""
    total = const_float(F64, 0.0)
    for monomial, coefficient in dim.terms:
        term = const_float(F64, float(coefficient))
        for atom, exponent in monomial:
            for _ in range(abs(exponent)):
                term = (b.fmul if exponent > 0 else b.fdiv)(term, _atom(b, atom, symbols))
        total = b.fadd(total, term)
    return total


def _atom(b: Builder, atom: Atom, symbols: Mapping[str, Value]) -> Value:
    if isinstance(atom, Symbol):
        return b.cast("sitofp", symbols[atom.name], F64)
    first, *others = (emit_estimate(b, arg, symbols) for arg in atom.args)
    for other in others:
        first = _FUNCTIONS[atom.function](b, first, other)
    return first


def _extreme(predicate: str) -> Callable[[Builder, Value, Value], Value]:
    return lambda b, x, y: b.select(b.fcmp(predicate, x, y), x, y)


_FUNCTIONS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "quotient": Builder.fdiv,
    "floor_div": Builder.fdiv,
    "ceil_div": lambda b, x, y: b.fadd(b.fdiv(x, y), const_float(F64, 1.0)),
    "mod": lambda b, x, y: y,  # an upper bound
    "min": _extreme("olt"),
    "max": _extreme("ogt"),
}
