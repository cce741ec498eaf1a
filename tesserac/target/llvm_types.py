"""LLVM types, values and constants as text. Enters: Python numbers and shapes. Leaves: `<4 x float>`, `0x3FF0...`.

A `Value` is a typed piece of text that may stand as an operand: `%v7`, `@table`, `i64 4096`. Integer constants
remember their number, so that index arithmetic folds while it is written.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cached_property, lru_cache

from tesserac.base.dataclass import dataclass


@dataclass(frozen=True)
class LType:
    """An LLVM type. `element` and `lanes` are set for vectors only; `code` is its name in mangled intrinsics."""

    text: str
    code: str
    element: LType | None = None
    lanes: int = 0

    def __str__(self) -> str:
        return self.text

    @property
    def scalar(self) -> LType:
        """The element of a vector; any other type itself."""
        return self.element or self

    @property
    def is_float(self) -> bool:
        return self.scalar.text in _FLOAT_FORMATS

    @property
    def is_pointer(self) -> bool:
        return self.text.startswith("ptr")

    @cached_property
    def bits(self) -> int:
        """Width of one element; pointers count 64."""
        text = self.scalar.text
        if text.startswith("i") and text[1:].isdecimal():
            return int(text[1:])
        return 64 if self.is_pointer else _FLOAT_BITS[text]


_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
_FLOAT_FORMATS = frozenset(_FLOAT_BITS)

VOID = LType("void", "isVoid")
I1, I8, I16, I32, I64 = (LType(f"i{n}", f"i{n}") for n in (1, 8, 16, 32, 64))
F16 = LType("half", "f16")
BF16 = LType("bfloat", "bf16")
F32 = LType("float", "f32")
F64 = LType("double", "f64")
PTR = LType("ptr", "p0")


def integer(bits: int) -> LType:
    return LType(f"i{bits}", f"i{bits}")


def pointer(space: int = 0) -> LType:
    return PTR if space == 0 else LType(f"ptr addrspace({space})", f"p{space}")


def vector(element: LType, lanes: int) -> LType:
    """One for each element and number of lanes: types are compared for each instruction, and most are the same one."""
    found = _VECTORS.get((element.text, lanes))
    if found is None:
        found = LType(f"<{lanes} x {element}>", f"v{lanes}{element.code}", element, lanes)
        _VECTORS[element.text, lanes] = found
    return found


_VECTORS: dict[tuple[str, int], LType] = {}


def like(shape: LType, element: LType) -> LType:
    """`element` with as many lanes as `shape` has."""
    return vector(element, shape.lanes) if shape.lanes else element


def array(element: LType, count: int) -> LType:
    return LType(f"[{count} x {element}]", f"a{count}{element.code}")


def structure(*fields: LType) -> LType:
    return LType("{ " + ", ".join(map(str, fields)) + " }", "sl_" + "".join(f.code for f in fields) + "s")


@dataclass(frozen=True)
class Value:
    """An operand. `number` is the value of an integer constant."""

    type: LType
    text: str
    number: int | None = None

    def __str__(self) -> str:
        return f"{self.type.text} {self.text}"


def const_int(type_: LType, number: int) -> Value:
    """An integer constant, the same in every lane of a vector. Wraps into the type."""
    bits = type_.bits
    wrapped = number & ((1 << bits) - 1)
    if wrapped >> (bits - 1) and bits > 1:
        wrapped -= 1 << bits
    return Value(type_, _in_lanes(type_, str(wrapped)), wrapped)


@lru_cache(maxsize=4096)
def const_i64(number: int) -> Value:
    return const_int(I64, number)


def const_float(type_: LType, number: float) -> Value:
    """A floating constant, the same in every lane, exact to the bit. NaN is the canonical quiet one."""
    return Value(type_, _in_lanes(type_, float_text(type_.scalar, number)))


def float_text(type_: LType, number: float) -> str:
    """LLVM's hexadecimal form: f32 and f64 as the bits of a double, f16 as 0xH, bf16 as 0xR."""
    if type_.text == "half":
        return f"0xH{struct.unpack('>H', _packed('>e', number))[0]:04X}"
    if type_.text == "bfloat":
        return f"0xR{_single_bits(number) >> 16:04X}"
    if type_.text == "float":
        number = struct.unpack(">f", struct.pack(">I", _single_bits(number)))[0]
    return f"0x{struct.unpack('>Q', struct.pack('>d', _canonical(number)))[0]:016X}"


def _single_bits(number: float) -> int:
    if math.isnan(number):
        return 0x7FC00000
    bits: int = struct.unpack(">I", _packed(">f", number))[0]
    return bits


def _packed(format_: str, number: float) -> bytes:
    """A number rounded to the format, where one that is too large is infinite."""
    try:
        return struct.pack(format_, number)
    except OverflowError:
        return struct.pack(format_, math.copysign(math.inf, number))


def _canonical(number: float) -> float:
    return math.nan if math.isnan(number) else number


def zero(type_: LType) -> Value:
    """All bits zero: 0, +0.0, null."""
    if type_.is_pointer:
        return Value(type_, "null")
    if type_.is_float:
        return const_float(type_, 0.0)
    return const_int(type_, 0)


def undefined(type_: LType) -> Value:
    """A value nobody reads."""
    return Value(type_, "poison")


def const_vector(values: Sequence[Value]) -> Value:
    """A vector of constants, one per lane."""
    return Value(vector(values[0].type, len(values)), "<" + ", ".join(map(str, values)) + ">")


def _in_lanes(type_: LType, text: str) -> str:
    if not type_.lanes:
        return text
    return f"splat ({type_.scalar} {text})"
