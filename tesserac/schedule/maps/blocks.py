"""The default schedule of maps: blocks of elements that stay near, along the runs that memory has.

Enters: a launch whose forms each give one map over its space. Leaves: the same with loops merged and cut into blocks.
"""

from __future__ import annotations

from math import prod

from tesserac.ir.core import Op, clone_op
from tesserac.ir.lines import LINES, line_elements
from tesserac.schedule.costs.cost import element_bytes, form_work, power_of_two_below
from tesserac.schedule.dialect import Predicate, folded_most, launch_kind, launch_loops, launch_space, memory
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import Reach, computing, reaches, shared_loop
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.merge import refusal as merge_refusal
from tesserac.schedule.primitives.split import split
from tesserac.schedule.products.aligned import LONG_RUNS
from tesserac.types.dims import ONE, ZERO, Dim

SQUARE, TINY_ACROSS = 64, 128
LITTLE_WORK = 32
"""Operations of one element."""
SMALLEST, LARGEST = 256, 4096
RUN_BYTES = 4096
"""Of the widest memory of a map, those that a program of a GPU takes of one run: many programs wait for memory while
others compute."""
ROW_WARPS, ROW_ELEMENTS = 2, 512
"""Of a map of long rows that computes much, on a GPU: few registers a thread, so that many programs fit."""
GATHERED = 1024
"""Elements that a program of a GPU gathers or scatters, at most: what hits anywhere wants many programs at once."""
WARP = 32
"""Points of a form of lines that a warp takes at least: a thread holds one, with all its elements."""
SHARING = 4
"""Indices of a batch that a program of a GPU takes at once, where they read the same table."""
SHORT_RUN = 256
"""Elements that are neighbours in all memories of a map up to which blocks are as high as wide."""
TINY_RUN = 32
"""Those up to which a block of the usual width would be half empty, or emptier."""
LEAST_RUN = 256
"""Neighbours of a block of a map on a GPU, at least: 16 bytes of 16-bit numbers for each lane of a warp."""


def merge_runs(launch: Op, found: list[Reach]) -> None:
    """Walks neighbouring loops as one wherever memory allows."""
    loop = 0
    while loop + 1 < len(launch_loops(launch)):
        if merge_refusal(launch, loop, found) is None:
            merge(launch, loop)
        else:
            loop += 1


def _elements_per_point(launch: Op) -> int:
    """Elements that a point of the space reads and writes."""
    lines = [line_elements(op) for op in computing(launch) if op.name == LINES]
    return sum(lines) if lines else len(launch.operands)


def _bytes_per_point(launch: Op) -> int:
    """Bytes that a point of the space reads and writes."""
    if launch_kind(launch) == "lines":
        return _elements_per_point(launch) * element_bytes(memory(launch.operands[-1]).dtype)
    return sum(element_bytes(memory(v).dtype) for v in launch.operands) or 1


def block_elements(launch: Op, machine: Machine, read: int = 1) -> int:
    """How many elements a program takes: what fits in registers where they hold blocks, of all that is `read` and
    written, else nearest to the unit."""
    if machine.registers:
        room = machine.registers / max(read, _elements_per_point(launch))
    else:
        room = machine.near_bytes * 0.75 / _bytes_per_point(launch)
    lines = launch_kind(launch) == "lines" and machine.warps
    gathers = machine.warps and any(op.name in ("form.gather", "form.scatter") for op in computing(launch))
    return power_of_two_below(room, WARP * machine.warps if lines else SMALLEST, GATHERED if gathers else LARGEST)


