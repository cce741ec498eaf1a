"""Tile programs: the forms of a kernel over blocks, one to one.

    form.kernel { %s = form.contract(%q, %k) ...; form.loop {cut} { ... } }    over tensors<[T_m, T_n]>
becomes
    tile.kernel { %s = tile.dot(...); tile.for { ... } }                       over tile<[64, 192]>

A dim of a value is a block, which has an axis of its own while its loop runs, or is whole. Values are made where they
are asked for; a loop over blocks is built by `programs/loops.py`. What no tile can say raises `NoTiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.effects import WATCHED
from tesserac.ir.forms import contracted, indices, operand_maps, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.kernels import kernel_numbers, kernel_own, kernel_repeats, kernel_split, most_whole
from tesserac.ir.types import INDEX, AxisType, MemRefType, TensorType, TileType
from tesserac.numerics.order import CONTRACTION, Chain
from tesserac.schedule.dialect import launch_loops, launch_outs, launch_stages, launch_units, memory
from tesserac.schedule.forms.views import through_view
from tesserac.schedule.model.access import Access, Dims, access_through, is_view, view_access, view_source
from tesserac.schedule.model.space import written_strides
from tesserac.tile.bodies import finished
from tesserac.tile.dialect import BUFFERS, Config, Stage, compute_scalar, memref_type, tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.gathers import build_gather, part_of_gather
from tesserac.tile.programs.joints import terms_between_joints
from tesserac.tile.programs.kept import build_sort
from tesserac.tile.programs.loops import build_loop
from tesserac.tile.programs.maps import MapBody, map_constant
from tesserac.tile.programs.masked_blocks import Bound
from tesserac.tile.programs.masks import arguments_used, masked_load, masked_view, select_that_holds
from tesserac.tile.programs.parts import BlockAxis, Source, identity, multiplied, transposed
from tesserac.tile.programs.places import build_assemble, part_made, part_of_computed
from tesserac.tile.programs.reductions import build_reduce
from tesserac.tile.programs.scans import build_scan
from tesserac.tile.programs.sizes import Sizes
from tesserac.tile.programs.steps import stepped
from tesserac.tile.programs.stores import store_result
from tesserac.tile.status import checked_forms, status_type
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import DType

WHOLE = 512
"""The most elements that a dim may have that a program takes whole."""

NO_TILES = {
    "form.scatter": "elements of a computed tile that are replaced or folded at computed places",
}
"""Forms that no program has, as people know them."""


class Program(Sizes):
    """One program under construction."""

    def __init__(self, launch: Op) -> None:
        super().__init__(launch)
        self.launch = launch
        self.limits: dict[Dim, int] = {}
        """Sizes that only a run knows, and what they must not exceed."""
        self.kept: dict[Dim, frozenset[Bound]] = {}
        """What holds of all positions in the blocks that loops go over: the axes end where it ceases to."""
        self.sums: set[Op] = set()
        """Sums of blocks that loops add up."""
        self.stored: set[int] = set()
        """Results that are stored: those of which the steps of a loop write rows."""
        self.stepping: dict[str, Dim] = {}
        """Loops whose steps are being built, and where each ends: what they read lies one step apart."""
        self.walked_in_steps, self.taken = ZERO, 0
        """Elements that steps of loops compute; how many values were computed once more at other places."""
        self.lead: Value | None = None
        self._grid: list[Dim] = []
        self._arguments: dict[tuple[int, MemRefType], Value] = {}
        self._views: dict[object, Value] = {}
        self._parts: dict[Op, list[tuple[Value, Value]]] = {}
        self._sources = self._read_sources()
        self._status = {op: Value(status_type(op), self.block, 0, "status") for op in checked_forms(launch)}
        """Where forms tell of bad indices. Values that stand for arguments until `finish`: these come last."""

    # ----------------------------------------------------------------------------------------------------- the kernel

    def build(self) -> None:
        if any(op.name == "form.assert" and WATCHED not in op.attrs for op in self.kernel.walk()):
            raise NoTiles("it asserts what only a run knows; a release, which asserts nothing, runs it as tiles")
        self._enter()
        self._own_axes()
        for position, value in enumerate(self.kernel.body.terminator.operands):
            if position not in self.stored:
                store_result(self, position, value)

    def _enter(self) -> None:
        """One axis of the grid per parallel loop."""
        own = kernel_own(self.kernel)
        programs = launch_loops(self.launch)[0].size
        if programs != ONE:
            self.lead = self.block.add_arg(INDEX, "p")
            self._grid.append(programs)
        dims = tensor_type(self.kernel.body.terminator.operands[0]).dims
        ordered = sorted(own, key=lambda block: dims.index(block) if block in dims else -1)  # as they lie in memory
        self._pids = {block: self.block.add_arg(INDEX, f"p_{block}") for block in ordered}
        self._grid += [self.over[block].ceil_div(self.steps[block]) for block in self._pids]
        if not self._grid:
            self.block.add_arg(INDEX, "p")
            self._grid.append(ONE)

    def _own_axes(self) -> None:
        numbers = dict(zip(self.sizes, kernel_numbers(self.kernel), strict=True))
        for block, pid in self._pids.items():
            start = index_op(self.builder, "mul", pid, self.size(self.steps[block]))
            self.counters[numbers[block]] = (start, self.sizes[block])
            stop = self.size(self.over[block])
            if self.steps[block].constant is None:
                self.cut_numbers.add(numbers[block])
                stop = index_op(self.builder, "min", self.behind(block, start), stop)
            self.enter_axis(block, start, Dim.sym(numbers[block]) * block, stop)

    def enter_axis(self, block: Dim, start: Value, said: Dim, stop: Value) -> None:
        axis = self.builder.value("tile.axis", (start, stop), AxisType(self.sizes[block]))
        self.axes[block] = BlockAxis(block, start, said, axis)

    def finish(self, name: str) -> Op:
        self.builder.op("tile.return")
        for status in self._status.values():
            status.replace_all_uses(self.block.add_arg(status.type, status.name))
        units = launch_units(self.launch)
        attrs: dict[str, Attr] = {
            "sym_name": name,
            "grid": tuple(self._grid),
            "config": Config(units.warps, units.roles),
            **({BUFFERS: self.operands()} if len(set(self.operands())) < len(self.operands()) else {}),
        }
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], self.launch.span)

    def operands(self) -> tuple[int, ...]:
        """The operands of the launch, in the order of the kernel's arguments."""
        return tuple(operand for operand, _ in self._arguments)

    def touched(self) -> Dim:
        """About what the programs do, in elements: all that they walk, and at least what they are given."""
        given = sum((product(memory(value).dims) for value in self.launch.operands), ZERO)
        return product([loop.size for loop in launch_loops(self.launch)]).max(given) + self.walked_in_steps

    # --------------------------------------------------------------------------------------------------------- memory

    def _read_sources(self) -> dict[Value, Source]:
        found: dict[Value, Source] = {}
        split_by = zip(kernel_split(self.kernel), kernel_repeats(self.kernel), strict=True)
        for value, arg, (split, repeats) in zip(self.kernel.operands, self.kernel.body.args, split_by, strict=True):
            base, views = view_source(value)
            access = access_through(views, base)
            if access is None or base.owner is not self.launch.body:
                raise NoTiles("an argument does not lie in memory as one program reads it")
            lead = access.strides[0] if split else ZERO
            own = Access(access.offset, access.strides[1:] if split else access.strides)
            count = tensor_type(value).dims[0] if split else ONE
            found[arg] = Source(base.index, lead, count, repeats, own)
        return found

    def is_argument(self, value: Value) -> bool:
        return value in self._sources

    def read(self, value: Value) -> tuple[Source, Access] | None:
        """How a value is read from the arguments, if it is only seen through views."""
        base, views = view_source(value)
        source = self._sources.get(base)
        if source is None:
            return None
        access: Access | None = source.access
        for view in views:
            access = None if access is None else view_access(view, access)
        if access is None:
            raise NoTiles("a view of an argument that has no strides")
        return source, access

    def _argument(self, source: Source, access: Access, dims: Dims) -> tuple[tuple[int, MemRefType], Dim, list[Value]]:
        """The memory of an access that begins at the blocks' starts, the rest of its offset, and the steps of loops at
        which it is. The types of arguments mention no block."""
        offset, steps = stepped(self, self._sized(access.offset))
        for dim, stride in zip(dims, access.strides, strict=True):
            if dim in self.axes:
                offset = offset - self._sized(self.axes[dim].said * stride)
        if self.varies(offset):
            raise NoTiles("a block that does not begin where its loop says")
        mem = memory(self.launch.operands[source.operand])
        sizes = [*(step.count for step in steps), *(self.over.get(dim, dim) for dim in dims)]
        own = [self._stride(*along) for along in zip(dims, access.strides, strict=True)]
        strides = [*(step.stride for step in steps), *own]
        if self.lead is not None and source.lead != ZERO:
            sizes, strides = [source.count, *sizes], [source.lead, *strides]
        if offset != ZERO:
            sizes, strides = [offset + 1, *sizes], [ONE, *strides]
        ty = MemRefType(tuple(sizes), mem.dtype, mem.policy, tuple(strides))
        return (source.operand, ty), offset, [step.place for step in steps]

    def _stride(self, dim: Dim, stride: Dim) -> Dim:
        """A stride that mentions no block: a reshape counts in blocks, but along a dim of one element no one steps."""
        whole = stride.substitute({block.symbol or "": size for block, size in self.over.items()})
        if whole != stride and dim != ONE:
            raise NoTiles("a view of an argument whose strides are sizes of blocks")
        return whole

    def _declared(self, argument: tuple[int, MemRefType]) -> Value:
        if argument not in self._arguments:
            name = self.launch.operands[argument[0]].name
            self._arguments[argument] = self.block.add_arg(argument[1], name)
        return self._arguments[argument]

    def result_argument(self, position: int, digits: Sequence[Dims]) -> Value:
        """The memory of a result, of which each dim is counted in digits: itself, or several whose product it is."""
        outs = launch_outs(self.launch)
        mem = memory(outs[position])
        whole = tensor_type(self.kernel.results[position]).dims
        strides = written_strides(mem, whole)
        lead = [] if self.lead is None else [(whole[0], strides[0])]
        along = zip(digits, whole[1:], strides[1:], strict=True)
        split = [pair for own, size, stride in along for pair in _in_digits(own, size, stride)]
        sizes, steps = zip(*lead, *split, strict=True)
        operand = len(self.launch.operands) - len(outs) + position
        return self._declared((operand, MemRefType(sizes, mem.dtype, mem.policy, steps)))

    def _load(self, value: Value, source: Source, access: Access, dims: Dims) -> Value:
        mem, fixed = self.memory_at(source, access, dims)
        ty = memref_type(mem)
        tile = TileType(self.shape(dims), ty.dtype, ty.policy)
        at = [self.axis(dim) for dim in dims]
        return self.builder.value("tile.load", (mem, *fixed, *at), tile, self.staging(source), hint=value.name)

    def staging(self, source: Source) -> dict[str, Attr]:
        """What reads of an argument ask for: a copy nearer to the core, where the launch stages it."""
        staging = next((s for s in launch_stages(self.launch) if s.operand == source.operand), None)
        return {} if staging is None else {"stage": Stage(staging.layout, staging.depth)}

    def memory_at(self, source: Source, access: Access, dims: Dims) -> tuple[Value, list[Value]]:
        """The memory of an access, and the coordinates of its first dims, which stand before the access's own: those of
        an offset and of a leading dim."""
        argument, offset, steps = self._argument(source, access, dims)
        fixed = [] if offset == ZERO else [self.size(offset)]
        if self.lead is not None and source.lead != ZERO:
            fixed.append(self._leading_index(self.lead, source))
        return self._declared(argument), [*fixed, *steps]

    def status_of(self, op: Op) -> list[Value]:
        """Where a form tells of bad indices, if it checks them."""
        return [self._status[op]] if op in self._status else []

    def _leading_index(self, program: Value, source: Source) -> Value:
        """Where a program reads a leading dim that repeats."""
        index = program
        if source.repeats != ONE:
            index = index_op(self.builder, "floor_div", index, self.size(source.repeats))
        if source.repeats * source.count != self._grid[0]:
            index = index_op(self.builder, "rem", index, self.size(source.count))
        return index

    # ----------------------------------------------------------------------------------------------------------- dims

    def shape(self, dims: Dims) -> tuple[int, ...]:
        return tuple(self.extent(dim) for dim in dims)

    def extent(self, dim: Dim) -> int:
        """The block of a dim: its own, or all of it."""
        if dim in self.sizes:
            return self.sizes[dim]
        size = dim.constant
        if size is None and not self.varies(dim):
            self.limits[dim] = most_whole(self.kernel)
            return self.limits[dim]
        if size is None or not 0 < size <= WHOLE:
            raise NoTiles(f"a dim of size {dim} that a program takes whole")
        return size

    def axis(self, dim: Dim) -> Value:
        if dim in self.axes:
            return self.axes[dim].axis
        size = self.extent(dim)
        if dim in self.sizes:
            raise NoTiles(f"a block {dim} outside its loop")
        key = ("whole", dim)
        known = self.known(key)
        if known is not None:
            return known
        made = self.builder.value("tile.axis", (self.size(0), self.size(dim)), AxisType(size))
        return self.remember(key, made)

    # --------------------------------------------------------------------------------------------------------- values

    def value(self, value: Value) -> Value:
        """The tile of a value of the region."""
        known = self.known(value)
        if known is not None:
            return known
        with self.builder.spanned(value.defining_op.span if value.defining_op is not None else self.builder.span):
            return self.remember(value, self._made(value))

    def _made(self, value: Value) -> Value:
        read = self.read(value)
        if read is not None:
            return self._load(value, *read, tensor_type(value).dims)
        op = value.defining_op
        if op is None:
            raise NoTiles("a value of another loop")
        if is_view(op):
            return masked_view(self, op) or self._seen(op)
        make = _MAKERS.get(op.name)
        if make is None:
            raise NoTiles(NO_TILES.get(op.name, f"`{op.name}` in a program"))
        return make(self, op, value)

    def _seen(self, view: Op) -> Value:
        """A view of a computed tile: permuted, stretched, with other dims of size 1."""
        places = through_view(view, tuple(range(tensor_type(view.result).rank)))
        part = part_made(self, view) if places is None else None
        if part is not None:
            return self.value(part)
        if places is None and (found := part_of_gather(self, view) or part_of_computed(self, view)) is not None:
            return found
        if places is None:
            raise NoTiles("a view of a computed tile that is no permutation")
        source = self.value(view.operands[0])
        return self.mapped([source], [places], tensor_type(view.result), identity, view.result.name)

    def mapped(
        self,
        tiles: Sequence[Value],
        maps: Sequence[tuple[int | None, ...]],
        result: TensorType,
        fill: Callable[[Builder, list[Value]], Value],
        hint: str = "",
    ) -> Value:
        """A map over blocks whose body `fill` writes."""
        block = Block([compute_scalar(tile_type(t)) for t in tiles])
        inner = Builder(block, self.builder.span)
        inner.op("form.yield", (fill(inner, block.args),))
        ty = TileType(self.shape(result.dims), result.dtype, result.policy)
        return self.builder.value("tile.map", tiles, ty, {"maps": tuple(maps)}, (block,), hint)

    # ----------------------------------------------------------------------------------------------------------- maps

    def map(self, op: Op, value: Value) -> Value:
        result = tensor_type(value)
        if not op.operands and (constant := map_constant(op)) is not None:
            ty = TileType(self.shape(result.dims), result.dtype, result.policy)
            return self.builder.value("tile.full", (), ty, {"value": constant}, hint=value.name)
        holds = select_that_holds(op, self.kept)
        if holds is not None and (loaded := masked_load(self, op, holds)) is not None:
            return loaded
        used = arguments_used(op, holds)
        tiles = [self.value(op.operands[i]) for i in used]
        maps: list[tuple[int | None, ...]] = [operand_maps(op)[i] for i in used]
        args = [op.body.args[i] for i in used]
        block = Block([compute_scalar(tile_type(t)) for t in tiles], [a.name for a in args])
        body = MapBody(self, op, result, block, tiles, maps, dict(zip(args, block.args, strict=True)), holds)
        body.fill()
        ty = TileType(self.shape(result.dims), result.dtype, result.policy)
        return self.builder.value("tile.map", tiles, ty, {"maps": tuple(maps)}, (block,), value.name)

    # -------------------------------------------------------------------------------------------------- contractions

    def contract(self, op: Op, value: Value) -> Value:
        """A product over a whole dim: one chain."""
        terms = self.summed(op)
        if terms in self.sizes and terms not in self.meant:
            raise NoTiles("a product over a block that its loop does not continue")
        accum, rows = op.attrs["accum"], tensor_type(value).dims
        assert isinstance(accum, DType)
        total = self.zero(TileType(self.shape(rows), accum))
        for left, right in self.parts_of_terms(op):
            total = multiplied(self.builder, self.value(left), self.value(right), total, value.name)
        return finished(self.builder, "sum", total, tensor_type(value))

    def parts_of_terms(self, op: Op) -> list[tuple[Value, Value]]:
        """The factors of a product over a whole dim; on a processor those of each part that they are made of."""
        if op not in self._parts:
            left, right = self.factors(op)
            staged = launch_stages(self.launch) or self.summed(op) in self.sizes
            self._parts[op] = [(left, right)] if staged else terms_between_joints(op, left, right)
        return self._parts[op]

    def zero(self, ty: TileType) -> Value:
        return self.builder.value("tile.full", (), ty, {"value": 0.0 if ty.dtype.is_float else 0})

    def summed(self, op: Op) -> Dim:
        """The one dim over which a product sums, of at most one segment."""
        summed, lhs, order = contracted(op), indices(op, "lhs"), op.attrs["order"]
        if len(summed) != 1 or len(lhs) != 2 or len(indices(op, "rhs")) != 2 or len(indices(op, "out")) != 2:
            raise NoTiles("a product that is not one of two matrices")
        terms = tensor_type(op.operands[0]).dims[lhs.index(summed[0])]
        length = (order if isinstance(order, Chain) else CONTRACTION).length
        if (terms not in self.sizes or terms in self.meant) and self.extent(terms) > length:
            raise NoTiles("a product of several segments")
        return terms

    def factors(self, op: Op) -> tuple[Value, Value]:
        """The left factor as [rows, terms], the right one as [terms, columns]: the operands, or views of them."""
        (terms,) = contracted(op)
        rows, columns = indices(op, "out")
        left, right = op.operands
        lhs, rhs = indices(op, "lhs"), indices(op, "rhs")
        if rows not in lhs:
            left, right, lhs, rhs = right, left, rhs, lhs
        return self._ordered(op, left, lhs, (rows, terms)), self._ordered(op, right, rhs, (terms, columns))

    def _ordered(self, op: Op, value: Value, has: tuple[int, ...], wanted: tuple[int, ...]) -> Value:
        if has == wanted:
            return value
        if sorted(has) != sorted(wanted):
            raise NoTiles("a product that is not one of two matrices")
        key = ("ordered", value, wanted == tuple(reversed(has)))
        known = self._views.get(key)
        if known is None:
            known = self._views[key] = transposed(op, value)
        return known


def _in_digits(digits: Dims, size: Dim, stride: Dim) -> list[tuple[Dim, Dim]]:
    """Sizes and strides of a dim that is counted in digits, the last fastest."""
    if len(digits) == 1:
        return [(size, stride)]
    return [(own, stride * product(digits[place + 1 :])) for place, own in enumerate(digits)]


_MAKERS: dict[str, Callable[[Program, Op, Value], Value]] = {
    "form.assemble": build_assemble,
    "form.map": Program.map,
    "form.contract": Program.contract,
    "form.gather": build_gather,
    "form.reduce": build_reduce,
    "form.scan": build_scan,
    "form.sort": build_sort,
    "form.loop": build_loop,
}
