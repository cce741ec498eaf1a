"""Neutral Tile to the CPU dialect, kernel by kernel.

Enters: a `tile.kernel`. Leaves: a `cpu.kernel` of the same name, arguments and grid. Accepted:

- loads and stores of strided memory of any strides and rank; axes and indices in any position
- gathers at integers that are loaded or computed, scatters of a block where one integer per dim says
- maps of any rank and broadcasting, casts, iotas, reductions along any dims (a sum of at most one block)
- running folds along any dim of a block
- the order of a whole row
- tile.for and tile.tree that carry tiles of any rank, as long as a carried tile is updated place by place
- tile.dot of two blocks that are loaded or computed: the left one is packed per program; the right one is read from
  memory of layout `panels` (rows k, columns in panels), or packed per program; the accumulator is
  any tile, best one of +0 that a tile.for carries
- tile.store into memory of layout `panels`: packs the right operand of a later kernel

Anything else raises LoweringError. A load is read where its tile is used; the memory must not be written in between.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import OPDEFS, Block, Op, Region, Value, attr, attr_tuple
from tesserac.ir.index import BINARY, constant_index
from tesserac.ir.types import INDEX, AxisType, MemRefType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.indexed import coordinates, gathered, has_rows, is_read_again, lower_scatter
from tesserac.tile.cpu.loops import LowerOps, lower_for, lower_tree
from tesserac.tile.cpu.nests import Reduce, Sink, Store, lower_sinks, reduce_sink
from tesserac.tile.cpu.products.lower import lower_dot, store_panels
from tesserac.tile.cpu.products.matrix_products import store_tiles
from tesserac.tile.cpu.reuse import copies_beside, in_scratch, kept_operands, note_costly
from tesserac.tile.cpu.running import lower_running
from tesserac.tile.cpu.target import CpuTarget, held, tiled_bytes
from tesserac.tile.cpu.tiles import (
    Axis,
    Converted,
    Counted,
    Filled,
    Grouped,
    Loaded,
    LoweringError,
    Mapped,
    Scalar,
    Tile,
    mapped_axes,
    memories,
)
from tesserac.tile.dialect import (
    CODE,
    GIVEN,
    SYMBOLS,
    grid,
    kernel_memrefs,
    load_groups,
    memref_type,
    tile_type,
)
from tesserac.types.dims import Dim, product


def lower_kernel(kernel: Op, target: CpuTarget) -> Op:
    """The CPU form of a neutral kernel."""
    body = Block([a.type for a in kernel.body.args], [a.name for a in kernel.body.args])
    ctx = Context(target, body)
    ctx.values.update(zip(kernel.body.args, body.args, strict=True))
    _lower_ops(ctx, kernel.body)
    ctx.builder.op("cpu.return")
    ctx.finish()
    attrs = {
        "sym_name": kernel.symbol,
        "grid": kernel.attrs["grid"],
        "symbols": kernel_symbols(kernel),
        "scratch": ctx.scratch_bytes,
        "target": target.name,
        **{name: kernel.attrs[name] for name in (CODE, GIVEN) if name in kernel.attrs},
    }
    return Op(OPDEFS["cpu.kernel"], (), (), attrs, [Region(body)], kernel.span)


def kernel_symbols(kernel: Op) -> tuple[str, ...]:
    """The dims whose values a kernel takes behind its memory, in that order."""
    if SYMBOLS in kernel.attrs:
        return attr_tuple(kernel, SYMBOLS, str)
    found: set[str] = set()
    for size in grid(kernel):
        found |= size.symbols()
    for value in kernel_memrefs(kernel):
        type_ = memref_type(value)
        found = found.union(*(d.symbols() for d in (*type_.dims, *type_.strides)))
    for op in kernel.walk():
        dims = [op.attrs.get("dim"), *(d for v in op.results if isinstance(v.type, MemRefType) for d in v.type.dims)]
        found = found.union(*(d.symbols() for d in dims if isinstance(d, Dim)))
    return tuple(sorted(found))


def scratch_bytes(lowered: Op) -> Dim:
    """Scratch that each worker needs to run a lowered kernel."""
    return attr(lowered, "scratch", Dim)


def buffer_bytes(memory: MemRefType, target: CpuTarget) -> Dim:
    """Bytes of a buffer of the host program. Panels hold the accumulation type and whole blocks of columns."""
    if memory.layout == "strided":
        if not memory.contiguous:
            raise LoweringError(f"a buffer must be contiguous, not {memory}")
        return product(memory.dims) * memory.dtype.bytes
    if memory.layout == "tiles":
        return tiled_bytes(memory.dims, memory.dtype)
    rows, columns = memory.dims
    accum = memory.policy.accum or memory.dtype
    width = target.micro(accum).columns
    return columns.ceil_div(width) * width * rows * held(accum).bytes


# --- operations ---------------------------------------------------------------------------------------------------


class _Pending:
    """Stores and reductions over one set of axes that wait to share a loop nest."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.sinks: list[Sink] = []
        self.reads: dict[Tile, frozenset[Value]] = {}
        self._results = set[Value]()
        self._written: dict[Value, _Elements] = {}

    def add(self, sink: Store | Reduce) -> None:
        if self.sinks and not self._shares(sink):
            self.flush()
        self.sinks.append(sink)
        if isinstance(sink, Store):
            self._written.setdefault(sink.memory, _Elements()).add(sink)
        else:
            self._results.add(sink.result)

    def flush(self) -> None:
        """The loops of all that waits; they keep what is costly and read later."""
        sinks, self.sinks = self.sinks, []
        self._results, self._written = set(), {}
        if sinks:
            lower_sinks(self.ctx, [*sinks, *copies_beside(self.ctx, sinks)])

    def before(self, op: Op) -> None:
        """Computes what waits if `op` needs it: a result, or memory that is still to be written."""
        loads = op.name in ("tile.load", "tile.gather")
        reads = {self.ctx.values.get(v) for v in op.operands} if loads else set()
        needs = not self._results.isdisjoint(op.operands) or not reads.isdisjoint(self._written)
        if needs or (op.regions and op.name != "tile.map"):
            self.flush()

    def _shares(self, sink: Store | Reduce) -> bool:
        first = self.sinks[0]
        reads = memories(sink.tile, self.reads)
        shape = sink.tile.type.shape
        if shape != first.tile.type.shape or self.ctx.extents(sink.axes, shape) != self.ctx.extents(first.axes, shape):
            return False
        return reads.isdisjoint(self._written) and not (isinstance(sink, Store) and self._meets(sink))

    def _meets(self, sink: Store) -> bool:
        """Whether it may write an element that another writes."""
        others = self._written.get(sink.memory)
        return others is not None and others.may_have(sink)


