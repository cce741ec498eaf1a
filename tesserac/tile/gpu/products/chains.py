"""Sums that a loop carries: where they start, what rescales them, and how they change for the whole loop at once."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value


@dataclass(frozen=True)
class Chain:
    """What a loop carries, at which position, and what rescales it in each round."""

    loop: Op
    position: int
    rescaling: Op | None

    @property
    def carried(self) -> Value:
        return self.loop.body.args[1 + self.position]


def carried_chain(total: Value, before: Value) -> Chain | None:
    """The chain from 0 in which `total` continues `before`, where nothing else in the loop reads it."""
    rescaling, value = None, source(before)
    made = value.defining_op
    if made is not None and is_rescaling(made):
        rescaling, value = made, source(made.operands[0])
    block = value.owner
    loop = block.parent_op if isinstance(block, Block) else None
    if loop is None or loop.name != "gpu.for" or value not in loop.body.args[1:]:
        return None
    position = loop.body.args.index(value) - 1
    continued = source(loop.body.terminator.operands[position]) is total
    alone = continued and _has_one_reader(value) and _has_one_reader(total)
    return Chain(loop, position, rescaling) if alone and _is_zero(loop.operands[2 + position]) else None


def source(value: Value) -> Value:
    """What a value is but for dims of one element."""
    made = value.defining_op
    while made is not None and made.name == "gpu.map" and len(made.body.ops) == 1 and len(made.operands) == 1:
        value = made.operands[0]
        made = value.defining_op
    return value


def is_rescaling(op: Op) -> bool:
    """Whether a map multiplies by powers of two."""
    return op.name == "gpu.map" and len(op.body.ops) == 2 and op.body.ops[0].name == "scalar.ldexp"


def _has_one_reader(value: Value) -> bool:
    """Whether one operation reads a value, perhaps with other dims of one element."""
    uses = list(value.uses)
    if len(uses) != 1:
        return False
    user = uses[0][0]
    return _has_one_reader(user.result) if user.name == "gpu.map" and len(user.body.ops) == 1 else True


def _is_zero(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "gpu.full" and made.attrs["value"] == 0


def behind(loop: Op) -> Builder:
    """Where what follows a loop begins."""
    assert loop.parent is not None
    return Builder.before(loop.parent.ops[loop.parent.place(loop) + 1])