def schedule_map(launch: Op, machine: Machine) -> None:
    found = reaches(launch)
    merge_runs(launch, found)
    loops, elements = launch_loops(launch), block_elements(launch, machine, len(found))
    if machine.warps:
        bind(launch, machine.warps, "uniform")
        elements = min(elements, _run_elements(launch)) if len(loops) == 1 else elements
    if not loops:
        because(launch, "one element")
        return
    last, crossing = len(loops) - 1, crossing_loop(launch, found)
    shared = shared_loop(launch, found) if machine.warps else None
    unknown = bool(machine.warps and last and loops[last].size.constant is None and LONG_RUNS not in launch.attrs)
    if crossing is not None:
        if unknown:
            _cross(_for_short_runs(launch, TINY_RUN), crossing, TINY_ACROSS, TINY_RUN // 2)
        _cross(launch, crossing, SQUARE, SQUARE, whole=not machine.warps)
        return
    if unknown:
        few = _for_short_runs(launch, SHORT_RUN)
        fewest = _for_short_runs(few, TINY_RUN)
        _walk_elements(few, elements, SQUARE, shared)
        _walk_elements(fewest, elements, TINY_RUN // 2, shared)
    size = loops[last].size.constant
    if machine.warps and last and (size is None or size > LEAST_RUN):
        elements = min(elements, _elements_of_rows(launch))
    several = machine.cheap_rows if last and _is_cheap(launch) else 1
    inner = _even_run(size, elements) if machine.warps and last else elements // several
    _walk_elements(launch, elements, inner, shared)


def _cross(launch: Op, crossing: int, across: int, inner: int, whole: bool = False) -> None:
    """Registers have places for all elements of a block, there or not, where caches may have it `whole`."""
    split(launch, crossing, across if whole else fitting(launch, crossing, across))
    split(launch, len(launch_loops(launch)) - 1, inner)
    because(launch, f"an operand runs across the others: blocks of {launch_loops(launch)[crossing].block}x{inner}")


def _run_elements(launch: Op) -> int:
    """Elements of one run in memory that a program of a GPU takes."""
    return RUN_BYTES // max(element_bytes(memory(value).dtype) for value in launch.operands)


def _elements_of_rows(launch: Op) -> int:
    if not _is_cheap(launch):
        bind(launch, ROW_WARPS, "uniform")
        return ROW_ELEMENTS
    whole = [memory(v) for v in launch.operands if len(memory(v).dims) >= len(launch_loops(launch))]
    return RUN_BYTES // max((element_bytes(ty.dtype) for ty in whole), default=1)


def _even_run(size: int | None, elements: int) -> int:
    """How many neighbours of a run a block of so many elements has, on a GPU, where each has a place in a register
    whether it is there or not: the most by which blocks go hardly beyond a run, else those by which it is least."""
    if size is None or size <= LEAST_RUN:
        return elements
    able = [n for n in (LEAST_RUN << i for i in range(elements.bit_length())) if n <= elements]
    idle = {n: -(-size // n) * n - size for n in able}
    return max(able, key=lambda n: (min(0, size // 16 - idle[n]), n), default=elements)


def _for_short_runs(launch: Op, most: int) -> Op:
    """A variant of a map for runs of at most so many elements."""
    few = clone_op(launch, {})
    many = Predicate("at_least", launch_loops(launch)[-1].size, Dim.const(most + 1))
    select([(many, [launch])], [few], launch)
    because(few, f"runs of at most {most} elements")
    return few


def _walk_elements(launch: Op, elements: int, inner: int, shared: int | None = None) -> None:
    """Blocks of so many elements, `inner` of them side by side, and some along a loop of which they share operands."""
    loops = launch_loops(launch)
    last = len(loops) - 1
    inner = fitting(launch, last, inner)
    split(launch, last, inner)
    left = elements // inner
    if shared is not None and left > 1:
        split(launch, shared, fitting(launch, shared, min(left, SHARING)))
        left //= launch_loops(launch)[shared].block
    for loop in reversed([loop for loop in range(last) if loop != shared]):
        if left > 1:
            split(launch, loop, fitting(launch, loop, left))
            left //= launch_loops(launch)[loop].block
    taken = prod(loop.block for loop in launch_loops(launch))
    run = " of one run in memory" if len(loops) == 1 else ""
    because(launch, f"blocks of {taken} elements{run}: {_bytes_per_point(launch)} bytes each stay near")


def _is_cheap(launch: Op) -> bool:
    return sum(map(form_work, computing(launch))) <= LITTLE_WORK


def fitting(launch: Op, loop: int, block: int) -> int:
    """The block, not larger than the next power of two above what is known of a size."""
    size = folded_most(launch, launch_loops(launch)[loop])
    if size is None or size >= block:
        return block
    return 1 << max(0, size - 1).bit_length()


def crossing_loop(launch: Op, found: list[Reach]) -> int | None:
    """A loop other than the last along which some operand is contiguous."""
    space, loops = launch_space(launch), launch_loops(launch)
    for reach in found:
        for number, loop in enumerate(loops[:-1]):
            last_stride = reach.stride(loops[-1].axes, space)
            if reach.stride(loop.axes, space) == ONE and last_stride not in (ZERO, ONE):
                return number
    return None


