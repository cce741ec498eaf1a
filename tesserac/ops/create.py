"""Tensors made from sizes alone.

Enters: dims and a dtype. Leaves: a filled or counted tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.numerics.interval import TRUTH, Interval, point
from tesserac.ops.lowering import Scalars, fill, map_form
from tesserac.ops.registry import Array, Extent, Need, Operator, numpy_dtype, register
from tesserac.types.dims import ONE, ZERO, Dim
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

    def _filled(self, value: int | float) -> Array:
        return np.full([dim.evaluate({}) for dim in self.shape], value, numpy_dtype(self.dtype))


@register
class Zeros(Created):
    """Zeros of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, 4, f32]:
        return zeros(N, 4)
    """

    name = "zeros"
    again = True
    signatures = ("(shape: dims, dtype: dtype = f32) -> {dtype}[{dims}]",)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return point(0.0)

    def reference(self, *operands: Array) -> Array:
        return self._filled(0)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return fill(builder, result, 0)


@register
class Empty(Created):
    """Memory of a shape that is written before it is read: what it holds until then is nobody's business, and costs
    nothing. Derivatives keep values of loops in such.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return zeros(N)
    """

    name, surface = "empty", False
    signatures = ("(shape: dims, dtype: dtype = f32) -> {dtype}[{dims}]",)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return point(0.0)

    def reference(self, *operands: Array) -> Array:
        return self._filled(0)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return fill(builder, result, 0) if result.dtype.is_complex else builder.value("form.empty", (), result)


@register
class Ones(Created):
    """Ones of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, i32]:
        return ones(N, dtype=i32)
    """

    name = "ones"
    again = True
    signatures = ("(shape: dims, dtype: dtype = f32) -> {dtype}[{dims}]",)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return point(1.0)

    def reference(self, *operands: Array) -> Array:
        return self._filled(1)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return fill(builder, result, 1)


@register
@dataclass(frozen=True)
class Full(Created):
    """One number at every point of a shape.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return full((N,), 0.5)
    """

    name = "full"
    again = True
    signatures = ("(shape: dims, value: number, dtype: dtype = f32) -> {dtype}[{dims}]",)

    value: int | float = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((Dim.const(2), Dim.const(3)), F32, NO_POLICY, 0.5), ())]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return point(self.value)

    def reference(self, *operands: Array) -> Array:
        return self._filled(self.value)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return fill(builder, result, self.value)


@register
@dataclass(frozen=True)
class Eye(Operator):
    """Ones on the k-th diagonal, zeros elsewhere; as many columns as rows unless said. A positive k is to the right of
    the main diagonal.

    def f(x: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
        return x + eye(N) + eye(N, N + 2, k=1)[:, :N]
    """

    name = "eye"
    again = True
    signatures = ("(size: size, columns: size = None, k: int = 0, dtype: dtype = f32) -> {dtype}[{dims}]",)
    others = {"size": ("N", "n"), "columns": ("M", "m")}

    size: Dim
    columns: Dim | None = None
    k: int = 0
    dtype: DType = F32
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        wide = cls(Dim.const(3), Dim.const(5), -1)
        return [(cls(Dim.const(4)), ()), (cls(Dim.const(3), dtype=I64), ()), (cls(Dim.const(0)), ()), (wide, ())]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        rows, columns = self.dims(operands)
        return (
            Need("at_least", rows, ZERO, f"a tensor cannot have {rows} rows"),
            Need("at_least", columns, ZERO, f"a tensor cannot have {columns} columns"),
        )

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return TRUTH

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return self.size, self.size if self.columns is None else self.columns

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def reference(self, *operands: Array) -> Array:
        rows, columns = (dim.evaluate({}) for dim in self.dims(()))
        return np.eye(rows, columns, self.k).astype(numpy_dtype(self.dtype))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        dtype = compute_dtype(result.dtype, result.policy)

        def body(s: Scalars, args: list[Value]) -> Value:
            row = s.index(0, I64)
            diagonal = s.primitive("add", row, s.constant(self.k, I64)) if self.k else row
            return s.cast(s.primitive("eq", diagonal, s.index(1, I64)), dtype)

        return map_form(builder, (), result, body)


@register
@dataclass(frozen=True)
class Arange(Operator):
    """0, 1, ... below `start`, or from `start` below `stop` by `step`, as i64 or another dtype.

    def f(x: Tensor[N, f32]) -> Tensor[N, i64]:
        return arange(1, N + 1)
    """

    name = "arange"
    again = True
    signatures = ("(start: size, stop: size = None, step: int = 1, dtype: dtype = i64) -> {dtype}[{dims}]",)

    start: Dim
    stop: Dim | None = None
    step: int = 1
    dtype: DType = I64
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        bounds = ((5, None, 1), (0, None, 1), (2, 9, 3), (9, 2, -2), (-4, 4, 1))
        dims = [(Dim.const(a), None if b is None else Dim.const(b), step) for a, b, step in bounds]
        return [(cls(*row), ()) for row in dims]

    @property
    def _range(self) -> tuple[Dim, Dim]:
        return (ZERO, self.start) if self.stop is None else (self.start, self.stop)

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        low, high = self._range if self.step > 0 else self._range[::-1]
        step = Dim.const(abs(self.step))
        return (
            Need("at_least", step, ONE, "`arange` needs a step that is not 0"),
            Need("at_least", high, low, f"`arange` from {self._range[0]} never reaches {self._range[1]}"),
        )

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        low, high = self._range if self.step > 0 else self._range[::-1]
        return Interval(extent(low).low, extent(high).high)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        low, high = self._range if self.step > 0 else self._range[::-1]
        return ((high - low).ceil_div(max(abs(self.step), 1)),)

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def reference(self, *operands: Array) -> Array:
        low, high = (bound.evaluate({}) for bound in self._range)
        return np.arange(low, high, self.step).astype(numpy_dtype(self.dtype))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        dtype, start = compute_dtype(result.dtype, result.policy), self._range[0]

        def body(s: Scalars, args: list[Value]) -> Value:
            if (start, self.step) == (ZERO, 1):
                return s.index(0, dtype)
            moved = s.primitive("mul", s.index(0, I64), s.constant(self.step, I64))
            return s.cast(s.primitive("add", s.dim(start, I64), moved), dtype)

        return map_form(builder, (), result, body)
