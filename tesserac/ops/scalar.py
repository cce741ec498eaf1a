"""Tier 0: the closed set of scalar primitives, one row each.

Enters: nothing. Leaves: `PRIMITIVES`, and the IR operations `scalar.<name>` that stand in the bodies of forms. A target
gives each row one line, or expands it by the shared elementary function of the same name in `numerics/`. On complex
numbers the rows are expanded before any target (`graph/passes/split_complex.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, define_op
from tesserac.ir.types import IndexType, ScalarType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, DType, complex_of, component
from tesserac.types.policy import Policy

Result = Literal["same", "bool"]


@dataclass(frozen=True)
class Primitive:
    """One row: all operands have one dtype of a kind in `kinds`, of so many `bits` if not 0; the result is that dtype,
    or bool."""

    name: str
    arity: int
    kinds: str
    result: Result
    doc: str
    bits: int = 0

    def takes(self, dtype: DType) -> bool:
        return dtype.kind in self.kinds and self.bits in (0, dtype.bits)


_ROWS = (
    Primitive("add", 2, "fiuc", "same", "Sum; integers wrap."),
    Primitive("sub", 2, "fiuc", "same", "Difference; integers wrap."),
    Primitive("mul", 2, "fiuc", "same", "Product; integers wrap."),
    Primitive("div", 2, "fc", "same", "Correctly rounded quotient."),
    Primitive("floor_div", 2, "iu", "same", "Quotient rounded down; by zero gives 0."),
    Primitive("mod", 2, "iu", "same", "Rest of floor_div, with the sign of the divisor; by zero gives 0."),
    Primitive("fma", 3, "f", "same", "a * b + c with one rounding."),
    Primitive("neg", 1, "fiuc", "same", "Sign flipped."),
    Primitive("abs", 1, "fiu", "same", "Magnitude."),
    Primitive("min", 2, "fiub", "same", "The smaller; NaN wins, -0 < +0."),
    Primitive("max", 2, "fiub", "same", "The larger; NaN wins, -0 < +0."),
    Primitive("rint", 1, "f", "same", "Nearest whole number, ties to even."),
    Primitive("floor", 1, "f", "same", "Largest whole number not above."),
    Primitive("ceil", 1, "f", "same", "Smallest whole number not below."),
    Primitive("sqrt", 1, "f", "same", "Correctly rounded square root."),
    Primitive("rsqrt", 1, "f", "same", "1 / sqrt(x)."),
    Primitive("pow", 2, "f", "same", "a to the power b, with IEEE's special cases."),
    Primitive("exp", 1, "f", "same", "e to the power x."),
    Primitive("exp2", 1, "f", "same", "2 to the power x."),
    Primitive("expm1", 1, "f", "same", "exp(x) - 1, also where x is small."),
    Primitive("exp_int", 1, "f", "same", "n = rint(x * log2(e)), a whole number held in the float type."),
    Primitive("exp_frac", 1, "f", "same", "exp(x - n * ln2) for n = exp_int(x), near 1."),
    Primitive("exp_term", 2, "f", "same", "ldexp(exp_frac(a), min(exp_int(a) - b, 0)), rounded once."),
    Primitive("exp_lifted", 2, "f", "same", "The same times 2^32."),
    Primitive("exp_scaled", 2, "f", "same", "e^a / 2^(b + 1) of an even b, where that is normal, 0 just below."),
    Primitive("exp_fast", 1, "f", "same", "exp to 18 bits, where numbers are fast; 0 where it is subnormal."),
    Primitive("exp2_fast", 1, "f", "same", "The same of exp2."),
    Primitive("exp_term_fast", 2, "f", "same", "The same of exp_term."),
    Primitive("exp_lifted_fast", 2, "f", "same", "The same of exp_lifted."),
    Primitive("tanh_fast", 1, "f", "same", "tanh to 20 bits, where numbers are fast."),
    Primitive("ldexp", 2, "f", "same", "a * 2^b for a whole b held in the float type, rounded once."),
    Primitive("log", 1, "f", "same", "Natural logarithm."),
    Primitive("log2", 1, "f", "same", "Logarithm to base 2."),
    Primitive("log10", 1, "f", "same", "Logarithm to base 10."),
    Primitive("log1p", 1, "f", "same", "log(1 + x), also where x is small."),
    Primitive("tanh", 1, "f", "same", "Hyperbolic tangent."),
    Primitive("erf", 1, "f", "same", "Error function."),
    Primitive("erfc", 1, "f", "same", "1 - erf(x), also where that is tiny."),
    Primitive("xndtr", 1, "f", "same", "x times the normal distribution at x, also where that is tiny."),
    Primitive("sin", 1, "f", "same", "Sine of radians."),
    Primitive("cos", 1, "f", "same", "Cosine of radians."),
    Primitive("atan", 1, "f", "same", "The angle in radians, from -pi/2 to pi/2, of a tangent."),
    Primitive("atan2", 2, "f", "same", "The angle in radians of the point (b, a), from -pi to pi."),
    Primitive("stochastic_bf16", 2, "f", "same", "a to a bf16 beside it: up by a part of a unit that is more than b."),
    Primitive("stochastic_f16", 2, "f", "same", "The same for f16."),
    Primitive("stochastic_fp8_e4m3", 2, "f", "same", "The same for fp8_e4m3."),
    Primitive("stochastic_fp8_e5m2", 2, "f", "same", "The same for fp8_e5m2."),
    Primitive("eq", 2, "fiubc", "bool", "Equal; false with NaN."),
    Primitive("lt", 2, "fiub", "bool", "Less; false with NaN."),
    Primitive("le", 2, "fiub", "bool", "Less or equal; false with NaN."),
    Primitive("and", 2, "iub", "same", "Bitwise and."),
    Primitive("or", 2, "iub", "same", "Bitwise or."),
    Primitive("xor", 2, "iub", "same", "Bitwise exclusive or."),
    Primitive("not", 1, "iub", "same", "Bitwise complement; of a bool its negation."),
    Primitive("shl", 2, "iu", "same", "a * 2^b, wrapping; 0 where b is negative or no less than the bits of a."),
    Primitive("shr", 2, "iu", "same", "a / 2^b rounded down; 0 or -1 where b is negative or no less than the bits."),
    Primitive("philox", 3, "u", "same", "Words 0 and 1 of Philox4x32-10 of a key and the halves of a counter.", 64),
    Primitive("philox_high", 3, "u", "same", "Words 2 and 3 of the same.", 64),
)

PRIMITIVES: dict[str, Primitive] = {row.name: row for row in _ROWS}


def _is_scalar(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, ScalarType) for v in values), "works on scalars", op)


def _dtypes(op: Op) -> list[DType]:
    return [v.type.dtype for v in op.operands if isinstance(v.type, ScalarType)]


def _verify(row: Primitive) -> Callable[[Op], None]:
    def verify(op: Op) -> None:
        _is_scalar(op)
        dtypes = _dtypes(op)
        require(len(dtypes) == row.arity, "takes {} operands", op, row.arity)
        require(len(set(dtypes)) == 1, "operands differ in dtype", op)
        require(row.takes(dtypes[0]), "does not work on {}", op, dtypes[0])
        expected = ScalarType(dtypes[0] if row.result == "same" else BOOL)
        require(op.result.type == expected, "gives {}", op, expected)

    return verify


def _verify_select(op: Op) -> None:
    _is_scalar(op)
    require(len(op.operands) == 3 and _dtypes(op)[0] == BOOL, "takes a bool and two values", op)
    _, then, otherwise = op.operands
    require(then.type == otherwise.type == op.result.type, "chooses between values of its own type", op)


def _verify_complex(op: Op) -> None:
    _is_scalar(op)
    dtypes = _dtypes(op)
    require(len(dtypes) == 2 and dtypes[0] == dtypes[1], "takes two parts of one dtype", op)
    whole = complex_of(dtypes[0])
    require(whole is not None and op.result.type == ScalarType(whole), "gives the complex number of its parts", op)


def _verify_part(op: Op) -> None:
    _is_scalar(op)
    dtypes = _dtypes(op)
    require(len(dtypes) == 1 and dtypes[0].is_complex, "takes one complex number", op)
    require(op.result.type == ScalarType(component(dtypes[0])), "gives a part of its operand", op)


def _verify_cast(op: Op) -> None:
    _is_scalar(op)
    dtype = op.attrs.get("dtype")
    require(isinstance(dtype, DType) and op.result.type == ScalarType(dtype), "gives its dtype", op)
    require(len(op.operands) == 1, "takes one operand", op)


def _verify_bitcast(op: Op) -> None:
    _verify_cast(op)
    [source], target = _dtypes(op), op.attrs["dtype"]
    require(isinstance(target, DType) and source.bits == target.bits, "keeps the number of bits", op)


def _verify_round(op: Op) -> None:
    _is_scalar(op)
    attrs = isinstance(op.attrs.get("dtype"), DType) and isinstance(op.attrs.get("policy"), Policy)
    require(attrs, "needs a dtype and a policy", op)
    require([op.result.type] == [v.type for v in op.operands], "gives the type of its operand", op)


def _verify_constant(op: Op) -> None:
    _is_scalar(op)
    require(isinstance(op.attrs.get("value"), bool | int | float), "needs a value", op)


def _verify_index(op: Op) -> None:
    require(isinstance(op.attrs.get("axis"), int), "needs an axis", op)
    require(isinstance(op.result.type, ScalarType), "gives a scalar", op)


def _verify_dim(op: Op) -> None:
    require(isinstance(op.attrs.get("dim"), Dim), "needs a dim", op)
    require(isinstance(op.result.type, ScalarType | IndexType), "gives a scalar or an index", op)


for _row in _ROWS:
    define_op(f"scalar.{_row.name}", pure=True, verify=_verify(_row))

define_op("scalar.select", pure=True, verify=_verify_select)  # a where c, else b
define_op("scalar.complex", pure=True, verify=_verify_complex)  # a number from its two parts
define_op("scalar.real", pure=True, verify=_verify_part)
define_op("scalar.imag", pure=True, verify=_verify_part)
define_op("scalar.cast", pure=True, verify=_verify_cast)  # float to int saturates, NaN to 0
define_op("scalar.bitcast", pure=True, verify=_verify_bitcast)  # the same bits as stored, read as another dtype
define_op("scalar.round", pure=True, verify=_verify_round)  # to storage under a policy, and back
define_op("scalar.constant", pure=True, verify=_verify_constant)
define_op("scalar.index", pure=True, verify=_verify_index)  # the position along an axis of the form
define_op("scalar.dim", pure=True, verify=_verify_dim)  # a size as a value
