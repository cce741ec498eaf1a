"""Pass `split_running`: where there are few programs, the blocks of a running fold are programs of their own.

    tile.kernel @scan {grid = [`R`]} { ^(r, x, y): tile.running(n, empty) { ^(b, before): ...; store; yield t } {+} }
  becomes, beside that kernel,
    tile.kernel @scan.totals {grid = [`R`, `n`]} { ^(r, b, x, y, totals): ...; store t in totals[r, b] }
    tile.kernel @scan.blocks {grid = [`R`, `n`]} { ^(r, b, x, y, totals):
        before = tile.tree(b, empty) { ^(i): totals[r, i] } {+};  ...; store }
  and its launch a choice: the kernel as it was from `MANY` programs on, else the two in turn.

What stands before a block is the same tree, so the bits are the same. What is folded is read twice, and the tree is
taken anew for every block; but all blocks are folded at once.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, attr, clone_op
from tesserac.ir.index import dim_value
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.types import INDEX, AxisType, MemRefType
from tesserac.schedule.dialect import Predicate
from tesserac.tile.dialect import Config, grid, tile_type
from tesserac.types.dims import Dim, product

MANY = 256
"""Programs of a kernel that keep a GPU busy."""


def split_running(module: Module) -> Module:
    """The module with split kernels; what it was given stays as it is."""
    if not any(_running(op) for op in module.ops if op.name == "tile.kernel"):
        return module
    ops = [clone_op(op, {}) for op in module.ops]
    made: list[Op] = []
    for kernel in [op for op in ops if op.name == "tile.kernel"]:
        running = _running(kernel)
        if running is not None:
            split = _Split(kernel, running)
            made += [split.totals_kernel(), split.blocks_kernel()]
            for host in (op for op in ops if op.name != "tile.kernel"):
                split.choose(host)
    whole = Module([*made, *ops])
    while erase_dead(whole):
        pass
    return whole


def _running(kernel: Op) -> Op | None:
    """The running fold that is all a kernel does, if it folds one value and its number of blocks is a size."""
    found = [op for op in kernel.body.ops if op.name == "tile.running"]
    if len(found) != 1 or len(found[0].operands) != 2 or _count(found[0]) is None:
        return None
    alone = all(op is found[0] or op.opdef.pure or op.name == "tile.return" for op in kernel.body.ops)
    return found[0] if alone else None


def _count(running: Op) -> Dim | None:
    made = running.operands[0].defining_op
    dim = made.attrs.get("dim") if made is not None else None
    return dim if isinstance(dim, Dim) else None


class _Split:
    def __init__(self, kernel: Op, running: Op) -> None:
        self.kernel, self.running = kernel, running
        blocks = _count(running)
        assert blocks is not None
        self.programs = grid(kernel)
        self.grid = (*self.programs, blocks)
        total = tile_type(running.operands[1])
        self.total = total
        self.totals = MemRefType((*self.grid, *map(Dim.const, total.shape)), total.dtype, total.policy)

    def totals_kernel(self) -> Op:
        """Every block's total. What the block stores, and what it needs for that alone, is not done here."""
        start = _Start(self)
        body, before = self.running.regions[0].block, self.running.operands[1]
        start.bind(body, start.values[before])
        for op in body.ops[:-1]:
            if op.name != "tile.store":
                start.b.add(clone_op(op, start.values))
        value = start.values[body.terminator.operands[0]]
        start.b.op("tile.store", (value, start.totals, *start.place(start.b, start.number)))
        return start.finish(f"{self.kernel.symbol}.totals")

    def blocks_kernel(self) -> Op:
        """What every block stores, behind the tree over the totals before it."""
        start = _Start(self)
        body, empty = self.running.regions[0].block, start.values[self.running.operands[1]]
        one = Block([INDEX], ["i"])
        b = Builder(one, self.kernel.span)
        held = b.value("tile.load", (start.totals, *start.place(b, one.args[0])), self.total)
        b.op("tile.yield", (held,))
        combine = _copied(self.running.regions[1].block)
        tree = start.b.op("tile.tree", (start.number, empty), (self.total,), {}, (one, combine))
        start.bind(body, tree.results[0])
        for op in body.ops[:-1]:
            start.b.add(clone_op(op, start.values))
        return start.finish(f"{self.kernel.symbol}.blocks")

    def choose(self, host: Op) -> None:
        """Every launch of the kernel in a host program becomes the choice."""
        launches = [op for op in host.walk() if op.attrs.get("kernel") == self.kernel.symbol]
        for launch in launches:
            room = self._buffer(host)
            many = Predicate("at_least", product(self.programs), Dim.const(MANY))
            arms = [self._arm(launch, ("",), ()), self._arm(launch, (".totals", ".blocks"), (room,))]
            Builder.before(launch).op("schedule.select", (), (), {"predicates": (many,)}, arms)
            launch.erase()

    def _arm(self, launch: Op, suffixes: tuple[str, ...], more: tuple[Value, ...]) -> Block:
        arm = Block()
        b = Builder(arm, launch.span)
        for suffix in suffixes:
            b.op("tile.launch", (*launch.operands, *more), (), {**launch.attrs, "kernel": self.kernel.symbol + suffix})
        b.op("schedule.end")
        return arm

    def _buffer(self, host: Op) -> Value:
        """Workspace for the totals, beside the other buffers of the host program."""
        slots = (attr(op, "slot", int) for op in host.body.ops if op.attrs.get("role") == "workspace")
        attrs: dict[str, Attr] = {"role": "workspace", "slot": max(slots, default=-1) + 1}
        buffer = Op(OPDEFS["schedule.buffer"], (), (self.totals,), attrs, (), self.kernel.span, ("totals",))
        first = (i for i, op in enumerate(host.body.ops) if op.name not in ("schedule.guard", "schedule.buffer"))
        return host.body.insert(next(first), buffer).result


