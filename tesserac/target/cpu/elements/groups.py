"""Loops over elements: several vectors at a time while there are enough elements, then one vector, then one element.

The body is written once per way of taking elements, always the same operations in the same order. Where a processor has
masks and memory is walked in runs, a vector of which only some lanes are there takes what one vector leaves over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op, attr
from tesserac.ir.types import MemRefType
from tesserac.target.cpu.elements.accesses import prepare_addresses, reads_and_writes_runs
from tesserac.target.cpu.elements.bodies import emit_body, prepare_functions
from tesserac.target.cpu.elements.frame import REST, Entry, Frame, Mode, Run
from tesserac.target.dims import floor_div
from tesserac.target.flow import LoopBody, for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value, const_i64, const_vector
from tesserac.tile.cpu.dialect import Shape
from tesserac.tile.cpu.shapes import LIGHT_BODY, operation_cost

Group = Callable[[Value, Mode, list[Value]], Sequence[Value]]
"""Writes the group of elements that starts at an index, in a mode; takes and gives what the loop carries."""


WORDS = (32, 64)
"""Bits of the elements that AVX2 takes some of."""
MOST_COPIES, SHORT_BODY = 4, 8
"""Of a loop that is known to run so few times: its operations, if they are so few, are written one after the other."""


def modes(op: Op, count: int | None = None) -> list[Mode]:
    """The ways of taking elements, from the widest, which takes no more than there are known to be, to one by one."""
    shape = attr(op, "shape", Shape)
    parts = shape.parts if count is None else max(1, min(shape.parts, count // shape.lanes))
    if op.attrs.get("whole") is True:
        return [Mode(shape.lanes, parts), Mode(shape.lanes, 1)]
    vector = [Mode(shape.lanes, 1, rest=True)] if parts > 1 else []
    return [Mode(shape.lanes, parts), *vector, REST]


def known_count(low: Value, high: Value) -> int | None:
    """How many elements a loop has, where that is known while compiling."""
    return None if low.number is None or high.number is None else max(high.number - low.number, 0)


def short_loop(
    b: Builder, low: Value, high: Value, step: int, held: Sequence[Value], body: LoopBody, copies: int = 1
) -> list[Value]:
    """A loop; one of which it is known that it runs no more than `copies` times is its body, so often."""
    count = known_count(low, high)
    if count is None or count > copies * step:
        return for_loop(b, low, high, const_i64(step), held, body)
    carried = list(held)
    for start in range(0, count, step):
        carried = list(body(b.add(low, const_i64(start)), carried))
    return carried


def group_index(start: Value, mode: Mode) -> Entry:
    """The index of a group's elements, as its body sees it."""
    if not mode.lanes:
        return start
    return Run(start, tuple(p * mode.lanes for p in range(mode.parts)))


def loop_over(
    frame: Frame, low: Value, high: Value, mode: Mode, held: Sequence[Value], group: Group, copies: int = 1
) -> list[Value]:
    """Whole groups of a mode from `low` on; gives where they end, then what was carried."""
    end = high if not mode.lanes else _last_whole(frame, low, high, mode.size)

    def body(i: Value, carried: list[Value]) -> Sequence[Value]:
        return group(i, mode, carried)

    return [end, *short_loop(frame.b, low, end, mode.size, held, body, copies)]


def _last_whole(frame: Frame, low: Value, high: Value, size: int) -> Value:
    """The end of the last whole group of `size` elements."""
    b, count = frame.b, frame.b.sub(high, low)
    if size & (size - 1) == 0:
        return b.add(low, b.binary("and", count, const_i64(-size)))
    return b.add(low, b.mul(floor_div(b, count, const_i64(size)), const_i64(size)))


def emit_vector_loop(frame: Frame, op: Op) -> None:
    prepare_addresses(frame, op.body)
    low, high = (frame.value(v) for v in op.operands)

    def group(i: Value, mode: Mode, _: list[Value]) -> Sequence[Value]:
        emit_body(frame, op.body, [group_index(i, mode)], mode)
        return []

    copies = MOST_COPIES if len(op.body.ops) <= SHORT_BODY else 1
    for mode in modes(op, known_count(low, high)):
        if not mode.lanes and may_be_in_part(frame, op, low, high):
            take_part(frame, op, low, high, [], group)
            return
        prepare_functions(frame, op.body, mode)
        (low,) = loop_over(frame, low, high, mode, [], group, copies)


# Note [A mask of one lane]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# LLVM makes one store of a masked store whose mask is known to have one lane. Where the vector was truncated before,
# as f32 rounded to bf16 is, that store has the width from before: it writes over the elements behind it
# (X86ISelLowering, reduceMaskedStoreToScalarStore, of LLVM 22; `trunc <16 x i32>`, `masked.store.v16i16` with the mask
# <1, 0, ...> becomes a store of 32 bits). So what is known to be one element is never stored through a mask.


def may_be_in_part(frame: Frame, op: Op, low: Value, high: Value) -> bool:
    """Whether a vector of the loop may have fewer elements than lanes: what is not there is neither read nor written,
    and no scalar operation minds a 0."""
    names = {inner.name for inner in op.body.ops[:-1]}
    plain = all(name.startswith(("scalar.", "index.")) or name in _PLAIN for name in names)
    is_one = known_count(low, high) == 1  # Note [A mask of one lane]
    masked = frame.target.has_masks or (frame.target.loads_in_part and _pays_without_masks(op))
    return masked and not is_one and plain and reads_and_writes_runs(frame, op.body)


def _pays_without_masks(op: Op) -> bool:
    """Whether AVX2's loads of a part are enough, and its stores little beside what is computed."""
    inside = op.body.ops[:-1]
    memories = [v.type for inner in inside for v in inner.operands if isinstance(v.type, MemRefType)]
    words = all(memory.dtype.bits in WORDS for memory in memories)
    stores = any(inner.name == "cpu.store" for inner in inside)
    return words and (not stores or sum(map(operation_cost, inside)) > LIGHT_BODY)


_ACCESSES = frozenset({"cpu.load", "cpu.store"})
_PLAIN = _ACCESSES | {"cpu.index", "cpu.position"}


def take_part(frame: Frame, op: Op, low: Value, high: Value, held: Sequence[Value], group: Group) -> list[Value]:
    """The elements that are left, fewer than lanes, as one vector; gives what was carried."""
    b, lanes = frame.b, attr(op, "shape", Shape).lanes

    def part(start: Value, carried: list[Value]) -> Sequence[Value]:
        places = const_vector([const_i64(lane) for lane in range(lanes)])
        frame.mask = b.icmp("slt", places, b.splat(b.sub(high, start), lanes))
        new = group(start, Mode(lanes, 1, rest=True), carried)
        frame.mask = None
        return new

    return short_loop(b, low, high, lanes, held, part)
