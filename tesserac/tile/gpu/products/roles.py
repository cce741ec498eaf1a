"""Pass `roles`: one warp group only copies, the others only compute; barriers in shared memory connect them.

    %q = gpu.stage; gpu.tree(%segments, %zero) { ... gpu.for { %k = gpu.stage; gpu.dot(%q, %k) } } ... gpu.store
  becomes, with a ring of stages and barriers `full` and `empty` for each of them,
    gpu.role {name = "consumer"} { all of it, but where a product reads a stage
        %slot, %parity = gpu.next(full); gpu.await(full, %slot, %parity)
        gpu.multiply; gpu.wait_mma; gpu.arrive(empty, %slot) }
    gpu.role {name = "producer"} { the same loops, with nothing in them but, for each stage,
        %slot, %parity = gpu.next(empty); gpu.await(empty, %slot, 1 - %parity)
        gpu.expect(full, %slot) {bytes}; gpu.tensor_copy ... }

Both sides come to the blocks of a ring in one order, so that each needs to count only its own. The producer runs ahead
over the ends of loops. Where all programs have the same work, and keep a block or leave no room for others beside them,
the kernel is persistent: what ends one program is done beside the copies of the next. Where work grows or
shrinks with a program's place, the longest come first and blocks of threads take them in turns from both ends, so that
all have about the same; where not that much is known, the last come first, so that no long one is left alone at the
end. What one product reads of one round shares a barrier; rows at computed places are copied by all threads of the
producer, which arrive at it when their copies have come. A block that no loop moves is given back at the end. A product
is waited for where its result is needed; where only the next round needs it, when the product of that is under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import INDEX, AxisType, IndexType
from tesserac.tile.dialect import ENDS
from tesserac.tile.gpu.layouts.clusters import CLUSTER
from tesserac.tile.gpu.layouts.row_copies import erase_unread
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import WHOLE_WARP
from tesserac.tile.gpu.model.matrix import WARPGROUP
from tesserac.tile.gpu.model.types import (
    BESIDE,
    COPY,
    FALLS,
    MATRIX,
    RISES,
    VARIES,
    WORK,
    BarriersType,
    FragmentType,
    StagesType,
)
from tesserac.tile.gpu.model.values import barriers, integer, kernel_grid, matrix_unit_of
from tesserac.tile.gpu.products.chains import behind
from tesserac.tile.gpu.products.gathers import copies_rows, places_of
from tesserac.tile.gpu.products.pipeline import (
    Staged,
    carry_more,
    fitting_depth,
    issued,
    ring_type,
    settled,
    staged_layout,
    started,
)
from tesserac.tile.gpu.products.shared_copies import by_stride
from tesserac.tile.gpu.products.tensor_maps import copied_box, tensor_map
from tesserac.tile.gpu.products.waiting import held_bytes, keep_near, waiting_sums

REGISTERS = {2: (40, 232), 3: (56, 152)}
"""Of a thread of the producer and of one that computes, by how many groups of those there are: they add up to what a
block of so many threads is given. One group has enough without it."""
ROW_REGISTERS = {2: (56, 224), 3: (56, 152)}
"""The same where threads of the producer compute the places of rows that they copy."""
BARRIER_ROOM = 1024
LEAST_COPIES = 3
"""In flight, of which none makes room for sums that wait: fp8 products of 8192 terms took 0.95 of the time with three
copies of blocks of 128x256, and 80 KiB of sums, where they had four; of 4096 terms as long."""
THREADS = WARPGROUP * WHOLE_WARP
"""Those of a producer."""
LOOPS = ("gpu.for", "gpu.tree")
PRODUCTS = ("gpu.multiply", "gpu.multiply_held")
ROWS_BESIDE = 8
"""Rows of blocks of a product that are walked side by side: what a wave of programs reads is least about there."""


def split_roles(kernel: Op, shared_bytes: int) -> None:
    """Changes the kernel in place."""
    _Split(kernel, shared_bytes - BARRIER_ROOM).build()


@dataclass(frozen=True)
class _Group:
    """The blocks that one product reads in one round; `last` may read them after it. Groups of one `ring` use the same
    memory in turns."""

    dot: Op
    last: Op
    loads: list[Op]
    once: bool
    ring: object

    @property
    def bytes(self) -> int:
        return sum(staged_layout(load).bytes for load in self.loads)

    @property
    def rows(self) -> list[Op]:
        """Those that the threads of the producer copy."""
        return [load for load in self.loads if copies_rows(load)]

    @property
    def arrivals(self) -> int:
        """Who says that a stage is full: each thread that copies rows, and the one that starts tensor copies."""
        return (THREADS if self.rows else 0) + (len(self.rows) < len(self.loads))


@dataclass(frozen=True)
class _Room:
    """Where the blocks of a group lie in turns, and the barriers that say so."""

    rings: list[Value]
    full: Value
    empty: Value


class _Split:
    def __init__(self, kernel: Op, shared_bytes: int) -> None:
        self.kernel = kernel
        self.consumers = integer(kernel, "warps")
        self.groups = _groups(kernel)
        self.alone = False
        """Whether a multiprocessor has room for one program at a time."""
        self.rooms = self.allocate(shared_bytes)
        self.read: set[Op] = set()
        """What both sides read from memory to know where they are."""
        loads = [load for group in self.groups for load in group.loads if not copies_rows(load)]
        self.maps = {load: tensor_map(kernel, load) for load in loads}

    def allocate(self, shared_bytes: int) -> dict[object, _Room]:
        start, rooms = Builder.before(self.kernel.body.ops[0]), dict[object, _Room]()
        owners = {group.ring: group for group in reversed(self.groups)}
        moving = [load for group in owners.values() if not group.once for load in group.loads]
        kept = sum(group.bytes for group in owners.values() if group.once)
        sums = waiting_sums(self.kernel, self.consumers * WHOLE_WARP)
        stage_bytes, depth = sum(staged_layout(op).bytes for op in moving), fitting_depth(moving, shared_bytes - kept)
        while sums is not None and depth > LEAST_COPIES and depth * stage_bytes + sums.bytes > shared_bytes - kept:
            depth -= 1
        # Two of what a program keeps, so that the next one need not wait for its end, unless copies get fewer by it.
        rings_bytes = depth * stage_bytes
        ahead = 2 if kept and shared_bytes - 2 * kept >= rings_bytes else 1
        self.alone = 2 * rings_bytes > shared_bytes
        for ring, group in reversed(owners.items()):
            count = ahead if group.once else depth
            rings = [start.value("gpu.alloc", (), ring_type(load, count), hint="ring") for load in group.loads]
            full = start.value("gpu.alloc", (), BarriersType(count, group.arrivals), hint="full")
            empty = start.value("gpu.alloc", (), BarriersType(count, self.consumers), hint="empty")
            rooms[ring] = _Room(rings, full, empty)
            for load, value in zip(group.loads, rings, strict=True):
                if staged_layout(load).ones:
                    start.op("gpu.fill_ones", (value,))
        start.op("gpu.barrier")
        keep_near(start, sums, shared_bytes - kept * ahead - rings_bytes - held_bytes(self.kernel))
        return rooms

    def build(self) -> None:
        body = self.kernel.body
        lasting = (any(group.once for group in self.groups) or self.alone) and CLUSTER not in self.kernel.attrs
        changes = work_by_place(self.kernel) if lasting else None
        if changes is not None:
            self.kernel.attrs |= {WORK: changes, "persistent": True}
        elif _work_varies(self.kernel):
            self.kernel.attrs[WORK] = VARIES
        elif lasting:
            self.kernel.attrs["persistent"] = True
        if len(kernel_grid(self.kernel)) > 1 and any(len(group.loads) > 1 for group in self.groups if not group.once):
            self.kernel.attrs[BESIDE] = ROWS_BESIDE
        *work, last = [op for op in body.ops if op.name not in ("gpu.alloc", "gpu.fill_ones", "gpu.barrier")]
        producer = self.producer(work)
        consumer = self.consumer(work)
        registers = ROW_REGISTERS if any(group.rows for group in self.groups) else REGISTERS
        copying, computing = registers.get(self.consumers // WARPGROUP, (0, 0))
        self.role(last, "consumer", 0, self.consumers, computing, consumer)
        self.role(last, "producer", self.consumers, WARPGROUP, copying, producer)
        self.kernel.attrs["warps"] = self.consumers + WARPGROUP

    def role(self, before: Op, name: str, first: int, warps: int, registers: int, block: Block) -> None:
        attrs = {"name": name, "first": first, "warps": warps, "registers": registers}
        Builder.before(before).op("gpu.role", (), (), attrs, [block])

    # -- what computes

    def consumer(self, work: list[Op]) -> Block:
        block = Block()
        for op in work:
            op.detach()
            block.append(op)
        slots: dict[Value, Staged] = {}
        for group in self.groups:
            slots.update(self.awaited(group))
        dots = [op for top in block.ops for op in top.walk() if op.name == "gpu.dot"]
        sums = {dot: _sums_beside(dot) for dot in dots}
        products = {dot: issued(dot, slots, sums[dot]) for dot in dots}
        for dot, product in products.items():
            self.settle([dot, *sums[dot]], product, slots)
        for group in self.groups:
            if group.once:
                Builder(block).op("gpu.arrive", (self.rooms[group.ring].empty, slots[group.loads[0].result].slot))
            for load in group.loads:
                for op in _turned(load):
                    op.erase()
                erase_unread([load.result])
        Builder(block).op("gpu.end")
        return block

    def settle(self, made: list[Op], product: Op, slots: dict[Value, Staged]) -> None:
        """Waits for a product, and sums beside it, before a result is needed, and gives back what it read."""
        dot = made[0]
        assert dot.parent is not None
        if self.is_carried(made):
            self.settle_later(dot, product, slots)
            return
        needed = min(map(_first_use, made), key=dot.parent.place)
        b = Builder.before(needed)
        between = dot.parent.ops[dot.parent.place(dot) + 1 : dot.parent.place(needed)]
        later = sum(op.name in PRODUCTS for op in between)
        for op, result in zip(made, settled(b, product, later), strict=True):
            op.result.replace_all_uses(result)
        for group in self.groups:
            if group.last is dot and not group.once:
                b.op("gpu.arrive", (self.rooms[group.ring].empty, slots[group.loads[0].result].slot))
        for op in made:
            op.erase()

    def is_carried(self, made: list[Op]) -> bool:
        """Whether nothing but the next round of a loop goes on with a product, and the loop has no other."""
        dot, *sums = made
        loop = dot.parent.parent_op if dot.parent is not None else None
        if loop is None or loop.name != "gpu.for" or sums or dot.operands[2] not in loop.body.args[1:]:
            return False
        uses, products = list(dot.result.uses), [op for op in loop.walk() if op.name in PRODUCTS]
        position = loop.body.args.index(dot.operands[2]) - 1
        groups = [group for group in self.groups if group.last is dot]
        last = len(uses) == 1 and uses[0] == (loop.body.terminator, position)
        if not last or len(products) != 1 or len(groups) != 1 or groups[0].once:
            return False
        return barriers(self.rooms[groups[0].ring].empty).count > 1

    def settle_later(self, dot: Op, product: Op, slots: dict[Value, Staged]) -> None:
        """Waits for a product when the next one is under way, so that the unit always has one, and gives back then what
        the one before it read; behind the loop for the last."""
        assert dot.parent is not None and dot.parent.parent_op is not None
        loop, body = dot.parent.parent_op, dot.parent
        (group,) = (group for group in self.groups if group.last is dot)
        empty, slot = self.rooms[group.ring].empty, slots[group.loads[0].result].slot
        position = body.args.index(dot.operands[2]) - 1
        before = body.add_arg(INDEX, "before")
        b = Builder.before(body.terminator)
        (total,) = settled(b, product, 1)
        b.op("gpu.arrive", (empty, before), attrs={"late": True})
        dot.result.replace_all_uses(total)
        dot.erase()
        body.terminator.set_operands([*body.terminator.operands, slot])
        whole = carry_more(loop, [dim_value(Builder.before(loop), -1)])
        result, behind_loop = whole.results[position], behind(whole)
        uses = list(result.uses)
        token = behind_loop.value("gpu.no_product", (), MATRIX, {"unit": matrix_unit_of(product)})
        attrs = {"pending": 0}
        done = behind_loop.value("gpu.wait_mma", (token, result), result.type, attrs, hint=result.name)
        for user, place in uses:
            user.set_operand(place, done)
        behind_loop.op("gpu.arrive", (empty, whole.results[-1]), attrs={"late": True})

    def awaited(self, group: _Group) -> dict[Value, Staged]:
        """Where the blocks of a group lie, once they are there."""
        b, room = Builder.before(group.loads[-1] if group.once else group.dot), self.rooms[group.ring]
        slot, parity = b.op("gpu.next", (room.full,), (INDEX, INDEX), names=("slot", "parity")).results
        b.op("gpu.await", (room.full, slot, parity))
        if group.rows:
            b.op("gpu.see_copies")
        found = {load.result: Staged(ring, slot) for load, ring in zip(group.loads, room.rings, strict=True)}
        for load, ring in zip(group.loads, room.rings, strict=True):
            if ENDS in load.attrs:
                axes = [v for v in load.operands[1:] if isinstance(v.type, AxisType)]
                b.op("gpu.zero_behind", (ring, slot, axes[integer(load, ENDS)]))
            found.update({turned.result: Staged(_turned_ring(turned, ring), slot) for turned in _turned(load)})
        return found

    # -- what copies

    def producer(self, work: list[Op]) -> Block:
        block = Block()
        self.read = _read_as_indices(work)
        for group in self.groups:
            self.read |= {op for load in group.rows for op in places_of(load)}
        self.copying(work, Builder(block, self.kernel.span), {})
        Builder(block).op("gpu.end")
        return block

    def copying(self, ops: Iterable[Op], b: Builder, known: dict[Value, Value]) -> None:
        """What copies of blocks need of `ops`: the loops around them, and where they lie."""
        groups = {group.loads[-1]: group for group in self.groups}
        for op in ops:
            if op in groups:
                self.copies(b, groups[op], known)
            elif op.name in LOOPS and any(inner.name == "gpu.stage" for inner in op.walk()):
                self.loop(op, b, known)
            elif op in self.read or _is_place(op):
                b.add(clone_op(op, known))

    def loop(self, op: Op, b: Builder, known: dict[Value, Value]) -> None:
        """A loop that carries nothing but places; a tree's segments come one after the other."""
        tree, source = op.name == "gpu.tree", op.regions[0].block
        places = [] if tree else [i for i, v in enumerate(op.results) if isinstance(v.type, IndexType)]
        ends = (dim_value(b, 0), op.operands[0]) if tree else op.operands[:2]
        inits = [known.get(v, v) for v in (*ends, *(op.operands[2 + i] for i in places))]
        args = [source.args[0], *(source.args[1 + i] for i in places)]
        body = Block([INDEX] * len(args), [arg.name for arg in args])
        known.update(zip(args, body.args, strict=True))
        inner = Builder(body, op.span)
        self.copying(source.ops[:-1], inner, known)
        yielded = [source.terminator.operands[i] for i in places]
        inner.op("gpu.yield", [known.get(v, v) for v in yielded])
        step = {"step": 1 if tree else integer(op, "step")}
        made = b.op("gpu.for", inits, [INDEX] * len(places), step, [body])
        known.update(zip((op.results[i] for i in places), made.results, strict=True))

    def copies(self, b: Builder, group: _Group, known: dict[Value, Value]) -> None:
        room = self.rooms[group.ring]
        slot, parity = b.op("gpu.next", (room.empty,), (INDEX, INDEX), names=("slot", "parity")).results
        b.op("gpu.await", (room.empty, slot, index_op(b, "sub", dim_value(b, 1), parity)))
        tensors = [load for load in group.loads if not copies_rows(load)]
        if tensors:
            b.op("gpu.expect", (room.full, slot), attrs={"bytes": sum(map(self.copied_bytes, tensors))})
        for load, ring in zip(group.loads, room.rings, strict=True):
            if copies_rows(load):
                started(b, load, [known.get(v, v) for v in load.operands], ring, slot)
            else:
                at = [known.get(v, v) for v in by_stride(load)]
                b.value("gpu.tensor_copy", (self.maps[load], *at, ring, slot, room.full), COPY)
        if group.rows:
            b.op("gpu.arrive_copied", (room.full, slot))

    def copied_bytes(self, load: Op) -> int:
        layout, (rows, _) = staged_layout(load), copied_box(self.kernel, load)
        return layout.filled_bytes // layout.stored.shape[0] * rows


