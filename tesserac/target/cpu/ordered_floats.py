"""Floats as integers that have their order, for maxima and minima on x86.

There a maximum that gives NaN for NaN and knows the sign of zero is six instructions, each waiting for the one before,
and a fold of a row is little else. As integers of the same order (-0 before +0) it is one; a NaN is the last of them
for a maximum, the first for a minimum. Other machines have an instruction for it.
"""

from __future__ import annotations

from tesserac.target.cpu.frame import Frame
from tesserac.target.cpu.system import machine_of
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, F64, LType, Value, const_int, integer, like

EXTREMES = ("max", "min")
_KEPT = ((F32, 0), (F64, 512))
"""Floats, and of how many bits vectors must be to have an instruction for integers of their size."""
_NAN = {32: 0x7FC00000, 64: 0x7FF8000000000000}


def is_ordered(frame: Frame, kind: str, element: LType) -> bool:
    """Whether a fold of floats is one of integers."""
    wide = any(element == kept and frame.target.vector_bits >= bits for kept, bits in _KEPT)
    return kind in EXTREMES and wide and machine_of(frame.b.module.triple) == "x86_64"


def as_ordered(b: Builder, value: Value, kind: str) -> Value:
    """An integer that is less than another where the float is."""
    ordered = _turned(b, b.cast("bitcast", value, like(value.type, integer(value.type.bits))))
    nan = _NAN[value.type.bits]
    last = const_int(ordered.type, nan if kind == "max" else ~nan)  # the latter is the same NaN, negative
    return b.select(b.fcmp("uno", value, value), last, ordered)


def as_float(b: Builder, ordered: Value, type_: LType) -> Value:
    """The float that an integer stands for."""
    return b.cast("bitcast", _turned(b, ordered), like(ordered.type, type_))


def _turned(b: Builder, bits: Value) -> Value:
    """All bits of a negative number but its sign: the larger of two is the smaller one then. Twice, it is as before."""
    size = bits.type.bits
    negative = b.binary("ashr", bits, const_int(bits.type, size - 1))
    return b.binary("xor", bits, b.binary("lshr", negative, const_int(bits.type, 1)))
