"""Reductions that answer questions: where the extreme is, whether any or all hold, how many do.

Enters: a tensor and the axes to fold. Leaves: positions, bools or counts; all are maps and folds without rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Broadcast, tensor_type
from tesserac.ops.lowering import Scalars, map_form, reduce_form, scalar_dtype, view_form
from tesserac.ops.reduce import Reduction
from tesserac.ops.registry import Array, Need, Operator, register
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import BOOL, I64
from tesserac.types.ty import TensorType

NOWHERE = 2**63 - 1
"""Larger than any position."""


@dataclass(frozen=True)
class ArgExtreme(Reduction):
    """The position of the first extreme: the smallest position of an element equal to it.

    Of NaN, which equals nothing and wins every fold, the first one is found. Over several axes the position counts
    their elements in row-major order.
    """

    accumulates, ordered = False, True

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls((1,)), ("f32[3, 4]",)),
            (cls((0,), keep=True), ("i32[5, 2]",)),
            (cls((0, 1)), ("f32[3, 4]",)),
            (cls((0,)), ("bf16 @accum(f32)[5, 2]",)),
            (cls(()), ("f32[]",)),
        ]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        folded = product(operands[0].dims[axis] for axis in self.axes)
        return (Need("at_least", folded, ONE, f"`{self.name}` of nothing has no answer"),)

    def _positions(self, find: Callable[..., Array], x: Array) -> Array:
        kept = [axis for axis in range(x.ndim) if axis not in self.axes]
        rows = x.transpose(*kept, *self.axes).reshape(*(x.shape[a] for a in kept), -1)
        found = np.asarray(find(rows, axis=-1))
        return np.expand_dims(found, self.axes) if self.keep else found

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        [x] = operands
        ty = tensor_type(x)
        kept = tuple(axis for axis in range(ty.rank) if axis not in self.axes)
        rows = tuple(ty.dims[axis] for axis in kept)
        best = reduce_form(builder, x, TensorType(rows, ty.dtype, ty.policy), self.kind, self.axes)

        def position(s: Scalars, args: list[Value]) -> Value:
            found = s.primitive("eq", *args)
            if scalar_dtype(args[0]).is_float:
                found = s.primitive("or", found, s.primitive("not", s.primitive("eq", args[0], args[0])))
            return s.select(found, self._row_major(s, ty.dims), s.constant(NOWHERE, I64))

        whole = tuple(range(ty.rank))
        places = map_form(builder, (x, best), TensorType(ty.dims, I64), position, [whole, kept])
        first = reduce_form(builder, places, TensorType(rows, I64), "min", self.axes)
        return view_form(builder, first, result, Broadcast(self.kept_places(ty.rank))) if self.keep else first

    def _row_major(self, s: Scalars, dims: tuple[Dim, ...]) -> Value:
        if not self.axes:
            return s.constant(0, I64)
        first, *others = self.axes
        place = s.index(first, I64)
        for axis in others:
            place = s.primitive("add", s.primitive("mul", place, s.dim(dims[axis], I64)), s.index(axis, I64))
        return place


@register
class ArgMax(ArgExtreme):
    """The position of the largest; the first of equal ones, and of NaNs.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, i64] where N >= 1:
        return argmax(x, axis=N)
    """

    name, kind = "argmax", "max"
    signatures = ("(x: R[*s], axis: axes = None, keep: bool = False) -> i64[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        return self._positions(np.argmax, operands[0])


@register
class ArgMin(ArgExtreme):
    """The position of the smallest; the first of equal ones, and of NaNs.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, i64] where N >= 1:
        return argmin(x, axis=N)
    """

    name, kind = "argmin", "min"
    signatures = ("(x: R[*s], axis: axes = None, keep: bool = False) -> i64[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        return self._positions(np.argmin, operands[0])


@dataclass(frozen=True)
class Quantifier(Reduction):
    """A fold of bools."""

    accumulates = False

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((1,)), ("bool[3, 4]",)), (cls((0,), keep=True), ("bool[3, 4]",)), (cls((0,)), ("bool[0]",))]


@register
class Any(Quantifier):
    """Whether any holds; of nothing, False.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, bool]:
        return any(x > 0.0, axis=N)
    """

    name, kind = "any", "max"
    signatures = ("(x: bool[*s], axis: axes = None, keep: bool = False) -> bool[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.any(x, axis=self.axes, keepdims=self.keep))


@register
class All(Quantifier):
    """Whether all hold; of nothing, True.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, bool]:
        return all(isfinite(x), axis=N)
    """

    name, kind = "all", "min"
    signatures = ("(x: bool[*s], axis: axes = None, keep: bool = False) -> bool[{dims}]",)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.all(x, axis=self.axes, keepdims=self.keep))


@register
class CountNonzero(Reduction):
    """How many are not zero.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, i64]:
        return count_nonzero(x > 0.0, axis=N)
    """

    name, kind, accumulates = "count_nonzero", "sum", False
    signatures = ("(x: V[*s], axis: axes = None, keep: bool = False) -> i64[{dims}]",)

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((1,)), ("bool[3, 4]",)), (cls((0,), keep=True), ("i32[5, 2]",)), (cls((0,)), ("f32[7]",))]

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.count_nonzero(x, axis=self.axes, keepdims=self.keep), np.int64)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        def differs(s: Scalars, args: list[Value]) -> Value:
            dtype = scalar_dtype(args[0])
            if dtype == BOOL:
                return args[0]
            return s.primitive("not", s.primitive("eq", args[0], s.constant(0, dtype)))

        flags = map_form(builder, operands, TensorType(tensor_type(operands[0]).dims, BOOL), differs)
        return super().lower(builder, (flags,), result)