def _is_place(op: Op) -> bool:
    return op.opdef.pure and bool(op.results) and all(isinstance(v.type, AxisType | IndexType) for v in op.results)


def _read_as_indices(work: Iterable[Op]) -> set[Op]:
    """All that makes integers which say how far a loop goes: those of memory, which no one has to wait for."""
    found, waiting = set[Op](), [op for top in work for op in top.walk() if op.name == "gpu.index"]
    for op in waiting:
        makers = [v.defining_op for v in op.operands if isinstance(v.type, FragmentType)]
        waiting += [made for made in makers if made is not None and made not in found]
        found.update(made for made in makers if made is not None)
    return found


def work_by_place(kernel: Op) -> str | None:
    """Whether a program has more to do the later it comes along the last dim of the grid, or less: only the end of a
    loop depends on it, or only the start. None where neither is known."""
    last = len(kernel_grid(kernel)) - 1
    falls, rises = (_depends(kernel, kernel.body.args[last : last + 1], end) for end in (0, 1))
    return None if falls == rises else FALLS if falls else RISES


def _work_varies(kernel: Op) -> bool:
    """Whether the place of a program says how far one of its loops goes."""
    return _depends(kernel, kernel.body.args[: len(kernel_grid(kernel))], 1)


def _depends(kernel: Op, places: Iterable[Value], end: int) -> bool:
    """Whether the start (0) or the end (1) of a loop is computed from places of a program."""
    varying, ends = set(places), set[Value]()
    for op in kernel.walk():
        if not varying.isdisjoint(op.operands):
            varying.update(v for v in op.results if isinstance(v.type, IndexType))
        ends.update(op.operands[end : end + 1] if op.name == "gpu.for" else ())
    return not varying.isdisjoint(ends)


