"""Blocks of a product as a call wants them: a schedule says how large they are at most, a launch how large they are.

How many programs a product is cut into depends on its sizes and on the number of threads, which only a run knows. So
rows and columns of a block are two symbols of the kernel, bound when it is launched: whole units of registers, as many
as share the work evenly among all threads. Where a block is cut never shows in a result. A tile program that leaves its
blocks to the compiler is cut the same way; one with rows alone has one column.

    37 x 777, at most 96 x 384, units of 4 x 32:              1 thread    37 x 384 three times
                                                              16 threads  37 x 64 thirteen times
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op
from tesserac.schedule.dialect import Loop, launch_loops
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import write_reach
from tesserac.types.dims import ONE, ZERO, Dim, product

ROWS, COLUMNS = "block.rows", "block.columns"
"""The symbols of a kernel."""

FEW_PLACES, MANY_PLACES = 1 << 12, 1 << 14
"""Places up to which elements are folded in one pass over them: of those that are known, however few the elements are;
and at all, by programs with a range of places each. One program has more of them."""
PLACES_UNIT, ALL_PLACES = 16, 1 << 40
"""Places in whole lines of a cache; more than there ever are."""

CUT = "division"
"""The attribute of a launch, and of the `tile.launch` that it becomes."""


@dataclass(frozen=True)
class Cut:
    """`leads` products of `rows` x `columns`. A block has at most `most_rows` x `most_columns` of them, and whole
    units; where there are too few blocks, rows are cut first, or columns. From `turns_from` threads on each has `turns`
    blocks at least, where there is work for them: one that comes late has fewer. `square`: of many threads, so that the
    rows and columns that a block brings are few, see `block_rule`."""

    leads: Dim
    rows: Dim
    columns: Dim
    most_rows: int
    most_columns: int
    unit_rows: Dim
    unit_columns: Dim
    rows_first: bool
    turns: int
    turns_from: int = 2
    square: bool = False

    def sides(self) -> list[tuple[Dim, int, Dim]]:
        """Size, largest block and unit of the side that is cut first, and of the other."""
        rows, columns = (
            (self.rows, self.most_rows, self.unit_rows),
            (self.columns, self.most_columns, self.unit_columns),
        )
        return [rows, columns] if self.rows_first else [columns, rows]


register_attribute("product_cut", Cut)

MANY_ROWS = 16
"""Units of rows of which one more or less does not show."""
PROGRAM_TURNS = 2
"""Of tile programs with rows and columns: half of a block more packs little more."""
PRODUCT_TURNS, MANY_THREADS = 4, 9
"""The same of products, not of those in a matrix unit, and among how many threads: of so many some are slower than
others; 2 and 4 threads lost up to a tenth by it. On 16 cores, blocks a thread in processes that took turns, medians of
four, ms:

    blocks                              2                        3                        4                        6
    1024 x 1024 x 1024        1.59 to 2.07             1.54 to 1.71             1.20 to 1.59             1.41 to 1.72
    2048 x 2048 x 2048        13.5 to 14.7             10.4 to 11.7              9.9 to 11.7             11.6 to 13.3
    1024 x 4096 x 4096        26.9 to 29.4             22.9 to 23.9             18.6 to 24.6             23.3 to 26.9
    conv, 256 channels of 14   284 to 398 us            286 to 317               275 to 301               255 to 314
    conv, 64 channels of 56    198 to 275 us            201 to 223               184 to 228               201 to 216
