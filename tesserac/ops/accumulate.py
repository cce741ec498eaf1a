"""Tensors with something added at places that integer tensors say, where places may repeat.

Enters: a tensor, the new elements, the places. Leaves: the tensor; at each place the new elements that name it are
folded in index order, in segments of 512 through the aligned tree, in the accumulation type, and the fold is added to
what stands there.
`folded.py` has the forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer, where_a_number
from tesserac.ops.folded import fold_at
from tesserac.ops.index import Lookup
from tesserac.ops.registry import OPERATORS, Array, Operator, register
from tesserac.ops.unify import BroadcastMismatch, Mismatch, Place, RankMismatch, SameSize
from tesserac.ops.update import Scatter, mapped_places
from tesserac.types.dims import ONE, ZERO, product
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType

UFUNCS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""How a kind of fold joins two values, in NumPy."""
_ELEMENTWISE = {"prod": "mul", "max": "maximum", "min": "minimum"}
"""The operator that joins elements."""


@dataclass(frozen=True)
class FoldAt(Operator):
    """A fold into places: `axes` are those that the indices name, whose dims stand before dim `at` of the others."""

    kinds: ClassVar[tuple[str, ...]]
    surface = False

    axes: tuple[int, ...]
    at: int = 0
    kind: str = ""

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        first, other = cls.kinds[0], cls.kinds[-1]
        return [
            (cls((0,), 0, first), ("f32[9, 4]", "f32[40, 4]", "i32[40]")),
            (cls((1,), 1, other), ("f32[3, 9]", "f32[3, 2, 3]", "i64[2, 3]")),
            (cls((0, 2), 0, first), ("i32[9, 2, 9]", "i32[5, 2]", "i32[5]", "i32[]")),
            (cls((0,), 0, other), ("bf16 @accum(f32)[9]", "bf16 @accum(f32)[30]", "u8[30]")),
            (cls((0,), 0, first), ("f32[9, 2]", "f32[2]", "i32[]")),
            (cls((0,), 0, first), ("f32[9]", "f32[0]", "i32[0]")),
        ]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        return Scatter(self.axes, self.at).mismatch(operands, same)

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        axes, at, given = mapped_places(write, self.axes, self.at, operands, mapped)
        return write.apply(replace(self, axes=axes, at=at), given)

    def is_one_place(self, operands: Sequence[Value]) -> bool:
        """Whether the indices name one place only, as numbers do."""
        return all(product(tensor_type(index).dims) == ONE for index in operands[2:])

    def at_one_place(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value:
        """The tangent where one place changes: what joins two elements says it there, and nothing else is touched."""
        (x, v, *indices), (dx, dv, *_) = operands, tangents

        def there(whole: Value) -> Value:
            return write("lookup", whole, *indices, axes=self.axes, at=self.at)

        changes = None if dx is None else there(dx), dv
        change = OPERATORS[_ELEMENTWISE[self.kind]]().derivative(write, (there(x), v), there(result), changes)
        scatter = Scatter(self.axes, self.at)
        return write.apply(scatter, (write.given(dx, x), write.given(change, v), *indices))

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, v, *indices = operands
        new = np.broadcast_shapes(*(index.shape for index in indices))
        rows = np.moveaxis(v, range(self.at, self.at + len(new)), range(len(new)))
        wide = np.result_type(x, np.float32) if x.dtype.kind not in "iu" else x.dtype
        result = np.moveaxis(x, self.axes, range(len(self.axes))).astype(wide)
        getattr(np, UFUNCS[self.kind]).at(result, tuple(np.broadcast_arrays(*indices)), rows.astype(wide))
        return np.moveaxis(result.astype(x.dtype), range(len(self.axes)), self.axes)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return fold_at(builder, operands, result, Lookup(self.axes, self.at), self.kind)


@register
class AddAt(FoldAt):
    """`x[i] += v` and `x.at[i].add(v)`: places that repeat get the sum of all elements that name them.

    def f(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]) -> Tensor[N, D, f32]:
        x[i] += v
        return x
    """

    name, kinds = "add_at", ("sum",)
    signatures = ("(x: N[*s], v: N[{dims}], *index: I[{dims}]) -> N[*s]",)
    linear = "jointly"

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        if position == 0:
            return cotangent
        return write("lookup", cotangent, *operands[2:], axes=self.axes, at=self.at)


@register
class MultiplyAt(FoldAt):
    """`x[i] *= v` and `x.at[i].mul(v)`: places that repeat get the product of all elements that name them.

    def f(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]) -> Tensor[N, D, f32]:
        x[i] *= v
        return x
    """

    name, kinds = "mul_at", ("prod",)
    signatures = ("(x: N[*s], v: N[{dims}], *index: I[{dims}]) -> N[*s]",)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """A product changes with each factor by the product of the others."""
        (x, v, *indices), (dx, dv, *_) = operands, tangents
        if self.is_one_place(operands):
            return self.at_one_place(write, operands, result, tangents)
        total = None
        if dx is not None:
            ones = write.full(1.0, tensor_type(x))
            total = write("mul", dx, write.apply(self, (ones, v, *indices)))
        if dv is not None:
            old = write("lookup", x, *indices, axes=self.axes, at=self.at)
            change = write("mul", write("mul", dv, old), self._others(write, v, tensor_type(x), indices))
            summed = AddAt(self.axes, self.at, "sum")
            total = write.add(total, write.apply(summed, (write.zeros(tensor_type(x)), change, *indices)))
        return total

    def _others(self, write: Writer, v: Value, x: TensorType, indices: Sequence[Value]) -> Value:
        """For each new element the product of all others with its place. Every pair is compared, since dividing by an
        element would fail at zero."""
        ty = tensor_type(v)
        behind = x.rank - len(self.axes) - self.at
        together = ty.dims[self.at : ty.rank - behind]
        count, before, after = product(together), ty.dims[: self.at], ty.dims[ty.rank - behind :]
        key = write.full(0, TensorType((count,), I64))
        for axis, index in zip(self.axes, indices, strict=True):
            size = write.size(x.dims[axis], TensorType((), I64))
            place = write("mod", write.expand(write("cast", index, dtype=I64), together), size)
            key = write("add", write("mul", key, size), write.reshape(place, (count,)))
        places = write("arange", start=ZERO, stop=count)
        across = [(write.reshape(row, (count, ONE)), write.reshape(row, (ONE, count))) for row in (key, places)]
        other = write("bitwise_and", write("equal", *across[0]), write("not_equal", *across[1]))
        other = write.reshape(other, (*(ONE for _ in before), count, count, *(ONE for _ in after)))
        factors = write.reshape(v, (*before, ONE, count, *after))
        chosen = write("where", other, factors, write.number(1.0, ty))
        return write.reshape(write("prod", chosen, axes=(self.at + 1,)), ty.dims)


@register
class ExtremeAt(FoldAt):
    """`x.at[i].max(v)` and `x.at[i].min(v)`: places get the extreme of what stood there and all that name them. Equal
    ones share the derivative equally; where the result is NaN, so is the derivative.

    def f(x: Tensor[N, f32], i: Tensor[K, i32], v: Tensor[K, f32]) -> Tensor[N, f32]:
        return x.at[i].max(v)
    """

    name, kinds = "extreme_at", ("max", "min")
    signatures = ("(x: R[*s], v: R[{dims}], *index: I[{dims}]) -> R[*s]",)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """Those that are the extreme share equally."""
        (x, v, *indices), (dx, dv, *_) = operands, tangents
        if self.is_one_place(operands):
            return self.at_one_place(write, operands, result, tangents)
        summed, zero = AddAt(self.axes, self.at, "sum"), write.number(0.0, tensor_type(x))
        found = write("lookup", result, *indices, axes=self.axes, at=self.at)
        loses = [
            write("less", *((new, best) if self.kind == "max" else (best, new)))
            for new, best in ((x, result), (v, found))
        ]

        def gathered(first: Value | None, second: Value | None) -> Value:
            """What does not change is a plain zero: one that is chosen is not known to be."""
            chosen = (
                write.zeros(tensor_type(own)) if y is None else write("where", lost, zero, y)
                for lost, own, y in zip(loses, (x, v), (first, second), strict=True)
            )
            return write.apply(summed, (*chosen, *indices))

        shares = gathered(write.full(1.0, tensor_type(x)), write.full(1.0, tensor_type(v)))
        change = gathered(dx, dv)
        most = write("maximum", shares, write.number(1.0, tensor_type(x)))
        return write("div", change, where_a_number(write, most, result))


@register
@dataclass(frozen=True)
class ScatterAdd(Operator):
    """x with elements of v added at the places along an axis that the index names; v has the shape of
    `gather(x, index, axis)`. The elements for one place are summed first, in index order: one after the other in
    segments of 512, and these through the aligned tree.

    def f(grads: Tensor[B, S, D, f32], tokens: Tensor[B, S, i32], table: Tensor[N, D, f32]) -> Tensor[N, D, f32]:
        return scatter_add(table, tokens, grads)
    """

    name = "scatter_add"
    signatures = ("(x: N[*s], index: I[*t], v: N[{dims}], axis: axis = 0) -> N[*s]",)
    linear = "jointly"

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(), ("f32[9, 4]", "i32[3, 20]", "f32[3, 20, 4]")),
            (cls(1), ("i32[2, 9, 3]", "i64[5]", "i32[2, 5, 3]")),
        ]

    def _fold(self) -> AddAt:
        return AddAt((self.axis,), self.axis, "sum")

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        """v has the dims of x, but those of the index in place of the axis."""
        x, index, v = operands
        places = [Place(0, axis) for axis in range(x.rank)]
        places[self.axis : self.axis + 1] = [Place(1, axis) for axis in range(index.rank)]
        if len(places) != v.rank:
            return RankMismatch(2)
        for axis, place in enumerate(places):
            if not same(operands[place.operand].dims[place.axis], v.dims[axis]):
                return BroadcastMismatch(place, Place(2, axis))
        return None

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return cotangent if position == 0 else write("gather", cotangent, operands[1], axis=self.axis)

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        order = (0, 2, 1)
        return self._fold().batched(write, [operands[i] for i in order], [mapped[i] for i in order])

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, index, v = operands
        return self._fold().reference(x, v, index)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, index, v = operands
        return fold_at(builder, (x, v, index), result, Lookup((self.axis,), self.axis), "sum")
