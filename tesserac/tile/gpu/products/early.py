"""Pass `early`: a product that needs nothing of the one before it is started behind that, not when it is asked for.

    %s = gpu.dot(%k, gpu.stage(%q, %i), %zero)
    %p = ... %s ...
    %d = gpu.dot(%v, gpu.stage(%w, %i), %zero)
  becomes
    %s = gpu.dot(%k, gpu.stage(%q, %i), %zero)
    %d = gpu.dot(%v, gpu.stage(%w, %i), %zero)
    %p = ... %s ...

Matrix units that run beside their warps have the second product while those make %p of the first.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.tile.gpu.model.types import FragmentType

MOVED = ("gpu.stage", "gpu.turned", "gpu.axis", "gpu.full")


def start_early(kernel: Op) -> None:
    """Changes the kernel in place."""
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
        if not any(isinstance(dot.operands[0].type, FragmentType) for dot in dots):
            continue  # nothing is computed between products that another one waits for
        for number, dot in enumerate(dots):
            any(_moves_behind(before, dot) for before in dots[:number])


def _moves_behind(before: Op, dot: Op) -> bool:
    """Moves a product and what it needs, where that is places, copied blocks and zeros; whether it could."""
    block = dot.parent
    assert block is not None
    between = block.ops[block.place(before) + 1 : block.place(dot)]
    needed = _needed(dot, set(between))
    if any(op.name not in MOVED and op.opdef.dialect != "index" for op in needed):
        return False
    place = block.place(before) + 1
    for op in [*(op for op in between if op in needed), dot]:
        op.detach()
        block.insert(place, op)
        place += 1
    return True


def _needed(dot: Op, between: set[Op]) -> set[Op]:
    """All of `between` that a product needs."""
    found, waiting = set[Op](), [dot]
    for op in waiting:
        makers = {made for v in op.operands if (made := v.defining_op) is not None and made in between} - found
        found |= makers
        waiting += makers
    return found