class _Start:
    """A kernel that has begun: its block is a grid axis, the memory of totals its last argument, and all that stood
    before the running fold is done."""

    def __init__(self, split: _Split) -> None:
        self.split = split
        kernel, axes = split.kernel, len(split.programs)
        old = kernel.body.args
        self.block = Block([v.type for v in old[:axes]], [v.name for v in old[:axes]])
        self.number = self.block.add_arg(INDEX, "block")
        rest = [self.block.add_arg(v.type, v.name) for v in old[axes:]]
        self.totals = self.block.add_arg(split.totals, "totals")
        self.pids = self.block.args[:axes]
        self.values: dict[Value, Value] = dict(zip(old, [*self.pids, *rest], strict=True))
        self.b = Builder(self.block, kernel.span)
        for op in kernel.body.ops:
            if op is split.running:
                break
            self.b.add(clone_op(op, self.values))

    def bind(self, body: Block, before: Value) -> None:
        """What the arguments of a block are here."""
        self.values.update(zip(body.args, (self.number, before), strict=True))

    def place(self, b: Builder, number: Value) -> list[Value]:
        """Where the total of a block stands."""
        zero = dim_value(b, 0)
        shape = self.split.total.shape
        return [*self.pids, number, *(b.value("tile.axis", (zero, dim_value(b, n)), AxisType(n)) for n in shape)]

    def finish(self, name: str) -> Op:
        self.b.op("tile.return")
        config = self.split.kernel.attrs["config"]
        assert isinstance(config, Config)
        narrow = Config(1, config.roles) if self.split.total.shape == () else config
        attrs: dict[str, Attr] = {"sym_name": name, "grid": self.split.grid, "config": narrow}
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], self.split.kernel.span)


def _copied(block: Block) -> Block:
    values: dict[Value, Value] = {}
    copy = Block([a.type for a in block.args], [a.name for a in block.args])
    values.update(zip(block.args, copy.args, strict=True))
    for op in block.ops:
        copy.append(clone_op(op, values))
    return copy
