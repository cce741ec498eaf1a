"""Pass `own_masks`: a mask that several maps read is part of each of them.

    %seen = gpu.map(%keys, %places) { ^(%a, %b): form.yield(%a <= %b) }
    %t = gpu.map(%x, %seen) { ^(%c, %d): form.yield(select(%d, %c, 0)) }
  becomes
    %t = gpu.map(%x, %keys, %places) { ^(%c, %a, %b): form.yield(select(%a <= %b, %c, 0)) }

A comparison costs less than to hand on whether it held; and where all of a block is seen, a map that compares places
itself chooses nothing.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, clone_op
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import ScalarType
from tesserac.types.dtype import BOOL

MOST_OPS = 8
"""Of the body of a mask."""


def own_masks(kernel: Op) -> None:
    """Changes the kernel in place."""
    for op in [op for op in kernel.walk() if op.name == "gpu.map" and _is_mask(op)]:
        for user in dict.fromkeys(user for user, _ in op.result.uses):
            if user.name == "gpu.map" and user.parent is op.parent:
                _take_in(op, user)
        if not op.result.uses:
            op.erase()


def _is_mask(op: Op) -> bool:
    result = op.body.terminator.operands[0].type
    return isinstance(result, ScalarType) and result.dtype == BOOL and len(op.body.ops) <= MOST_OPS


def _take_in(mask: Op, user: Op) -> None:
    """A map that reads a mask, with the body of that at the start of its own."""
    place, maps = user.operands.index(mask.result), operand_maps(user)
    kept = [i for i in range(len(maps)) if i != place]
    added = [tuple(None if d is None else maps[place][d] for d in dims) for dims in operand_maps(mask)]
    args = [*(user.body.args[i] for i in kept), *mask.body.args]
    body = Block([arg.type for arg in args], [arg.name for arg in args])
    known = dict(zip(args, body.args, strict=True))
    inner = Builder(body, user.span)
    for op in mask.body.ops[:-1]:
        inner.add(clone_op(op, known))
    known[user.body.args[place]] = known[mask.body.terminator.operands[0]]
    for op in user.body.ops:
        inner.add(clone_op(op, known))
    operands = [*(user.operands[i] for i in kept), *mask.operands]
    attrs = user.attrs | {"maps": (*(maps[i] for i in kept), *added)}
    made = Builder.before(user).value("gpu.map", operands, user.result.type, attrs, [body], hint=user.result.name)
    user.result.replace_all_uses(made)
    user.erase()
