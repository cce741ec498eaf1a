"""Pass `split_running`: where there are few programs, the blocks of a running fold are programs of their own.

    tile.kernel @scan {grid = [`R`]} { ^(r, x, y): tile.running(n, empty) { ^(b, before): ...; store; yield t } {+} }
  becomes, beside that kernel,
    tile.kernel @scan.totals {grid = [`R`, `n`]} { ^(r, b, x, y, levels): ...; store t in levels[r, 0, b] }
    tile.kernel @scan.subtrees {grid = [`R`]} { ^(r, x, y, levels): levels[r, k, j] folds 2j and 2j + 1 of level k - 1 }
    tile.kernel @scan.blocks {grid = [`R`, `n`]} { ^(r, b, x, y, levels):
        before = for k in 31 { if b >> k is odd { levels[r, k, (b >> k) - 1] + before } };  ...; store }
  and its launch a choice: the kernel as it was from `MANY` programs on, else the three in turn.

The aligned tree over the blocks before one is made of a whole subtree for each bit of its number, joined smallest
first: so the bits are the same. What is folded is read twice, but all blocks are folded at once. Where its elements are
folded as they are, it is read once: a program takes many blocks, and waits for what it needs of those before it
(`wide_scans.py`); one launch clears what they tell each other by. Rows that lie side by side have totals alone, and
take the tree anew for every block.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, clone_op, define_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.types import INDEX, AxisType, MemRefType, TileType
from tesserac.schedule.dialect import Predicate
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import Config, grid, tile_type
from tesserac.tile.gpu.kernels import wide_scans
from tesserac.tile.gpu.rows.prefetch import AHEAD
from tesserac.tile.status import add_workspace
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import I64

MANY = 256
"""Programs of a kernel that keep a GPU busy."""
LEVELS = 31
"""Of the tree: blocks of threads are fewer than 2**31."""
SUBTREE_WARPS = 32
CLEARED, CLEAR_WARPS = 512, 4
SUBTREES = "gpu.subtrees"
define_op(SUBTREES, pure=False)


def split_running(module: Module, machine: Machine) -> Module:
    """The module with split kernels; what it was given stays as it is."""
    if not any(_running(op) for op in module.ops if op.name == "tile.kernel"):
        return module
    ops = [clone_op(op, {}) for op in module.ops]
    made: list[Op] = []
    for kernel in [op for op in ops if op.name == "tile.kernel"]:
        running = _running(kernel)
        if running is not None:
            split = _Split(kernel, running, machine)
            made += split.kernels()
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
    def __init__(self, kernel: Op, running: Op, machine: Machine) -> None:
        self.kernel, self.running, self.machine = kernel, running, machine
        blocks = _count(running)
        assert blocks is not None
        self.programs = grid(kernel)
        self.grid = (*self.programs, blocks)
        total = tile_type(running.operands[1])
        self.total, self.deep = total, total.shape == ()
        levels = (Dim.const(LEVELS),) if self.deep else ()
        sizes = (*self.programs, *levels, blocks, *map(Dim.const, total.shape))
        self.totals = MemRefType(sizes, total.dtype, total.policy)
        self.moves = wide_scans.moves(running) if self.deep else None
        several = blocks.ceil_div(wide_scans.chains(total.dtype))
        self.wide = (*self.programs, several)
        told = wide_scans.told(self.programs, several, total.dtype)
        self.memories = (self.totals,) if self.moves is None else told
        """What the kernels hand to each other."""
        split = (".totals", *((".subtrees",) if self.deep else ()), ".blocks")
        self.steps = split if self.moves is None else (".clear", ".once")

    def kernels(self) -> list[Op]:
        """In the order of `steps`."""
        if self.moves is not None:
            return [self.clear_kernel(), self.once_kernel(self.moves)]
        return [self.totals_kernel(), *([self.subtrees_kernel()] if self.deep else []), self.blocks_kernel()]

    def clear_kernel(self) -> Op:
        """No program has told anything."""
        *_, count = self.memories[0].dims
        start = _Start(self, (*self.programs, count.ceil_div(CLEARED)))
        b, ty = start.b, TileType((CLEARED,), I64)
        first = index_op(b, "mul", start.number, dim_value(b, CLEARED))
        end = b.value("index.dim", (), INDEX, {"dim": count})
        axis = b.value("tile.axis", (first, end), AxisType(CLEARED))
        b.op("tile.store", (b.value("tile.full", (), ty, {"value": 0}), start.handed[0], *start.pids, axis))
        return start.finish(f"{self.kernel.symbol}.clear", CLEAR_WARPS)

    def subtrees_kernel(self) -> Op:
        """The totals of all subtrees of a row, level by level."""
        (scan,) = [op for op in self.running.walk() if op.name == "tile.scan"]
        start = _Start(self, self.programs)
        start.b.op(SUBTREES, (*start.pids, start.totals), (), {"kind": scan.attrs["kind"]})
        return start.finish(f"{self.kernel.symbol}.subtrees", SUBTREE_WARPS)

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
        body = self.running.regions[0].block
        start.bind(body, self._by_subtrees(start) if self.deep else self._by_tree(start))
        for op in body.ops[:-1]:
            start.b.add(clone_op(op, start.values))
        return start.finish(f"{self.kernel.symbol}.blocks")

    def once_kernel(self, moves: wide_scans.Moves) -> Op:
        """Many blocks for a program, each read once."""
        (scan,) = [op for op in self.running.walk() if op.name == "tile.scan"]
        start = _Start(self, self.wide)
        b = start.b
        rooms = wide_scans.rooms(b, self.total.dtype)
        source = (start.values[moves.source], *wide_scans.places(b, moves.taken, start.values))
        target = (start.values[moves.target], *wide_scans.places(b, moves.put, start.values))
        operands = (start.number, *rooms, *start.handed, *start.pids, *source, *target)
        attrs = {"kind": scan.attrs["kind"], "dims": moves.dims, "rows": len(start.pids), AHEAD: self.machine.cores}
        b.op(wide_scans.ONCE, operands, (), attrs)
        return start.finish(f"{self.kernel.symbol}.once", wide_scans.WARPS)

    def _by_tree(self, start: _Start) -> Value:
        """What stands before a block: the tree over all totals before it."""
        one = Block([INDEX], ["i"])
        b = Builder(one, self.kernel.span)
        held = b.value("tile.load", (start.totals, *start.place(b, one.args[0])), self.total)
        b.op("tile.yield", (held,))
        empty, combine = start.values[self.running.operands[1]], _copied(self.running.regions[1].block)
        return start.b.op("tile.tree", (start.number, empty), (self.total,), {}, (one, combine)).results[0]

    def _by_subtrees(self, start: _Start) -> Value:
        """The same: a subtree for each bit of its number, the smallest first."""
        levels = Block([INDEX, self.total, INDEX], ["level", "before", "rest"])
        level, before, rest = levels.args
        b = Builder(levels, self.kernel.span)
        odd = index_op(b, "rem", rest, dim_value(b, 2))
        place = index_op(b, "max", index_op(b, "sub", rest, dim_value(b, 1)), dim_value(b, 0))
        once = Block([INDEX, self.total], ["_", "before"])
        inner = Builder(once, self.kernel.span)
        node = inner.value("tile.load", (start.totals, *start.pids, level, place), self.total)
        combine = self.running.regions[1].block
        known = dict(zip(combine.args, (node, once.args[1]), strict=True))
        for op in combine.ops:
            inner.add(clone_op(op, known))
        joined = b.value("tile.for", (dim_value(b, 0), odd, before), self.total, {"step": 1}, (once,))
        b.op("tile.yield", (joined, index_op(b, "floor_div", rest, dim_value(b, 2))))
        ends = dim_value(start.b, 0), dim_value(start.b, LEVELS)
        inits = start.values[self.running.operands[1]], start.number
        loop = start.b.op("tile.for", (*ends, *inits), (self.total, INDEX), {"step": 1}, (levels,))
        return loop.results[0]

    def choose(self, host: Op) -> None:
        """Every launch of the kernel in a host program becomes the choice."""
        launches = [op for op in host.walk() if op.attrs.get("kernel") == self.kernel.symbol]
        for launch in launches:
            rooms = tuple(add_workspace(host, memory, "totals") for memory in self.memories)
            many = Predicate("at_least", product(self.programs), Dim.const(MANY))
            arms = [self._arm(launch, ("",), ()), self._arm(launch, self.steps, rooms)]
            Builder.before(launch).op("schedule.select", (), (), {"predicates": (many,)}, arms)
            launch.erase()

    def _arm(self, launch: Op, suffixes: tuple[str, ...], more: tuple[Value, ...]) -> Block:
        arm = Block()
        b = Builder(arm, launch.span)
        for suffix in suffixes:
            b.op("tile.launch", (*launch.operands, *more), (), {**launch.attrs, "kernel": self.kernel.symbol + suffix})
        b.op("schedule.end")
        return arm


class _Start:
    """A kernel that has begun: the last grid axis counts blocks, or several of them, unless it goes by rows; the memory
    of totals is its last argument, and all that stood before the running fold is done."""

    def __init__(self, split: _Split, sizes: tuple[Dim, ...] | None = None) -> None:
        self.split = split
        kernel, axes = split.kernel, len(split.programs)
        old = kernel.body.args
        self.block = Block([v.type for v in old[:axes]], [v.name for v in old[:axes]])
        self.grid = split.grid if sizes is None else sizes
        self.numbers = [self.block.add_arg(INDEX, "block")] if len(self.grid) > axes else []
        rest = [self.block.add_arg(v.type, v.name) for v in old[axes:]]
        self.handed = [self.block.add_arg(memory, "totals") for memory in split.memories]
        self.pids = self.block.args[:axes]
        self.values: dict[Value, Value] = dict(zip(old, [*self.pids, *rest], strict=True))
        self.b = Builder(self.block, kernel.span)
        for op in kernel.body.ops:
            if op is split.running:
                break
            self.b.add(clone_op(op, self.values))

    @property
    def totals(self) -> Value:
        return self.handed[0]

    @property
    def number(self) -> Value:
        """Of the block."""
        return self.numbers[0]

    def bind(self, body: Block, before: Value) -> None:
        """What the arguments of a block are here."""
        self.values.update(zip(body.args, (self.number, before), strict=True))

    def place(self, b: Builder, number: Value) -> list[Value]:
        """Where the total of a block stands."""
        zero = dim_value(b, 0)
        shape, level = self.split.total.shape, [zero] if self.split.deep else []
        beside = [b.value("tile.axis", (zero, dim_value(b, n)), AxisType(n)) for n in shape]
        return [*self.pids, *level, number, *beside]

    def finish(self, name: str, warps: int = 1) -> Op:
        self.b.op("tile.return")
        config = self.split.kernel.attrs["config"]
        assert isinstance(config, Config)
        narrow = Config(warps, config.roles) if self.split.deep else config
        attrs: dict[str, Attr] = {"sym_name": name, "grid": self.grid, "config": narrow}
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], self.split.kernel.span)


def _copied(block: Block) -> Block:
    values: dict[Value, Value] = {}
    copy = Block([a.type for a in block.args], [a.name for a in block.args])
    values.update(zip(block.args, copy.args, strict=True))
    for op in block.ops:
        copy.append(clone_op(op, values))
    return copy
