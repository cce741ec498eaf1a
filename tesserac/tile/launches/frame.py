"""One kernel under construction: its grid, its memory arguments, and the tiles of values at the program's place.

Enters: a `schedule.launch` with decided loops. The builders of map, row and contraction kernels walk the loops and ask
the frame for tiles. A kernel sees memory under its own shape: same base address, dims in the order of its loops,
strides from the views that the launch reads through. An offset is a coordinate along a first dim of stride 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.interleaved import TWO
from tesserac.ir.types import INDEX, AxisType, MemRefType, TileType
from tesserac.schedule.costs.cost import form_work
from tesserac.schedule.costs.tiles import MOST_ROWS, SPLIT_TERMS
from tesserac.schedule.dialect import (
    Loop,
    launch_loops,
    launch_place,
    launch_space,
    launch_units,
    memory,
)
from tesserac.schedule.maps.pairs import has_steps_of_two, launch_pairs
from tesserac.schedule.model.access import Dims
from tesserac.schedule.model.cuts import COLUMNS, ROWS, cut_of
from tesserac.schedule.model.space import Reach, computing, read_reach, write_reach, yielded_op
from tesserac.schedule.products.shifted import WHOLE_DIGITS
from tesserac.schedule.rows.row_lengths import ROW_BLOCKS, ROW_PARTS
from tesserac.tile.dialect import Config, Stage, memref_type
from tesserac.tile.status import checked_forms, status_type
from tesserac.types.dims import ONE, ZERO, Dim, product

WORK_LIKE_AN_ELEMENT = 16
"""Operations that take as long as an element takes to be read or written."""


@dataclass(frozen=True)
class Argument:
    """A memory argument: the launch operand it is, its type, and the loop whose coordinate each dim takes (none for the
    dim that carries an offset). The last `computed` dims are read at computed places and follow no loop. `groups` are
    the dims of memory that each loop walks, where some walk several."""

    operand: int
    type: MemRefType
    loops: tuple[int | None, ...]
    offset: Dim
    computed: int = 0
    groups: tuple[int, ...] = ()


class Frame:
    """The kernel's body grows through `builder`; `at` holds the coordinate of each loop entered so far."""

    def __init__(self, launch: Op) -> None:
        self.launch = launch
        self.matrix: tuple[int, int, int] | None = None
        """The loops over rows, columns and terms of a matrix product."""
        self.space = launch_space(launch)
        self.loops = launch_loops(launch)
        self.block = Block()
        self.builder = Builder(self.block, launch.span)
        self.at: dict[int, Value] = {}
        self.part: Value | None = None
        self.grid: list[Dim] = []
        self._arguments: dict[Argument, Value] = {}
        self._pairs = launch_pairs(launch)
        self._tiles: list[dict[object, Value]] = [{}]
        self.checks = checked_forms(launch)
        """What may end the call, in the order of the arguments that tell."""
        self._status: dict[Op, Value] = {}

    # -- grid and coordinates

    def enter_grid(self, always_axes: Sequence[int] = (), parts: Dim | None = None) -> None:
        """One grid axis per parallel loop; a loop in blocks has an axis as coordinate, as have `always_axes`, of
        whatever size. Where rows are cut into `parts`, the last axis counts those."""
        pids, steps = dict[int, Value](), self._steps()
        for number, loop in enumerate(self.loops):
            if loop.kind == "parallel" and (loop.size != ONE or number in always_axes):
                pids[number] = self.block.add_arg(INDEX, f"p{len(pids)}")
                self.grid.append(loop.size.ceil_div(steps.get(number, loop.block)))
        if parts is not None:
            self.part = self.block.add_arg(INDEX, "part")
            self.grid.append(parts)
        elif not pids:
            self.block.add_arg(INDEX, "p0")
            self.grid.append(ONE)
        self._declare_arguments()
        for number, pid in pids.items():
            loop = self.loops[number]
            if loop.block == 1 and number not in always_axes:
                self.at[number] = pid
            else:
                step = self.size(steps.get(number, loop.block))
                start = index_op(self.builder, "mul", pid, step)
                self.at[number] = self.axis(loop, start, self._stop(loop, start, step) if number in steps else None)

    def _steps(self) -> dict[int, Dim]:
        """How far apart the blocks of a product stand that its launch cuts, by loop."""
        if self.matrix is None or cut_of(self.launch) is None:
            return {}
        return {self.matrix[0]: Dim.sym(ROWS), self.matrix[1]: Dim.sym(COLUMNS)}

    def _stop(self, loop: Loop, start: Value, step: Value) -> Value:
        return index_op(self.builder, "min", index_op(self.builder, "add", start, step), self.size(loop.size))

    def axis(self, loop: Loop, start: Value, stop: Value | None = None) -> Value:
        """Up to a block of indices of a loop, from `start`."""
        end = stop if stop is not None else self.size(loop.size)
        return self.builder.value("tile.axis", (start, end), AxisType(loop.block))

    def from_zero(self, loop: int) -> Value:
        """The axis that a loop has now, counted from its own start: where its elements stand in scratch."""
        axis = self.at[loop].defining_op
        assert axis is not None
        present = index_op(self.builder, "sub", axis.operands[1], axis.operands[0])
        return self.axis(self.loops[loop], self.size(0), present)

    def size(self, dim: Dim | int) -> Value:
        """The value of a size; each is made once per block."""
        expression = Dim.const(dim) if isinstance(dim, int) else dim
        known = self.known(expression)
        return known if known is not None else self.remember(expression, dim_value(self.builder, expression))

    def walked(self, op: Op) -> tuple[int, ...]:
        """The loops that a value of the launch varies along."""
        place = launch_place(self.launch, op)
        return tuple(i for i, loop in enumerate(self.loops) if set(loop.axes) & set(place))

    def ordered(self, loops: Sequence[int]) -> tuple[int, ...]:
        """Dims of tiles follow the axes of the space, whatever the nesting of the loops."""
        return tuple(sorted(loops, key=lambda i: self.loops[i].axes[0] if self.loops[i].axes else -1))

    def blocked(self, loops: Sequence[int]) -> tuple[int, ...]:
        """Those loops whose coordinate is an axis, hence a dim of the tile, in the order of dims."""
        return tuple(i for i in self.ordered(loops) if i in self.at and isinstance(self.at[i].type, AxisType))

    def tile_shape(self, loops: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.loops[i].block for i in self.blocked(loops))

    # -- memory

    def _declare_arguments(self) -> None:
        """Reads in order of the operations, then results: the arguments of the kernel."""
        for op in computing(self.launch):
            for position in range(len(op.operands)):
                reach = self.read(op, position)
                if reach is not None:
                    self._declare(self.argument(reach, self.block_dims(op, position)))
        for number in range(len(self.launch.body.terminator.operands)):
            self._declare(self.argument(self.write(number), self.result_dims(number)))
        for op in self.checks:
            self._status[op] = self.block.add_arg(status_type(op), "status")

    def read(self, op: Op, position: int) -> Reach | None:
        """How an operation reads memory."""
        return read_reach(self.launch, op, position)

    def write(self, number: int) -> Reach:
        """How a result is written: second parts of numbers into the memory of the first."""
        reach = write_reach(self.launch, number)
        first = self._pairs.get(reach.operand, reach.operand)
        return reach if first == reach.operand else replace(reach, operand=first, offset=ONE)

    def block_dims(self, op: Op, position: int) -> tuple[int, ...]:
        """Loops that must be dims of an operand even where it does not vary: those of a matrix product's blocks, and
        what a reduction folds side by side."""
        if op.name in ("form.reduce", "form.scan", "form.sort"):
            return self._in_blocks(range(len(self.loops)))
        if op.name == "form.runs":
            return self._in_blocks(range(len(self.loops))) if position == 0 else ()
        if op.name == "form.scatter" and position == 1:
            return self._in_blocks(range(len(self.loops)))
        if op.name == "form.scatter":
            return tuple(i for i, loop in enumerate(self.loops) if loop.kind == "fold")
        if op.name != "form.contract" or self.matrix is None:
            return ()
        rows, columns, terms = self.matrix
        return (rows, terms) if position == 0 else (terms, columns)

    def result_dims(self, number: int) -> tuple[int, ...]:
        """The same for a result: all that its tile has."""
        op = yielded_op(self.launch.body.terminator.operands[number])
        return self._in_blocks(self.walked(op)) if self.matrix is None else self.matrix[:2]

    def _in_blocks(self, loops: Sequence[int]) -> tuple[int, ...]:
        return tuple(i for i in loops if self.loops[i].kind == "fold" or self.loops[i].block > 1)

    def argument(self, reach: Reach, required: Sequence[int] = ()) -> Argument:
        """How the kernel sees an operand. `required` loops are dims even where it does not vary; those of a matrix
        product are the last ones, in that order."""
        mem = memory(self.launch.operands[reach.operand])
        if reach.panels:
            return Argument(reach.operand, mem, tuple(required or self.ordered(range(len(self.loops)))), ZERO)
        strides = {i: self._stride(reach, i) for i in range(len(self.loops))}
        varying = [i for i, s in strides.items() if s != ZERO and i not in required]
        loops = (*self.ordered(varying), *required) if self.matrix else self.ordered([*varying, *required])
        if reach.digits:
            return self._grouped(reach, loops)
        dims = tuple(self.loops[i].size for i in loops)
        along = self._with_unit_strides(loops, [strides[i] for i in loops])
        places: tuple[int | None, ...] = loops
        if self._is_part(reach):
            dims, along, places = (TWO, *dims), (ONE, *along), (None, *loops)
        elif reach.offset != ZERO:
            dims, along, places = (reach.offset + 1, *dims), (ONE, *along), (None, *loops)
        dims, along = (*dims, *(d for d, _ in reach.computed)), (*along, *(s for _, s in reach.computed))
        type_ = MemRefType(dims, mem.dtype, mem.policy, along)
        return Argument(reach.operand, type_, places, reach.offset, len(reach.computed))

    def _is_part(self, reach: Reach) -> bool:
        """Whether it is one of two parts that lie beside each other, so that both are of one argument."""
        return reach.operand in self._pairs.values() and reach.offset in (ZERO, ONE) and has_steps_of_two(reach)

    def _grouped(self, reach: Reach, loops: tuple[int, ...]) -> Argument:
        """Memory of which some loops walk several dims."""
        several, mem = dict(reach.digits), memory(self.launch.operands[reach.operand])
        parts = [several.get(self.loops[i].axes[0]) or ((self.loops[i].size, self._stride(reach, i)),) for i in loops]
        groups, places = tuple(map(len, parts)), tuple[int | None, ...](loops)
        flat = [digit for part in parts for digit in part]
        if reach.offset != ZERO:
            flat, groups, places = [(reach.offset + 1, ONE), *flat], (1, *groups), (None, *loops)
        type_ = MemRefType(tuple(d for d, _ in flat), mem.dtype, mem.policy, tuple(s for _, s in flat))
        return Argument(reach.operand, type_, places, reach.offset, groups=groups)

    def _stride(self, reach: Reach, loop: int) -> Dim:
        stride = reach.stride(self.loops[loop].axes, self.space)
        assert stride is not None, "loops are merged only where every operand sees one run"
        return stride

    def _with_unit_strides(self, loops: Sequence[int], strides: list[Dim]) -> Dims:
        """A dim of size 1 has any stride; the one of a contiguous array keeps the type plain."""
        for i in reversed(range(len(loops))):
            if self.loops[loops[i]].size == ONE:
                inner = i + 1 < len(loops)
                strides[i] = strides[i + 1] * self.loops[loops[i + 1]].size if inner else ONE
        return tuple(strides)

    def _declare(self, argument: Argument) -> None:
        whole = replace(argument, offset=ZERO)
        if whole not in self._arguments:
            name = self.launch.operands[argument.operand].name
            self._arguments[whole] = self.block.add_arg(argument.type, name)

    def memory_of(self, argument: Argument) -> Value:
        """The kernel's argument itself, wherever in it this begins."""
        return self._arguments[replace(argument, offset=ZERO)]

    def status_of(self, op: Op) -> list[Value]:
        """Where a form tells of bad indices, if it checks them."""
        return [self._status[op]] if op in self._status else []

    def coordinates(self, argument: Argument) -> list[Value]:
        return [self.size(argument.offset) if i is None else self.at[i] for i in argument.loops]

    # -- tiles

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Builds in the body of a loop; tiles made there are forgotten behind it."""
        self._tiles.append({})
        with self.builder.at(block):
            yield
        self._tiles.pop()

    @contextmanager
    def among(self, tiles: dict[object, Value]) -> Iterator[None]:
        """Builds where these tiles are known, which others join."""
        self._tiles.append(tiles)
        yield
        self._tiles.pop()

    def known(self, key: object) -> Value | None:
        return next((tiles[key] for tiles in reversed(self._tiles) if key in tiles), None)

    def remember(self, key: object, tile: Value) -> Value:
        self._tiles[-1][key] = tile
        return tile

    def load(self, reach: Reach, required: Sequence[int] = (), stage: Stage | None = None) -> Value:
        """The block of an input at the present coordinates."""
        argument = self.argument(reach, required)
        at, groups = self.coordinates(argument), argument.groups
        key = (argument, *at)
        tile = self.known(key)
        if tile is None:
            if groups and WHOLE_DIGITS in self.launch.attrs:
                at, groups = self._digits(argument, at), ()
            tile = self.remember(key, self.load_from(self.memory_of(argument), at, stage, groups))
        return tile

    def _digits(self, argument: Argument, at: Sequence[Value]) -> list[Value]:
        """The coordinates of each dim that loops walk several of, where a block lies within the last of them."""
        dims, found = iter(argument.type.dims), list[Value]()
        for count, value in zip(argument.groups, at, strict=True):
            *outer, last = [next(dims) for _ in range(count)]
            found += self._digits_of(value, outer, last) if outer else [value]
        return found

    def _digits_of(self, value: Value, outer: Sequence[Dim], last: Dim) -> list[Value]:
        axis, builder = value.defining_op, self.builder
        assert axis is not None and isinstance(value.type, AxisType)
        block, start, run = value.type.block, axis.operands[0], self.launch.attrs[WHOLE_DIGITS]
        assert isinstance(run, int) and run % block == 0, "a block of terms crosses the end of a row"
        blocks = index_op(builder, "floor_div", self.size(last), self.size(block))
        number = index_op(builder, "floor_div", start, self.size(block))
        inner = index_op(builder, "mul", index_op(builder, "rem", number, blocks), self.size(block))
        left, places = index_op(builder, "floor_div", number, blocks), list[Value]()
        for size in reversed(outer[1:]):
            places.insert(0, index_op(builder, "rem", left, self.size(size)))
            left = index_op(builder, "floor_div", left, self.size(size))
        within = builder.value("tile.axis", (inner, self.size(last)), AxisType(block))
        return [left, *places, within]

    def load_from(
        self, mem: Value, at: Sequence[Value], stage: Stage | None = None, groups: tuple[int, ...] = ()
    ) -> Value:
        ty = memref_type(mem)
        shape = tuple(v.type.block for v in at if isinstance(v.type, AxisType))
        attrs: dict[str, Attr] = {"stage": stage} if stage is not None else {}
        if groups:
            attrs["groups"] = groups
        return self.builder.value("tile.load", (mem, *at), TileType(shape, ty.dtype, ty.policy), attrs, hint=mem.name)

    def store(self, number: int, tile: Value) -> None:
        """Writes a tile to result `number`."""
        argument = self.argument(self.write(number), self.result_dims(number))
        self.builder.op("tile.store", (tile, self.memory_of(argument), *self.coordinates(argument)))

    # -- the kernel

    def finish(self, name: str) -> Op:
        self.builder.op("tile.return")
        return Op(OPDEFS["tile.kernel"], (), (), self.kernel_attrs(name), [Region(self.block)], self.launch.span)

    def kernel_attrs(self, name: str) -> dict[str, Attr]:
        units = launch_units(self.launch)
        config = Config(units.warps, units.roles)
        attrs: dict[str, Attr] = {"sym_name": name, "grid": tuple(self.grid), "config": config}
        kept = (ROW_BLOCKS, ROW_PARTS, SPLIT_TERMS, MOST_ROWS)
        attrs.update({name: self.launch.attrs[name] for name in kept if name in self.launch.attrs})
        return attrs

    def touched(self) -> Dim:
        """About how many elements the programs read and write: one row of a stack, where they walk a row. Much work on
        an element counts as some more."""
        walked = ([self.loops[i].size for i in a.loops if i is not None] for a in self._arguments)
        work = sum(form_work(op) for op in computing(self.launch)) if self.matrix is None else 0
        return sum((product(sizes) for sizes in walked), product(self.space) * (work // WORK_LIKE_AN_ELEMENT))

    def operands(self) -> tuple[int, ...]:
        """Which operands of the launch the kernel takes, in the order of its arguments; behind them, the status of each
        check."""
        return tuple(a.operand for a in self._arguments)
