"""Reads and writes at computed places: each is checked, and a bad one never touches memory.

An index that is the same in all lanes is checked once, and the element or vector behind it is loaded as usual; indices
that differ between lanes are checked and read lane by lane, or, where an instruction reads a vector of addresses,
checked and added up as vectors. A bad index is put into its status word and reads zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.forms import COMBINE
from tesserac.ir.types import INDEX, ScalarType
from tesserac.target.cpu.elements.accesses import align_of, load_part, rounded_to, store_part, widened
from tesserac.target.cpu.elements.frame import Entry, Frame, Lanes, Memory, Run, per_part, vectors
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.entry.system import machine_of
from tesserac.target.flow import choose, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import (
    I1,
    I32,
    I64,
    PTR,
    LType,
    Value,
    array,
    const_i64,
    const_int,
    const_vector,
    undefined,
    vector,
    zero,
)
from tesserac.tile.cpu.dialect import gather_coordinates, scatter_coordinates

ZEROS, ZERO_WORDS = "tessera.zeros", 16
"""Memory that is read in place of an element that does not exist; as long as the longest vector."""
NO_BAD_INDEX = -(2**63)
"""What a status word holds as long as no index was bad."""
FAR = 2**31
"""Elements that an offset of 32 bits does not reach."""
LEAST_GATHERED = 32
"""Bits of an element that an instruction reads by a vector of addresses; shorter ones are read one by one."""


@dataclass(frozen=True)
class Table:
    """Memory at computed places: which coordinates are computed, where bad ones go, whether negative ones wrap."""

    memory: Memory
    computed: Sequence[bool]
    words: Value | None
    wraps: bool


def emit_gather(frame: Frame, op: Op) -> Entry:
    at, status = gather_coordinates(op)
    words = None if status is None else frame.memories[status].start
    computed = [v.type != INDEX for v in at]
    table = Table(frame.memories[op.operands[0]], computed, words, op.attrs["wraps"] is True)
    entries = [frame.entries[v] for v in at]
    type_ = op.result.type
    assert isinstance(type_, ScalarType)
    if all(isinstance(entry, Value) for entry in entries):
        element = _element(frame, table, [entry for entry in entries if isinstance(entry, Value)])
        return widened(frame, element, table.memory, type_.dtype)
    parts = [_part(frame, table, entries, part) for part in range(frame.mode.parts)]
    return Lanes(tuple(widened(frame, part, table.memory, type_.dtype) for part in parts))


def _part(frame: Frame, table: Table, entries: Sequence[Entry], part: int) -> Value:
    """One vector; one element where nothing differs between its lanes."""
    memory, first = table.memory, [_lane(frame, entry, part, 0) for entry in entries]
    varying = any(isinstance(entry, Lanes) and entry.parts[part].type.lanes for entry in entries)
    runs = [stride for entry, stride in zip(entries, memory.strides, strict=True) if isinstance(entry, Run)]
    if not frame.mode.lanes or not (varying or runs):
        return _element(frame, table, first)
    if not varying:
        return _vector(frame, table, first, reduce(frame.b.add, runs))
    if machine_of(frame.module.triple) == "x86_64":
        return _gathered(frame, table, entries, part)
    whole = undefined(vector(memory.element, frame.mode.lanes))
    for lane in range(frame.mode.lanes):
        places = [_lane(frame, entry, part, lane) for entry in entries]
        whole = frame.b.insert(whole, _element(frame, table, places), lane)
    return whole


def _gathered(frame: Frame, table: Table, entries: Sequence[Entry], part: int) -> Value:
    """A vector of elements, each at a place of its own, behind what all lanes share. Offsets have 32 bits wherever no
    element is further away: an instruction then reads twice as many."""
    b, memory, shared, apart = frame.b, table.memory, const_i64(0), list[tuple[Value, Value]]()
    good, number, reach = None, 0, const_i64(0)
    for entry, computed, size, stride in zip(entries, table.computed, memory.dims, memory.strides, strict=True):
        same, rest = (const_i64(0), entry) if computed else _shared(entry)
        shared = b.add(shared, b.mul(same, stride))
        if rest is None:
            continue
        found = _lanes(frame, rest, part)
        if computed and table.words is not None:
            word = b.gep(I64, table.words, number)
            found, fits = checked(frame, table.wraps, found, b.splat(size, frame.mode.lanes), word)
            good = fits if good is None else b.binary("and", good, fits)
        number += computed
        apart.append((found, stride))
        reach = b.add(reach, _distance(b, size, stride))
    read = partial(_read_lanes, frame, memory, b.gep(memory.element, memory.start, shared), apart, good)
    if reach.number is not None:
        return read(I32 if reach.number < FAR else I64)
    return choose(b, b.icmp("ult", reach, const_i64(FAR)), lambda: [read(I32)], lambda: [read(I64)])[0]


def _shared(entry: Entry) -> tuple[Value, Entry | None]:
    """What an index is in all lanes, and what it is behind that in each."""
    match entry:
        case Run():
            return entry.base, Run(const_i64(0), entry.offsets)
        case Lanes():
            return const_i64(0), entry
    return entry, None


def _distance(b: Builder, size: Value, stride: Value) -> Value:
    """Elements between the first and the last along a dim, at most."""
    forwards = b.mul(size, stride)
    return b.maximum_int(forwards, b.sub(const_i64(0), forwards))


def _read_lanes(
    frame: Frame, memory: Memory, start: Value, apart: Sequence[tuple[Value, Value]], good: Value | None, bits: LType
) -> Value:
    """Elements behind `start`, those that are not good as zeros, by offsets of so many bits."""
    b, lanes = frame.b, frame.mode.lanes
    place = const_int(vector(bits, lanes), 0)
    for index, stride in apart:
        step = b.cast("trunc", stride, bits) if stride.number is None else const_int(bits, stride.number)
        place = b.add(place, b.mul(b.cast("trunc", index, place.type), b.splat(step, lanes)))
    addresses, whole = b.addresses(memory.element, start, place), vector(memory.element, lanes)
    which = const_int(vector(I1, lanes), 1)
    if good is not None and memory.element.bits >= LEAST_GATHERED:
        which = good
    elif good is not None:
        addresses = b.select(good, addresses, b.splat(_zeros(frame), lanes))
    operands = [addresses, which, zero(whole)]
    return b.intrinsic("llvm.masked.gather", whole, operands, [whole, addresses.type])


def _lanes(frame: Frame, entry: Entry, part: int) -> Value:
    """What a coordinate is in all lanes of a part."""
    b, lanes = frame.b, frame.mode.lanes
    match entry:
        case Run():
            ascending = const_vector([const_i64(entry.offsets[part] + lane) for lane in range(lanes)])
            return b.binary("add", b.splat(entry.base, lanes), ascending)
        case Lanes():
            value = entry.parts[part]
            return value if value.type.lanes else b.splat(value, lanes)
    return b.splat(entry, lanes)


def _lane(frame: Frame, entry: Entry, part: int, lane: int) -> Value:
    """What a coordinate is in one lane of a part."""
    match entry:
        case Run():
            return frame.b.add(entry.base, const_i64(entry.offsets[part] + lane))
        case Lanes():
            value = entry.parts[part]
            return frame.b.extract(value, lane) if value.type.lanes else value
    return entry


def _element(frame: Frame, table: Table, places: Sequence[Value]) -> Value:
    address, _ = _address(frame, table, places)
    return frame.b.load(table.memory.element, address, align_of(table.memory))


def _vector(frame: Frame, table: Table, places: Sequence[Value], step: Value) -> Value:
    """Lanes `step` elements apart, behind indices that all of them share."""
    b, memory, lanes = frame.b, table.memory, frame.mode.lanes
    address, good = _address(frame, table, places)
    if step.number == 1:
        return b.load(vector(memory.element, lanes), address, align_of(memory))
    if good is not None:
        step = b.select(good, step, const_i64(0))
    whole = undefined(vector(memory.element, lanes))
    for lane in range(lanes):
        place = b.gep(memory.element, address, b.mul(step, const_i64(lane)))
        whole = b.insert(whole, b.load(memory.element, place, align_of(memory)), lane)
    return whole


def emit_scatter(frame: Frame, op: Op) -> None:
    """Writes behind indices that are the same in all lanes; an element without a place is not written."""
    at, status = scatter_coordinates(op)
    words = None if status is None else frame.memories[status].start
    computed = [v.type != INDEX for v in at]
    table = Table(frame.memories[op.operands[1]], computed, words, op.attrs["wraps"] is True)
    entries, value = [frame.entries[v] for v in at], frame.entries[op.operands[0]]
    runs = [stride for entry, stride in zip(entries, table.memory.strides, strict=True) if isinstance(entry, Run)]
    step = reduce(frame.b.add, runs) if runs else None
    assert not isinstance(value, Run)
    for part, element in enumerate(vectors(frame, value) if runs else per_part(frame, value)):
        places = [_lane(frame, entry, part, 0) for entry in entries]
        _write(frame, table, places, step, element, op)


def _write(frame: Frame, table: Table, places: Sequence[Value], step: Value | None, element: Value, op: Op) -> None:
    b, memory = frame.b, table.memory
    place, good = table_place(frame, table, places, tell=False)

    def write() -> Sequence[Value]:
        address = b.gep(memory.element, memory.start, place)
        value = _folded(frame, memory, address, step, element, op)
        store_part(frame, memory, address, step, rounded_to(frame, value, memory, op))
        return []

    def told() -> Sequence[Value]:
        table_place(frame, table, places)
        return []

    if good is None:
        write()
    else:
        choose(b, b.binary("xor", good, const_int(I1, 1)), told, write, rare=True)


def _folded(frame: Frame, memory: Memory, address: Value, step: Value | None, element: Value, op: Op) -> Value:
    """The element, or its fold with what stands there."""
    kind, type_ = str(op.attrs["kind"]), op.operands[0].type
    if kind == "set":
        return element
    assert isinstance(type_, ScalarType)
    held = load_part(frame, memory, address, step if element.type.lanes else None)
    name = COMBINE[kind].removeprefix("scalar.")
    return emit_scalar(frame.b, name, type_.dtype, [widened(frame, held, memory, type_.dtype), element])


def _address(frame: Frame, table: Table, places: Sequence[Value]) -> tuple[Value, Value | None]:
    """Where the element stands, or zeros where an index is bad; and whether all are good, if that is not known."""
    place, good = table_place(frame, table, places)
    address = frame.b.gep(table.memory.element, table.memory.start, place)
    return (address if good is None else frame.b.select(good, address, _zeros(frame))), good


def table_place(
    frame: Frame, table: Table, places: Sequence[Value], *, tell: bool = True
) -> tuple[Value, Value | None]:
    """The place in elements, and whether all indices are good; those that are not go to their words, if wanted."""
    b, memory, good = frame.b, table.memory, None
    lanes = places[0].type.lanes if places else 0
    place, number = b.splat(const_i64(0), lanes), 0
    for index, computed, size, stride in zip(places, table.computed, memory.dims, memory.strides, strict=True):
        found = index
        if computed and table.words is not None:
            word = b.gep(I64, table.words, number) if tell else None
            found, fits = checked(frame, table.wraps, index, b.splat(size, lanes), word)
            good = fits if good is None else b.binary("and", good, fits)
        number += computed
        place = b.add(place, b.mul(found, b.splat(stride, lanes)))
    return place, good


def checked(frame: Frame, wraps: bool, index: Value, size: Value, word: Value | None) -> tuple[Value, Value]:
    """The index counted from the start, and whether there is such an element; if not, it is put into its word."""
    b, found = frame.b, index
    if wraps:
        found = b.select(b.icmp("slt", index, const_int(index.type, 0)), b.add(index, size), index)
    good = b.icmp("ult", found, size)
    if word is None:
        return found, good
    bad = b.icmp("uge", found, size)
    if not index.type.lanes:
        if_then(b, bad, lambda: tell_bad(b, index, word))
        return found, good
    any_bad = b.intrinsic("llvm.vector.reduce.or", I1, [bad], [bad.type])
    if_then(b, any_bad, lambda: tell_bad(b, _one_of(b, bad, index), word))
    return found, good


def _one_of(b: Builder, which: Value, index: Value) -> Value:
    """The largest of those indices that are meant."""
    meant = b.select(which, index, const_int(index.type, NO_BAD_INDEX))
    return b.intrinsic("llvm.vector.reduce.smax", I64, [meant], [meant.type])


def tell_bad(b: Builder, index: Value, word: Value) -> None:
    """Puts a bad index into its word."""
    b.store(b.maximum_int(index, const_i64(NO_BAD_INDEX + 1)), word, 8)


def _zeros(frame: Frame) -> Value:
    if frame.module.has_variable(ZEROS):
        return Value(PTR, f"@{ZEROS}")
    return frame.module.variable(ZEROS, array(I64, ZERO_WORDS), constant=True, align=64)
