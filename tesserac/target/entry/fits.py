"""Code that tests whether size expressions fit 64 bits, before anything is computed with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F64, I1, Value, const_float, const_i64, const_int
from tesserac.target.magnitudes import LARGEST, Bounds, bound, parts, telling
from tesserac.types.dims import Dim

Double = float | Value
"""A number that is known, or one of the code."""


class FloatCode:
    """Arithmetic of doubles that are not negative; infinite rather than wrong. What is known is not computed."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def number(self, value: float) -> Double:
        return value

    def add(self, left: Double, right: Double) -> Double:
        if not isinstance(left, Value) and not isinstance(right, Value):
            return left + right
        if left == 0.0 or right == 0.0:
            return right if left == 0.0 else left
        return self.b.fadd(as_value(left), as_value(right))

    def times(self, left: Double, right: Double) -> Double:
        if not isinstance(left, Value) and not isinstance(right, Value):
            return left * right
        if left == 1.0 or right == 1.0:
            return right if left == 1.0 else left
        return self.b.fmul(as_value(left), as_value(right))

    def least(self, left: Double, right: Double) -> Double:
        return self._chosen("olt", left, right)

    def most(self, left: Double, right: Double) -> Double:
        if left == 0.0 or right == 0.0:
            return right if left == 0.0 else left
        return self._chosen("ogt", left, right)

    def _chosen(self, comparison: str, left: Double, right: Double) -> Value:
        first, second = as_value(left), as_value(right)
        return self.b.select(self.b.fcmp(comparison, first, second), first, second)


def as_value(number: Double) -> Value:
    return number if isinstance(number, Value) else const_float(F64, number)


def magnitude(b: Builder, value: Value) -> Value:
    """Of an integer, as a double."""
    return b.intrinsic("llvm.fabs", F64, [b.cast("sitofp", value, F64)], [F64])


def emit_exceeds(b: Builder, dim: Dim, magnitudes: Bounds[Double]) -> Value:
    """Whether an expression may not fit; the magnitudes are code of this block."""
    return b.fcmp("uge", as_value(magnitudes.of(dim)), const_float(F64, LARGEST))


def emit_is_below(b: Builder, dim: Dim, limit: int, symbols: Mapping[str, Value]) -> Value:
    """Whether an expression is less than a limit for sure; nothing wraps or traps, whatever the symbols are."""
    magnitudes = {name: magnitude(b, symbols[name]) for name in sorted(dim.symbols())}
    return b.fcmp("olt", as_value(bound(dim, magnitudes, FloatCode(b))), const_float(F64, float(limit)))


def emit_all_below(b: Builder, bits: int, symbols: Mapping[str, Value]) -> Value:
    """Whether every symbol is below 2^bits: one comparison, whatever their number; none is below 2^-1."""
    if bits < 0:
        return const_int(I1, 0)
    joined = const_i64(0)
    for value in symbols.values():
        joined = value if joined.number == 0 else b.binary("or", joined, value)
    return b.icmp("ult", joined, const_i64(1 << bits))


def emit_all_fit(b: Builder, dims: Sequence[Dim], symbols: Mapping[str, Value]) -> Value:
    """Whether a few expressions fit."""
    doubtful = [dim for dim in telling(part for dim in dims for part in parts(dim)) if dim.symbol is None]
    names = frozenset[str]().union(*(dim.symbols() for dim in doubtful))
    known: dict[str, Double] = {name: magnitude(b, symbols[name]) for name in sorted(names)}
    magnitudes = Bounds(known, FloatCode(b))
    exceeds = const_int(I1, 0)
    for dim in doubtful:
        exceeds = b.binary("or", exceeds, emit_exceeds(b, dim, magnitudes))
    return b.binary("xor", exceeds, const_int(I1, 1))
