"""Operators whose results are rounded at random, as ordinary operators: from here on no type says so.

    x * y : bf16 @stochastic_round    ==>    stochastic_round(wide(x) * wide(y), random_bits(key, dims), bf16)

Enters: an operator with its operands, the type of its result, and the key of its place. Leaves: the rounded value.
Element i takes the bits of Philox(key, i), so a result depends on the key and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.applying import apply_operator, as_dtype
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.convert import Cast
from tesserac.ops.random import RandomBits
from tesserac.ops.registry import Operator
from tesserac.ops.rounding import StochasticRound
from tesserac.types.dtype import DType
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType


def rounded_stochastically(
    builder: Builder, operator: Operator, operands: Sequence[Value], result: TensorType, key: Value
) -> Value:
    accum = compute_dtype(result.dtype, result.policy)
    if isinstance(operator, Cast):
        exact = as_dtype(builder, operands[0], accum)
    else:
        exact = apply_operator(builder, operator, *(_widened(builder, v, result.dtype, accum) for v in operands))
    bits = apply_operator(builder, RandomBits(result.dims), key)
    return apply_operator(builder, StochasticRound(result.dtype, result.policy), exact, bits)


def _widened(builder: Builder, value: Value, dtype: DType, accum: DType) -> Value:
    """An operand of the rounded type in the accumulation type; others, such as conditions, stay."""
    return as_dtype(builder, value, accum) if tensor_type(value).dtype == dtype else value
