"""Pass `pipeline`: blocks that products read from memory are copied to stages by all threads, in a loop `depth - 1`
blocks ahead.

    gpu.for(%low, %high, %zero) {step = 16} { ^(%k, %acc):
        %a = gpu.stage(%x, %rows, %ks) {depth = 3}; ...; gpu.dot(%a, %b, %acc)
  becomes
    copies of blocks low, low + 16 into slots 0, 1, each a group
    gpu.for(%low, %high, %zero, %g0, %g1) {step = 16} { ^(%k, %acc, %first, %second):
        gpu.wait(%first) {pending = 1}; gpu.barrier()       the block of this round is there, for all threads
        copies of block k + 32 into slot (i + 2) % 3, a group %new
        gpu.multiply(slot i % 3 of both); yield ..., %second, %new
    }
    gpu.wait {pending = 0}; gpu.barrier()                   nobody refills a slot that another still reads

A copy whose axis is empty does nothing, so the last rounds need no test. One barrier per round is enough: the slot that
is refilled was read in the round before. Where one stage is all that fits, a round waits for its own copies, behind a
barrier before them. A block that no loop moves is copied once, where it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr, clone_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import AxisType, TileType
from tesserac.tile.gpu.layouts.row_copies import erase_unread
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.types import COPY, GROUP, MATRIX, FragmentType, StagesType
from tesserac.tile.gpu.model.values import integer
from tesserac.tile.gpu.products.gathers import copies_rows

MOST_AHEAD, WIDE = 4, 4
"""Stages of copies by all threads, where tensor copies would bring more of narrow numbers: more would leave no room for
a second program beside. Numbers of so many bytes have as many as was said."""


SKIPS = "skips"
"""The attribute of a product that is left out where the axis of its terms is empty."""


@dataclass(frozen=True)
class Staged:
    """Where an operand of a product lies: a ring, and the slot of it."""

    ring: Value
    slot: Value


def pipeline_copies(kernel: Op, shared_bytes: int) -> None:
    """Changes the kernel in place. Stages are made fewer where they would not fit `shared_bytes`."""
    _Pipeline(kernel, shared_bytes - _held_bytes(kernel)).build()


def ring_type(load: Op, depth: int) -> StagesType:
    ty = load.result.type
    assert isinstance(ty, TileType)
    return StagesType(depth, ty.dtype, ty.policy, staged_layout(load))


def staged_layout(load: Op) -> SharedLayout:
    return attr(load, "layout", SharedLayout)


def fitting_depth(loads: Sequence[Op], shared_bytes: int) -> int:
    wanted = min(integer(op, "depth") for op in loads)
    per_stage = sum(staged_layout(op).bytes for op in loads)
    depth = min(wanted, shared_bytes // per_stage)
    if depth < 1:
        raise LoweringError(f"a stage of {per_stage} bytes does not fit; {shared_bytes} of shared memory are left")
    return depth


def clone_coordinates(b: Builder, at: tuple[Value, ...], loop: Op, known: dict[Value, Value]) -> list[Value]:
    """The coordinates of a staged block of a loop, recomputed with other values for those in `known`, to which they are
    added. What is read for them is memory that no one writes meanwhile: see `row_copies`."""

    def recompute(value: Value) -> Value:
        made = value.defining_op
        if value in known:
            return known[value]
        if made is None or made.parent is not loop.body:
            return value
        if not made.opdef.pure and made.name not in ("gpu.load", "gpu.gather"):
            raise LoweringError(f"the place of a staged block depends on {made.name}")
        for operand in made.operands:
            known[operand] = recompute(operand)
        b.add(clone_op(made, known))
        return known[value]

    return [recompute(v) for v in at]


def started(b: Builder, load: Op, read: Sequence[Value], ring: Value, slot: Value) -> Value:
    """Starts the copy of a staged block that is read with these operands."""
    if not copies_rows(load):
        return b.value("gpu.copy", (*read, ring, slot), COPY)
    attrs = {name: load.attrs[name] for name in ("maps", "bounds", "bounded")}
    return b.value("gpu.copy_rows", (ring, slot, *read), COPY, attrs)


def carry_more(loop: Op, inits: list[Value]) -> Op:
    """A loop that also carries what its body, changed already, takes and yields behind the rest."""
    body, operands = loop.body, (*loop.operands, *inits)
    types, names = [v.type for v in operands[2:]], [v.name for v in loop.results]
    moved = Block([v.type for v in body.args], [v.name for v in body.args])
    for old, new in zip(body.args, moved.args, strict=True):
        old.replace_all_uses(new)
    for op in list(body.ops):
        op.detach()
        moved.append(op)
    whole = Builder.before(loop).op("gpu.for", operands, types, {"step": integer(loop, "step")}, [moved], names)
    for old, value in zip(loop.results, whole.results, strict=False):
        old.replace_all_uses(value)
    loop.erase()
    return whole


def multiplied(dot: Op, staged: Mapping[Value, Staged]) -> Value:
    """The product of an operand in registers or a stage by one in a stage, complete, before where it stands."""
    (result,) = settled(Builder.before(dot), issued(dot, staged), 0)
    return result


def issued(dot: Op, staged: Mapping[Value, Staged], sums: Sequence[Op] = ()) -> Op:
    """The product, under way, and sums of rows beside it."""
    b, (left, right, acc) = Builder.before(dot), dot.operands

    def place(value: Value) -> tuple[Value, ...]:
        if isinstance(value.type, FragmentType):
            return (value,)
        there = staged.get(value) or Staged(value, dim_value(b, 0))
        return there.ring, there.slot

    name = "gpu.multiply_held" if isinstance(left.type, FragmentType) else "gpu.multiply"
    given = [acc, *(op.operands[1] for op in sums)]
    names = (dot.result.name, *(op.result.name for op in sums), "product")
    types, attrs = [*(v.type for v in given), MATRIX], {key: v for key, v in dot.attrs.items() if key != SKIPS}
    walked = _walked(right) if SKIPS in dot.attrs else ()
    return b.op(name, (*place(left), *place(right), *given, *walked), types, attrs, names=names)


def _walked(staged: Value) -> tuple[Value, ...]:
    """The axis of the terms of a right operand."""
    load = staged.defining_op
    assert load is not None
    return next((at,) for at in load.operands[1:] if isinstance(at.type, AxisType))


def settled(b: Builder, product: Op, pending: int) -> Sequence[Value]:
    """The results of a product, once no more than `pending` later ones are under way."""
    *results, token = product.results
    types, names = [v.type for v in results], [v.name for v in results]
    return b.op("gpu.wait_mma", (token, *results), types, {"pending": pending}, names=names).results


def _held_bytes(kernel: Op) -> int:
    """What computed operands take of shared memory."""
    types = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
    return sum(ty.depth * ty.layout.bytes for ty in types if isinstance(ty, StagesType))


class _Pipeline:
    def __init__(self, kernel: Op, shared_bytes: int) -> None:
        self.kernel = kernel
        self.start = Builder.before(kernel.body.ops[0])
        self.room = shared_bytes
        self.staged: dict[Value, Staged] = {}

    def build(self) -> None:
        loads = [op for op in self.kernel.walk() if op.name == "gpu.stage"]
        loops = dict.fromkeys(loop for load in loads if (loop := _loop_of(load)) is not None)
        for load in loads:
            if _loop_of(load) is None:
                self.copy_once(load, loops)
        # A loop in a loop first: what moves the inner one moves around with the body of the outer one.
        for loop in reversed(loops):
            moving = [load for load in loads if _loop_of(load) is loop]
            _Ring(self, loop, moving).build()
        for dot in [op for op in self.kernel.walk() if op.name == "gpu.dot"]:
            dot.result.replace_all_uses(multiplied(dot, self.staged))
            dot.erase()
        erase_unread(load.result for load in loads)

    def allocate(self, load: Op, depth: int) -> Value:
        self.room -= depth * staged_layout(load).bytes
        return self.start.value("gpu.alloc", (), ring_type(load, depth), hint="ring")

    def copy_once(self, load: Op, loops: Collection[Op]) -> None:
        """A loop that waits for copies of its own has waited for this one, too."""
        fitting_depth([load], self.room)
        b, ring = Builder.before(load), self.allocate(load, 1)
        slot = dim_value(b, 0)
        token = started(b, load, load.operands, ring, slot)
        group = b.value("gpu.commit", (token,), GROUP)
        readers = [user.parent.parent_op for user, _ in load.result.uses if user.parent is not None]
        if any(reader not in loops for reader in readers):
            b.op("gpu.wait", (group,), attrs={"pending": 0})
            b.op("gpu.barrier")
        self.staged[load.result] = Staged(ring, slot)


def _loop_of(load: Op) -> Op | None:
    """The loop whose rounds a staged block belongs to."""
    holder = load.parent.parent_op if load.parent is not None else None
    return holder if holder is not None and holder.name == "gpu.for" else None


class _Ring:
    """The copies of one loop."""

    def __init__(self, pipeline: _Pipeline, loop: Op, loads: list[Op]) -> None:
        self.pipeline, self.loop, self.loads = pipeline, loop, loads
        self.step = integer(loop, "step")
        fitting = fitting_depth(loads, pipeline.room)
        self.depth = min(MOST_AHEAD, fitting) if staged_layout(loads[0]).element < WIDE else fitting
        self.rings = [pipeline.allocate(load, self.depth) for load in loads]

    def build(self) -> None:
        before = Builder.before(self.loop)
        low, groups = self.loop.operands[0], []
        for ahead in range(self.depth - 1):
            place = index_op(before, "add", low, dim_value(before, ahead * self.step))
            groups.append(self.copy_group(before, place, dim_value(before, ahead)))
        self.begin_round(groups)
        new = carry_more(self.loop, groups)
        assert new.parent is not None
        behind = Builder.before(new.parent.ops[new.parent.place(new) + 1])
        if groups:
            behind.op("gpu.wait", (new.results[-1],), attrs={"pending": 0})
        behind.op("gpu.barrier")

    def copy_group(self, b: Builder, place: Value, slot: Value) -> Value:
        """Starts the copies of the block at `place` into `slot`."""
        known = {self.loop.body.args[0]: place}
        tokens = []
        for load, ring in zip(self.loads, self.rings, strict=True):
            mem, *at = load.operands
            coordinates = clone_coordinates(b, tuple(at), self.loop, known)
            tokens.append(started(b, load, (mem, *coordinates), ring, slot))
        return b.value("gpu.commit", tokens, GROUP, hint="group")

    def begin_round(self, groups: list[Value]) -> None:
        body = self.loop.body
        b = Builder.before(body.ops[0])
        waiting = [body.add_arg(GROUP) for _ in groups]
        if self.depth == 1:
            slot = dim_value(b, 0)
            b.op("gpu.barrier")
            waiting = [self.copy_group(b, body.args[0], slot)]
        b.op("gpu.wait", (waiting[0],), attrs={"pending": max(0, self.depth - 2)})
        b.op("gpu.barrier")
        if self.depth > 1:
            slot, issued = self.prefetch(b)
            yielded = body.terminator
            yielded.set_operands([*yielded.operands, *waiting[1:], issued])
        for load, ring in zip(self.loads, self.rings, strict=True):
            self.pipeline.staged[load.result] = Staged(ring, slot)

    def prefetch(self, b: Builder) -> tuple[Value, Value]:
        """The slot of this round, and the group that fills the slot of the round before."""
        counter = self.loop.body.args[0]
        done = index_op(b, "sub", counter, self.loop.operands[0])
        number = index_op(b, "floor_div", done, dim_value(b, self.step), "number")
        depth = dim_value(b, self.depth)
        slot = index_op(b, "rem", number, depth, "slot")
        far = index_op(b, "add", counter, dim_value(b, (self.depth - 1) * self.step))
        free = index_op(b, "rem", index_op(b, "add", number, dim_value(b, self.depth - 1)), depth, "free")
        return slot, self.copy_group(b, far, free)
