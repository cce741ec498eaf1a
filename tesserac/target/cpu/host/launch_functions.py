"""Launches that are alike as one function of a host program.

Enters: a launch with its kernel, and what the host has at that place: addresses, sizes, room. Leaves: one call.

    void tessera.launch.N(ptr kernel, i64 touched, i64 programs, i64 or ptr words...)
        puts what the kernel reads side by side and runs so many programs
    void tessera.launch.N(ptr kernel, i64 touched, i64 leads, i64 rows, i64 columns, i64 ..., i64 or ptr words...)
        the same for a product that it cuts: it finds the blocks, and how many programs they are

A step of training has hundreds of launches, most of products, and each product some for every way in which it may be
cut. They differ in kernels, addresses and sizes; written out at each launch that was half of all that LLVM had to
translate. Sizes that launches are given are computed once, where the host program begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from operator import itemgetter

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr_tuple
from tesserac.schedule.model.cuts import COLUMNS, ROWS, cut_of
from tesserac.target.cpu.host.launches import find_blocks, in_turns, launcher, small_or
from tesserac.target.cpu.host.runners import code_of, elements_touched, sizes_wanted, words
from tesserac.target.dims import ceil_div, emit_dim
from tesserac.target.emit import Function
from tesserac.target.entry.system import HOST_ATTRIBUTES
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, Value, const_i64
from tesserac.tile.dialect import grid
from tesserac.types.dims import ONE, Dim, product

WRITTEN_OUT = 16
"""Launches of a host program that are written out: a call more would show in the time of a small one."""


@dataclass(frozen=True)
class Shape:
    """What launches of one function have in common: how many addresses and sizes their kernels read, and for a product
    the places of rows and columns of a block among the sizes, which side is cut first, and how many blocks
    each thread has from how many threads on."""

    memory: int
    symbols: int
    blocks: tuple[int | None, int | None] | None = None
    rows_first: bool = False
    turns: int = 1
    turns_from: int = 1
    square: bool = False


class LaunchFunctions:
    """Those of a module, each made with the first launch that calls it. `room` are the scratch of the workers, the
    bytes of each, the number of threads, and the status of the call; `symbols` the sizes that a whole call has."""

    def __init__(
        self, b: Builder, launches: Iterable[tuple[Op, Op]], symbols: Mapping[str, Value], room: Sequence[Value]
    ) -> None:
        self._module = b.module
        self._room = room
        self._made: dict[Shape, Function] = {}
        launches = list(launches)
        self._given = {op: _given(op, kernel) for op, kernel in launches}
        wanted = (size for _, kernel in launches for size in sizes_wanted(kernel))
        dims = dict.fromkeys([*(dim for given in self._given.values() for dim in given), *wanted])
        self._known = {dim: emit_dim(b, dim, symbols) for dim in dims if dim.symbols() <= symbols.keys()}

    def on(self, threads: Value) -> LaunchFunctions:
        """Calls of the same functions for another number of threads."""
        made, (scratch, per_worker, _, status) = copy(self), self._room
        made._room = (scratch, per_worker, threads, status)
        return made

    def launch(self, b: Builder, op: Op, kernel: Op, memory: Sequence[Value], symbols: Mapping[str, Value]) -> None:
        cut, wanted = cut_of(op), sizes_wanted(kernel)
        own = [size for size in wanted if cut is None or size not in _OF_BLOCKS]
        sizes = [self._known.get(size) or emit_dim(b, size, symbols) for size in own]
        if cut is None:
            shape = Shape(len(memory), len(sizes))
        else:
            rows, columns = (_place(wanted, name) for name in _OF_BLOCKS)
            made = (rows, columns), cut.rows_first, cut.turns, cut.turns_from, cut.square
            shape = Shape(len(memory), len(wanted), *made)
        if shape not in self._made:
            self._made[shape] = self._module.share(self._function(shape), "tessera.launch.")
        numbers = () if cut is None else (cut.most_rows, cut.most_columns)
        given = [self._known.get(dim) or emit_dim(b, dim, symbols) for dim in self._given[op]]
        code = Value(PTR, f"@{code_of(kernel)}")
        b.call(self._made[shape], [code, *given, *map(const_i64, numbers), *memory, *sizes, *self._room])

    def _function(self, shape: Shape) -> Function:
        cut = 0 if shape.blocks is None else sum(place is not None for place in shape.blocks)
        numbers, sizes = (2 if shape.blocks is None else 8, shape.symbols - cut)
        types = [PTR, *[I64] * numbers, *[PTR] * shape.memory, *[I64] * sizes, *(value.type for value in self._room)]
        function = Function(self._module, "", VOID, types, HOST_ATTRIBUTES, linkage="internal")
        b, (code, touched, *given) = function.builder, function.args
        scratch, per_worker, threads, status = given[-4:]
        programs, read = given[0], given[1:-4]
        if shape.blocks is not None:
            programs, read = _blocks(b, shape, small_or(b, touched, threads), given[:-4])
        context = words(b, [*read, scratch, per_worker])
        b.call(launcher(b.module), [code, context, programs, touched, threads, status])
        b.ret()
        return function


def _given(op: Op, kernel: Op) -> tuple[Dim, ...]:
    """The sizes that are computed for a launch. The programs of a product that is cut follow from its blocks."""
    touched, programs, cut = elements_touched(op), product(grid(kernel)), cut_of(op)
    if cut is None:
        return touched, programs
    sides, names = ((cut.rows, ROWS), (cut.columns, COLUMNS)), attr_tuple(kernel, "symbols", str)
    rows, columns = (side.ceil_div(Dim.sym(name)) if name in names else ONE for side, name in sides)
    assert programs == cut.leads * rows * columns, f"{programs} programs of a product that is cut as {cut}"
    return touched, cut.leads, cut.rows, cut.columns, cut.unit_rows, cut.unit_columns


def _blocks(b: Builder, shape: Shape, threads: Value, given: Sequence[Value]) -> tuple[Value, list[Value]]:
    """How many programs there are, and what the kernel reads, with the blocks at their places."""
    leads, rows, columns, unit_rows, unit_columns, most_rows, most_columns, *read = given
    sides = [(rows, most_rows, unit_rows), (columns, most_columns, unit_columns)]
    first, second = sides if shape.rows_first else sides[::-1]
    units = b.mul(leads, ceil_div(b, first[0], first[2]))
    wanted = in_turns(b, threads, shape.turns, shape.turns_from, units, laid_out=shape.rows_first)
    blocks = find_blocks(b, leads, first, second, wanted, square=shape.square)
    in_rows, in_columns = blocks if shape.rows_first else blocks[::-1]
    assert shape.blocks is not None
    placed = [(at, v) for at, v in zip(shape.blocks, (in_rows, in_columns), strict=True) if at is not None]
    for place, block in sorted(placed, key=itemgetter(0)):
        read.insert(shape.memory + place, block)
    return b.mul(leads, b.mul(ceil_div(b, rows, in_rows), ceil_div(b, columns, in_columns))), read


_OF_BLOCKS = (Dim.sym(ROWS), Dim.sym(COLUMNS))


def _place(sizes: Sequence[Dim], size: Dim) -> int | None:
    """Where a kernel reads the size of a block, if it does."""
    return sizes.index(size) if size in sizes else None
