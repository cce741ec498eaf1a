"""Tensors made from sizes alone.

Enters: dims and a dtype. Leaves: a filled or counted tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ops.lowering import map_form
from tesserac.ops.registry import Array, Operator, numpy_dtype, register
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, I64, DType
from tesserac.types.policy import NO_POLICY, Policy, compute_dtype
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Created(Operator):
    """An operator without operands; `shape` and `dtype` are its type."""

    shape: tuple[Dim, ...]
    dtype: DType = F32
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((Dim.const(2), Dim.const(3))), ()), (cls(()), ()), (cls((Dim.const(4),), I64), ())]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return self.shape

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def _fill(self, builder: Builder, result: TensorType, value: int | float) -> Value:
        dtype = compute_dtype(result.dtype, result.policy)
        return map_form(builder, (), result, lambda s, args: s.constant(value, dtype))

    def _filled(self, value: int | float) -> Array:
        return np.full([dim.evaluate({}) for dim in self.shape], value, numpy_dtype(self.dtype))


@register
class Zeros(Created):
    """Zeros of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, 4, f32]:
        return zeros(N, 4)
    """

    name = "zeros"
    signatures = ("(shape: dims, dtype: dtype = f32) -> {dtype}[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        return self._filled(0)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return self._fill(builder, result, 0)


@register
class Ones(Created):
    """Ones of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, i32]:
        return ones(N, dtype=i32)
    """

    name = "ones"
    signatures = ("(shape: dims, dtype: dtype = f32) -> {dtype}[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        return self._filled(1)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return self._fill(builder, result, 1)


@register
@dataclass(frozen=True)
class Full(Created):
    """One number at every point of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return full((N,), 0.5)
    """

    name = "full"
    signatures = ("(shape: dims, value: number, dtype: dtype = f32) -> {dtype}[{dims}]",)

    value: int | float = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((Dim.const(2), Dim.const(3)), F32, NO_POLICY, 0.5), ())]

    def reference(self, *operands: Array) -> Array:
        return self._filled(self.value)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return self._fill(builder, result, self.value)


@register
@dataclass(frozen=True)
class Arange(Operator):
    """0, 1, ..., size - 1 as i64, or another dtype.

    def f(x: Tensor[N, f32]) -> Tensor[N, i64]:
        return arange(N)
    """

    name = "arange"
    signatures = ("(size: size, dtype: dtype = i64) -> {dtype}[{dims}]",)

    size: Dim
    dtype: DType = I64
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(Dim.const(5)), ()), (cls(Dim.const(0)), ())]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (self.size,)

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def reference(self, *operands: Array) -> Array:
        return np.arange(self.size.evaluate({})).astype(numpy_dtype(self.dtype))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        dtype = compute_dtype(result.dtype, result.policy)
        return map_form(builder, (), result, lambda s, args: s.index(0, dtype))
