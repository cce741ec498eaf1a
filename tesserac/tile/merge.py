"""Neighbouring tile maps become one, so that a block is walked once.

    %s = tile.map(%sum) { x + 0 };  %y = tile.map(%s, %bias) { relu(a + b) }   ->   %y = tile.map(%sum, %bias) { ... }

Only where the second reads the first place by place and nothing else reads it: a value per row stays computed once per
row. Rounding to the storage of the first stays in the body.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps
from tesserac.schedule.primitives.fuse import Fuser, refusal
from tesserac.tile.dialect import tile_type


def merge_maps(kernel: Op) -> None:
    fuser = Fuser()
    for consumer in [op for op in kernel.walk() if op.name == "tile.map"]:
        while (producer := _mergeable(consumer)) is not None:
            fuser.fuse(consumer, producer)
            producer.erase()


def _mergeable(consumer: Op) -> Op | None:
    shape = tile_type(consumer.result).shape
    for value, dim_map in zip(consumer.operands, operand_maps(consumer), strict=True):
        producer = value.defining_op
        if producer is None or producer.name != "tile.map" or producer.parent is not consumer.parent:
            continue
        alone = all(user is consumer for user, _ in value.uses)
        in_place = dim_map == tuple(range(len(shape))) and tile_type(value).shape == shape
        if alone and in_place and refusal(consumer, producer) is None:
            return producer
    return None
