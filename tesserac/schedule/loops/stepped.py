"""Loops that are one map over and over: a launch takes each column through all iterations, and holds what it carries.

    schedule.loop(%lo, %hi) { ^(%t): schedule.launch(%x, %h, %h_1) {kind = "map"}; schedule.swap(%h, %h_1) }
becomes
    schedule.launch(%x, %h, %h) {kind = "map", steps = #steps<counter="t", low=`0`, high=`T`>, carried = [[1, 0]]}
or, where there may be many iterations, a loop of such launches of some thousand each, so that a call can be stopped

Enters: a host program with decided launches. Leaves: the same program. So are recurrences over the rows of a matrix,
and rotations of neighbouring rows: no column asks for another. A launch for each row would be started as often as there
are rows, and what goes from one to the next would go through memory; now it stays in registers. A loop is replaced
whose body is one launch over one run of columns, of which each reads and writes, as far as the loop writes memory, what
stands in its own place. `carried` has the operands that an iteration takes from the one before, each with the result
that it is; `advances` says how many elements further each operand begins in the next iteration. Bits do not change: a
column is computed from the same, in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import compute_type, tensor_type
from tesserac.ir.index import dim_value
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.chains.row_chains import buffer_of, takes_argument
from tesserac.schedule.dialect import (
    ROWS,
    STEPS,
    launch_ins,
    launch_kind,
    launch_lengths,
    launch_loops,
    launch_outs,
    launch_place,
    launch_places,
    launch_portion,
    launch_space,
    memory,
)
from tesserac.schedule.loops.row_loops import innermost_loops, is_register, offset_in_buffer
from tesserac.schedule.model.cuts import CUT
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, computing, reaches, write_reach, yielded_op
from tesserac.types.dims import ONE, ZERO, Dim, product

BLOCK = 64
"""Columns of a program: a few vectors, of which what is carried stays in registers."""
FEWEST = 32
"""Columns that are worth a launch of their own, where their number is known."""
CARRIED, ADVANCES = "carried", "advances"
TOGETHER = 4096
"""Iterations at a time, at most."""
INSIDE = ("schedule.box", "schedule.launch", "schedule.swap", "schedule.end")


@dataclass(frozen=True)
class Steps:
    """The iterations of a loop that a launch stands for: `counter` from `low` to before `high`."""

    counter: str
    low: Dim
    high: Dim


register_attribute("steps", Steps)


@function_pass(SCHEDULE, SCHEDULE, "stepped")
def stepped(host: Op) -> None:
    for loop in list(innermost_loops(host)):
        found = _found(loop)
        if found is not None:
            _replace(loop, found)


@dataclass(frozen=True)
class _Found:
    launch: Op
    steps: Steps
    carried: tuple[tuple[int, int], ...]


def _found(loop: Op) -> _Found | None:
    launches = [op for op in loop.body.ops if op.name == "schedule.launch"]
    plain = all(op.name in INSIDE or op.opdef.dialect == "index" for op in loop.body.ops)
    bounds = [_bound(value) for value in loop.operands]
    if not plain or len(launches) != 1 or ROWS in loop.attrs or not _is_map(launches[0]):
        return None
    low, high = bounds
    if low is None or high is None:
        return None
    launch, steps = launches[0], Steps(str(loop.attrs["counter"]), low, high)
    carried = _carried(loop, launch)
    if carried is None or not _counts_in_places(launch, steps.counter) or not _is_apart(launch, carried):
        return None
    return _Found(launch, steps, tuple(carried.items()))


def _bound(value: Value) -> Dim | None:
    """The bound of a loop that sizes say."""
    made = value.defining_op
    dim = made.attrs["dim"] if made is not None and made.name == "index.dim" else None
    return dim if isinstance(dim, Dim) else None


def _is_map(launch: Op) -> bool:
    """Whether a launch computes maps over one run of columns."""
    long = [loop for loop in launch_loops(launch) if loop.size != ONE]
    known = product(launch_space(launch)).constant
    if launch_kind(launch) != "map" or len(long) != 1 or (known is not None and known < FEWEST):
        return False
    forms = all(form.name == "form.map" for form in computing(launch))
    whole = not launch_lengths(launch) and launch_portion(launch) is None and long[0].kind == "parallel"
    return forms and whole and not takes_argument(launch) and not any(map(is_register, launch_outs(launch)))


def _carried(loop: Op, launch: Op) -> dict[int, int] | None:
    """The operands that hold what the iteration before wrote at the same place, each with the result that it is: those
    that change hands with it, and those that lie where it does. None where others change hands. Numbers behind the last
    result mean what an operand holds, as where `p, q = q, next` exchanges three."""
    ins, outs = launch_ins(launch), launch_outs(launch)
    there = {ins.index(out): number for number, out in enumerate(outs) if out in ins}
    found = {operand: number for operand, number in there.items() if _stay(launch, operand, number)}
    for name, held in _exchanged(loop).items():
        if name in outs and name not in ins:
            continue
        if name not in ins or name in outs or not (held in ins) ^ (held in outs):
            return None
        found[ins.index(name)] = outs.index(held) if held in outs else len(outs) + ins.index(held)
    numbers = list(found.values())
    free = all(_is_only_of(out, loop) for n, out in enumerate(outs) if n in numbers and out not in ins)
    like = {operand: _result_like(launch, number, len(outs)) for operand, number in found.items()}
    stay = all(_stay(launch, operand, number) for operand, number in like.items())
    return found if free and stay and len(set(numbers)) == len(numbers) else None


def _result_like(launch: Op, number: int, results: int) -> int | None:
    """The result itself; of an operand that is passed on one of its type, as its map computes it."""
    if number < results:
        return number
    passed = launch.body.args[number - results]
    made = enumerate(launch.body.terminator.operands)
    return next((n for n, v in made if v.type == passed.type and yielded_op(v).result is v), None)


def _is_only_of(buffer: Value, loop: Op) -> bool:
    """Whether nothing outside of a loop reads or writes memory."""
    return all(user.parent is loop.body for user, _ in buffer.uses)


def _exchanged(loop: Op) -> dict[Value, Value]:
    """For each name that stands for other memory after an iteration, unless nothing reads it: whose that was."""
    named: dict[Value, Value] = {}
    for swap in (op for op in loop.body.ops if op.name == "schedule.swap"):
        one, other = swap.operands
        named[one], named[other] = named.get(other, other), named.get(one, one)
    return {name: held for name, held in named.items() if name is not held}


def _stay(launch: Op, operand: int, number: int | None) -> bool:
    """Whether all reads of an operand are of the elements that a result has, in the same places."""
    if number is None:
        return False
    written = write_reach(launch, number)
    reads = [reach for reach in reaches(launch)[: -len(launch_outs(launch))] if reach.operand == operand]
    return all((reach.offset, reach.strides) == (written.offset, written.strides) for reach in reads) and bool(reads)


def _counts_in_places(launch: Op, counter: str) -> bool:
    """Whether the counter only says where operands begin, in even steps."""
    named = [dim for inner in launch.walk() if isinstance(dim := inner.attrs.get("dim"), Dim)]
    sizes = [*launch_space(launch), *named]
    for reach in reaches(launch):
        sizes += [*reach.strides, *(part for pair in reach.computed for part in pair)]
        if reach.digits or reach.panels or not is_even(reach.offset, counter):
            return False
    for value in launch.operands:
        box = value.defining_op
        if box is not None and box.name == "schedule.box":
            sizes += memory(value).dims
            whole = buffer_of(value) is box.operands[0]
            if not whole or not is_even(box_offset(box), counter):
                return False
    return all(counter not in size.symbols() for size in sizes)


def box_offset(box: Op) -> Dim:
    return attr(box, "offset", Dim)


def is_even(offset: Dim, counter: str) -> bool:
    """Whether an offset is so much, and so much more for each count."""
    first, step = parts_of(offset, counter)
    return offset == first + step * Dim.sym(counter)


def parts_of(offset: Dim, counter: str) -> tuple[Dim, Dim]:
    """An offset where the counter is 0, and what each count adds."""
    first = offset.substitute({counter: ZERO})
    return first, offset.substitute({counter: ONE}) - first


def _is_apart(launch: Op, carried: dict[int, int]) -> bool:
    """Whether each column reads, of what the launch writes, only what stands in its own place."""
    ins, outs = launch_ins(launch), launch_outs(launch)
    held = {buffer_of(ins[operand]) for operand in carried}
    held |= {buffer_of(outs[number]) for number in carried.values() if number < len(outs)}
    written = {buffer_of(out) for out in outs} | held
    uses = [(reach, buffer_of(launch.operands[reach.operand])) for reach in reaches(launch)]
    for reach, buffer in uses:
        if buffer in written and not _stays_in_column(launch, reach):
            return False
    numbers = set(carried.values())
    free = [(reach, b) for reach, b in uses if reach.operand not in carried and reach.operand - len(ins) not in numbers]
    return not any(buffer in held for _, buffer in free)


def _stays_in_column(launch: Op, reach: Reach) -> bool:
    """Whether the memory is rows of so many elements, of which a column of the launch reaches its own."""
    space, operand = launch_space(launch), launch.operands[reach.operand]
    (columns,) = (loop for loop in launch_loops(launch) if loop.size != ONE)
    start = reach.offset + offset_in_buffer(operand)
    plain = memory(buffer_of(operand)).contiguous and not reach.computed
    return plain and reach.stride(columns.axes, space) == ONE and start.mod(columns.size) == ZERO


def _replace(loop: Op, found: _Found) -> None:
    """Has the launch stand for the iterations: for all, or where these may be many for some thousand at a time, so that
    a call can be stopped between."""
    launch, steps = found.launch, found.steps
    swaps = [op for op in loop.body.ops if op.name == "schedule.swap"]
    few = (steps.high - steps.low).min(TOGETHER) == steps.high - steps.low
    if not few:
        steps = _some_of(loop, steps)
    operands, advances = _moving(launch, loop, Builder.before(loop if few else launch), steps)
    boxes = dict.fromkeys(value.defining_op for value in launch.operands if value not in operands)
    launch.set_operands(operands)
    for box in boxes:
        assert box is not None
        box.erase()
    results = len(launch_outs(launch))
    carried = [_carry(launch, operand, number, results) for operand, number in found.carried]
    advances += [ZERO] * (len(launch.operands) - len(advances))
    launch.attrs |= {STEPS: steps, CARRIED: tuple(carried), ADVANCES: tuple(advances)}
    launch.attrs.pop(CUT, None)
    blocks = (own if own.size == ONE else replace(own, block=BLOCK) for own in launch_loops(launch))
    launch.attrs["loops"] = tuple(blocks)
    because(launch, f"blocks of {BLOCK} columns, which go through all iterations of a loop by themselves")
    names = dict.fromkeys(value for swap in swaps for value in swap.operands)
    for swap in swaps:
        swap.erase()
    if few:
        launch.detach()
        block = loop.parent
        assert block is not None
        block.insert(block.place(loop), launch)
        loop.erase()
    for buffer in (value.defining_op for value in names if not value.uses):
        assert buffer is not None
        buffer.erase()


def _some_of(loop: Op, steps: Steps) -> Steps:
    """Those of one iteration of the loop, which from now on counts so many at a time."""
    counter, builder = f"{steps.counter}.part", Builder.before(loop)
    loop.attrs["counter"] = counter
    times = (steps.high - steps.low).ceil_div(TOGETHER)
    loop.set_operands([dim_value(builder, ZERO), dim_value(builder, times)])
    low = steps.low + TOGETHER * Dim.sym(counter)
    return Steps(steps.counter, low, (low + TOGETHER).min(steps.high))


def _moving(launch: Op, loop: Op, builder: Builder, steps: Steps) -> tuple[list[Value], list[Dim]]:
    """The operands where they begin in the first iteration, and how much further each begins in the next."""
    operands, advances = list(launch.operands), [ZERO] * len(launch.operands)
    for place, value in enumerate(operands):
        box = value.defining_op
        if box is not None and box.parent is loop.body:
            first, advances[place] = parts_of(box_offset(box), steps.counter)
            attrs = {"offset": first + advances[place] * steps.low}
            operands[place] = builder.value("schedule.box", box.operands, box.result.type, attrs)
    return operands, advances


def _carry(launch: Op, operand: int, number: int, results: int) -> tuple[int, int]:
    """The operand, and the result that goes back to where the operand lies."""
    if number < results:
        launch.set_operand(len(launch_ins(launch)) + number, launch.operands[operand])
        return operand, number
    like = _result_like(launch, number, results)
    assert like is not None
    _pass_on(launch, number - results, like, launch.operands[operand])
    return operand, len(launch_outs(launch)) - 1


def _pass_on(launch: Op, operand: int, like: int, to: Value) -> None:
    """One more result, of the type of another: what an operand holds."""
    block = launch.body
    arg, place = block.args[operand], launch_place(launch, yielded_op(block.terminator.operands[like]))
    copy, element = Block([compute_type(arg)]), tensor_type(arg)
    Builder(copy).op("form.yield", copy.args)
    builder = Builder.before(block.terminator)
    passed = builder.value("form.map", (arg,), element, {"maps": (tuple(range(element.rank)),)}, (copy,))
    block.terminator.set_operands([*block.terminator.operands, passed])
    launch.set_operands([*launch.operands, to])
    launch.attrs["outs"] = len(block.terminator.operands)
    launch.attrs["places"] = (*launch_places(launch), place)
