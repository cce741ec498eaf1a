"""Pass `mask early`: a block is masked before other things are computed of it, not beside them.

    %x = gpu.load(%mem, %axis); %e = gpu.map(%x) {...}; %f = gpu.mask(%e, %axis); %m = gpu.mask(%x, %axis)
  becomes
    %x = gpu.load(%mem, %axis); %m = gpu.mask(%x, %axis); %e = gpu.map(%m) {...}; %f = gpu.mask(%e, %axis)

What is computed of elements that are not there is masked, too, so that it does not matter of what. Where both the block
and the masked one were needed, a thread had copies of all its elements, also of blocks that are whole.

Enters: a kernel whose reductions are written out. Leaves: the same, with masks of loaded blocks behind the loads.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value


def mask_early(kernel: Op) -> None:
    """Changes the kernel in place."""
    for mask in [op for op in kernel.walk() if op.name == "gpu.mask"]:
        load = mask.operands[0].defining_op
        if load is None or load.name != "gpu.load" or load.parent is not mask.parent:
            continue
        others = [user for user, _ in load.result.uses if user is not mask]
        if others and all(_is_masked(user, mask) for user in others):
            _mask_first(mask, load, others)


def _is_masked(user: Op, mask: Op) -> bool:
    """Whether a map gives nothing but what is masked along the same axis."""
    uses = list(user.result.uses) if user.name == "gpu.map" and user.parent is mask.parent else []
    return bool(uses) and all(_is_along(other, mask) and place == 0 for other, place in uses)


def _is_along(other: Op, mask: Op) -> bool:
    same_axis = other.name == "gpu.mask" and other.operands[1] is mask.operands[1]
    return same_axis and other.attrs["dim"] == mask.attrs["dim"]


def _mask_first(mask: Op, load: Op, others: list[Op]) -> None:
    block = load.parent
    assert block is not None
    mask.detach()
    block.insert(block.place(load) + 1, mask)
    for user in others:
        _replace(user, load.result, mask.result)


def _replace(user: Op, old: Value, new: Value) -> None:
    user.set_operands([new if value is old else value for value in user.operands])
