"""Decides which maps are recomputed inside their readers.

Enters: a block of forms in normal form. Leaves: the block, with maps inlined where that is cheaper than memory.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op
from tesserac.schedule.costs.cost import MAX_WORK, body_work, recompute_pays
from tesserac.schedule.machine import Machine
from tesserac.schedule.primitives.fuse import Fuser, refusal

MAX_BODY = 256
"""Operations of one fused body; beyond that its values no longer stay in registers."""


def fuse_maps(block: Block, machine: Machine) -> dict[Op, list[str]]:
    """Inlines maps into the maps that read them, where that is cheaper than memory. Returns why, per reader."""
    reasons: dict[Op, dict[str, None]] = {}  # each once: a chain whose links read the last one twice has many ways
    fuser = Fuser()
    for producer in list(block.ops):
        if producer.name != "form.map":
            continue
        consumers = _reading_maps(producer)
        kept_anyway = any(user not in consumers for user, _ in producer.result.uses)
        if not consumers or not recompute_pays(producer, consumers, kept_anyway, machine):
            continue
        why = f"computes %{producer.result.name or 'map'} itself ({body_work(producer)} operations)"
        for consumer in consumers:
            fuser.fuse(consumer, producer)
            reasons.setdefault(consumer, {}).update({**reasons.get(producer, {}), why: None})
        if not producer.result.uses:
            producer.erase()
    return {op: list(told) for op, told in reasons.items()}


def _reading_maps(producer: Op) -> list[Op]:
    """The maps of the same block that may take the producer in."""
    users = list(dict.fromkeys(user for user, _ in producer.result.uses))
    size, work = len(producer.body.ops), body_work(producer)
    return [
        user
        for user in users
        if user.name == "form.map"
        and user.parent is producer.parent
        and len(user.body.ops) + size <= MAX_BODY
        and body_work(user) + work <= MAX_WORK
        and refusal(user, producer) is None
    ]
