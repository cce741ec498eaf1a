"""Pass `finish`: what follows a product is done by warps of its own, while the matrix unit has the next one.

    gpu.role {name = "consumer"} { %sum = gpu.tree(...); %z = gpu.map(%sum, gpu.load(%c)); gpu.store(%z) }
  becomes, with %room : memref<..., shared> for a block of %y, which is %sum rounded, and barriers `handed` and `taken`,
    gpu.role {name = "consumer"} { %sum = gpu.tree(...); %y = gpu.map(%sum)
        gpu.await(taken); gpu.store(%y, %room); gpu.arrive(handed) }
    gpu.role {name = "finisher"} { gpu.await(handed)
        gpu.for rows of the block, a few at a time { gpu.load(%room); gpu.load(%c); gpu.map; gpu.store }
        gpu.arrive(taken) }

Sums of a product take so many registers that no second block of them fits beside; in shared memory the block has room,
as it is rounded to 16 bits anyway. Only kernels whose roles run one program after the other have something to do then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr, clone_op
from tesserac.ir.forms import operand_maps
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import INDEX, AxisType, IndexType, MemRefType
from tesserac.schedule.costs.cost import body_work
from tesserac.tile.gpu.layouts.variants import scratch_bytes
from tesserac.tile.gpu.model.layout import LANE_BITS, VECTOR_BYTES, Layout, blocked
from tesserac.tile.gpu.model.matrix import TERM_BYTES, WARPGROUP
from tesserac.tile.gpu.model.types import HANDED, BarriersType, FragmentType
from tesserac.tile.gpu.model.values import fragment, integer, is_persistent, matrix_unit_of, memory
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy, compute_dtype

CONSUMERS = 2 * WARPGROUP
CONSUMER_REGISTERS, OTHER_REGISTERS = 200, 104
"""With two groups of warps that multiply, and one of the others, these add up to what 384 threads are given."""
FINISHERS = WARPGROUP - 1
"""One warp of the last group copies."""
PAD_BYTES = 32
"""Between rows of a block, so that lanes which write four of them at once meet different banks."""
HANDED_BYTES = 2
LEAST_WORK = 24
"""Of an element: less is done before a block is on its way, which takes the room of a stage."""
LOAD_WORK = 8
"""That of an element of another block, which waits for memory and for registers beside those of the sums."""
MOVED = ("gpu.map", "gpu.load", "gpu.cast", "gpu.full", "gpu.store")


@dataclass(frozen=True)
class Finish:
    """What is handed on, and what follows it, in order."""

    handed: Value
    moved: list[Op]
    rows: Value
    columns: Value

    @property
    def room(self) -> MemRefType:
        ty = fragment(self.handed)
        rows, columns = ty.shape
        stride = Dim.const(columns + PAD_BYTES // ty.dtype.bytes)
        dims = (Dim.const(rows), Dim.const(columns))
        return MemRefType(dims, ty.dtype, ty.policy, (stride, ONE), space="shared")

    @property
    def bytes(self) -> int:
        size = scratch_bytes(self.room).constant
        assert size is not None
        return size


def planned_finish(kernel: Op) -> Finish | None:
    """What of a kernel other warps may do: all behind the rounding of the one sum that it makes."""
    tops = kernel.body.ops
    trees = [op for op in tops if op.name == "gpu.tree"]
    dots = [op for op in kernel.walk() if op.name == "gpu.dot"]
    plain = len(trees) == 1 and len(dots) == 1 and len(trees[0].results) == 1
    if not plain or integer(kernel, "warps") != CONSUMERS or matrix_unit_of(dots[0]).k == TERM_BYTES:
        return None
    _round_first(trees[0])
    users = list(trees[0].result.uses)
    handed = users[0][0] if len(users) == 1 and users[0][0].name == "gpu.map" else None
    stores = [op for op in tops if op.name == "gpu.store"]
    if handed is None or len(handed.operands) != 1 or fragment(handed.result).dtype.bytes != HANDED_BYTES or not stores:
        return None
    axes = [v for v in stores[0].operands[2:] if isinstance(v.type, AxisType)]
    moved = [op for op in tops if op in set(_behind(stores, handed.result))]
    if len(axes) != 2 or not all(_may_move(op, fragment(handed.result), axes) for op in moved):
        return None
    if sum(_work(op, fragment(handed.result)) for op in moved) < LEAST_WORK:
        return None
    return Finish(handed.result, moved, *axes)


def _work(op: Op, block: FragmentType) -> int:
    if op.name == "gpu.load":
        return LOAD_WORK if fragment(op.result).shape == block.shape else 0
    return body_work(op) if op.name == "gpu.map" else 0


def _round_first(tree: Op) -> None:
    """A map that rounds a sum and goes on with that becomes two."""
    uses = list(tree.result.uses)
    map_ = uses[0][0]
    if len(uses) != 1 or map_.name != "gpu.map":
        return
    position = uses[0][1]
    found = _rounding(map_.body.args[position])
    if found is None:
        return
    before, rounding = found
    dtype, policy = attr(rounding, "dtype", DType), attr(rounding, "policy", Policy)
    if dtype.bytes != HANDED_BYTES or compute_dtype(dtype, policy) != fragment(tree.result).dtype:
        return
    ty = replace(fragment(map_.result), dtype=dtype, policy=policy)
    body, known = Block([map_.body.args[position].type], ["sum"]), dict[Value, Value]()
    known[map_.body.args[position]] = body.args[0]
    inner = Builder(body, map_.span)
    for op in before:
        inner.add(clone_op(op, known))
    inner.op("form.yield", (known[rounding.operands[0]],))
    attrs = {"maps": (operand_maps(map_)[position],)}
    rounded = Builder.before(map_).value("gpu.map", (tree.result,), ty, attrs, (body,), hint="product")
    rounding.result.replace_all_uses(map_.body.args[position])
    rounding.erase()
    for op in reversed(before):
        if not any(v.uses for v in op.results):
            op.erase()
    map_.set_operand(position, rounded)


def _rounding(sum_: Value) -> tuple[list[Op], Op] | None:
    """Where a scalar is rounded, if all that reads it reads that, and what is done to it before."""
    before = list[Op]()
    while len(uses := list(sum_.uses)) == 1:
        op = uses[0][0]
        if op.name == "scalar.round":
            return before, op
        others = [v.defining_op for v in op.operands if v is not sum_]
        if op.name != "scalar.add" or any(made is None or made.name != "scalar.constant" for made in others):
            return None
        before += [*(made for made in others if made is not None), op]
        sum_ = op.result
    return None


def _behind(stores: list[Op], handed: Value) -> Iterator[Op]:
    """All that stores need of what is no place, but for what is handed on."""
    waiting, seen = list(stores), set[Op]()
    for op in waiting:
        yield op
        makers = [v.defining_op for v in op.operands if v is not handed and isinstance(v.type, FragmentType)]
        waiting += [made for made in makers if made is not None and made not in seen]
        seen.update(made for made in makers if made is not None)


def _may_move(op: Op, block: FragmentType, axes: list[Value]) -> bool:
    if op.name not in MOVED:
        return False
    first = {"gpu.load": 1, "gpu.store": 2}.get(op.name)
    if first is None:
        return fragment(op.result).shape == block.shape
    own = [v for v in op.operands[first:] if isinstance(v.type, AxisType)]
    if op.name == "gpu.store":
        return own == axes and memory(op.operands[1]).strides[-1] == ONE and "team" not in op.attrs
    return bool(own) and all(v in axes for v in own) and own == sorted(own, key=axes.index)


def finish_apart(kernel: Op, finish: Finish | None) -> None:
    """Changes a kernel with roles in place, where they have time for it."""
    if finish is None or not is_persistent(kernel):
        return
    consumer, producer = (op for op in kernel.body.ops if op.name == "gpu.role")
    start = Builder.before(kernel.body.ops[0])
    room = start.value("gpu.alloc", (), finish.room, {HANDED: True}, hint="room")
    handed = start.value("gpu.alloc", (), BarriersType(1, CONSUMERS), hint="handed")
    taken = start.value("gpu.alloc", (), BarriersType(1, FINISHERS), hint="taken")
    block = _finisher(consumer, finish, room, handed, taken)
    _hand_on(finish, room, handed, taken)
    group = {"first": integer(producer, "first"), "warps": WARPGROUP, "registers": OTHER_REGISTERS}
    Builder.before(consumer).op("gpu.give_registers", (), (), group)
    consumer.attrs["registers"] = CONSUMER_REGISTERS
    producer.attrs.update({"registers": 0, "warps": 1})
    attrs = {"name": "finisher", "first": integer(producer, "first") + 1, "warps": FINISHERS, "registers": 0}
    Builder.before(kernel.body.terminator).op("gpu.role", (), (), attrs, [block])


def _hand_on(finish: Finish, room: Value, handed: Value, taken: Value) -> None:
    made = finish.handed.defining_op
    assert made is not None and made.parent is not None
    b = Builder.before(made.parent.ops[made.parent.place(made) + 1])
    slot, parity = b.op("gpu.next", (taken,), (INDEX, INDEX), names=("slot", "parity")).results
    b.op("gpu.await", (taken, slot, index_op(b, "sub", dim_value(b, 1), parity)))
    zero = dim_value(b, 0)
    axes = [b.value("gpu.axis", (zero, dim_value(b, n)), AxisType(n)) for n in fragment(finish.handed).shape]
    b.op("gpu.store", (finish.handed, room, *axes))
    b.op("gpu.arrive", (handed, slot))
    for op in reversed(finish.moved):
        op.erase()


def _finisher(consumer: Op, finish: Finish, room: Value, handed: Value, taken: Value) -> Block:
    block, known = Block(), dict[Value, Value]()
    b = Builder(block, consumer.span)
    for op in consumer.body.ops:
        if op.opdef.pure and op.results and all(isinstance(v.type, AxisType | IndexType) for v in op.results):
            b.add(clone_op(op, known))
    slot, parity = b.op("gpu.next", (handed,), (INDEX, INDEX), names=("slot", "parity")).results
    b.op("gpu.await", (handed, slot, parity))
    rows, columns = fragment(finish.handed).shape
    few = 32 * VECTOR_BYTES // HANDED_BYTES // columns
    body = Block([INDEX], ["row"])
    _rows(Builder(body, consumer.span), finish, room, few, known, body.args[0])
    warp = b.value("gpu.team", (), INDEX, {"size": 32}, hint="warp")
    number = index_op(b, "sub", warp, dim_value(b, CONSUMERS + 1))
    first = index_op(b, "mul", number, dim_value(b, few))
    b.op("gpu.for", (first, dim_value(b, rows)), (), {"step": FINISHERS * few}, [body])
    b.op("gpu.arrive", (taken, slot))
    b.op("gpu.end")
    return block


def _rows(b: Builder, finish: Finish, room: Value, few: int, known: dict[Value, Value], row: Value) -> None:
    """A few rows of the block for a warp, 16 bytes of them in each thread."""
    ty = fragment(finish.handed)
    shape = (few, ty.shape[1])
    layout = blocked(shape, HANDED_BYTES, LANE_BITS, 0, 1)
    here, end = dim_value(b, 0), dim_value(b, ty.shape[1])
    at = [b.value("gpu.axis", (row, dim_value(b, ty.shape[0])), AxisType(few))]
    at.append(b.value("gpu.axis", (here, end), AxisType(ty.shape[1])))
    known = {**known, finish.handed: b.value("gpu.load", (room, *at), replace(ty, shape=shape, layout=layout))}
    made = known[finish.rows].defining_op
    assert made is not None
    start, stop = made.operands
    known[finish.rows] = b.value("gpu.axis", (index_op(b, "add", start, row), stop), AxisType(few))
    for op in finish.moved:
        new = b.add(clone_op(op, known))
        if new.results:
            new.result.type = _few_rows(op, finish, shape, layout)
    b.op("gpu.yield")


def _few_rows(op: Op, finish: Finish, shape: tuple[int, int], layout: Layout) -> FragmentType:
    ty = fragment(op.result)
    if op.name != "gpu.load":
        return replace(ty, shape=shape, layout=layout)
    axes = (finish.rows, finish.columns)
    dims = [axes.index(v) for v in op.operands[1:] if v in axes]
    return replace(ty, shape=tuple(shape[d] for d in dims), layout=layout.project(dims))
