"""fuse(consumer, producer): a map computes the elements of another itself, so that they never go through memory.

    before  %t = form.map(%x) {maps = [[0, 1]]} { ^(a): form.yield(exp(a)) } : bf16 @accum(f32)
            %y = form.map(%t, %b) {maps = [[0, 1], [1]]} { ^(c, d): form.yield(c + d) }
    after   %y = form.map(%x, %b) {maps = [[0, 1], [1]]} { ^(a, d): form.yield(round(exp(a)) + d) }

The producer stays for its other uses. Where its result was rounded to storage, the body rounds too: the bits are those
of the unfused program. Equal operations of the two bodies become one, so a chain of diamonds stays linear in size.
Works on form.map and tile.map alike.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Region, Value, clone_op
from tesserac.ir.forms import operand_maps
from tesserac.ir.printer import print_attr
from tesserac.ir.types import ScalarType, TensorType, TileType
from tesserac.schedule.model.legality import IllegalSchedule
from tesserac.types.policy import compute_dtype

DimMap = tuple[int | None, ...]


def fuse(consumer: Op, producer: Op) -> None:
    """Inlines `producer` wherever `consumer` reads it."""
    Fuser().fuse(consumer, producer)


class Fuser:
    """Fuses maps one after the other. A body that has grown so goes over whole into the only map that reads it, so that
    a chain of maps is walked once, not once for each of its links."""

    def __init__(self) -> None:
        self._grown: dict[Op, _Fused] = {}

    def fuse(self, consumer: Op, producer: Op) -> None:
        """Inlines `producer` wherever `consumer` reads it; where it is given away, nothing is left of its body."""
        if why := refusal(consumer, producer):
            raise IllegalSchedule("fuse", why, consumer)
        old, given = consumer.body, self._given(consumer, producer)
        fused = _Fused(consumer) if given is None else given
        whole = fused.take(consumer, producer) if given is not None else None
        for value, dim_map, arg in zip(consumer.operands, operand_maps(consumer), old.args, strict=True):
            if value.owner is producer:
                fused.values[arg] = fused.inline(producer, dim_map) if whole is None else whole
            else:
                fused.values[arg] = fused.argument(value, dim_map)
        for op in old.ops[:-1]:
            fused.values[op.result] = fused.copy(op, fused.values)
        fused.block.append(clone_op(old.terminator, fused.values))
        old.drop_all_uses()
        fused.settle(consumer)
        self._grown[consumer] = fused

    def _given(self, consumer: Op, producer: Op) -> _Fused | None:
        """The body that a map gives away: one that grew here, which only `consumer` reads, place by place."""
        reads = zip(consumer.operands, operand_maps(consumer), strict=True)
        maps = [dim_map for value, dim_map in reads if value.owner is producer]
        in_place = all(dim_map == tuple(range(len(dim_map))) for dim_map in maps)
        alone = all(user is consumer for user, _ in producer.result.uses)
        return self._grown.pop(producer, None) if alone and in_place else None


def refusal(consumer: Op, producer: Op) -> str | None:
    """Why the two cannot become one map; None if they can."""
    for op in (consumer, producer):
        if op.name not in ("form.map", "tile.map"):
            return f"{op.name} is not a map; only maps have one computation per element"
    if all(value.owner is not producer for value in consumer.operands):
        return "the consumer does not read the producer directly; a view or another operation stands between"
    if _stored(producer.result).policy.stochastic_round:
        return "the producer rounds stochastically, by the position of the element in its own result"
    return None


def _stored(value: Value) -> TensorType | TileType:
    assert isinstance(value.type, TensorType | TileType)
    return value.type


class _Fused:
    """The body of the fused map while it grows: its arguments, each operand and index map once."""

    def __init__(self, consumer: Op) -> None:
        self.block = Block()
        self.builder = Builder(self.block, consumer.span)
        self.args: dict[tuple[Value, DimMap], Value] = {}
        self.values: dict[Value, Value] = {}
        self.known: dict[tuple[object, ...], Value] = {}

    def take(self, consumer: Op, producer: Op) -> Value:
        """Goes on as the body of `consumer`; gives the value that `producer` had as its result."""
        self.builder.span, self.values = consumer.span, {}
        last = self.block.terminator
        (result,) = last.operands
        last.erase()
        producer.regions.clear()
        return self._rounded(result, producer)

    def settle(self, consumer: Op) -> None:
        """Makes this the body of `consumer`, and its arguments the operands."""
        region = Region(self.block)
        region.parent = consumer
        consumer.regions[0] = region
        consumer.set_operands([value for value, _ in self.args])
        consumer.attrs["maps"] = tuple(dim_map for _, dim_map in self.args)

    def argument(self, value: Value, dim_map: DimMap) -> Value:
        key = (value, dim_map)
        if key not in self.args:
            stored = _stored(value)
            type_ = ScalarType(compute_dtype(stored.dtype, stored.policy))
            self.args[key] = self.block.add_arg(type_, value.name)
        return self.args[key]

    def inline(self, producer: Op, dim_map: DimMap) -> Value:
        """The producer's computation at the element that `dim_map` reads."""
        mapping: dict[Value, Value] = {}
        for value, inner, arg in zip(producer.operands, operand_maps(producer), producer.body.args, strict=True):
            reached = tuple(None if i is None else dim_map[i] for i in inner)
            mapping[arg] = self.argument(value, reached)
        for op in producer.body.ops[:-1]:
            mapping[op.result] = self._moved(op, mapping, dim_map)
        (result,) = producer.body.terminator.operands
        return self._rounded(mapping[result], producer)

    def copy(self, op: Op, mapping: dict[Value, Value]) -> Value:
        """The operation in the fused body; an equal one that stands there already, if there is one."""
        operands = tuple(mapping.get(v, v) for v in op.operands)
        attrs = tuple((name, print_attr(value)) for name, value in op.attrs.items())
        key = (op.opdef, operands, attrs, op.result.type)
        if key not in self.known:
            self.known[key] = self.block.append(clone_op(op, dict(mapping))).result
        return self.known[key]

    def _moved(self, op: Op, mapping: dict[Value, Value], dim_map: DimMap) -> Value:
        """A producer's operation in the consumer's space: positions are counted along the consumer's axes."""
        axis = op.attrs.get("axis")
        if op.name != "scalar.index" or not isinstance(axis, int):
            return self.copy(op, mapping)
        place = dim_map[axis]
        if place is None:  # a dim of size 1: the only position is 0
            return self.builder.value("scalar.constant", (), op.result.type, {"value": 0})
        return self.builder.value("scalar.index", (), op.result.type, {"axis": place})

    def _rounded(self, value: Value, producer: Op) -> Value:
        stored = _stored(producer.result)
        if stored.dtype == compute_dtype(stored.dtype, stored.policy) and not stored.policy.saturate:
            return value
        key = ("round", value, stored.dtype, stored.policy)
        if key not in self.known:
            attrs = {"dtype": stored.dtype, "policy": stored.policy}
            self.known[key] = self.builder.value("scalar.round", (value,), value.type, attrs)
        return self.known[key]
