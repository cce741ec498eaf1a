"""Reading at places that other tensors say.

Enters: a tensor and integer tensors of positions; a negative one counts from the end. Leaves: the elements found there.
A position out of range ends the call with a status.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.batching import after_new_dims, aligned, mapped_size, own_rows, shifted
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import DimMap, Scalars, broadcast_map, gather_form, map_form, position_of
from tesserac.ops.registry import Array, Need, Operator, numpy_dtype, register
from tesserac.ops.unify import BroadcastMismatch, Mismatch, Place, RankMismatch, SameSize, broadcast
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import F32, I64, DType
from tesserac.types.policy import NO_POLICY, Policy, compute_dtype
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Gather(Operator):
    """NumPy's take: the slices of x along an axis that the index names, in the shape of the index.

    def embed(tokens: Tensor[B, S, i32], table: Tensor[N, D, f32]) -> Tensor[B, S, D, f32]:
        return gather(table, tokens, axis=N)
    """

    name = "gather"
    signatures = ("(x: E[*s], index: I[*t], axis: axis = 0) -> E[{dims}]",)
    linear = "jointly"

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(0), ("f32[9, 4]", "i32[2, 3]")),
            (cls(1), ("bf16 @accum(f32)[3, 9]", "i64[5]")),
            (cls(0), ("f32[9]", "u8[]")),
            (cls(1), ("c64[3, 9]", "i32[4]")),
            (cls(1), ("i32[2, 9, 3]", "i32[0]")),
        ]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        x, index = operands
        return (*x.dims[: self.axis], *index.dims, *x.dims[self.axis + 1 :])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write("scatter_add", write.zeros(tensor_type(operands[0])), operands[1], cotangent, axis=self.axis)

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        if not mapped[1]:
            return write.apply(shifted(self), operands)
        return Lookup((self.axis,), self.axis).batched(write, operands, mapped)

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, index = operands
        return np.take(x, index, self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, index = operands
        new, rank = tensor_type(index).rank, tensor_type(x).rank
        behind = range(self.axis + new, new + rank - 1)
        source: DimMap = (*range(self.axis), None, *behind)
        places = tuple(range(self.axis, self.axis + new))
        return gather_form(builder, x, (index,), result, source, [places], self.name)


@register
@dataclass(frozen=True)
class TakeAlongAxis(Operator):
    """At every point of the index the element of x that it names along an axis; the other dims are those of x.

    def f(x: Tensor[B, N, f32], best: Tensor[B, 1, i64]) -> Tensor[B, 1, f32]:
        return take_along_axis(x, best, axis=N)
    """

    name = "take_along_axis"
    others = {"index": ("indices",)}
    batching = "shifted"
    signatures = ("(x: E[{dims}], index: I[{dims}], axis: axis) -> E[{dims}]",)
    linear = "jointly"

    axis: int

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(1), ("f32[3, 9]", "i32[3, 4]")), (cls(0), ("i32[9, 2]", "i64[1, 2]"))]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        x, index = operands
        if x.rank != index.rank:
            return RankMismatch(1)
        for axis, (left, right) in enumerate(zip(x.dims, index.dims, strict=True)):
            if axis != self.axis and not same(left, right):
                return BroadcastMismatch(Place(0, axis), Place(1, axis))
        return None

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return operands[1].dims

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """Every place of the index as one place per dim, so that elements add up there."""
        whole, dims = tensor_type(operands[0]), tensor_type(cotangent).dims
        if dims[self.axis] == ONE:
            return self._at_one_place(write, cotangent, operands[1], whole)
        places = [write.places(dims, axis) for axis in range(len(dims))]
        places[self.axis] = write("cast", operands[1], dtype=I64)
        return write("add_at", write.zeros(whole), cotangent, *places, axes=tuple(range(len(dims))), kind="sum")

    def _at_one_place(self, write: Writer, cotangent: Value, index: Value, whole: TensorType) -> Value:
        """Where each row has one place there is nothing to add up: it is found by comparing, in the order of memory.
        Zero is added as to the elements of any sum, which makes a zero positive."""
        place, count = write("cast", index, dtype=I64), write.size(whole.dims[self.axis], TensorType((), I64))
        behind = write("less", place, write.full(0, TensorType((), I64)))
        place = write("where", behind, write("add", place, count), place)
        hit = write("equal", write.places(whole.dims, self.axis), place)
        zero = write.number(0.0, whole)
        return write("where", hit, write("add", cotangent, zero), zero)

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, index = operands
        return np.take_along_axis(x, index.astype(np.int64), self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, index = operands
        source = tuple(None if axis == self.axis else axis for axis in range(result.rank))
        return gather_form(builder, x, (index,), result, source, [tuple(range(result.rank))], self.name)


@register
@dataclass(frozen=True)
class Lookup(Operator):
    """`x[i, j]` with integer tensors: they broadcast together, and their dims stand before dim `at` of those that stay.

    def f(x: Tensor[N, N, f32], i: Tensor[K, i32], j: Tensor[K, i32]) -> Tensor[K, f32]:
        return x[i, j]
    """

    name, surface = "lookup", False
    signatures = ("(x: E[*s], *index: I[{dims}]) -> E[{dims}]",)
    linear = "jointly"

    axes: tuple[int, ...]
    at: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls((0, 1)), ("f32[9, 9]", "i32[3]", "i32[3]")),
            (cls((0, 2)), ("f32[9, 2, 9]", "i32[3, 1]", "i32[1, 4]")),
            (cls((1, 2), at=1), ("f32[2, 9, 9, 3]", "i32[4]", "i32[]")),
        ]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        try:
            self._together(operands, same)
        except Mismatch as mismatch:
            return mismatch
        return None

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        together = self._together(operands, eq)
        dims = [operands[0].dims[axis] for axis in self._kept(operands[0].rank)]
        return (*dims[: self.at], *together, *dims[self.at :])

    def _together(self, operands: Sequence[TensorType], same: SameSize) -> tuple[Dim, ...]:
        return broadcast([(ty.dims, Place(i, 0)) for i, ty in enumerate(operands) if i], same)

    def _kept(self, rank: int) -> list[int]:
        return [axis for axis in range(rank) if axis not in self.axes]

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        zeros = write.zeros(tensor_type(operands[0]))
        return write("add_at", zeros, cotangent, *operands[1:], axes=self.axes, at=self.at, kind="sum")

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """Mapped indices put the mapped dim in front of their own; into a mapped tensor each reads its own row."""
        x, *indices = operands
        if not any(mapped[1:]):
            return write.apply(shifted(self), operands)
        if mapped[0]:
            rows = own_rows(write, indices, mapped[1:], mapped_size(operands, mapped))
            found = write.apply(Lookup((0, *shifted(self).axes)), (x, *rows))
        else:
            found = write.apply(Lookup(self.axes), (x, *aligned(write, indices, mapped[1:])))
        rank = tensor_type(found).rank
        new = rank - 1 - len(self._kept(tensor_type(x).rank - mapped[0]))
        return write.permute(found, after_new_dims(new, self.at, rank))

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, *indices = operands
        first = np.moveaxis(x, self.axes, range(len(self.axes)))[tuple(indices)]
        new = np.broadcast_shapes(*(index.shape for index in indices))
        return np.moveaxis(first, range(len(new)), range(self.at, self.at + len(new)))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, *indices = operands
        source, maps = self.places(tensor_type(x).rank, [tensor_type(v).dims for v in indices], result.dims)
        return gather_form(builder, x, indices, result, source, maps, "index")

    def places(
        self, rank: int, indices: Sequence[tuple[Dim, ...]], read: tuple[Dim, ...]
    ) -> tuple[DimMap, list[DimMap]]:
        """Where the dims of a tensor of `rank` dims, and those of the indices, stand among the dims that are read."""
        kept, new, at = self._kept(rank), len(read) - (rank - len(self.axes)), self.at
        source = {axis: i if i < at else i + new for i, axis in enumerate(kept)}
        maps = [broadcast_map(dims, read[at : at + new]) for dims in indices]
        moved: list[DimMap] = [tuple(None if p is None else p + at for p in m) for m in maps]
        return tuple(map(source.get, range(rank))), moved


@register
@dataclass(frozen=True)
class SliceAt(Operator):
    """`size` elements along an axis from a start that only the run knows; the other dims stay whole.

    def window(x: Tensor[N, D, f32], start: i32) -> Tensor[1, D, f32] where N >= 1:
        return slice(x, start, 1)
    """

    name = "slice"
    signatures = ("(x: E[*s], start: I[], size: size, axis: axis = 0) -> E[{dims}]",)
    linear = "jointly"

    size: Dim
    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(Dim.const(3)), ("f32[12, 2]", "i32[]")), (cls(Dim.const(2), 1), ("i32[2, 10]", "i64[]"))]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        whole = operands[0].dims[self.axis]
        return (
            Need("at_least", whole, self.size, f"a slice of {self.size} does not fit into a dim of {whole}"),
            Need("at_least", self.size, ZERO, f"a slice cannot have size {self.size}"),
        )

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = operands[0].dims
        return (*dims[: self.axis], self.size, *dims[self.axis + 1 :])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """Zeros with the elements put back, which were in range when they were read."""
        whole = tensor_type(operands[0])
        taken = self._places(write, operands[1], write.size(whole.dims[self.axis], TensorType((), I64)))
        return write("scatter", write.zeros(whole), cotangent, taken, axes=(self.axis,), at=self.axis)

    def _places(self, write: Writer, start: Value, whole: Value) -> Value:
        """The places behind each start. One that is out of range stays so: it becomes the size."""
        zero = write.full(0, TensorType((), I64))
        first = write("cast", start, dtype=I64, policy=NO_POLICY)
        counted = write("where", write("less", first, zero), write("add", first, whole), first)
        valid = write("where", write("less", counted, zero), whole, counted)
        column = write.reshape(valid, (*tensor_type(valid).dims, ONE))
        ones = (ONE,) * (tensor_type(column).rank - 1)
        return write("add", column, write.reshape(write("arange", start=self.size), (*ones, self.size)))

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """Mapped starts read the elements behind each."""
        x, start = operands
        if not mapped[1]:
            return write.apply(shifted(self), operands)
        whole = write.size(tensor_type(x).dims[self.axis + mapped[0]], TensorType((), I64))
        places = self._places(write, start, whole)
        return Gather(self.axis).batched(write, (x, places), mapped)

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, start = operands
        return np.take(x, start + np.arange(self.size.evaluate({})), self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, start = operands
        whole = tensor_type(x).dims[self.axis]

        def position(s: Scalars, args: list[Value]) -> Value:
            given, zero = position_of(s, args[0]), s.constant(0, I64)
            below = s.primitive("lt", given, zero)
            first = s.select(below, s.primitive("add", given, s.dim(whole, I64)), given)
            place = s.primitive("add", first, s.index(0, I64))
            return s.select(s.primitive("lt", first, zero), given, place)  # an error then names what was given

        index = map_form(builder, (start,), TensorType((self.size,), I64), position, [()])
        source = tuple(None if axis == self.axis else axis for axis in range(result.rank))
        return gather_form(builder, x, (index,), result, source, [(self.axis,)], self.name, "exact")


@register
@dataclass(frozen=True)
class OneHot(Operator):
    """1 at the position that each index names, 0 elsewhere; an index out of range names none.

    def f(labels: Tensor[B, i32]) -> Tensor[B, 10, f32]:
        return one_hot(labels, 10)
    """

    name = "one_hot"
    again = True
    batching = "leading"
    signatures = ("(index: I[*s], classes: size, dtype: dtype = f32) -> {dtype}[{dims}]",)
    others = {"classes": ("num_classes", "depth")}

    classes: Dim
    dtype: DType = F32
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(Dim.const(6)), ("i32[3, 4]",)), (cls(Dim.const(9), I64), ("u8[5]",)), (cls(ZERO), ("i64[2]",))]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return (Need("at_least", self.classes, ZERO, f"there cannot be {self.classes} classes"),)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (*operands[0].dims, self.classes)

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def reference(self, *operands: Array) -> Array:
        [index] = operands
        hot = np.equal(index[..., None].astype(np.int64), np.arange(self.classes.evaluate({})))
        return np.asarray(hot, numpy_dtype(self.dtype))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        last = result.rank - 1
        dtype = compute_dtype(result.dtype, result.policy)

        def body(s: Scalars, args: list[Value]) -> Value:
            return s.cast(s.primitive("eq", s.cast(args[0], I64), s.index(last, I64)), dtype)

        return map_form(builder, operands, result, body, [tuple(range(last))])
