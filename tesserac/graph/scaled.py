"""Values with scales as ordinary operators: from here on `{q, scale}` is two tensors.

    cast(x, i8 @scale(axis=0))    scale[k] = max |x[k, ...]| / 127, or 1 where that is 0;  q = rint(x / scale[k])
    cast(w, f32)                  q * scale[k]

Enters: values in Graph IR, and the scaled type on one side of a cast. Leaves: the values on its other side. All is
computed in f32 (f64 where a cast gives f64); divisions are correctly rounded, so every target gives the same bits.
"""

from __future__ import annotations

from tesserac.graph.applying import apply_operator, as_dtype
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.compare import Equal
from tesserac.ops.convert import Cast
from tesserac.ops.create import Full
from tesserac.ops.elementary import Rint
from tesserac.ops.elementwise import Abs, Div, Maximum, Mul, Where
from tesserac.ops.reduce import Max
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE
from tesserac.types.dtype import F32, F64, DType
from tesserac.types.policy import NO_POLICY, compute_dtype
from tesserac.types.ty import TensorType, scaled_parts


def quantise(builder: Builder, x: Value, target: TensorType) -> tuple[Value, Value]:
    """The parts of `x` as a scaled type."""
    axis = target.policy.scale_axis
    assert axis is not None
    x = as_dtype(builder, x, F32)
    scale = _scale(builder, x, axis, target.dtype)
    numbers = apply_operator(builder, Div(), x, scale)
    if target.dtype.is_integer:
        numbers = apply_operator(builder, Rint(), numbers)
    stored, _ = scaled_parts(target).items
    assert isinstance(stored, TensorType)
    q = apply_operator(builder, Cast(stored.dtype, stored.policy), numbers)
    return q, apply_operator(builder, Reshape((target.dims[axis],)), scale)


def _scale(builder: Builder, x: Value, axis: int, dtype: DType) -> Value:
    """One number per index of the axis, other dims 1. Of nothing the largest is -inf, hence the 0."""
    others = tuple(a for a in range(tensor_type(x).rank) if a != axis)
    size = apply_operator(builder, Abs(), x)
    if others:
        size = apply_operator(builder, Max(others, keep=True), size)
    raw = apply_operator(builder, Div(), size, _number(builder, float(dtype.largest)))
    raw = apply_operator(builder, Maximum(), raw, _number(builder, 0.0))
    is_zero = apply_operator(builder, Equal(), raw, _number(builder, 0.0))
    return apply_operator(builder, Where(), is_zero, _number(builder, 1.0), raw)


def dequantise(builder: Builder, source: TensorType, q: Value, scale: Value, target: TensorType) -> Value:
    """The values of a scaled type as a plain float type; as f32 on the way to another scaled one."""
    axis = source.policy.scale_axis
    plain = TensorType(target.dims, F32) if target.is_scaled else target
    dtype = F64 if compute_dtype(plain.dtype, plain.policy) == F64 else F32
    along = tuple(dim if a == axis else ONE for a, dim in enumerate(source.dims))
    factors = [as_dtype(builder, v, dtype) for v in (q, apply_operator(builder, Reshape(along), scale))]
    product = apply_operator(builder, Mul(), *factors)
    if tensor_type(product) == plain:
        return product
    return apply_operator(builder, Cast(plain.dtype, plain.policy), product)


def _number(builder: Builder, value: float) -> Value:
    return apply_operator(builder, Full((), F32, NO_POLICY, value))
