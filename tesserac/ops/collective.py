"""Collectives: what the devices along an axis of a mesh compute together, each with a tensor of its own.

Enters: the tensor of one device. Leaves: the one that it has afterwards. All devices of the axis come to a collective,
in one order: see `ir/ordering.py`. Each operator says in `together` what it makes of the tensors of all devices at
once: that is how `pmap` computes it, and how one device alone does. See Note [The derivative of a collective].
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
from tesserac.ir.ordering import COLLECTIVE
from tesserac.numerics.interval import Interval
from tesserac.ops.calculus import Writer, where_a_number
from tesserac.ops.lowering import map_form
from tesserac.ops.registry import Array, Extent, Need, Operator, register
from tesserac.types.dims import ONE, Dim
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType

FREE = "devices_of_"
"""How the sizes are called of axes that a function leaves open: whoever calls it says how many devices there are."""


def free_size(axis: str) -> str:
    return f"{FREE}{axis}"


@dataclass(frozen=True)
class Collective(Operator):
    """`across` is the name of an axis, and `devices` how many devices it has."""

    surface = False
    effect = COLLECTIVE
    agreed: ClassVar[bool] = False
    """Whether all devices have the same afterwards."""

    across: str
    devices: Dim

    def together(self, write: Writer, rows: Value) -> Value:
        """What all devices have afterwards, of which each had a row: a row for each again, or one tensor where they
        have `agreed`."""
        raise NotImplementedError(f"{self.name} does not say what devices do together")

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        """One device is all there are. It computes what several would, so that a sum of one is a sum."""
        assert self.devices == ONE, f"{self.name} across {self.devices} devices has no code"
        write = _lowering(builder)
        rows = write.reshape(operands[0], (ONE, *tensor_type(operands[0]).dims))
        return write.reshape(self.together(write, rows), result.dims)


def _lowering(builder: Builder) -> Writer:
    """Writes operators as their forms."""

    def emit(operator: Operator, operands: Sequence[Value]) -> Value:
        return operator.lower(builder, operands, operator.infer([tensor_type(v) for v in operands]))

    def size(dim: Dim, ty: TensorType) -> Value:
        return map_form(builder, (), ty, lambda s, _: s.dim(dim, compute_dtype(ty.dtype, ty.policy)))

    return Writer(emit, size)


# ------------------------------------------------------------------------------------------------------ reductions


@dataclass(frozen=True)
class AllReduce(Collective):
    """Element by element over all devices, by the reduction called `fold`."""

    fold: ClassVar[str]
    agreed = True
    batching = "leading"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        element = "bool" if cls.fold in ("any", "all") else "f32"
        return [(cls("dp", ONE), (f"{element}[3, 4]",)), (cls("dp", ONE), (f"{element}[]",))]

    def together(self, write: Writer, rows: Value) -> Value:
        ty = tensor_type(rows)
        return write.stored(write(self.fold, rows, axes=(0,)), TensorType(ty.dims[1:], ty.dtype, ty.policy))

    def reference(self, *operands: Array) -> Array:
        return np.asarray(operands[0])


@dataclass(frozen=True)
class LinearAllReduce(AllReduce):
    """What every device gives goes to every device, so that what comes back does too."""

    linear = "jointly"

    def transpose(self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int) -> Value | None:
        return write.apply(self, [cotangent])


@register
@dataclass(frozen=True)
class AllReduceSum(LinearAllReduce):
    """The sum over all devices, in the dtype of x.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32] uses none:
        return pmap(lambda row: all_reduce(row, "dp"), axis_name="dp")(x)
    """

    name, fold = "all_reduce_sum", "sum"
    signatures = ("(x: N[*s]) -> N[*s]",)


@register
@dataclass(frozen=True)
class AllReduceMean(LinearAllReduce):
    """The mean over all devices, rounded once.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses collective:
        return all_reduce(x, "dp", op="mean")
    """

    name, fold = "all_reduce_mean", "mean"
    signatures = ("(x: A[*s]) -> A[*s]",)


@dataclass(frozen=True)
class AllReduceExtreme(AllReduce):
    """Devices that have the extreme share its derivative equally; where the result is NaN, so is the derivative."""

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return ranges[0]

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        [x], [dx] = operands, tangents
        assert dx is not None
        one, zero = write.number(1.0, tensor_type(x)), write.number(0.0, tensor_type(x))
        inner = write("less", *((x, result) if self.fold == "max" else (result, x)))
        total = AllReduceSum(self.across, self.devices)
        count, change = (write.apply(total, [write("where", inner, zero, value)]) for value in (one, dx))
        return write("div", change, where_a_number(write, write("maximum", count, one), result))


@register
@dataclass(frozen=True)
class AllReduceMax(AllReduceExtreme):
    """The largest over all devices; NaN wins.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses collective:
        return all_reduce(x, "dp", op="max")
    """

    name, fold = "all_reduce_max", "max"
    signatures = ("(x: R[*s]) -> R[*s]",)


@register
@dataclass(frozen=True)
class AllReduceMin(AllReduceExtreme):
    """The smallest over all devices; NaN wins.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses collective:
        return all_reduce(x, "dp", op="min")
    """

    name, fold = "all_reduce_min", "min"
    signatures = ("(x: R[*s]) -> R[*s]",)


@register
@dataclass(frozen=True)
class AllReduceAny(AllReduce):
    """Whether it holds on some device.

    def f(x: Tensor[N, f32]) -> Tensor[bool] uses collective:
        return all_reduce(any(x > 1.0), "dp", op="any")
    """

    name, fold = "all_reduce_any", "any"
    signatures = ("(x: bool[*s]) -> bool[*s]",)


@register
@dataclass(frozen=True)
class AllReduceAll(AllReduce):
    """Whether it holds on every device.

    def f(x: Tensor[N, f32]) -> Tensor[bool] uses collective:
        return all_reduce(all(isfinite(x)), "dp", op="all")
    """

    name, fold = "all_reduce_all", "all"
    signatures = ("(x: bool[*s]) -> bool[*s]",)


# ------------------------------------------------------------------------------------------------ exchanges of parts


@register
@dataclass(frozen=True)
class AllGather(Collective):
    """The tensors of all devices, one behind the other along a dim.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, B * N, f32]:
        return pmap(lambda row: all_gather(row, "dp"), axis_name="dp")(x)
    """

    name = "all_gather"
    signatures = ("(x: E[*s]) -> E[{dims}]",)
    linear = "jointly"
    batching = "shifted"
    agreed = True

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls("dp", ONE, axis), ("f32[3, 4]",)) for axis in (0, 1)]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return _scaled(operands[0].dims, self.axis, self.devices)

    def together(self, write: Writer, rows: Value) -> Value:
        return _joined(write, rows, 0, self.axis)

    def transpose(self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int) -> Value | None:
        return write.apply(ReduceScatter(self.across, self.devices, self.axis), [cotangent])

    def reference(self, *operands: Array) -> Array:
        return np.asarray(operands[0])


@register
@dataclass(frozen=True)
class ReduceScatter(Collective):
    """The sum over all devices, of which each keeps its part of a dim.

    def f(x: Tensor[2, 2 * N, f32]) -> Tensor[2, N, f32]:
        return pmap(lambda row: reduce_scatter(row, "dp"), axis_name="dp")(x)
    """

    name = "reduce_scatter"
    signatures = ("(x: N[*s]) -> N[{dims}]",)
    linear = "jointly"
    batching = "shifted"

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls("dp", ONE, axis), ("f32[3, 4]",)) for axis in (0, 1)]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return (_divides(self, operands[0].dims[self.axis]),)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return _divided(operands[0].dims, self.axis, self.devices)

    def together(self, write: Writer, rows: Value) -> Value:
        total = AllReduceSum(self.across, self.devices).together(write, rows)
        return _parted(write, total, self.axis, self.devices)

    def transpose(self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int) -> Value | None:
        return write.apply(AllGather(self.across, self.devices, self.axis), [cotangent])

    def reference(self, *operands: Array) -> Array:
        return np.asarray(operands[0])


@register
@dataclass(frozen=True)
class AllToAll(Collective):
    """Every device gives every other one a part of a dim, and joins what it is given along another.

    def f(x: Tensor[2, 2 * N, M, f32]) -> Tensor[2, N, 2 * M, f32]:
        return pmap(lambda part: all_to_all(part, "dp", split_axis=0, concat_axis=1), axis_name="dp")(x)
    """

    name = "all_to_all"
    signatures = ("(x: E[*s]) -> E[{dims}]",)
    linear = "jointly"

    split: int = 0
    concat: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls("dp", ONE, *axes), ("f32[3, 4]",)) for axes in ((0, 1), (1, 1))]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return (_divides(self, operands[0].dims[self.split]),)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return _scaled(_divided(operands[0].dims, self.split, self.devices), self.concat, self.devices)

    def together(self, write: Writer, rows: Value) -> Value:
        """A part goes from the row of its giver to the row of its receiver."""
        parts = _parted(write, rows, self.split + 1, self.devices)
        return _joined(write, parts, 1, self.concat + 1)

    def transpose(self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int) -> Value | None:
        return write.apply(replace(self, split=self.concat, concat=self.split), [cotangent])

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        return write.apply(replace(self, split=self.split + 1, concat=self.concat + 1), operands)

    def reference(self, *operands: Array) -> Array:
        return np.asarray(operands[0])


# ----------------------------------------------------------------------------------------------------------- dims


def _divides(operator: Collective, dim: Dim) -> Need:
    problem = f"`{operator.name}` gives {operator.devices} devices equal parts of a dim, which {dim} has not"
    return Need("divides", operator.devices, dim, problem)


def _scaled(dims: Sequence[Dim], axis: int, factor: Dim) -> tuple[Dim, ...]:
    return tuple(dim * factor if place == axis else dim for place, dim in enumerate(dims))


def _divided(dims: Sequence[Dim], axis: int, divisor: Dim) -> tuple[Dim, ...]:
    return tuple(dim.exact_div(divisor) if place == axis else dim for place, dim in enumerate(dims))


def _joined(write: Writer, value: Value, source: int, axis: int) -> Value:
    """Dim `source` merged into the one that is at `axis` without it, of which it counts whole copies."""
    dims = list(tensor_type(value).dims)
    order = [place for place in range(len(dims)) if place != source]
    order.insert(axis, source)
    count = dims.pop(source)
    return write.reshape(write.permute(value, order), _scaled(dims, axis, count))


def _parted(write: Writer, value: Value, axis: int, count: Dim) -> Value:
    """A dim cut into this many equal parts, whose number becomes the first dim."""
    dims = tensor_type(value).dims
    cut = (*dims[:axis], count, dims[axis].exact_div(count), *dims[axis + 1 :])
    order = [axis, *(place for place in range(len(cut)) if place != axis)]
    return write.permute(write.reshape(value, cut), order)


# Note [The derivative of a collective]
# All are linear, but for extremes. Devices run one program, and what is differentiated is the program of all of them:
# the sum over devices of what each gives weight to. So a cotangent that one device has of what another gave it goes
# back there: a sum goes back as a sum, `all_gather` as `reduce_scatter` and this as that, `all_to_all` as the exchange
# the other way. The gradient under `pmap` is that of the whole computation, however the two are nested.
