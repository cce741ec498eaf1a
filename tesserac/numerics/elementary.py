"""Elementary functions, once for all targets, as straight-line programs for f32 and f64.

Enters: a name and a dtype. Leaves: a `Program`. Bounds, in units in the last place of the result, all tested:

| function | bound         | corner cases                                                                          |
|----------|---------------|---------------------------------------------------------------------------------------|
| exp      | 1.1           | NaN stays, -inf gives 0, overflow gives inf, subnormal results are rounded once       |
| exp2     | 1.1           | the same; whole x give exact powers                                                   |
| expm1    | 2.0           | -inf gives -1; tiny x, also -0, is its own result                                     |
| exp_int  | an integer    | rint(x * log2e); from abs(x) = 2**20 on (f64: 2**49) as `huge_exponents.py` has it,   |
|          |               | finite where x is; -inf stays, +inf and NaN count as the largest                      |
| exp_frac | 1.1           | exp(x - exp_int(x) * ln2), the bound for abs(x) <= 2**14 (f64: 2**43); NaN stays; 1   |
|          |               | of infinities                                                                         |
| exp_term | rounded once  | ldexp(exp_frac(x), min(exp_int(x) - m, 0)): a term of a softmax with maximum m        |
| exp_lifted | rounded once | the same times 2**32: a term of attention                                            |
| exp_scaled | rounded once | ldexp(exp_frac(x), exp_int(x) - m - 1) of an even m, abs(m) <= 2**18 (f64: 2**47),   |
|          |               | where that is normal; 0 where exp_int(x) is m - 126 (f64: m - 1022); else meaningless |
| ldexp    | rounded once  | x * 2**k for every integer k; NaN and -inf count as the lowest, +inf as the highest   |
| log      | 1.0           | 0 gives -inf, below gives NaN                                                         |
| log2     | 1.1           | the same; powers of two give whole numbers                                            |
| log10    | 1.1           | the same; powers of ten that are floats give whole numbers                            |
| log1p    | 1.5           | -1 gives -inf, below gives NaN; -0 stays                                              |
| pow      | 1.1           | as IEEE 754 has it; an exact result comes out exact                                   |
| tanh     | 1.5           | odd, also for -0                                                                      |
| erf      | 1.2           | odd, also for -0                                                                      |
| erfc     | 6.0           | relative, also in the tail; 1 at 0                                                    |
| xndtr    | 6.0           | x times the normal distribution at x; relative, also in the tail; zeros keep signs    |
| sin, cos | 1.7           | for every finite x; NaN at infinities; sin is odd, also for -0                        |
| atan     | 1.5           | odd, also for -0; pi/2 at infinity                                                    |
| atan2    | 1.6           | as IEEE 754 has it: zeros keep their signs, infinities lie on axes and diagonals      |
| rsqrt    | two roundings | 1 / sqrt(x); -0 gives -inf                                                            |

`exp(x)` has the same bits as `ldexp(exp_frac(x), exp_int(x))`: a softmax by integer exponents and a plain exp agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tesserac.numerics import (
    arctangent,
    error_function,
    exponential,
    exponential_parts,
    logarithm,
    philox,
    trigonometric,
)
from tesserac.numerics.approximate import APPROXIMATE
from tesserac.numerics.power import power
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.numerics.stochastic import ROUNDED_AT_RANDOM, program_name, rounding_to
from tesserac.types.dtype import F32, F64, U64, DType


def _rsqrt(d: Draft, x: Ref) -> Ref:
    return d.constant(1.0) / d.step("sqrt", x)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Ref]]] = {
    "exp": (1, exponential.exp),
    "exp2": (1, exponential.exp2),
    "expm1": (1, exponential.expm1),
    "exp_int": (1, exponential.exp_int),
    "exp_frac": (1, exponential.exp_frac),
    "exp_term": (2, exponential.exp_term),
    "exp_lifted": (2, exponential.exp_lifted),
    "exp_scaled": (2, exponential.exp_scaled),
    "ldexp": (2, exponential_parts.ldexp),
    "log": (1, logarithm.log),
    "log2": (1, logarithm.log2),
    "log10": (1, logarithm.log10),
    "log1p": (1, logarithm.log1p),
    "pow": (2, power),
    "tanh": (1, exponential.tanh),
    "erf": (1, error_function.erf),
    "erfc": (1, error_function.erfc),
    "xndtr": (1, error_function.xndtr),
    "sin": (1, trigonometric.sin),
    "cos": (1, trigonometric.cos),
    "atan": (1, arctangent.atan),
    "atan2": (2, arctangent.atan2),
    "rsqrt": (1, _rsqrt),
}
_FUNCTIONS.update({program_name(dtype): (2, rounding_to(dtype)) for dtype in ROUNDED_AT_RANDOM})
ELEMENTARY = tuple(_FUNCTIONS)
"""The functions of floats that have a program."""

_GENERATORS: dict[str, tuple[int, Callable[..., Ref]]] = {
    "philox": (3, philox.philox),
    "philox_high": (3, philox.philox_high),
}
GENERATORS = tuple(_GENERATORS)
"""The functions of u64 that have a program."""

PROGRAMS = (*ELEMENTARY, *APPROXIMATE, *GENERATORS)
"""All that have a program; every other scalar primitive is one operation of a machine."""


@cache
def program(name: str, dtype: DType) -> Program:
    """The program of a function for f32 or f64, of a generator for u64. Narrower floats compute in f32 and round."""
    arity, function = (_GENERATORS if dtype.is_integer else {**_FUNCTIONS, **APPROXIMATE})[name]
    draft = Draft(dtype, arity)
    return draft.finish(name, function(draft, *draft.inputs))


def program_dtype(dtype: DType) -> DType:
    """The dtype in which values of `dtype` go through a program."""
    return dtype if dtype in (F64, U64) else F32
