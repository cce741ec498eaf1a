"""Branches and checkpoints that mix values and tangents, made two: one that computes values, and one that is linear.

Enters: a branch or checkpoint that forward mode made, its regions free of other such mixtures. Leaves: the two in its
place, and the tangents that they give. The linear part of a branch reads what the first gives out beside its results,
and computes from it what is cheap to have again (Note [What is kept] in `residuals.py`); that of a checkpoint computes
everything once more.

    (y, dy) = cond(p) { a = x[i]; (a * a, 2 * a * dx) } { ... }
becomes
    (y, a') = cond(p) { a = x[i]; (a * a, a) } { ... };  dy = cond(p) { 2 * a' * dx } { ... }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tesserac.graph.autodiff.custom import silence
from tesserac.graph.autodiff.dialect import CHECKPOINT
from tesserac.graph.autodiff.linear import erase_unused, replace_results, tangent_count, without_count
from tesserac.graph.autodiff.residuals import ROW_COST, Residuals, bytes_of
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import REPLAY
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.types.extents import can_be_negative
from tesserac.types.ty import TensorType


def split_branches(op: Op, tangents: set[Value]) -> Sequence[Value]:
    sides = [_Side(op, region.block, tangents) for region in op.regions]
    builder, count = Builder.before(op), tangent_count(op)
    slots = _slots([side.given_out for side in sides])
    blocks = [side.primal(slots) for side in sides]
    attrs = without_count(op)
    types = [*(v.type for v in op.results[:-count]), *slots]
    first = builder.op(op.name, op.operands, types, attrs, blocks)
    residuals = first.results[len(op.results) - count :]
    blocks = [side.linear(residuals) for side in sides]
    replayed = {**attrs, REPLAY: True} if op.name == CHECKPOINT else attrs
    second = builder.op(op.name, op.operands, [v.type for v in op.results[-count:]], replayed, blocks)
    replace_results(op, (*first.results[: len(op.results) - count], *second.results))
    return second.results


class _Side:
    """One region. `given_out` are the values that its linear part is given; `places` says which slot holds each."""

    def __init__(self, op: Op, block: Block, tangents: Collection[Value]) -> None:
        self._op = op
        self._block = block
        self._count = tangent_count(op)
        self.given_out: list[Value] = []
        self._wanted = set(block.ops[:-1])
        if op.name != CHECKPOINT:
            kept = Residuals(op, block, tangents, _cost)
            self.given_out, self._wanted = kept.stored, {*kept.again, *kept.linear}
        self._places: dict[Value, int] = {}

    def primal(self, slots: list[TensorType]) -> Block:
        """The values of the region, and in each slot what its linear part needs; something where that is nothing."""
        block, values = Block(), dict[Value, Value]()
        for inner in self._block.ops[:-1]:
            block.append(copy_op(inner, values, {}))
        builder = Builder(block, self._op.span)
        self._places = _placed(self.given_out, slots)
        held = {slot: values[value] for value, slot in self._places.items()}
        write = writer(builder, {})
        filled = [
            held[number]
            if number in held
            else write("empty", shape=slot.dims, dtype=slot.dtype, policy=slot.policy)
            for number, slot in enumerate(slots)
        ]
        outcome = [values.get(v, v) for v in self._block.terminator.operands[: -self._count]]
        builder.op("form.yield", (*outcome, *filled))
        erase_unused(block)
        return block

    def linear(self, residuals: Sequence[Value]) -> Block:
        block = Block()
        values = {value: residuals[slot] for value, slot in self._places.items()}
        for inner in self._block.ops[:-1]:
            if inner in self._wanted:
                block.append(copy_op(inner, values, {}))
        silence(block.ops)
        outcome = [values.get(v, v) for v in self._block.terminator.operands[-self._count :]]
        Builder(block, self._op.span).op("form.yield", outcome)
        erase_unused(block)
        return block


def _cost(value: Value) -> int | None:
    """A little more than for the loop around to keep it. What has no size where the branch is not taken is not given
    out."""
    if not isinstance(value.type, TensorType) or any(map(can_be_negative, value.type.dims)):
        return None
    return 2 * ROW_COST + bytes_of(value.type)


def _slots(sides: Sequence[Sequence[Value]]) -> list[TensorType]:
    """Types such that each side finds room for its values: only one side runs, so they share."""
    found: list[TensorType] = []
    for side in sides:
        free = list(found)
        for value in side:
            type_ = tensor_type(value)
            if type_ in free:
                free.remove(type_)
            else:
                found.append(type_)
    return found


def _placed(values: Sequence[Value], slots: Sequence[TensorType]) -> dict[Value, int]:
    free = list(range(len(slots)))
    places: dict[Value, int] = {}
    for value in values:
        places[value] = next(number for number in free if slots[number] == tensor_type(value))
        free.remove(places[value])
    return places
