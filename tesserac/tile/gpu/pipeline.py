"""Pass `pipeline`: staged operands of a product are copied `depth - 1` blocks ahead, by all threads.

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
is refilled was read in the round before.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import TileType
from tesserac.tile.gpu.dialect import integer, matrix_unit_of
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.matrix import MatrixUnit, operand_layout
from tesserac.tile.gpu.types import COPY, GROUP, MATRIX, StagesType


def pipeline_copies(kernel: Op, shared_bytes: int) -> None:
    """Changes the kernel in place. Stages are made fewer where they would not fit `shared_bytes`."""
    for op in list(kernel.walk()):
        if op.name == "gpu.for" and any(inner.name == "gpu.stage" for inner in op.body.ops):
            _Pipeline(kernel, op, shared_bytes).build()


def staged_operands(loop: Op) -> tuple[Op, list[Op]]:
    """The product of a loop and the two staged blocks it multiplies."""
    dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
    loads = [op for op in loop.body.ops if op.name == "gpu.stage"]
    if len(dots) != 1 or [v.defining_op for v in dots[0].operands[:2]] != loads:
        raise LoweringError("a loop with staged blocks must multiply exactly two of them")
    return dots[0], loads


def ring_type(load: Op, unit: MatrixUnit, depth: int) -> StagesType:
    ty = load.result.type
    assert isinstance(ty, TileType)
    layout = operand_layout(unit, (ty.shape[0], ty.shape[1]), ty.dtype)
    return StagesType(depth, ty.dtype, ty.policy, layout)


def fitting_depth(loads: list[Op], unit: MatrixUnit, shared_bytes: int) -> int:
    wanted = min(integer(op, "depth") for op in loads)
    per_stage = sum(ring_type(op, unit, 1).layout.bytes for op in loads)
    depth = min(wanted, shared_bytes // per_stage)
    if depth < 2:
        raise LoweringError(f"two stages of {per_stage} bytes do not fit shared memory")
    return depth


def clone_coordinates(
    b: Builder, at: tuple[Value, ...], loop: Op, known: dict[Value, Value]
) -> list[Value]:
    """The coordinates of a staged block of a loop, recomputed with other values for those in `known`."""
    mapping = dict(known)

    def recompute(value: Value) -> Value:
        made = value.defining_op
        if value in mapping:
            return mapping[value]
        if made is None or made.parent is not loop.body:
            return value
        if not made.opdef.pure:
            raise LoweringError(f"the place of a staged block depends on {made.name}")
        for operand in made.operands:
            mapping[operand] = recompute(operand)
        b.add(clone_op(made, mapping))
        return mapping[value]

    return [recompute(v) for v in at]


class _Pipeline:
    def __init__(self, kernel: Op, loop: Op, shared_bytes: int) -> None:
        self.loop = loop
        self.dot, self.loads = staged_operands(loop)
        self.step = integer(loop, "step")
        self.depth = fitting_depth(self.loads, matrix_unit_of(self.dot), shared_bytes)
        start = Builder.before(kernel.body.ops[0])
        unit = matrix_unit_of(self.dot)
        self.rings = [
            start.value("gpu.alloc", (), ring_type(op, unit, self.depth), hint="ring") for op in self.loads
        ]

    def build(self) -> None:
        before = Builder.before(self.loop)
        low = self.loop.operands[0]
        groups = []
        for ahead in range(self.depth - 1):
            place = index_op(before, "add", low, dim_value(before, ahead * self.step))
            groups.append(self.copy_group(before, place, dim_value(before, ahead)))
        new = self.new_loop(before, groups)
        for old, value in zip(self.loop.results, new.results, strict=False):
            old.replace_all_uses(value)
        before.op("gpu.wait", (new.results[-1],), attrs={"pending": 0})
        before.op("gpu.barrier")
        self.loop.erase()

    def copy_group(self, b: Builder, place: Value, slot: Value) -> Value:
        """Starts the copies of the block at `place` into `slot`."""
        known = {self.loop.body.args[0]: place}
        tokens = []
        for load, ring in zip(self.loads, self.rings, strict=True):
            mem, *at = load.operands
            coordinates = clone_coordinates(b, tuple(at), self.loop, known)
            tokens.append(b.value("gpu.copy", (mem, *coordinates, ring, slot), COPY))
        return b.value("gpu.commit", tokens, GROUP, hint="group")

    def new_loop(self, before: Builder, groups: list[Value]) -> Op:
        types = [v.type for v in self.loop.body.args] + [GROUP] * len(groups)
        body = Block(types, [v.name for v in self.loop.body.args])
        b = Builder(body, self.loop.span)
        counter, carried = body.args[0], body.args[1 : len(self.loop.body.args)]
        waiting = body.args[len(self.loop.body.args) :]
        b.op("gpu.wait", (waiting[0],), attrs={"pending": self.depth - 2})
        b.op("gpu.barrier")
        done = index_op(b, "sub", counter, self.loop.operands[0])
        number = index_op(b, "floor_div", done, dim_value(b, self.step), "number")
        depth = dim_value(b, self.depth)
        slot = index_op(b, "rem", number, depth, "slot")
        far = index_op(b, "add", counter, dim_value(b, (self.depth - 1) * self.step))
        free = index_op(b, "rem", index_op(b, "add", number, dim_value(b, self.depth - 1)), depth, "free")
        issued = self.copy_group(b, far, free)
        yielded = self.body(b, counter, carried, slot)
        b.op("gpu.yield", (*yielded, *waiting[1:], issued))
        inits = (*self.loop.operands, *groups)
        names = [*(v.name for v in self.loop.results)]
        return before.op("gpu.for", inits, types[1:], {"step": self.step}, [body], names)

    def body(self, b: Builder, counter: Value, carried: list[Value], slot: Value) -> list[Value]:
        """The rest of the round: the product on the slot, and whatever else the loop did."""
        mapping = dict(zip(self.loop.body.args, [counter, *carried], strict=True))
        for op in self.loop.body.ops[:-1]:
            if op is self.dot:
                mapping[op.result] = multiply(b, op, self.rings, slot, mapping[op.operands[2]])
            elif op not in self.loads:
                b.add(clone_op(op, mapping))
        return [mapping.get(v, v) for v in self.loop.body.terminator.operands]


def multiply(b: Builder, dot: Op, rings: list[Value], slot: Value, acc: Value) -> Value:
    """The product on one slot of both rings, complete."""
    left, right = rings
    types = [acc.type, MATRIX]
    product = b.op("gpu.multiply", (left, slot, right, slot, acc), types, {"unit": matrix_unit_of(dot)})
    settled = (product.results[1], product.results[0])
    return b.value("gpu.wait_mma", settled, acc.type, {"pending": 0}, hint=dot.result.name)
