"""Writes elements of tiles into loop bodies.

Enters: a tile and the place of an element. Leaves: the scalar operations that compute it, in the computing type, each
as far out of the loops as its operands allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import MemRefType, ScalarType, TileType
from tesserac.tile.bodies import constant_scalar, is_plus_zero
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.tiles import (
    Accumulator,
    Axis,
    Converted,
    Counted,
    Filled,
    Gathered,
    Grouped,
    Held,
    Loaded,
    LoweringError,
    Mapped,
    Scalar,
    Stored,
    Tile,
)
from tesserac.tile.dialect import compute_scalar
from tesserac.types.dtype import F32, F64, I64
from tesserac.types.policy import Policy

Places = tuple[Value | None, ...]
"""Where an element stands in a tile; none along a dim that has only one."""


class Evaluator:
    """For one loop nest: an element asked for twice is computed once.

    `outermost` is the depth at which the nest starts, `written` the memory that it writes: other memory is read as far
    out as the nest begins.
    """

    def __init__(self, ctx: Context, outermost: int, written: frozenset[Value] = frozenset()) -> None:
        self.ctx = ctx
        self.outermost = outermost
        self.written = written
        self.transposed: dict[Tile, Stored] = {}
        """Blocks of memory that lie across the vectors of the nest, and their copies that do not."""
        self._elements: dict[tuple[Tile, Places], Value] = {}
        self._bodies: dict[tuple[Tile, Places], Value] = {}

    def element(self, tile: Tile, at: Places) -> Value:
        """The element, rounded to the element type of the tile."""
        key = (tile, at)
        if key not in self._elements:
            self._elements[key] = self._compute(tile, at)
        return self._elements[key]

    def give(self, tile: Held, at: Places, value: Value) -> None:
        """Says what an element is that a loop carries."""
        self._elements[tile, at] = value

    def unrounded(self, tile: Tile, at: Places) -> Value:
        """The element before its last rounding, for a store that rounds by itself."""
        return self._body(tile, at) if isinstance(tile, Mapped) else self.element(tile, at)

    def _compute(self, tile: Tile, at: Places) -> Value:
        match tile:
            case Scalar():
                return tile.value
            case Filled():
                return self.constant(compute_scalar(tile.type), tile.value)
            case Counted():
                return self._position(tile, at[0])
            case Loaded():
                return self._reload(self.transposed[tile], at) if tile in self.transposed else self._load(tile, at)
            case Grouped() | Held():
                raise LoweringError("what is packed, or held by another loop, is not computed with")
            case Gathered():
                return self._gather(tile, at)
            case Stored():
                return self._reload(tile, at)
            case Mapped():
                return self.rounded(self._body(tile, at), tile.type)
            case Converted():
                return self.converted(self.element(tile.source, at), tile.type)

    def constant(self, type_: ScalarType, value: bool | int | float) -> Value:
        return self.ctx.pure("scalar.constant", (), type_, {"value": value})

    def _position(self, tile: Counted, at: Value | None) -> Value:
        (axis,) = tile.axes
        assert axis is not None
        place = axis.start if at is None else self.ctx.index("add", axis.start, at)
        wide = self.ctx.pure("cpu.position", (place,), ScalarType(I64))
        return self.converted(wide, tile.type)

    def _load(self, tile: Loaded, at: Places) -> Value:
        self.ctx.check_current(tile.memory, tile.version)
        return self._access(tile.memory, memory_places(self.ctx, tile.at, at))

    def _gather(self, tile: Gathered, at: Places) -> Value:
        self.ctx.check_current(tile.memory, tile.version)
        places: list[Value] = []
        for place, dims in zip(tile.at, tile.maps, strict=True):
            own = tuple(None if d is None else at[d] for d in dims)
            if isinstance(place, Value):
                places.append(place)
            elif isinstance(place, Axis):
                places.append(_along(self.ctx, place, own[0]))
            else:
                places.append(self.position_of(self.element(place, own)))
        return self.ctx.gather(tile.memory, places, tile.status, tile.wraps, self.outermost)

    def position_of(self, value: Value) -> Value:
        """An integer of any width as one of 64 bits."""
        wide = ScalarType(I64)
        return value if value.type == wide else self._cast(value, wide)

    def _reload(self, tile: Stored, at: Places) -> Value:
        if isinstance(tile, Accumulator):
            raise LoweringError("an accumulator is read before its product is finished")
        return self._access(tile.memory, scratch_places(self.ctx, tile, at))

    def _access(self, memory: Value, places: Sequence[Value]) -> Value:
        assert isinstance(memory.type, MemRefType)
        if memory.type.layout != "strided":
            raise LoweringError("panels are read by products only")
        return self.ctx.load(memory, places, self.ctx.depth if memory in self.written else self.outermost)

    def _body(self, tile: Mapped, at: Places) -> Value:
        key = (tile, at)
        if key not in self._bodies:
            self._bodies[key] = self._inline(tile, at)
        return self._bodies[key]

    def _inline(self, tile: Mapped, at: Places) -> Value:
        block, mapping = tile.op.body, dict[Value, Value]()
        for arg, operand, places in zip(block.args, tile.operands, operand_maps(tile.op), strict=True):
            mapping[arg] = self.element(operand, tuple(None if p is None else at[p] for p in places))
        for op in block.ops[:-1]:
            if op.name == "scalar.index":
                raise LoweringError("positions come from tile.iota", op)
            operands = [mapping.get(v, v) for v in op.operands]
            mapping[op.result] = self._scaled_sum(op, operands) or self.ctx.pure(
                op.name, operands, op.result.type, op.attrs
            )
        (result,) = block.terminator.operands
        return mapping.get(result, result)

    def _scaled_sum(self, op: Op, operands: list[Value]) -> Value | None:
        """A sum that `+ (+0)` ends, times a number above 0, in one step: x * c + 0 has the same bits, of -0 as well."""
        if op.name != "scalar.mul" or op.result.type not in (ScalarType(F32), ScalarType(F64)):
            return None
        added, factor = operands[0].defining_op, constant_scalar(operands[1])
        if added is None or added.name != "scalar.add" or factor is None or not 0.0 < factor < inf:
            return None
        x, zero = added.operands
        return self.ctx.pure("scalar.fma", (x, operands[1], zero), op.result.type) if is_plus_zero(zero) else None

    def rounded(self, value: Value, type_: TileType) -> Value:
        """`value`, in the computing type, rounded to the element type."""
        _check_policy(type_.policy)
        if compute_scalar(type_).dtype == type_.dtype and not type_.policy.saturate:
            return value
        attrs = {"dtype": type_.dtype, "policy": type_.policy}
        return self.ctx.pure("scalar.round", (value,), compute_scalar(type_), attrs)

    def converted(self, value: Value, type_: TileType) -> Value:
        """`value`, of any computing type, rounded once to the element type and widened to the computing type."""
        wide = compute_scalar(type_)
        if value.type == wide:
            return self.rounded(value, type_)
        _check_policy(type_.policy)
        if type_.policy.saturate:
            raise LoweringError(f"no saturating conversion from {value.type} to {type_}")
        narrow = self._cast(value, ScalarType(type_.dtype))
        return narrow if wide.dtype == type_.dtype else self._cast(narrow, wide)

    def _cast(self, value: Value, to: ScalarType) -> Value:
        return self.ctx.pure("scalar.cast", (value,), to, {"dtype": to.dtype})


def memory_places(ctx: Context, at: Sequence[Value | Axis], places: Places) -> list[Value]:
    """Coordinates in memory: an index as it is, an axis at its place."""
    rest = iter(places)
    return [_along(ctx, p, next(rest)) if isinstance(p, Axis) else p for p in at]


def _along(ctx: Context, axis: Axis, place: Value | None) -> Value:
    return axis.start if place is None else ctx.index("add", axis.start, place)


def scratch_places(ctx: Context, tile: Stored, at: Places) -> list[Value]:
    """Where an element of a tile stands in its scratch."""
    places = list(tile.prefix)
    for offset, place in zip(tile.offsets, at, strict=True):
        where = ctx.dim(0) if place is None else place
        places.append(where if offset is None else ctx.index("add", where, offset))
    return places


def _check_policy(policy: Policy) -> None:
    if policy.stochastic_round or policy.scale_axis is not None:
        raise LoweringError(f"no rounding under{policy}")
