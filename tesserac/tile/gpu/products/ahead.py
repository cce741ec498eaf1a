"""Pass `ahead`: the few numbers that a round of products reads from memory are loaded in the round before.

    gpu.for(%low, %high, %acc) { ^(%i, %acc):
        %s = gpu.dot(...); %m = gpu.load(%mem, gpu.axis(%i, %high)); ... %s ... %m ...; gpu.dot(...) }
  becomes
    %first = gpu.load(%mem, gpu.axis(%low, %high))
    gpu.for(%low, %high, %acc, %first) { ^(%i, %acc, %m):
        %s = gpu.dot(...); ... %s ... %m ...
        %next = gpu.load(%mem, gpu.axis(%i + step, %high)); gpu.dot(...); gpu.yield(..., %next) }

Memory takes longer than a product. What the first product of the next round meets comes while the
last one of this round runs, when what that was computed from needs no registers any more. An axis behind the end is
empty, and nothing is read there.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.index import dim_value, index_op
from tesserac.tile.gpu.model.values import fragment, integer, memory
from tesserac.tile.gpu.products.gathers import row_places
from tesserac.tile.gpu.products.pipeline import carry_more, clone_coordinates

MOST_REGISTERS, FEW = 16, 4
"""Of a thread, for one load that is kept for a round; with so few, whichever product it meets."""


def load_ahead(kernel: Op) -> None:
    """Changes the kernel in place."""
    copying = row_places(kernel)
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
        few = [op for op in loop.body.ops if _is_few(op) and op not in copying]
        first = [op for op in few if _is_read_before(op, dots[1])] if len(dots) > 1 else []
        if first:
            _carry(loop, first, dots[-1])


def _is_read_before(load: Op, dot: Op) -> bool:
    """Whether what is loaded meets the first product: what the second one meets has that one's time to come, unless it
    costs next to nothing to have it before."""
    if fragment(load.result).layout.count <= FEW:
        return True
    block = load.parent
    users = [user for user, _ in load.result.uses]
    return block is not None and any(user.parent is block and block.place(user) < block.place(dot) for user in users)


def _is_few(op: Op) -> bool:
    """Whether an operation loads a few numbers from memory that other programs do not write."""
    if op.name != "gpu.load" or memory(op.operands[0]).space != "global":
        return False
    return fragment(op.result).layout.count <= MOST_REGISTERS


def _carry(loop: Op, loads: list[Op], last: Op) -> None:
    before, behind = Builder.before(loop), Builder.before(last)
    step = dim_value(behind, integer(loop, "step"))
    further = index_op(behind, "add", loop.body.args[0], step)
    inits = [_load_at(before, load, loop, loop.operands[0]) for load in loads]
    nexts = [_load_at(behind, load, loop, further) for load in loads]
    for load in loads:
        load.result.replace_all_uses(loop.body.add_arg(load.result.type, load.result.name))
        load.erase()
    yielded = loop.body.terminator
    yielded.set_operands([*yielded.operands, *nexts])
    carry_more(loop, inits)


def _load_at(b: Builder, load: Op, loop: Op, place: Value) -> Value:
    mem, *at = load.operands
    there = clone_coordinates(b, tuple(at), loop, {loop.body.args[0]: place})
    return b.value("gpu.load", (mem, *there), load.result.type, dict(load.attrs), hint=load.result.name)
