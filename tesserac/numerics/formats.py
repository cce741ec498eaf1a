"""What the programs of elementary functions need to know of a float type.

Enters: a dtype, f32 or f64. Leaves: its `Format`, and constants and fitted coefficients rounded to it.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.numerics import coefficients
from tesserac.numerics.program import Draft, Ref
from tesserac.types.dtype import F32, F64, DType


@dataclass(frozen=True)
class Format:
    """Limits of one dtype, and the bits of its significand.

    Beyond `exp_low` and `exp_high` exp is 0 or inf; `huge_angle` is where the reduction of
    sin and cos needs more of pi, as an exponent of 2."""

    significand: int
    lowest_exponent: int
    highest_exponent: int
    largest: float
    frac_limit: float
    exp_low: float
    exp_high: float
    erf_limit: float
    erfc_limit: float
    ndtr_limit: float
    huge_angle: int


_FORMATS = {
    F32: Format(24, -126, 127, F32.largest, 2.0**20, -104.0, 89.0, 4.0, 10.125, 14.5, 17),
    F64: Format(53, -1022, 1023, F64.largest, 2.0**49, -746.0, 710.0, 6.0, 27.25, 38.75, 30),
}


def format_of(dtype: DType) -> Format:
    return _FORMATS[dtype]


def parts(name: str, dtype: DType) -> tuple[float, ...]:
    """A constant as an unevaluated sum of values of the dtype, largest first."""
    return coefficients.TABLE[name, dtype.name]


def fitted(d: Draft, name: str, x: Ref, *, factor: float = 1.0, stepwise: bool = False) -> Ref:
    """The polynomial that `tests/tools/fit_elementary.py` fitted under that name, at x, times a power of two."""
    terms = [factor * c for c in coefficients.TABLE[name, d.dtype.name]]
    return d.polynomial(terms, x, stepwise=stepwise)
