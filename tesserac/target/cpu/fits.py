"""Code that tests whether size expressions fit 64 bits, before anything is computed with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F64, I1, Value, const_float, const_i64, const_int
from tesserac.target.magnitudes import LARGEST, bound, parts, telling
from tesserac.types.dims import Dim


class FloatCode:
    """Arithmetic of doubles that are not negative; infinite rather than wrong."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def number(self, value: float) -> Value:
        return const_float(F64, value)

    def add(self, left: Value, right: Value) -> Value:
        return self.b.fadd(left, right)

    def times(self, left: Value, right: Value) -> Value:
        return self.b.fmul(left, right)

    def least(self, left: Value, right: Value) -> Value:
        return self.b.select(self.b.fcmp("olt", left, right), left, right)

    def most(self, left: Value, right: Value) -> Value:
        return self.b.select(self.b.fcmp("ogt", left, right), left, right)


def magnitude(b: Builder, value: Value) -> Value:
    """Of an integer, as a double."""
    return b.intrinsic("llvm.fabs", F64, [b.cast("sitofp", value, F64)], [F64])


def emit_exceeds(b: Builder, dim: Dim, magnitudes: Mapping[str, Value]) -> Value:
    """Whether an expression may not fit."""
    return b.fcmp("uge", bound(dim, magnitudes, FloatCode(b)), const_float(F64, LARGEST))


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
    magnitudes = {name: magnitude(b, symbols[name]) for name in sorted(names)}
    exceeds = const_int(I1, 0)
    for dim in doubtful:
        exceeds = b.binary("or", exceeds, emit_exceeds(b, dim, magnitudes))
    return b.binary("xor", exceeds, const_int(I1, 1))
