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

from tesserac.ir.core import Op, Value


def start_early(kernel: Op) -> None:
    """Changes the kernel in place."""
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
        for before, dot in zip(dots, dots[1:], strict=False):
            _move_behind(before, dot)


def _move_behind(before: Op, dot: Op) -> None:
    """Moves a product and what it needs, where none of that is computed from what comes between."""
    block = dot.parent
    assert block is not None
    between = block.ops[block.place(before) + 1 : block.place(dot)]
    needed = _needed(dot, set(between))
    if len(needed) == len(between) or any(not _moves(op) for op in needed):
        return
    place = block.place(before) + 1
    for op in (*needed, dot):
        op.detach()
        block.insert(place, op)
        place += 1


def _needed(dot: Op, between: set[Op]) -> list[Op]:
    """All of `between` that a product needs, in order."""
    found, waiting = set[Op](), [dot]
    for op in waiting:
        makers = [made for v in op.operands if (made := _maker(v)) in between and made not in found]
        found.update(makers)
        waiting += makers
    return [op for op in between_in_order(dot, between) if op in found]


def between_in_order(dot: Op, between: set[Op]) -> list[Op]:
    assert dot.parent is not None
    return [op for op in dot.parent.ops if op in between]


def _maker(value: Value) -> Op | None:
    return value.defining_op


def _moves(op: Op) -> bool:
    """Places, blocks that are copied, and zeros."""
    return op.name in ("gpu.stage", "gpu.turned", "gpu.axis", "gpu.full") or op.opdef.dialect == "index"
