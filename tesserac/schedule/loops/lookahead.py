"""Look-ahead: a loop of small steps runs beside products that do not wait for it, on a thread of its own.

    schedule.loop(%lo, %hi) { ... columns of a block, one after the other ... }
    schedule.launch(%v, %u, %u_1) {kind = "contract", ...}
becomes
    schedule.beside() { schedule.loop(%lo, %hi) { ... } } { schedule.launch(%v, %u, %u_1) {kind = "contract", ...} }

Enters: a host program with decided launches. Leaves: the same, with such a loop and what follows it, as far as neither
touches memory that the other writes, in one operation. A factorisation in blocks, which updates the next block first,
has `{factor the next block} || {update all behind it}` then. Loops whose rows or columns go apart are the work of all
threads already. Bits do not change: each side computes what it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.chains.row_chains import buffer_of
from tesserac.schedule.dialect import BESIDE, FOLLOWS, ROWS, launch_ins, launch_kind, launch_outs, launch_stages

_NAMES = ("schedule.box", "schedule.parts")
_COMPUTES = ("schedule.launch", "schedule.swap", "schedule.loop", "schedule.select", "schedule.end", *_NAMES)
"""What neither ends a call nor is seen outside of it."""


@function_pass(SCHEDULE, SCHEDULE, "ahead")
def ahead(host: Op) -> None:
    for block in list(_blocks(host)):
        for op in block.ops[:]:
            if op.parent is block and _is_alone(op):
                _put_beside(op, _behind(op))


def _blocks(op: Op) -> Iterator[Block]:
    """Those of a host program in which something is repeated, inner ones first."""
    for region in op.regions if op.name != "schedule.launch" else ():
        for inner in region.block.ops:
            yield from _blocks(inner)
        if op.name == "schedule.loop" and ROWS not in op.attrs and "sequential" not in op.attrs:
            yield region.block


def _is_alone(op: Op) -> bool:
    """Whether it is a loop that one thread walks, with nothing inside that a call could end with."""
    loop = op.name == "schedule.loop" and ROWS not in op.attrs and "sequential" not in op.attrs
    compiled = any("sequential" in inner.attrs for inner in op.walk())
    return loop and not compiled and _computes(op) and not _is_product(op)


def _is_product(op: Op) -> bool:
    """Whether it has a product that threads share: one whose operands are packed."""
    launches = [inner for inner in op.walk() if inner.name == "schedule.launch" and launch_kind(inner) == "contract"]
    return any(stage.layout in ("panel", "panels") for launch in launches for stage in launch_stages(launch))


def _computes(op: Op) -> bool:
    host = [inner for inner in op.walk() if inner.opdef.dialect == "schedule"]
    return all(inner.name in _COMPUTES for inner in host)


def _behind(loop: Op) -> list[Op]:
    """What follows a loop and does not wait for it, up to the last product."""
    assert loop.parent is not None
    found: list[Op] = []
    for op in loop.parent.ops[loop.parent.place(loop) + 1 :]:
        if not _computes(op) or op.opdef.terminator or not _are_apart(loop, [op]):
            break
        found.append(op)
    while found and not _is_product(found[-1]):
        found.pop()
    following = loop.parent.ops[loop.parent.place(loop) + 1 + len(found)]
    return found if FOLLOWS not in following.attrs else []


def _are_apart(loop: Op, ops: Sequence[Op]) -> bool:
    """Whether neither side touches what the other writes."""
    (mine, written), (others, changed) = _touched([loop]), _touched(ops)
    return not (written & others or mine & changed)


def _touched(ops: Sequence[Op]) -> tuple[set[Value], set[Value]]:
    """The memory that operations read or write, and what of it they write."""
    touched, changed = set[Value](), set[Value]()
    for op in (inner for outer in ops for inner in outer.walk()):
        if op.name == "schedule.launch":
            changed.update(map(_memory, launch_outs(op)))
            touched.update(map(_memory, launch_ins(op)))
        elif op.name == "schedule.swap":
            changed.update(map(_memory, op.operands))
    return touched | changed, changed


def _memory(value: Value) -> Value:
    """The buffer that memory is a part of, or the argument whose memory that is."""
    held = buffer_of(value)
    made = held.defining_op
    if made is not None and isinstance(of := made.attrs.get("of"), int) and made.parent is not None:
        return made.parent.args[of]
    return held


def _put_beside(loop: Op, ops: Sequence[Op]) -> None:
    """Puts both into one operation; names of memory, which others may use, go before it."""
    if not ops:
        return
    task, rest = Block(), Block()
    for op in ops:
        if op.name in _NAMES or op.opdef.dialect == "index":
            op.detach()
            Builder.before(loop).add(op)
    Builder.before(loop).op(BESIDE, (), (), {}, (task, rest))
    for block, moved in ((task, [loop]), (rest, [op for op in ops if op.parent is loop.parent])):
        for op in moved:
            op.detach()
            block.append(op)
        Builder(block, loop.span).op("schedule.end")