class _Elements:
    """What stores write of one memory, as far as numbers say: those whose numbers are of the same coordinates meet only
    where all are equal, and so a step of a transform looks once for each of its hundred."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], set[tuple[int, ...]]] = {}

    def add(self, sink: Store) -> None:
        known = _known_places(sink)
        self._numbers.setdefault(tuple(known), set()).add(tuple(known.values()))

    def may_have(self, sink: Store) -> bool:
        """Whether another store may write an element of this one: not where some coordinate is two numbers."""
        known = _known_places(sink)
        here, numbers = tuple(known), tuple(known.values())
        if numbers in self._numbers.get(here, ()):
            return True
        elsewhere = ((at, found) for at, each in self._numbers.items() if at != here for found in each)
        return any(all(known.get(d, n) == n for d, n in zip(at, found, strict=True)) for at, found in elsewhere)


def _known_places(sink: Store) -> dict[int, int]:
    """The coordinates of a store that are numbers."""
    places = {dim: constant_index(place) for dim, place in enumerate(sink.at) if isinstance(place, Value)}
    return {dim: number for dim, number in places.items() if number is not None}


def _lower_ops(ctx: Context, block: Block) -> None:
    """Everything but the terminator."""
    pending = _Pending(ctx)
    for op in block.ops:
        if op.opdef.terminator:
            break
        with ctx.builder.spanned(op.span):
            pending.before(op)
            _lower_op(ctx, op, pending)
            ctx.lowered.add(op)
    pending.flush()


def _lower_op(ctx: Context, op: Op, pending: _Pending) -> None:
    match op.name:
        case "tile.store":
            _store(ctx, op, pending)
        case "tile.scatter":
            pending.flush()
            lower_scatter(ctx, op)
        case "tile.scan":
            from tesserac.tile.cpu.scans import lower_scan

            pending.flush()
            lower_scan(ctx, op)
        case "tile.sort" | "tile.sort_run" | "tile.merge_runs":
            from tesserac.tile.cpu.sorts import lower_sort

            pending.flush()
            lower_sort(ctx, op)
        case "tile.fold_at":
            from tesserac.tile.cpu.place_folds import lower_fold_at

            pending.flush()
            lower_fold_at(ctx, op)
        case "tile.reduce":
            pending.add(reduce_sink(ctx, op))
        case name if name in _LOOPS:
            _LOOPS[name](ctx, op, _lower_ops)
        case "tile.dot":
            pending.flush()
            lower_dot(ctx, op)
        case name if name in _SIMPLE:
            _SIMPLE[name](ctx, op)
        case _:
            raise LoweringError("has no lowering to a CPU", op)


def _store(ctx: Context, op: Op, pending: _Pending) -> None:
    if op in ctx.done_stores:
        return
    tile, memory = ctx.tile(op.operands[0]), ctx.value(op.operands[1])
    at = coordinates(ctx, op.operands[2:])
    if memref_type(memory).layout == "panels":
        pending.flush()
        store_panels(ctx, tile, memory, at)
        ctx.written(memory)
        return
    if memref_type(memory).layout == "tiles":
        pending.flush()
        store_tiles(ctx, tile, memory, at)
        ctx.written(memory)
        return
    store = Store(tile, memory, at, tuple(p for p in at if isinstance(p, Axis)))
    if (elsewhere := ctx.stores_elsewhere.get(op)) is None:
        pending.add(store)
        return
    pending.flush()
    with ctx.when(elsewhere, "ge", ctx.dim(1)):
        lower_sinks(ctx, [store])


def _axis(ctx: Context, op: Op) -> None:
    start, stop = (ctx.value(v) for v in op.operands)
    assert isinstance(op.result.type, AxisType)
    block = op.result.type.block
    present = ctx.index("max", ctx.index("min", ctx.index("sub", stop, start), block), 0)
    ctx.axes[op.result] = Axis(start, present, block)


def _load(ctx: Context, op: Op) -> None:
    memory = ctx.value(op.operands[0])
    at = coordinates(ctx, op.operands[1:])
    axes = tuple(p for p in at if isinstance(p, Axis))
    if groups := load_groups(op):
        ctx.tiles[op.result] = Grouped(tile_type(op.result), memory, at, groups, axes)
        return
    _define(ctx, op, Loaded(tile_type(op.result), memory, at, axes, ctx.versions.get(memory, 0)))


def _gather(ctx: Context, op: Op) -> None:
    """Whole rows that are read again, or across vectors, are copied first: one check and one run of memory for each."""
    tile = gathered(ctx, op)
    _define(ctx, op, in_scratch(ctx, tile) if has_rows(tile) and is_read_again(op) else tile)


def _full(ctx: Context, op: Op) -> None:
    value, type_ = op.attrs["value"], tile_type(op.result)
    assert isinstance(value, bool | int | float)
    _define(ctx, op, Filled(type_, value, (None,) * len(type_.shape)))


def _iota(ctx: Context, op: Op) -> None:
    _define(ctx, op, Counted(tile_type(op.result), (ctx.axes[op.operands[0]],)))


def _map(ctx: Context, op: Op) -> None:
    operands = kept_operands(ctx, op)
    _define(ctx, op, Mapped(tile_type(op.result), op, operands, mapped_axes(op, operands)))
    note_costly(ctx, op)


def _cast(ctx: Context, op: Op) -> None:
    source = ctx.tile(op.operands[0])
    _define(ctx, op, Converted(tile_type(op.result), source, source.axes))


def _define(ctx: Context, op: Op, tile: Tile) -> None:
    """Tiles of rank 0 are computed at once, others where they are used."""
    if not tile.type.shape and not isinstance(tile, Scalar):
        tile = Scalar(tile.type, Evaluator(ctx, ctx.depth).element(tile, ()))
    ctx.tiles[op.result] = tile


def _alloc(ctx: Context, op: Op) -> None:
    type_ = memref_type(op.result)
    if not type_.contiguous:
        raise LoweringError("scratch must be contiguous", op)
    ctx.values[op.result] = ctx.scratch_like(type_)


def _index_of(ctx: Context, op: Op) -> None:
    element = Evaluator(ctx, ctx.depth).element(ctx.tile(op.operands[0]), ())
    ctx.values[op.result] = ctx.builder.value("cpu.index", (element,), INDEX)


def _index_dim(ctx: Context, op: Op) -> None:
    dim = attr(op, "dim", Dim)
    ctx.values[op.result] = ctx.dim(dim)


def _index_binary(ctx: Context, op: Op) -> None:
    left, right = (ctx.value(v) for v in op.operands)
    ctx.values[op.result] = ctx.index(op.name.removeprefix("index."), left, right)


def _apart(ctx: Context, op: Op, _: LowerOps) -> None:
    from tesserac.tile.cpu.steps import lower_apart

    lower_apart(ctx, op, lambda context, inner: _SIMPLE[inner.name](context, inner))


_LOOPS = {"tile.for": lower_for, "tile.tree": lower_tree, "tile.running": lower_running, "tile.apart": _apart}

_SIMPLE: dict[str, Callable[[Context, Op], None]] = {
    "tile.axis": _axis,
    "tile.load": _load,
    "tile.gather": _gather,
    "tile.full": _full,
    "tile.iota": _iota,
    "tile.map": _map,
    "tile.cast": _cast,
    "tile.alloc": _alloc,
    "tile.index": _index_of,
    "index.dim": _index_dim,
    **{f"index.{name}": _index_binary for name in BINARY},
}