def _sums_beside(dot: Op) -> list[Op]:
    """Sums of rows of the terms of a product by a block with ones behind it."""
    load = dot.operands[1].defining_op
    if load is None or load.name != "gpu.stage" or not staged_layout(load).ones:
        return []
    users = [user for user, _ in dot.operands[0].uses]
    return [user for user in users if user.name == "gpu.sum_rows" and user.parent is dot.parent]


def _first_use(dot: Op) -> Op:
    """The first operation of its block that reads the result of a product, or holds one that does."""
    users = set()
    for user, _ in dot.result.uses:
        while user.parent is not dot.parent:
            holder = user.parent.parent_op if user.parent is not None else None
            assert holder is not None
            user = holder
        users.add(user)
    assert dot.parent is not None
    return min(users, key=dot.parent.place)


def _groups(kernel: Op) -> list[_Group]:
    found: dict[tuple[Block, Op, Op], _Group] = {}
    for load in [op for op in kernel.walk() if op.name == "gpu.stage"]:
        assert load.parent is not None
        dot, last = _readers(load)
        ring = load.attrs.get("ring", load)
        once = load.parent is kernel.body and ring is load
        group = found.setdefault((load.parent, dot, last), _Group(dot, last, [], once, ring))
        group.loads.append(load)
    if all(group.once for group in found.values()):
        raise LoweringError("warp roles need a loop with staged blocks")
    return list(found.values())


def _turned(load: Op) -> list[Op]:
    """The same stage, read the other way."""
    return [user for user, _ in load.result.uses if user.name == "gpu.turned"]


def _turned_ring(turned: Op, ring: Value) -> Value:
    made, ty = ring.defining_op, ring.type
    assert made is not None and made.parent is not None and isinstance(ty, StagesType)
    behind = Builder.before(made.parent.ops[made.parent.place(made) + 1])
    return behind.value("gpu.view", (ring,), replace(ty, layout=staged_layout(turned)), hint="turned")


def _readers(load: Op) -> tuple[Op, Op]:
    """The first and the last product that reads a stage."""
    values = [load.result, *(op.result for op in _turned(load))]
    dots = [user for value in values for user, _ in value.uses if user.name == "gpu.dot"]
    place = {dot: dot.parent.place(dot) for dot in dots if dot.parent is not None}
    return min(dots, key=lambda dot: place[dot]), max(dots, key=lambda dot: place[dot])
