"""Pass `radix`: a long row is sorted by all multiprocessors, digit by digit, from the lowest.

    tile.kernel @sort {grid = [`R`]} { ^(r, x, out): tile.sort(x, r, 0, out, r, 0) }
  becomes, beside that kernel, for each digit of eight bits three kernels
    @sort.counts.0  {grid = [`R`, `n`]}    gpu.digit_counts: how often each digit stands in each block of 4096 keys
    @sort.offsets   {grid = [`R`, 256]}    gpu.digit_offsets: of one digit, how many stand in the blocks before each
    @sort.places.0  {grid = [`R`, `n`]}    gpu.digit_places: every key goes behind those of lower digits, of earlier
                                           blocks, and of earlier places in its own, with the place that it had in `x`;
                                           a block puts its keys in order first, and writes runs of them
  and its launch a choice: the kernel as it was below `LONG` elements, else all digits in turn. The first reads `x`, the
  last writes `out`; between them keys and places go back and forth between two rooms. Of integers below a bound, as
  places are, only as many digits are gone through as the bound has, in twos: the host knows it. Where elements are
  asked for, they go themselves, without keys and places: a digit is that of the key which an element has.

Equal digits keep their order, so the sort is stable. Places are 32 bits on the way, hence rows are below 2**31.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, clone_op, define_op
from tesserac.ir.forms import indices
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.indexed import gives_elements
from tesserac.ir.types import INDEX, MemRefType
from tesserac.schedule.dialect import Predicate
from tesserac.tile.dialect import RESIDENT, Config, grid, memref_type
from tesserac.tile.status import add_workspace
from tesserac.types.dims import ZERO, Dim, product
from tesserac.types.dtype import BF16, I32, I64, DType

WARPS, ITEMS = 8, 16
BLOCK = WARPS * 32 * ITEMS
DIGITS = 256
COUNTERS = DIGITS + 8
"""Of one warp: digits, and what stands for keys behind the end."""
COUNTING, MOVING = 5, 3
"""Programs that a multiprocessor holds at once: what they wait for is memory."""
LONG = 8192
"""Elements of a row that one block of threads sorts more slowly than all of them do."""
LONGEST = (1 << 31) - 1

COUNTS, OFFSETS, PLACES = "gpu.digit_counts", "gpu.digit_offsets", "gpu.digit_places"
define_op(COUNTS, pure=False)
define_op(OFFSETS, pure=False)
define_op(PLACES, pure=False)


def split_sorts(module: Module) -> Module:
    """The module with such kernels; what it was given stays as it is."""
    if not any(_sort(op) for op in module.ops if op.name == "tile.kernel"):
        return module
    ops, made = [clone_op(op, {}) for op in module.ops], list[Op]()
    for kernel in [op for op in ops if op.name == "tile.kernel"]:
        sort = _sort(kernel)
        split = _Split(kernel, sort) if sort is not None else None
        hosts = [op for op in ops if op.name != "tile.kernel"]
        if split is not None and all(map(split.has_sizes, hosts)):
            made += split.kernels()
            for host in hosts:
                split.choose(host)
    return Module([*made, *ops])


def _sort(kernel: Op) -> Op | None:
    """The sort that is all a kernel does, if its rows may be long."""
    found = [op for op in kernel.body.ops if op.name == "tile.sort"]
    alone = all(op in found or op.opdef.pure or op.name == "tile.return" for op in kernel.body.ops)
    if len(found) != 1 or not alone:
        return None
    size = _size(found[0]).constant
    return found[0] if size is None or LONG <= size <= LONGEST else None


def _size(sort: Op) -> Dim:
    return memref_type(sort.operands[0]).dims[indices(sort, "dims")[0]]


def shifts(dtype: DType) -> tuple[int, ...]:
    """Where the digits of a key begin that differ between elements: narrow floats are compared as f32."""
    if dtype == BF16:
        return (16, 24)
    bits = 32 if dtype.is_float and dtype.bits < 32 else max(8, dtype.bits)
    return tuple(range(0, bits, 8))


class _Split:
    def __init__(self, kernel: Op, sort: Op) -> None:
        self.kernel, self.sort = kernel, sort
        self.size, self.programs = _size(sort), grid(kernel)
        self.blocks = self.size.ceil_div(BLOCK)
        self.dtype = memref_type(sort.operands[0]).dtype
        self.shifts = shifts(self.dtype)
        below = sort.attrs.get("below")
        self.few = {2: 16, 4: 32} if isinstance(below, Dim) and len(self.shifts) > 4 else {}
        """Numbers of digits that may be enough, with their bits."""
        self.below = below if isinstance(below, Dim) else ZERO
        self.elements = gives_elements(sort)
        self.rooms = self._rooms()
        """The types of what kernels hand on, by name."""

    def _rooms(self) -> dict[str, MemRefType]:
        rows = product(self.programs)
        word = self.dtype if self.elements else I64 if self.dtype.bits > 32 else I32
        keys, places = (MemRefType((rows, self.size), dtype) for dtype in (word, I32))
        ways = {"keys0": keys, "keys1": keys} | ({} if self.elements else {"places0": places, "places1": places})
        counts = MemRefType((rows, Dim.const(DIGITS), self.blocks), I32)
        return {**ways, "counts": counts, "totals": MemRefType((rows, Dim.const(DIGITS)), I32)}

    def has_sizes(self, host: Op) -> bool:
        """Whether the arguments of a host program say how large all rooms are; iterations of loops do not."""
        known = {name for arg in host.body.args for dim in memref_type(arg).dims for name in dim.symbols()}
        if not self.below.symbols() <= known:
            self.few = {}
        return all(dim.symbols() <= known for room in self.rooms.values() for dim in room.dims)

    # --- kernels ------------------------------------------------------------------------------------------------------

    def kernels(self) -> list[Op]:
        turns = range(len(self.shifts))
        ends = [self.places_kernel(count - 1, last=True) for count in (*self.few, len(turns))]
        moves = [self.places_kernel(turn, last=False) for turn in turns[:-1]]
        return [*map(self.counts_kernel, turns), self.offsets_kernel(), *moves, *ends]

    def counts_kernel(self, turn: int) -> Op:
        start = _Start(self, self.blocks)
        counters = start.scratch(WARPS * COUNTERS)
        operands = [start.number, *self._source(start, turn), start.memory["counts"], start.row, counters]
        start.b.op(COUNTS, operands, (), self._attrs(turn))
        return start.finish(f"counts.{turn}", COUNTING)

    def offsets_kernel(self) -> Op:
        start = _Start(self, Dim.const(DIGITS))
        rooms = (start.memory["counts"], start.memory["totals"], start.row, start.scratch(WARPS * 32))
        start.b.op(OFFSETS, (start.number, *rooms))
        return start.finish("offsets", COUNTING)

    def places_kernel(self, turn: int, last: bool) -> Op:
        start = _Start(self, self.blocks)
        words, memory, after = (WARPS * COUNTERS, WARPS * 32), start.memory, (turn + 1) % 2
        scratch = [*map(start.scratch, words), start.scratch(BLOCK, self.rooms["keys0"].dtype)]
        moved, target = list[Value](), [memory[f"keys{after}"]]
        if not self.elements:
            scratch.append(start.scratch(BLOCK))
            moved += [] if turn == 0 else [memory[f"places{turn % 2}"]]
            target.append(memory[f"places{after}"])
        shared = (memory["counts"], memory["totals"], start.row, *scratch)
        target = self._target(start) if last else target
        operands = [start.number, *self._source(start, turn), *shared, *moved, *target]
        start.b.op(PLACES, operands, (), {**self._attrs(turn), "last": last})
        return start.finish(f"places.{turn}.last" if last else f"places.{turn}", MOVING)

    def _attrs(self, turn: int) -> dict[str, Attr]:
        return {"shift": self.shifts[turn], "first": turn == 0, **self.sort.attrs}

    def _source(self, start: _Start, turn: int) -> list[Value]:
        """What a digit is taken from: the row itself, or keys."""
        if turn:
            return [start.memory[f"keys{turn % 2}"], start.row, dim_value(start.b, 0)]
        rank = len(memref_type(self.sort.operands[0]).dims)
        return [start.values[v] for v in self.sort.operands[: 1 + rank]]

    def _target(self, start: _Start) -> list[Value]:
        rank = len(memref_type(self.sort.operands[0]).dims)
        return [start.values[v] for v in self.sort.operands[1 + rank :]]

    # --- the host program ---------------------------------------------------------------------------------------------

    def choose(self, host: Op) -> None:
        """Every launch of the kernel in a host program becomes the choice."""
        for launch in [op for op in host.walk() if op.attrs.get("kernel") == self.kernel.symbol]:
            buffers = [self._buffer(host, ty) for ty in self.rooms.values()]
            digits = [self._digits(launch, buffers, count) for count in (*self.few, len(self.shifts))]
            predicates = [Predicate("at_least", Dim.const(1 << bits), self.below) for bits in self.few.values()]
            if self.size.constant is None:
                plain = Block()
                Builder(plain, launch.span).op("tile.launch", launch.operands, (), launch.attrs)
                Builder(plain, launch.span).op("schedule.end")
                long, longest = Dim.const(LONG - 1), Dim.const(LONGEST + 1)
                lengths = Predicate("at_least", long, self.size), Predicate("at_least", self.size, longest)
                digits, predicates = [plain, _copied(plain), *digits], [*lengths, *predicates]
            _put_choice(launch, predicates, digits)
            launch.erase()

    def _digits(self, launch: Op, buffers: Sequence[Value], count: int) -> Block:
        arm = Block()
        b = Builder(arm, launch.span)
        types = zip(buffers, self.rooms.values(), strict=True)
        rooms = [b.value("schedule.box", (v,), ty, {"offset": ZERO}) for v, ty in types]
        for turn in range(count):
            places = f"places.{turn}.last" if turn == count - 1 else f"places.{turn}"
            for step in (f"counts.{turn}", "offsets", places):
                attrs = {**launch.attrs, "kernel": f"{self.kernel.symbol}.{step}"}
                b.op("tile.launch", (*launch.operands, *rooms), (), attrs)
        b.op("schedule.end")
        return arm

    def _buffer(self, host: Op, ty: MemRefType) -> Value:
        """Workspace of which there is none where rows are short."""
        whole = product(ty.dims) * self.size.floor_div(LONG).min(1)
        return add_workspace(host, MemRefType((whole,), ty.dtype), "digits")


def _put_choice(launch: Op, predicates: Sequence[Predicate], arms: Sequence[Block]) -> None:
    """Before a launch the first arm whose predicate holds, or the only one."""
    builder = Builder.before(launch)
    if predicates:
        builder.op("schedule.select", (), (), {"predicates": tuple(predicates)}, arms)
        return
    for op in list(arms[0].ops[:-1]):
        op.detach()
        builder.add(op)


def _copied(block: Block) -> Block:
    copy = Block()
    for op in block.ops:
        copy.append(clone_op(op, {}))
    return copy


class _Start:
    """A kernel that has begun: its last grid axis is a block or a digit, its last arguments are the rooms, and it knows
    the number of its row."""

    def __init__(self, split: _Split, last: Dim) -> None:
        self.split, self.last = split, last
        kernel, axes = split.kernel, len(split.programs)
        old = kernel.body.args
        self.block = Block([v.type for v in old[:axes]], [v.name for v in old[:axes]])
        self.number = self.block.add_arg(INDEX, "block")
        rest = [self.block.add_arg(v.type, v.name) for v in old[axes:]]
        self.memory = {name: self.block.add_arg(ty, name) for name, ty in split.rooms.items()}
        pids = self.block.args[:axes]
        self.values: dict[Value, Value] = dict(zip(old, [*pids, *rest], strict=True))
        self.b = Builder(self.block, kernel.span)
        for op in kernel.body.ops:
            if op is split.sort:
                break
            self.b.add(clone_op(op, self.values))
        self.row = dim_value(self.b, 0)
        for pid, size in zip(pids, split.programs, strict=True):
            self.row = index_op(self.b, "add", index_op(self.b, "mul", self.row, dim_value(self.b, size)), pid)

    def scratch(self, size: int, dtype: DType = I32) -> Value:
        ty = MemRefType((Dim.const(size),), dtype, space="local")
        return Builder.before(self.block.ops[0]).value("tile.alloc", (), ty, hint="room")

    def finish(self, name: str, resident: int) -> Op:
        self.b.op("tile.return")
        attrs: dict[str, Attr] = {
            "sym_name": f"{self.split.kernel.symbol}.{name}",
            "grid": (*self.split.programs, self.last),
            "config": Config(WARPS, "uniform"),
            RESIDENT: resident,
        }
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], self.split.kernel.span)
