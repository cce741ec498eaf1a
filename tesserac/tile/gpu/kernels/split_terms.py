"""Pass `split_terms`: segments of a long product are programs of their own, where it has too few blocks for a GPU.

    tile.kernel @f {grid = [`6`, `6`], split_terms = 4} { ^(i, j, a, b, y):
        %sum = tile.tree(4, zero) { ^(s): ...; tile.for { tile.dot } ; yield part } {+};  ...; store }
  becomes
    tile.kernel @f.segments {grid = [`4`, `6`, `6`]} { ^(s, i, j, a, b, y, parts): ...; store part in parts[s, i, j] }
    tile.kernel @f.sums {grid = [`6`, `6`]} { ^(i, j, a, b, y, parts):
        %sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);  ...; store }
  and its launch both in turn.

A segment is one chain, never cut; they are joined by the aligned tree of the one kernel, so the bits are the same for
every type. Schedule decides (`schedule/costs/tiles.py`): only there are sizes and what else could be done. Where
groups of warps multiply, the segments of a block are a cluster instead, and the kernel stays one (`clusters.py`).
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, attr, clone_op
from tesserac.ir.index import dim_value
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.types import INDEX, AxisType, MemRefType
from tesserac.schedule.costs.tiles import SPLIT_TERMS
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import Config, grid, tile_type
from tesserac.tile.gpu.layouts.clusters import CLUSTER, may_join
from tesserac.tile.status import add_workspace
from tesserac.types.dims import Dim

ELEMENTS = 32
"""Of a block of sums, for each thread that joins the parts."""
LANES = 32


def split_terms(module: Module, machine: Machine) -> Module:
    """The module with split kernels; what it was given stays as it is."""
    if not any(SPLIT_TERMS in op.attrs for op in module.ops):
        return module
    ops = [clone_op(op, {}) for op in module.ops]
    made: list[Op] = []
    for kernel in [op for op in ops if SPLIT_TERMS in op.attrs]:
        if may_join(kernel, machine):
            kernel.attrs[CLUSTER] = kernel.attrs.pop(SPLIT_TERMS)
            continue
        split = _Split(kernel)
        made += [split.segments(), split.sums()]
        for host in (op for op in ops if op.name != "tile.kernel"):
            split.launch(host)
        ops.remove(kernel)
    whole = Module([*made, *ops])
    while erase_dead(whole):
        pass
    return whole


class _Split:
    def __init__(self, kernel: Op) -> None:
        self.kernel = kernel
        (self.tree,) = (op for op in kernel.body.ops if op.name == "tile.tree")
        self.count = attr(kernel, SPLIT_TERMS, int)
        ty = tile_type(self.tree.result)
        sizes = (Dim.const(self.count), *grid(kernel), *map(Dim.const, ty.shape))
        self.parts = MemRefType(sizes, ty.dtype, ty.policy)

    def segments(self) -> Op:
        """A segment of a block for each program."""
        start = _Start(self, 1, (Dim.const(self.count), *grid(self.kernel)))
        body = self.tree.regions[0].block
        start.values[body.args[0]] = start.block.args[0]
        for op in body.ops[:-1]:
            start.b.add(clone_op(op, start.values))
        part = start.values[body.terminator.operands[0]]
        start.b.op("tile.store", (part, *start.place(start.block.args[0])))
        config = self.kernel.attrs["config"]
        assert isinstance(config, Config)
        return start.finish("segments", config)

    def sums(self) -> Op:
        """The parts of a block, joined, and what follows a product."""
        start = _Start(self, 0, grid(self.kernel))
        ty, b = tile_type(self.tree.result), start.b
        start.values[self.tree.result] = self.subtree(start, 0, 1 << (self.count - 1).bit_length())
        ops = self.kernel.body.ops
        for op in ops[ops.index(self.tree) + 1 : -1]:
            b.add(clone_op(op, start.values))
        rows, columns = ty.shape
        return start.finish("sums", Config(max(1, rows * columns // (LANES * ELEMENTS)), "uniform"))

    def subtree(self, start: _Start, first: int, size: int) -> Value:
        """The parts of an aligned subtree, joined as soon as they are there, so that few wait at once."""
        if size == 1:
            return start.b.value("tile.load", start.place(dim_value(start.b, first)), tile_type(self.tree.result))
        left, middle = self.subtree(start, first, size // 2), first + size // 2
        if middle >= self.count:
            return left
        combine = self.tree.regions[1].block
        known = dict(zip(combine.args, (left, self.subtree(start, middle, size // 2)), strict=True))
        for op in combine.ops[:-1]:
            start.b.add(clone_op(op, known))
        return known[combine.terminator.operands[0]]

    def launch(self, host: Op) -> None:
        """Every launch of the kernel in a host program becomes two."""
        for launch in [op for op in host.walk() if op.attrs.get("kernel") == self.kernel.symbol]:
            b, room = Builder.before(launch), add_workspace(host, self.parts, "parts")
            for name in ("segments", "sums"):
                attrs = {**launch.attrs, "kernel": f"{self.kernel.symbol}.{name}"}
                b.op("tile.launch", (*launch.operands, room), (), attrs)
            launch.erase()


class _Start:
    """A kernel that has begun: the memory of the parts is its last argument, and all that stood before the tree is
    done."""

    def __init__(self, split: _Split, segments: int, sizes: tuple[Dim, ...]) -> None:
        self.split, self.sizes = split, sizes
        kernel, axes = split.kernel, len(grid(split.kernel))
        old = kernel.body.args
        self.block = Block([INDEX] * segments, ["segment"] * segments)
        self.pids = [self.block.add_arg(v.type, v.name) for v in old[:axes]]
        rest = [self.block.add_arg(v.type, v.name) for v in old[axes:]]
        self.parts = self.block.add_arg(split.parts, "parts")
        self.values: dict[Value, Value] = dict(zip(old, [*self.pids, *rest], strict=True))
        self.b = Builder(self.block, kernel.span)
        for op in kernel.body.ops[: kernel.body.ops.index(split.tree)]:
            self.b.add(clone_op(op, self.values))

    def place(self, segment: Value) -> list[Value]:
        """Where the part of a segment stands."""
        zero, shape = dim_value(self.b, 0), tile_type(self.split.tree.result).shape
        beside = [self.b.value("tile.axis", (zero, dim_value(self.b, n)), AxisType(n)) for n in shape]
        return [self.parts, segment, *self.pids, *beside]

    def finish(self, name: str, config: Config) -> Op:
        self.b.op("tile.return")
        symbol = f"{self.split.kernel.symbol}.{name}"
        attrs: dict[str, Attr] = {"sym_name": symbol, "grid": self.sizes, "config": config}
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], self.split.kernel.span)
