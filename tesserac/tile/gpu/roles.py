"""Pass `roles`: one warp group only copies, the others only compute; barriers in shared memory connect them.

    ... gpu.tree(%segments, %zero) { ... gpu.for { %a = gpu.stage; %b = gpu.stage; gpu.dot } } ... gpu.store
  becomes, with rings of d stages and barriers `full` and `empty` for each stage,
    gpu.role {name = "consumer"} { all of it, but each round is
        gpu.await(full, slot); gpu.multiply; gpu.wait_mma; gpu.arrive(empty, slot) }
    gpu.role {name = "producer"} { one loop over all blocks, each round
        gpu.await(empty, slot); gpu.expect(full, slot) {bytes}; gpu.tensor_copy ... }

Block number i uses slot i % d in its phase i // d, on both sides. The producer runs ahead over the ends of segments.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import indices
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import INDEX, MemRefType
from tesserac.tile.gpu.dialect import constant_index, integer, kernel_parameters, memory, stages
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.matrix import WARPGROUP
from tesserac.tile.gpu.pipeline import Staged, clone_coordinates, fitting_depth, multiply, ring_type, staged_layout
from tesserac.tile.gpu.shared import SharedLayout, tensor_box
from tesserac.tile.gpu.types import COPY, BarriersType, TensorMapType

PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
"""With three warp groups these add up to what a block of 384 threads is given. Two groups have enough without it."""
BARRIER_ROOM = 1024


def split_roles(kernel: Op, shared_bytes: int) -> None:
    """Changes the kernel in place."""
    loops = [op for op in kernel.walk() if op.name == "gpu.for" and any(o.name == "gpu.stage" for o in op.body.ops)]
    if len(loops) != 1:
        raise LoweringError("warp roles need exactly one loop with staged blocks")
    _Split(kernel, loops[0], shared_bytes).build()


@dataclass(frozen=True)
class _Slot:
    """Where block number i lies, and the parity of its phase."""

    slot: Value
    parity: Value


class _Split:
    def __init__(self, kernel: Op, loop: Op, shared_bytes: int) -> None:
        self.kernel = kernel
        self.loop = loop
        self.dot, self.loads = _staged_operands(loop)
        self.step = integer(loop, "step")
        self.end = _whole_range(loop, self.step)
        self.consumers = integer(kernel, "warps")
        self.depth = fitting_depth(self.loads, shared_bytes - BARRIER_ROOM)
        self.maps = [_tensor_map(kernel, op, staged_layout(op)) for op in self.loads]
        start = Builder.before(kernel.body.ops[0])
        self.rings = [start.value("gpu.alloc", (), ring_type(op, self.depth), hint="ring") for op in self.loads]
        self.full = start.value("gpu.alloc", (), BarriersType(self.depth, 1), hint="full")
        self.empty = start.value("gpu.alloc", (), BarriersType(self.depth, self.consumers), hint="empty")
        start.op("gpu.barrier")

    def build(self) -> None:
        outer = _outermost(self.loop, self.kernel)
        body = self.kernel.body
        place = body.place(outer)
        work, last = body.ops[place:-1], body.ops[-1]
        b = Builder.before(last)
        end = self.whole_end(b)
        consumer = self.consumer(work)
        producer = self.producer(end)
        shared = self.consumers > WARPGROUP
        self.role(b, "consumer", 0, self.consumers, CONSUMER_REGISTERS if shared else 0, consumer)
        self.role(b, "producer", self.consumers, WARPGROUP, PRODUCER_REGISTERS if shared else 0, producer)
        self.kernel.attrs["warps"] = self.consumers + WARPGROUP

    def whole_end(self, b: Builder) -> Value:
        """The end of the range as a value that the producer sees."""
        made = self.end.defining_op
        if made is None or made.name != "index.dim":
            raise LoweringError("the end of the staged loop is not a size")
        return b.add(clone_op(made, {})).result

    def role(self, b: Builder, name: str, first: int, warps: int, registers: int, block: Block) -> None:
        attrs = {"name": name, "first": first, "warps": warps, "registers": registers}
        b.op("gpu.role", (), (), attrs, [block])

    def consumer(self, work: list[Op]) -> Block:
        block = Block()
        for op in work:
            op.detach()
            block.append(op)
        before = Builder.before(self.dot)
        here = self.slot(before, self.loop.body.args[0])
        before.op("gpu.await", (self.full, here.slot, here.parity))
        left, right = (Staged(ring, here.slot) for ring in self.rings)
        result = multiply(before, self.dot, left, right, self.dot.operands[2])
        before.op("gpu.arrive", (self.empty, here.slot))
        self.dot.result.replace_all_uses(result)
        self.dot.erase()
        Builder(block).op("gpu.end")
        return block

    def producer(self, end: Value) -> Block:
        block = Block()
        b = Builder(block, self.loop.span)
        body = Block([INDEX], ["k"])
        b.op("gpu.for", (dim_value(b, 0), end), (), {"step": self.step}, [body])
        self.copies(Builder(body, self.loop.span), body.args[0], end)
        b.op("gpu.end")
        for load in self.loads:
            load.erase()
        return block

    def copies(self, b: Builder, k: Value, end: Value) -> None:
        known = {self.loop.body.args[0]: k, self.loop.operands[1]: end}
        here = self.slot(b, k)
        one = dim_value(b, 1)
        b.op("gpu.await", (self.empty, here.slot, index_op(b, "sub", one, here.parity)))
        size = sum(stages(ring).layout.bytes for ring in self.rings)
        b.op("gpu.expect", (self.full, here.slot), attrs={"bytes": size})
        for load, tensor_map, ring in zip(self.loads, self.maps, self.rings, strict=True):
            at = clone_coordinates(b, load.operands[1:], self.loop, known)
            b.value("gpu.tensor_copy", (tensor_map, *at, ring, here.slot, self.full), COPY)
        b.op("gpu.yield")

    def slot(self, b: Builder, k: Value) -> _Slot:
        number = index_op(b, "floor_div", k, dim_value(b, self.step), "number")
        depth = dim_value(b, self.depth)
        slot = index_op(b, "rem", number, depth, "slot")
        parity = index_op(b, "rem", index_op(b, "floor_div", number, depth), dim_value(b, 2), "parity")
        return _Slot(slot, parity)


def _staged_operands(loop: Op) -> tuple[Op, list[Op]]:
    """The product of a loop and the two staged blocks it multiplies."""
    dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
    loads = [op for op in loop.body.ops if op.name == "gpu.stage"]
    if len(dots) != 1 or [v.defining_op for v in dots[0].operands[:2]] != loads:
        raise LoweringError("a loop with staged blocks must multiply exactly two of them")
    return dots[0], loads


def _tensor_map(kernel: Op, load: Op, layout: SharedLayout) -> Value:
    """A new argument: how tensor copies read the memory of a staged block."""
    source = load.operands[0]
    mem = memory(source)
    if source not in kernel_parameters(kernel) or not isinstance(source.type, MemRefType) or len(mem.dims) != 2:
        raise LoweringError("tensor copies read matrices that are arguments")
    ty = TensorMapType(mem.dims, mem.dtype, mem.policy, tensor_box(layout))
    kernel.attrs["mapped"] = (*indices(kernel, "mapped"), kernel_parameters(kernel).index(source))
    return kernel.body.add_arg(ty, f"{source.name}_map")


def _whole_range(loop: Op, step: int) -> Value:
    """The end of the blocks that the loop walks, over all segments: they must follow each other without a gap."""
    low, high = loop.operands[:2]
    if constant_index(low) == 0:
        return high
    start, cut = low.defining_op, high.defining_op
    if start is None or start.name != "index.mul" or cut is None or cut.name != "index.min":
        raise LoweringError("the staged loop is not a run of segments")
    lengths = [n for n in map(constant_index, start.operands) if n is not None]
    if len(lengths) != 1 or lengths[0] % step:
        raise LoweringError("segments are not whole blocks")
    return next(v for v in cut.operands if v.defining_op is None or v.defining_op.name == "index.dim")


def _outermost(loop: Op, kernel: Op) -> Op:
    """The operation of the kernel's body that holds the loop."""
    op = loop
    while op.parent is not kernel.body:
        holder = op.parent.parent_op if op.parent is not None else None
        assert holder is not None
        op = holder
    return op
