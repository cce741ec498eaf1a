"""Loops of a tile program that go step by step, as a recurrence over time does.

    for t in range(L):                  %h = tile.for(%0, %L, %zeros) { ^(%t, %before):
        h = a[t] * h + x[t]                 %now = tile.map(%before, tile.load(%a, %t, %n), tile.load(%x, %t, %n))
        y[t] = h                            tile.store(%now, %y, %t, %n)
                                            tile.yield(%now) }

What steps carry on are tiles. A result of which each step writes one row is no tile: rows are stored where they are
made, if all of them are and nothing reads them again. Warps wait for memory longer than they compute a step, so that a
GPU loads what some steps read before the first of them; what is left of them goes one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Reshape, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.ir.kernels import block_loop
from tesserac.ir.types import INDEX, AxisType, TensorType
from tesserac.schedule.dialect import launch_loops, launch_stages
from tesserac.schedule.model.access import Access, is_view
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.idle_steps import count_of_rounds, rows_that_count
from tesserac.tile.programs.maps import map_of, maps_in_place
from tesserac.types.dims import ONE, ZERO, Dim, product

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

TOGETHER = 8
"""Steps of which a GPU loads what they read before it computes the first."""


@dataclass(frozen=True)
class Row:
    """What a step writes of a result: `part` along `dim`, at `start`, which counts steps up or down."""

    part: Value
    dim: int
    start: Dim


@dataclass(frozen=True)
class Kept:
    """A result of the kernel that is what a loop has written, after some maps of each element."""

    position: int
    maps: tuple[Op, ...]


@dataclass(frozen=True)
class Step:
    """A step at which memory is read: how many there are, how far they lie apart, and which it is."""

    count: Dim
    stride: Dim
    place: Value


def stepped(program: Program, offset: Dim) -> tuple[Dim, list[Step]]:
    """An offset without the steps of the loops that are being built, and these. A loop that reads backwards is at a
    place counted from the end."""
    steps: list[Step] = []
    for counter, high in program.stepping.items():
        rest = offset.substitute({counter: ZERO})
        stride = offset.substitute({counter: ONE}) - rest
        if stride * Dim.sym(counter) + rest != offset or program.varies(stride):
            raise NoTiles("memory that a loop reads at places that are not one step apart")
        if stride == ZERO:
            continue
        place, offset = program.size(Dim.sym(counter)), rest
        if stride.evaluate(dict.fromkeys(stride.symbols(), 1)) < 0:
            offset, stride = rest + stride * (high - 1), -stride
            place = program.size(high - 1 - Dim.sym(counter))
        steps.append(Step(high, stride, place))
    return offset, steps


def step_loop(value: Value) -> tuple[Op, int, tuple[Op, ...]] | None:
    """The loop step by step that gives a value, its number among those, and the maps of elements between the two."""
    maps: list[Op] = []
    op = value.defining_op
    while op is not None and maps_in_place(op):
        maps, value = [op, *maps], op.operands[0]
        op = value.defining_op
    if op is None or op.name != "form.loop" or block_loop(op) is not None:
        return None
    return op, op.results.index(value), tuple(maps)


def build_steps(program: Program, loop: Op) -> None:
    """Makes what a loop carries on, and stores what it writes of results."""
    steps = _Steps(program, loop)
    _make_invariants(program, loop)
    inits = [program.value(loop.operands[2 + i]) for i in steps.carried]
    for i, total in zip(steps.carried, steps.build(inits), strict=True):
        program.remember(loop.results[i], total)


class _Steps:
    """A loop under construction."""

    def __init__(self, program: Program, loop: Op) -> None:
        self.program, self.loop = program, loop
        self.counter = str(loop.attrs["counter"])
        self.low, self.high = (_known_end(value) for value in loop.operands[:2])
        self.rows = [self._row(position) for position in range(len(loop.results))]
        self.carried = [i for i, row in enumerate(self.rows) if row is None]
        self.counts = rows_that_count(loop) if len(self.carried) == len(self.rows) and self._goes_round() else None
        self.kept = {i: self._kept(i) for i, row in enumerate(self.rows) if row is not None}

    # ----------------------------------------------------------------------------------------------- what is written

    def _row(self, position: int) -> Row | None:
        """What a step writes of a value, where the next one is what it was but for one row; None of any other."""
        arg, value = self.loop.body.args[1 + position], self.loop.body.terminator.operands[position]
        made = value.defining_op
        if made is None or made.name != "form.assemble" or made.operands[0] is not arg or not covers_all(made):
            return None
        if len(made.operands) != 2 or any(user is not made for user, _ in arg.uses) or len(made.result.uses) != 1:
            raise NoTiles("rows that a loop writes and reads again")
        part, box, whole = made.operands[1], assembled_boxes(made)[1], tensor_type(value).dims
        stepped = [dim for dim, start in enumerate(box.starts) if start != ZERO]
        sizes = [ONE if dim in stepped else size for dim, size in enumerate(whole)]
        if len(stepped) != 1 or list(tensor_type(part).dims) != sizes or set(box.steps) != {1}:
            raise NoTiles("parts that a loop writes of a tile and that are not one row a step")
        row = Row(part, stepped[0], box.starts[stepped[0]])
        if not self._fills(row, whole[row.dim]):
            raise NoTiles("a tile of which a loop writes some rows only")
        return row

    def _fills(self, row: Row, size: Dim) -> bool:
        """Whether steps write all rows of a dim, from the first to the last or the other way."""
        up, down = Dim.sym(self.counter), self.high - 1 - Dim.sym(self.counter)
        return self.low == ZERO and self.high == size and row.start in (up, down)

    def _kept(self, position: int) -> list[Kept]:
        """The results of the kernel that what is written becomes."""
        results = [(i, step_loop(v)) for i, v in enumerate(self.program.kernel.body.terminator.operands)]
        return [Kept(i, f[2]) for i, f in results if f is not None and f[0] is self.loop and f[1] == position]

    # -------------------------------------------------------------------------------------------------- what is made

    def build(self, inits: list[Value]) -> list[Value]:
        program, count = self.program, self.high if self.low == ZERO else (self.high - self.low).max(0)
        program.walked_in_steps += count * sum(map(self._elements, range(len(self.rows))), ZERO)
        together = TOGETHER if launch_stages(program.launch) and not self._goes_round() else 1
        low, high = program.size(self.low), program.size(self.high)
        if together == 1 or (count.constant is not None and count.constant < together):
            return self._for(low, high, 1, inits)
        whole = program.size(self.low + count.floor_div(together) * together)
        return self._for(whole, high, 1, self._for(low, whole, together, inits))

    def _goes_round(self) -> bool:
        """Whether steps have loops of their own, whose loads are ahead of them in any case."""
        return any(op.name == "form.loop" for op in self.loop.walk() if op is not self.loop)

    def _elements(self, position: int) -> Dim:
        """Of what a step carries on or writes, in all programs."""
        row, whole = self.rows[position], self.program.over
        dims = tensor_type(self.loop.results[position] if row is None else row.part).dims
        return launch_loops(self.program.launch)[0].size * product([whole.get(dim, dim) for dim in dims])

    def _for(self, low: Value, high: Value, together: int, inits: list[Value]) -> list[Value]:
        program, types = self.program, [v.type for v in inits]
        body = Block([INDEX, *types], [self.counter, *(self.loop.body.args[1 + i].name for i in self.carried)])
        with program.inside(body):
            first = body.args[0]
            places = [index_op(program.builder, "add", first, program.size(i)) if i else first for i in range(together)]
            loaded = [self._loaded(place) for place in places] if self.counts is None else [{}]
            carried: Sequence[Value] = body.args[1:]
            for place, tiles in zip(places, loaded, strict=True):
                carried = self._step(place, tiles, carried) if self.counts is None else self._passed(place, carried)
            program.builder.op("tile.yield", carried)
        made = program.builder.op("tile.for", (low, high, *inits), types, {"step": together}, (body,))
        return list(made.results)

    def _loaded(self, place: Value) -> dict[Value, Value]:
        """What a step reads of memory, and nothing before it computes."""
        with self._at(place):
            return {value: self.program.value(value) for value in _read_in(self.program, self.loop, self.counter)}

    def _step(self, place: Value, tiles: dict[Value, Value], carried: Sequence[Value]) -> list[Value]:
        with self._at(place):
            for value, tile in tiles.items():
                self.program.remember(value, tile)
            found = self._carried(carried)
            for i, row in enumerate(self.rows):
                if row is not None:
                    self._store(row, self.kept[i])
            return found

    def _passed(self, place: Value, carried: Sequence[Value]) -> Sequence[Value]:
        """A step where it counts for any row; otherwise what was carried there."""
        program, types = self.program, [v.type for v in carried]
        assert self.counts is not None
        with self._at(place):
            rounds = count_of_rounds(program, self.counts)
            body = Block([INDEX, *types], ["i", *(v.name for v in carried)])
            with program.inside(body):
                program.builder.op("tile.yield", self._carried(body.args[1:]))
        made = program.builder.op("tile.for", (program.size(0), rounds, *carried), types, {"step": 1}, (body,))
        return made.results

    def _carried(self, carried: Sequence[Value]) -> list[Value]:
        """What a step carries on, of what it is given."""
        for i, held in zip(self.carried, carried, strict=True):
            self.program.remember(self.loop.body.args[1 + i], held)
        return [self.program.value(self.loop.body.terminator.operands[i]) for i in self.carried]

    def _mapped(self, part: Value, op: Op) -> Value:
        """What a map behind the loop makes of a row, in the step that makes the row."""
        return map_of(op, part, self.loop.body.terminator)

    @contextmanager
    def _at(self, place: Value) -> Iterator[None]:
        """One step: what is made of it is forgotten behind it."""
        with self.program.anew():
            self.program.counters[self.counter] = (place, 1)
            self.program.stepping[self.counter] = self.high
            yield
            del self.program.counters[self.counter], self.program.stepping[self.counter]

    def _store(self, row: Row, kept: Sequence[Kept]) -> None:
        program, part = self.program, _narrowed(row)
        for result in kept:
            whole = tensor_type(program.kernel.body.terminator.operands[result.position]).dims
            tile = program.value(reduce(self._mapped, result.maps, part))
            place = self._place(row.start, tensor_type(part).rank == len(whole))
            at = [place if dim == row.dim else program.axis(size) for dim, size in enumerate(whole)]
            lead = () if program.lead is None else (program.lead,)
            mem = program.result_argument(result.position, [(dim,) for dim in whole])
            program.builder.op("tile.store", (tile, mem, *lead, *at))
            program.stored.add(result.position)

    def _place(self, start: Dim, is_dim: bool) -> Value:
        """Where a row stands, as an axis of one place where the row has a dim for it."""
        program = self.program
        first = program.size(start)
        behind = index_op(program.builder, "add", first, program.size(1)) if is_dim else first
        return program.builder.value("tile.axis", (first, behind), AxisType(1)) if is_dim else first


def _narrowed(row: Row) -> Value:
    """A row without the dim of which it is one place, where that is all that a view has added."""
    view, dims = row.part.defining_op, tensor_type(row.part).dims
    if view is None or view.name != "form.view" or not isinstance(view.attrs["view"], Reshape):
        return row.part
    source = view.operands[0]
    return source if tensor_type(source).dims == (*dims[: row.dim], *dims[row.dim + 1 :]) else row.part


def _known_end(value: Value) -> Dim:
    op = value.defining_op
    dim = op.attrs.get("dim") if op is not None and op.name == "index.dim" else None
    if not isinstance(dim, Dim):
        raise NoTiles("a loop whose end is computed")
    return dim


def _read_in(program: Program, loop: Op, counter: str) -> list[Value]:
    """What operations of a loop read of memory, at places that differ from step to step."""
    read = [value for op in loop.body.ops if not is_view(op) for value in op.operands if _is_tensor(value)]
    return [value for value in dict.fromkeys(read) if _is_read_at(program, value, counter)]


def _is_read_at(program: Program, value: Value, counter: str) -> bool:
    found = program.read(value)
    return found is not None and counter in found[1].offset.symbols()


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _make_invariants(program: Program, loop: Op) -> None:
    """What is the same in all steps is made before them."""
    loops = [op for op in loop.walk() if op.name == "form.loop"]
    inside = {value for op in loop.walk() for value in (*op.results, *(a for r in op.regions for a in r.block.args))}
    cuts = [cut for op in loops if (cut := block_loop(op)) is not None]
    moving = {*(str(op.attrs["counter"]) for op in loops), *(cut.block.symbol or "" for cut in cuts)}
    for op in [op for op in loop.walk() if op is not loop and not is_view(op)]:
        for value in filter(_is_tensor, op.operands):
            read = program.read(value)
            if value not in inside if read is None else moving.isdisjoint(_sizes_read(value, read[1])):
                program.value(value)


def _sizes_read(value: Value, access: Access) -> set[str]:
    """The sizes that say which part of memory a value is."""
    return {symbol for dim in (access.offset, *tensor_type(value).dims) for symbol in dim.symbols()}
