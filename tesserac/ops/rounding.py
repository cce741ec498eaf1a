"""Rounding at random: what `@stochastic_round` adds to an operator.

Enters: values in the accumulation type and random bits. Leaves: values of a narrow float type, the neighbours above or
below. `rounds` tells which operators have anything to round.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import convert, round_by
from tesserac.numerics.stochastic import program_name
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import Scalars, map_form, scalar_dtype
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.dtype import BF16, F16, F32, FP8_E4M3, FP8_E5M2, I32, U64, DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType

DRAWN_BITS = 24
"""How many of an element's random bits decide: as many as f32 holds."""


@register
@dataclass(frozen=True)
class StochasticRound(Operator):
    """x rounded up or down to a value of a narrow float type: away from zero where the first 24 random bits of an
    element, as a fraction, are less than the part of a unit in the last place that is cut off.

    def f(x: Tensor[N, f32], k: Key) -> Tensor[N, bf16]:
        return stochastic_round(x, random_bits(k, N), bf16)
    """

    name = "stochastic_round"
    batching = "leading"
    signatures = ("(x: F[*s], bits: u64[*s], dtype: dtype) -> {dtype}[*s]",)

    dtype: DType
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        dtypes = (BF16, F16, FP8_E4M3, FP8_E5M2)
        return [(cls(dtype, Policy(F32)), ("f32[3, 4]", "u64[3, 4]")) for dtype in dtypes]

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`dx` as it is, since results are x on average."""
        [dx, _] = tangents
        assert dx is not None
        return write.stored(dx, tensor_type(result))

    def reference(self, *operands: Array) -> Array:
        x, bits = operands
        drawn = (bits.astype(np.uint64) >> np.uint64(64 - DRAWN_BITS)).astype(np.float64) * 2.0**-DRAWN_BITS
        return convert(round_by(x.astype(np.float64), drawn, self.dtype), self.dtype, saturate=self.policy.saturate)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        def body(s: Scalars, args: list[Value]) -> Value:
            x = s.cast(args[0], F32) if scalar_dtype(args[0]).bits < 32 else args[0]
            shifted = s.primitive("shr", args[1], s.constant(64 - DRAWN_BITS, U64))
            fraction = s.cast(s.cast(shifted, I32), scalar_dtype(x))
            drawn = s.primitive("mul", fraction, s.constant(2.0**-DRAWN_BITS, scalar_dtype(x)))
            return s.primitive(program_name(self.dtype), x, drawn)

        return map_form(builder, operands, result, body)


def rounds(operator: Operator, operands: Sequence[TensorType], result: TensorType) -> bool:
    """Whether results can fall between the values of the result's type, told from the operator's own lowering. One that
    only moves and compares elements of that type has nothing to round."""
    block = Block(list(operands))
    operator.lower(Builder(block), block.args, result)
    return any(_form_rounds(op, result.dtype) for op in block.ops)


_EXACT = ("select", "cast", "constant", "index", "dim", "neg", "abs", "min", "max", "rint", "floor", "ceil", "eq", "lt")
_MOVING = ("form.view", "form.assemble", "form.gather", "form.sort")


def _form_rounds(form: Op, dtype: DType) -> bool:
    if form.name in _MOVING or tensor_type(form.result).dtype != dtype:
        return False
    if form.name in ("form.reduce", "form.scan", "form.scatter"):
        return form.attrs["kind"] not in ("set", "max", "min")
    if form.name != "form.map":
        return True
    floats = {tensor_type(v).dtype for v in form.operands if tensor_type(v).dtype.kind == "f"}
    computes = any(op.name.removeprefix("scalar.") not in _EXACT for op in form.body.ops[:-1])
    return computes or not floats <= {dtype}
