"""Tensors with some elements replaced: at places known while compiling, or where integer tensors say.

Enters: a tensor and the new elements. Leaves: a new tensor; whether it is made in place is the compiler's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir import forms
from tesserac.ir.boxes import Box, lies_inside
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.batching import mapped_size, mapped_whole, own_rows
from tesserac.ops.calculus import Writer
from tesserac.ops.index import Lookup
from tesserac.ops.lowering import assemble_form, scatter_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.ops.unify import BroadcastMismatch, Mismatch, Place, RankMismatch, SameSize
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Insert(Operator):
    """`x[a:b] = v`: x with a box of it replaced.

    def f(x: Tensor[N, D, f32], v: Tensor[D, f32]) -> Tensor[N, D, f32] where N >= 1:
        x[0] = v
        return x
    """

    name, surface = "insert", False
    batching = "shifted"
    signatures = ("(x: E[*s], v: E[{dims}]) -> E[*s]",)
    linear = "jointly"

    starts: tuple[Dim, ...]
    steps: tuple[int, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        one = Dim.const(1)
        return [
            (cls((one, ZERO), (1, 1)), ("f32[4, 3]", "f32[2, 3]")),
            (cls((ZERO, one), (1, 2)), ("i32[2, 6]", "i32[2, 3]")),
            (cls((one,), (1,)), ("bf16 @accum(f32)[5]", "bf16 @accum(f32)[0]")),
        ]

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """A box that is not proved to lie inside may be one that only its place in the program makes sure of."""
        x, v = operands
        return not lies_inside(Box(forms.Slice(self.starts, self.steps), v.dims), x.dims)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        new = tensor_type(operands[1])
        if position == 1:
            return write("cut", cotangent, starts=self.starts, sizes=new.dims, steps=self.steps)
        if new.dims == tensor_type(operands[0]).dims and set(self.starts) <= {ZERO} and set(self.steps) <= {1}:
            return None  # nothing of x is left
        return write("insert", cotangent, write.zeros(new), starts=self.starts, steps=self.steps)

    def reference(self, *operands: Array) -> Array:
        x, v = operands
        result = x.copy()
        starts = (start.evaluate({}) for start in self.starts)
        rows = (s + np.arange(n) * t for s, n, t in zip(starts, v.shape, self.steps, strict=True))
        result[np.ix_(*rows)] = v
        return result

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        whole = forms.Slice((ZERO,) * result.rank, (1,) * result.rank)
        return assemble_form(builder, operands, result, [whole, forms.Slice(self.starts, self.steps)])


@register
@dataclass(frozen=True)
class Scatter(Operator):
    """`x.at[i].set(v)`: x with the elements at i replaced; where places repeat, the last one in index order stays, and
    only it has a derivative.

    def f(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]) -> Tensor[N, D, f32]:
        return x.at[i].set(v)
    """

    name, surface = "scatter", False
    signatures = ("(x: E[*s], v: E[{dims}], *index: I[{dims}]) -> E[*s]",)
    linear = "jointly"

    axes: tuple[int, ...]
    at: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls((0,)), ("f32[9, 4]", "f32[20, 4]", "i32[20]")),
            (cls((1,), 1), ("i32[3, 9]", "i32[3, 2, 2]", "i64[2, 2]")),
            (cls((0, 1)), ("f32[9, 9, 2]", "f32[5, 2]", "i32[5]", "i32[]")),
            (cls((0,)), ("f32[9]", "f32[]", "i32[]")),
            (cls((0,)), ("c64[9, 2]", "c64[5, 2]", "i32[5]")),
        ]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        """The new elements have the shape that reading these places would have."""
        x, v, *indices = operands
        lookup = Lookup(self.axes, self.at)
        if (wrong := lookup.mismatch([x, *indices], same)) is not None:
            return wrong
        read = lookup.dims((x, *indices))
        if len(read) != v.rank:
            return RankMismatch(1)
        axis = next((a for a, pair in enumerate(zip(read, v.dims, strict=True)) if not same(*pair)), None)
        return None if axis is None else BroadcastMismatch(Place(1, axis), Place(1, axis))

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """An element that is replaced has none, nor has a new one that another overwrites."""
        v, indices = tensor_type(operands[1]), operands[2:]
        if position == 0:
            return write.apply(self, (cotangent, write.zeros(v), *indices))
        back = write("lookup", cotangent, *indices, axes=self.axes, at=self.at)
        last = self._is_last(write, tensor_type(operands[0]), v, indices)
        return back if last is None else write("where", last, back, write.number(0.0, v))

    def _is_last(self, write: Writer, x: TensorType, v: TensorType, indices: Sequence[Value]) -> Value | None:
        """Whether a new element stays, with 1 for the dims that no index names: written in the same order, its number
        is the one that is left at its place. None where places cannot repeat."""
        kept = x.rank - len(self.axes)
        together = v.dims[self.at : v.rank - kept + self.at]
        if product(together) == ONE:
            return None
        counted = write("arange", start=ZERO, stop=product(together))
        numbers, axes = write.reshape(counted, together), tuple(range(len(self.axes)))
        board = write.full(0, TensorType(tuple(x.dims[axis] for axis in self.axes), I64))
        board = write("scatter", board, numbers, *indices, axes=axes)
        last = write("equal", write("lookup", board, *indices, axes=axes), numbers)
        return write.reshape(last, ((ONE,) * self.at + together + (ONE,) * (kept - self.at)))

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        axes, at, given = mapped_places(write, self.axes, self.at, operands, mapped)
        return write.apply(Scatter(axes, at), given)

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """An index may be out of range."""
        return True

    def reference(self, *operands: Array) -> Array:
        x, v, *indices = operands
        result = np.moveaxis(x, self.axes, range(len(self.axes))).copy()
        new = np.broadcast_shapes(*(index.shape for index in indices))
        rows = np.moveaxis(v, range(self.at, self.at + len(new)), range(len(new)))
        spread = [np.broadcast_to(index, new) for index in indices]
        for place in np.ndindex(*new):
            result[tuple(int(index[place]) for index in spread)] = rows[place]
        return np.moveaxis(result, range(len(self.axes)), self.axes)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, v, *indices = operands
        lookup, dims = Lookup(self.axes, self.at), tensor_type(v).dims
        source, maps = lookup.places(result.rank, [tensor_type(i).dims for i in indices], dims)
        return scatter_form(builder, x, v, indices, result, source, maps, "index")


def mapped_places(
    write: Writer, axes: tuple[int, ...], at: int, operands: Sequence[Value], mapped: Sequence[bool]
) -> tuple[tuple[int, ...], int, list[Value]]:
    """Operands are a tensor, the new elements and an index for each of `axes`, whose dims stand `at`: all three for
    mapped operands. Mapped indices name places of their own row each."""
    size, indices = mapped_size(operands, mapped), operands[2:]
    x, v = mapped_whole(write, operands[:2], mapped[:2], size)
    moved = tuple(axis + 1 for axis in axes)
    if not any(mapped[2:]):
        return moved, at + 1, [x, v, *indices]
    rank, kept = tensor_type(v).rank, tensor_type(x).rank - 1 - len(axes)
    new = range(1 + at, rank - kept + at)
    rows = write.permute(v, [0, *new, *(axis for axis in range(1, rank) if axis not in new)])
    return (0, *moved), 0, [x, rows, *own_rows(write, indices, mapped[2:], size)]
