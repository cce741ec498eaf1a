"""Floats as integers that have their order, for maxima and minima on x86.

There a maximum that gives NaN for NaN and knows the sign of zero is six instructions, each waiting for the one before,
and a fold of a row is little else. As integers of the same order (-0 before +0) it is one; a NaN is the last of them
for a maximum, the first for a minimum. Other machines have an instruction for it. AVX-512 has one that knows the sign
of zero and gives the number beside a NaN: a comparison finds those.
"""

from __future__ import annotations

from math import nan

from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.entry.system import machine_of
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import (
    F32,
    F64,
    I32,
    LType,
    Value,
    const_float,
    const_int,
    integer,
    like,
    vector,
)

EXTREMES = ("max", "min")
_KEPT = ((F32, 0), (F64, 512))
"""Floats, and of how many bits vectors must be to have an instruction for integers of their size."""
_RANGED = {vector(F32, 16): "ps", vector(F64, 8): "pd"}
_RANGE = {"max": 0b0101, "min": 0b0100}
"""Which of two, and the sign that it has."""
_CURRENT_DIRECTION = 4
_NAN = {32: 0x7FC00000, 64: 0x7FF8000000000000}


def is_ranged(frame: Frame, name: str, type_: LType) -> bool:
    """Whether vectors have an instruction for the larger or smaller of two numbers."""
    has_it = frame.target.has_masks and machine_of(frame.b.module.triple) == "x86_64"
    return has_it and name in EXTREMES and type_ in _RANGED


def extreme(b: Builder, name: str, x: Value, y: Value) -> Value:
    """The larger or smaller of two by that instruction, NaN where one is NaN."""
    lanes, choice = x.type.lanes, const_int(I32, _RANGE[name])
    whole, direction = const_int(integer(lanes), -1), const_int(I32, _CURRENT_DIRECTION)
    intrinsic = f"llvm.x86.avx512.mask.range.{_RANGED[x.type]}.512"
    number = b.intrinsic(intrinsic, x.type, [x, y, choice, x, whole, direction])
    return b.select(b.fcmp("uno", x, y), const_float(x.type, nan), number)


def is_ordered(frame: Frame, kind: str, element: LType) -> bool:
    """Whether a fold of floats is one of integers."""
    wide = any(element == kept and frame.target.vector_bits >= bits for kept, bits in _KEPT)
    return kind in EXTREMES and wide and machine_of(frame.b.module.triple) == "x86_64"


def as_ordered(b: Builder, value: Value, kind: str) -> Value:
    """An integer that is less than another where the float is."""
    ordered = _turned(b, b.cast("bitcast", value, like(value.type, integer(value.type.bits))))
    bits = _NAN[value.type.bits]
    last = const_int(ordered.type, bits if kind == "max" else ~bits)  # the latter is the same NaN, negative
    return b.select(b.fcmp("uno", value, value), last, ordered)


def as_float(b: Builder, ordered: Value, type_: LType) -> Value:
    """The float that an integer stands for."""
    return b.cast("bitcast", _turned(b, ordered), like(ordered.type, type_))


def _turned(b: Builder, bits: Value) -> Value:
    """All bits of a negative number but its sign: the larger of two is the smaller one then. Twice, it is as before."""
    size = bits.type.bits
    negative = b.binary("ashr", bits, const_int(bits.type, size - 1))
    return b.binary("xor", bits, b.binary("lshr", negative, const_int(bits.type, 1)))