"""
FULL_UNITS = 3
"""Units of rows that make up the tallest register block of AVX-512; of fewer a block wins less than it loses."""

PARAMETERS = ("leads", "first", "second", "most_first", "most_second", "unit_first", "unit_second", "threads", "square")


def block_rule() -> tuple[Dim, Dim]:
    """The block of the side that is cut first, and of the other, of the parameters. With the largest blocks the
    programs take so many rounds of all threads; as many programs as fill these rounds are wanted. In squares the other
    side is cut into 2, 4 or 8 before, about as many as the root of the threads that a product has, times its sides."""
    leads, first, second, most_first, most_second, unit_first, unit_second, threads, square = map(Dim.sym, PARAMETERS)
    own = threads.ceil_div(leads.max(1))
    area = (own * second).floor_div(first.max(1)).min(own)
    cuts = sum((area.floor_div(4 * n * n).min(1) * n for n in (1, 2, 4)), ZERO) * square + 1
    most_second = (unit_second * second.ceil_div(unit_second * cuts)).max(unit_second).min(most_second)
    rounds = (leads * first.ceil_div(most_first) * second.ceil_div(most_second)).ceil_div(threads)
    wanted = (threads * rounds).max(1)
    beside = (leads * second.ceil_div(most_second)).max(1)
    one = _block(first, most_first, unit_first, wanted.ceil_div(beside))
    left = wanted.floor_div((leads * first.ceil_div(one)).max(1)).max(1)
    return one, _block(second, most_second, unit_second, left)


def _block(size: Dim, most: Dim, unit: Dim, count: Dim) -> Dim:
    """Whole units of a side that is cut into about `count` blocks."""
    return (unit * size.ceil_div(unit * count)).max(unit).min(most)


def cut_product(
    launch: Op, units: tuple[int, int], *, rows_first: bool, whole_rows: int = 0, turns: int = 1, square: bool = False
) -> None:
    """Leaves the blocks of a product to its launch; those that it has now are the largest. Many rows are cut into units
    of `whole_rows`, if there is such a number; many threads have `turns` blocks, or `square` ones."""
    *outer, rows, columns, _ = launch_loops(launch)
    leads = product([loop.size for loop in outer if loop.kind == "parallel"])
    unit_rows, unit_columns = map(Dim.const, units)
    if whole_rows:
        unit_rows += rows.size.floor_div(MANY_ROWS * whole_rows).min(1) * (whole_rows - units[0])
    launch.attrs[CUT] = Cut(
        leads, rows.size, columns.size, rows.block, columns.block, unit_rows, unit_columns, rows_first, turns,
        MANY_THREADS, square,
    )  # fmt: skip


def cut_programs(launch: Op, sides: Sequence[Loop], units: tuple[int, int]) -> None:
    """The same of a tile program: one or two of its loops have a block each."""
    rows, columns = sides if len(sides) > 1 else (*sides, Loop((), ONE, 1, "parallel"))
    blocks = (rows.block, columns.block)
    unit_rows, unit_columns = (Dim.const(min(unit, block)) for unit, block in zip(units, blocks, strict=True))
    sizes = (launch_loops(launch)[0].size, rows.size, columns.size, *blocks)
    turns = PROGRAM_TURNS if len(sides) > 1 else 1
    launch.attrs[CUT] = Cut(*sizes, unit_rows, unit_columns, len(sides) == 1, turns)


def cut_places(launch: Op, machine: Machine) -> None:
    """Leaves ranges of the places that elements are folded into, unless they are many, to a launch: one for each
    thread. All look at all indices; that pays where vectors put those side by side that are meant."""
    places = product([size for size, _ in write_reach(launch, 0).computed])
    able = machine.vectors is not None and machine.vectors.has_masks and len(launch_loops(launch)) == 1
    if able and are_many(places) != ONE:
        unit = (are_many(places) * ALL_PLACES).max(PLACES_UNIT)
        launch.attrs[CUT] = Cut(ONE, places, ONE, ALL_PLACES, 1, unit, ONE, True, 1)
        because(launch, "a range of places for each thread")


def are_many(places: Dim) -> Dim:
    """1 where there are too many places for one pass over the elements, else 0."""
    return places.floor_div(MANY_PLACES + 1).min(1)


def cut_of(op: Op) -> Cut | None:
    cut = op.attrs.get(CUT)
    assert cut is None or isinstance(cut, Cut)
    return cut
