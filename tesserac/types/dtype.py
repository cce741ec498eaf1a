"""Element types: the closed table of dtypes and every spelling that names one.

Enters: a spelling such as `fp32`, `BF16` or `fp8(e4m3)`. Leaves: one shared `DType` row, compared by value.
"""

from math import frexp
from typing import Literal

from tesserac.base.dataclass import dataclass

Kind = Literal["f", "i", "u", "b", "c", "s"]
"""Floats, integers, bools, complex numbers; and what is only stored, and cast to be computed with."""


@dataclass(frozen=True)
class DType:
    """One element type. `bits` is storage; `significand` counts the bits of a value's integer-exact range."""

    name: str
    kind: Kind
    bits: int
    significand: int
    largest: float
    numpy_name: str

    @property
    def bytes(self) -> int:
        """Bytes of one element in an array; one of 4 bits has a byte to itself there."""
        return (self.bits + 7) // 8

    @property
    def lowest(self) -> float:
        """The least finite number: minus the largest, of signed integers one less."""
        if self.is_scale:
            return 1 / self.largest
        return 0 if self.kind in ("u", "b") else -self.largest - (1 if self.kind == "i" else 0)

    @property
    def eps(self) -> float:
        """From 1 to the next number, of floats and the parts of complex numbers."""
        return 2.0 ** (1 - self.significand)

    @property
    def tiny(self) -> float:
        """The least positive number that is not subnormal. A format without infinities has its last exponent more."""
        highest = frexp(self.largest)[1] - 1
        if self.is_scale:
            return self.lowest
        return 2.0 ** (1 - highest if self.has_inf else 2 - highest)

    @property
    def has_inf(self) -> bool:
        return self.name not in ("fp8_e4m3", "fp4_e2m1", "fp8_e8m0")

    @property
    def has_nan(self) -> bool:
        """Whether a cast can say that there is no number: fp4 gives 0, and for what is too large its largest."""
        return self.kind in ("f", "c") or self.is_scale

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("i", "u")

    @property
    def is_nibble(self) -> bool:
        """Whether it is an integer of 4 bits, of which a byte holds one in computation."""
        return self.is_integer and self.bits == 4

    @property
    def is_stored(self) -> bool:
        """Whether it is a format of storage alone: moved, cast, and not computed with."""
        return self.kind == "s"

    @property
    def is_scale(self) -> bool:
        """Whether its numbers are powers of two, without a sign and without 0."""
        return self.kind == "s" and self.significand == 1

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_fp8(self) -> bool:
        return self.kind == "f" and self.bits == 8

    def holds(self, value: int | float) -> bool:
        """Whether a literal may take this dtype: an int that fits, or a float where fractions exist."""
        if isinstance(value, float):
            return self.kind in ("f", "c", "s")
        if self.kind == "b":
            return False
        return self.lowest <= value <= self.largest

    def __hash__(self) -> int:
        return hash(self.name)  # which tells them apart

    def __str__(self) -> str:
        return self.name


def _float(name: str, bits: int, significand: int, largest: float, numpy_name: str) -> DType:
    return DType(name, "f", bits, significand, largest, numpy_name)


def _integer(kind: Literal["i", "u"], bits: int) -> DType:
    magnitude = bits - 1 if kind == "i" else bits
    numpy_name = f"{'int' if kind == 'i' else 'uint'}{bits}"
    return DType(f"{kind}{bits}", kind, bits, magnitude, 2**magnitude - 1, numpy_name)


_LARGEST_F64 = (2 - 2.0**-52) * 2.0**1023
_LARGEST_F32 = (2 - 2.0**-23) * 2.0**127

F64 = _float("f64", 64, 53, _LARGEST_F64, "float64")
F32 = _float("f32", 32, 24, _LARGEST_F32, "float32")
TF32 = _float("tf32", 32, 11, _LARGEST_F32, "float32")  # f32 storage; only its contractions are tf32
BF16 = _float("bf16", 16, 8, (2 - 2.0**-7) * 2.0**127, "bfloat16")
F16 = _float("f16", 16, 11, 65504.0, "float16")
FP8_E4M3 = _float("fp8_e4m3", 8, 4, 448.0, "float8_e4m3fn")
FP8_E5M2 = _float("fp8_e5m2", 8, 3, 57344.0, "float8_e5m2")
FP4_E2M1 = DType("fp4_e2m1", "s", 4, 2, 6.0, "float4_e2m1fn")
FP8_E8M0 = DType("fp8_e8m0", "s", 8, 1, 2.0**127, "float8_e8m0fnu")
I64, I32, I16, I8, I4 = (_integer("i", bits) for bits in (64, 32, 16, 8, 4))
U64, U32, U16, U8, U4 = (_integer("u", bits) for bits in (64, 32, 16, 8, 4))
BOOL = DType("bool", "b", 8, 1, 1, "bool")
C64 = DType("c64", "c", 64, 24, _LARGEST_F32, "complex64")
C128 = DType("c128", "c", 128, 53, _LARGEST_F64, "complex128")

ALL: tuple[DType, ...] = (
    F64, F32, TF32, BF16, F16, FP8_E4M3, FP8_E5M2, FP4_E2M1, FP8_E8M0, I64, I32, I16, I8, I4,
    U64, U32, U16, U8, U4, BOOL, C64, C128,
)  # fmt: skip


def component(dtype: DType) -> DType:
    """The dtype of the real and imaginary parts of complex numbers; a real dtype is its own."""
    return {C64: F32, C128: F64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType | None:
    """The complex dtype with parts of this one, where there is one."""
    return {F32: C64, F64: C128}.get(dtype)


def _spellings(dtype: DType) -> tuple[str, ...]:
    """Names of one dtype in lower case. `float` and `int` are scalar kinds, not dtypes."""
    if dtype.is_fp8:
        exponent = dtype.name.removeprefix("fp8_")
        usual = ("fp8",) if dtype is FP8_E4M3 else ()  # the format of weights and activations
        return dtype.name, f"fp8({exponent})", f"f8{exponent}", f"float8_{exponent}", *usual
    if dtype.is_stored:
        bits, exponent = dtype.name.removeprefix("fp").split("_")
        usual = ("e8m0",) if dtype.is_scale else ("fp4",)
        return dtype.name, f"fp{bits}({exponent})", f"f{bits}{exponent}", f"float{bits}_{exponent}", *usual
    families = {"f": ("f", "fp", "float"), "i": ("i", "int"), "u": ("u", "uint"), "c": ("c", "complex")}
    if dtype is TF32 or dtype is BOOL:
        return (dtype.name,)
    if dtype is BF16:
        return dtype.name, "bfloat16"
    return tuple(f"{family}{dtype.bits}" for family in families[dtype.kind])


_BY_SPELLING = {spelling: dtype for dtype in ALL for spelling in _spellings(dtype)}


def spellings() -> list[str]:
    """Every spelling of a dtype, the short names first."""
    return sorted(_BY_SPELLING, key=lambda spelling: (_BY_SPELLING[spelling].name != spelling, spelling))


def lookup(name: str) -> DType | None:
    """The dtype a spelling names, in any case and with or without spaces; None if it names none."""
    return _BY_SPELLING.get(name.replace(" ", "").lower())
