"""Loads and stores: addresses, vectors with and without a stride, the way between memory and registers.

An address is a base that does not change in the loop, computed before it, and what the running indices add. Places in a
line whose stride is no number are added behind those: of a line, one pointer runs, and memory that is walked alike has
the offsets of places in common.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import MemRefType, ScalarType
from tesserac.target.cpu.elements.frame import Entry, Frame, Lanes, Memory, Run, per_part, vectors
from tesserac.target.cpu.elements.neighbours import apart, neighbours, transposed
from tesserac.target.cpu.elements.registers import NARROW, narrow, saturate, widen
from tesserac.target.cpu.elements.scalars import emit_cast
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, VOID, Value, const_i64, const_int, const_vector, undefined, vector, zero
from tesserac.types.dtype import F32, DType
from tesserac.types.policy import Policy


@dataclass(frozen=True)
class Line:
    """The offset of a place in a line, computed before a loop."""

    offset: Value


Terms = list[tuple[Entry | Line, Value]]
"""Running indices with their strides."""
MOST_APART = 4
"""Elements between the lanes of a store up to which whole vectors are stored, with what lies between left out."""
MOST_BESIDE = 16
"""Stores of a group, at most: so many vectors are transposed in registers."""


def prepare_addresses(frame: Frame, block: Block) -> None:
    """Before a loop: computes the base of every access in its body."""
    for op in block.ops:
        if op.name in ("cpu.load", "cpu.store"):
            memory, places = _operands(frame, op)
            fixed, line = const_i64(0), const_i64(0)
            for place, stride in zip(places, memory.strides, strict=True):
                for value in map(frame.value, _split(place, block)[0]):
                    if value.number is None or stride.number is not None:
                        fixed = frame.b.add(fixed, frame.b.mul(value, stride))
                    else:
                        line = frame.b.add(line, _offset(frame, value.number, stride))
            frame.bases[op] = frame.b.gep(memory.element, memory.start, fixed)
            frame.lines[op] = line
    frame.neighbours.update(neighbours(block, MOST_BESIDE))


def _offset(frame: Frame, place: int, stride: Value) -> Value:
    """Of a place in a line; made once before a loop."""
    key = ("line", str(place), str(stride))
    if key not in frame.memo:
        frame.memo[key] = frame.b.mul(const_i64(place), stride)
    return frame.memo[key]


def _operands(frame: Frame, op: Op) -> tuple[Memory, Sequence[IRValue]]:
    memory, *places = op.operands if op.name == "cpu.load" else op.operands[1:]
    return frame.memories[memory], places


def _split(place: IRValue, block: Block) -> tuple[list[IRValue], list[IRValue]]:
    """An index as a sum: what was known before the body, and what is made in it."""
    if place.owner is block:
        return [], [place]
    op = place.defining_op
    if op is None or op.parent is not block:
        return [place], []
    if op.name != "index.add":
        return [], [place]
    left, right = (_split(v, block) for v in op.operands)
    return left[0] + right[0], left[1] + right[1]


def _terms(frame: Frame, op: Op) -> tuple[Memory, Value, Terms]:
    """The memory, the base, and what must still be added to it."""
    memory, places = _operands(frame, op)
    base = frame.bases.get(op)
    assert op.parent is not None
    terms: Terms = []
    for place, stride in zip(places, memory.strides, strict=True):
        moving = [place] if base is None else _split(place, op.parent)[1]
        terms += [(frame.entries[value], stride) for value in moving]
    line = frame.lines.get(op)
    if line is not None and line.number != 0:
        terms.append((Line(line), const_i64(1)))
    return memory, memory.start if base is None else base, terms


def emit_prefetch(frame: Frame, op: Op) -> None:
    """Asks for the element that a load would read."""
    memory, base, terms = _terms(frame, op)
    frame.b.prefetch(_address(frame, memory, base, terms, 0))


def emit_load(frame: Frame, op: Op) -> Entry:
    memory, base, terms = _terms(frame, op)
    compute = _dtype(op.result)
    if all(isinstance(term, Value | Line) for term, _ in terms):
        value = frame.b.load(memory.element, _address(frame, memory, base, terms, 0), align_of(memory))
        return widened(frame, value, memory, compute)
    step = _lane_stride(frame, terms)
    if _is_paired(frame, op, step):
        return _load_pair(frame, op, compute, step is not None and step.number == -2)
    loaded = []
    for part in range(frame.mode.parts):
        value = load_part(frame, memory, _address(frame, memory, base, terms, part), step)
        loaded.append(widened(frame, value, memory, compute))
    return Lanes(tuple(loaded))


def _is_paired(frame: Frame, op: Op, step: Value | None) -> bool:
    """Whether vectors of a load and its neighbour are one run in memory, forwards or backwards."""
    return frame.mode.lanes > 1 and step is not None and step.number in (2, -2) and op in frame.neighbours


def _load_pair(frame: Frame, op: Op, compute: DType, backwards: bool) -> Entry:
    """Every second element of a run; the others wait for the neighbour. Backwards, the first lane has the last pair."""
    if op in frame.waiting:
        return frame.waiting.pop(op)
    first, second = frame.neighbours[op]
    memory, base, terms = _terms(frame, first)
    lanes, halves = frame.mode.lanes, []
    for part in range(frame.mode.parts):
        place = _address(frame, memory, base, terms, part)
        start = frame.b.gep(memory.element, place, const_i64(2 - 2 * lanes)) if backwards else place
        both = frame.b.load(vector(memory.element, 2 * lanes), start, align_of(memory))
        halves.append([widened(frame, half, memory, compute) for half in apart(frame.b, both, lanes, backwards)])
    even, odd = (Lanes(tuple(half[i] for half in halves)) for i in (0, 1))
    own, other, left = (even, second, odd) if op is first else (odd, first, even)
    frame.waiting[other] = left
    return own


def _is_beside(frame: Frame, op: Op, step: Value | None) -> bool:
    """Whether each lane of a store begins or continues a run of elements."""
    return frame.mode.lanes > 1 and step is not None and step.number != 1 and op in frame.neighbours


def _store_beside(frame: Frame, op: Op, elements: Sequence[Value], step: Value) -> None:
    """The elements of a group of stores, row by row, behind the last of them."""
    frame.waiting[op] = Lanes(tuple(elements))
    group = frame.neighbours[op]
    if any(other not in frame.waiting for other in group):
        return
    parts = [per_part(frame, _held(frame.waiting.pop(other))) for other in group]
    size = min(len(group), frame.mode.lanes)
    for start in range(0, len(group), size):
        memory, base, terms = _terms(frame, group[start])
        for part in range(frame.mode.parts):
            columns = [of_one[part] for of_one in parts[start : start + size]]
            _store_rows(frame, memory, _address(frame, memory, base, terms, part), columns, step)


def _held(entry: Entry) -> Lanes:
    assert isinstance(entry, Lanes)
    return entry


def _store_rows(frame: Frame, memory: Memory, address: Value, columns: Sequence[Value], step: Value) -> None:
    """Vectors of which each lane is a row in memory."""
    b, lanes, size = frame.b, frame.mode.lanes, len(columns)
    wholes = transposed(b, columns, lanes)
    rows = lanes // size
    for number, whole in enumerate(wholes):
        if step.number == size:
            b.store(whole, b.gep(memory.element, address, const_i64(number * lanes)), align_of(memory))
            continue
        for row in range(rows):
            place = b.gep(memory.element, address, b.mul(step, const_i64(number * rows + row)))
            part = whole if rows == 1 else b.shuffle(whole, whole, range(row * size, (row + 1) * size))
            b.store(part, place, align_of(memory))


def widened(frame: Frame, value: Value, memory: Memory, compute: DType) -> Value:
    """An element or vector of memory in the computing type."""
    return emit_cast(frame.b, widen(frame.b, value, memory.dtype), memory.dtype, compute)


def load_part(frame: Frame, memory: Memory, address: Value, step: Value | None) -> Value:
    """One vector: contiguous, gathered with a stride, or one element for all lanes."""
    b, lanes = frame.b, frame.mode.lanes
    if step is None or lanes == 0:
        return b.load(memory.element, address, align_of(memory))
    if step.number == 1:
        return _load_run(frame, memory, address, frame.mask)
    if step.number == -1:
        first, turned = b.gep(memory.element, address, const_i64(1 - lanes)), range(lanes - 1, -1, -1)
        mask = None if frame.mask is None else b.shuffle(frame.mask, frame.mask, turned)
        backwards = _load_run(frame, memory, first, mask)
        return b.shuffle(backwards, backwards, turned)
    assert frame.mask is None, "only what is a run in memory is read in part"
    whole = undefined(vector(memory.element, lanes))
    for lane in range(lanes):
        place = b.gep(memory.element, address, b.mul(step, const_i64(lane)))
        whole = b.insert(whole, b.load(memory.element, place, align_of(memory)), lane)
    return whole


def _load_run(frame: Frame, memory: Memory, address: Value, mask: Value | None) -> Value:
    """Neighbours in memory, 0 for those that are not there."""
    whole = vector(memory.element, frame.mode.lanes)
    if mask is None:
        return frame.b.load(whole, address, align_of(memory))
    return frame.b.intrinsic("llvm.masked.load", whole, [address, mask, zero(whole)], [whole, address.type])


def reads_and_writes_runs(frame: Frame, block: Block) -> bool:
    """Whether all memory that a body touches is at one place, or runs with its index; what it writes always runs."""
    for op in block.ops:
        if op.name not in ("cpu.load", "cpu.store"):
            continue
        memory, places = _operands(frame, op)
        parts = [(_split(place, block)[1], stride) for place, stride in zip(places, memory.strides, strict=True)]
        moving = [(value, stride) for values, stride in parts for value in values]
        steps = [stride.number for _, stride in moving]
        wanted = ([1],) if op.name == "cpu.store" else ([], [1], [-1])
        if steps not in wanted or any(value is not block.args[0] for value, _ in moving) or op in frame.neighbours:
            return False
    return True


def emit_store(frame: Frame, op: Op) -> None:
    memory, base, terms = _terms(frame, op)
    entry, step = frame.entries[op.operands[0]], _lane_stride(frame, terms)
    assert not isinstance(entry, Run)
    values = vectors(frame, entry) if step is not None else per_part(frame, entry)
    elements = [rounded_to(frame, value, memory, op) for value in values]
    if step is not None and _is_beside(frame, op, step):
        _store_beside(frame, op, elements, step)
        return
    for part, element in enumerate(elements):
        store_part(frame, memory, _address(frame, memory, base, terms, part), step, element)


def rounded_to(frame: Frame, value: Value, memory: Memory, op: Op) -> Value:
    """The element that a store has, as it stands in memory."""
    type_ = op.operands[1].type
    assert isinstance(type_, MemRefType)
    return rounded(frame, value, memory, type_.policy, _dtype(op.operands[0]))


def rounded(frame: Frame, value: Value, memory: Memory, policy: Policy, compute: DType) -> Value:
    """The element as it stands in memory: rounded once, under the policy of the memory."""
    if policy.saturate:
        value = saturate(frame.b, value, memory.dtype)
    if memory.dtype not in NARROW or compute != F32:
        value = emit_cast(frame.b, value, compute, memory.dtype)
    return narrow(frame.b, value, memory.dtype)


def store_part(frame: Frame, memory: Memory, address: Value, step: Value | None, value: Value) -> None:
    """One vector, or one element: contiguous, or `step` elements apart."""
    b = frame.b
    if frame.mask is not None and value.type.lanes:
        b.intrinsic("llvm.masked.store", VOID, [value, address, frame.mask], [value.type, address.type])
        return
    if step is None or step.number == 1 or not value.type.lanes:
        b.store(value, address, align_of(memory))
        return
    if frame.target.has_masks and step.number is not None and 1 < step.number <= MOST_APART:
        _store_apart(b, memory, address, step.number, value)
        return
    for lane in range(value.type.lanes):
        place = b.gep(memory.element, address, b.mul(step, const_i64(lane)))
        b.store(b.extract(value, lane), place, align_of(memory))


def _store_apart(b: Builder, memory: Memory, address: Value, step: int, value: Value) -> None:
    """A vector whose lanes go a few elements apart, by stores that leave out what lies between."""
    lanes = value.type.lanes
    for start in range(0, step * lanes, lanes):
        places = range(start, start + lanes)
        if sum(place % step == 0 for place in places) == 1:  # Note [A mask of one lane]
            own = next(place for place in places if place % step == 0)
            b.store(b.extract(value, own // step), b.gep(memory.element, address, const_i64(own)), align_of(memory))
            continue
        spread = b.shuffle(value, value, [min(place // step, lanes - 1) for place in places])
        mask = const_vector([const_int(I1, int(place % step == 0)) for place in places])
        place = b.gep(memory.element, address, const_i64(start))
        b.intrinsic("llvm.masked.store", VOID, [spread, place, mask], [value.type, place.type])


def align_of(memory: Memory) -> int:
    """Bytes on which an element stands."""
    return memory.element.bits // 8


def _dtype(value: IRValue) -> DType:
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


def _lane_stride(frame: Frame, terms: Terms) -> Value | None:
    """How far apart neighbouring lanes are in memory; none where all lanes are at one place."""
    runs = [stride for term, stride in terms if isinstance(term, Run)]
    if not runs:
        return None
    total = runs[0]
    for stride in runs[1:]:
        total = frame.b.add(total, stride)
    return total


def _address(frame: Frame, memory: Memory, base: Value, terms: Terms, part: int) -> Value:
    """Where a part begins: what may stay the same in the innermost loop first, so that LLVM can move it out, then the
    running index, then the part's own offset, which folds into the instruction, as that of a place in a line does."""
    b, steady, running, ahead, line = frame.b, *[const_i64(0)] * 4
    for term, stride in terms:
        match term:
            case Line():
                line = term.offset
            case Run():
                running = b.add(running, b.mul(term.base, stride))
                ahead = b.add(ahead, b.mul(const_i64(term.offsets[part]), stride))
            case Lanes():
                steady = b.add(steady, b.mul(term.parts[part], stride))
            case _:
                steady = b.add(steady, b.mul(term, stride))
    for offset in (steady, running, ahead, line):
        base = b.gep(memory.element, base, offset)
    return base
