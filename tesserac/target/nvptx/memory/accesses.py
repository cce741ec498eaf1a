"""Loads and stores of fragments.

A block inside its axes at an aligned place is read and written in whole vectors. Elsewhere each element is tested.
Which of the two it is, all threads that share the block agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.schedule.rows.row_lengths import row_blocks, row_parts
from tesserac.target import flow
from tesserac.target.cpu.elements.registers import wrap_nibble
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, VOID, LType, Value, const_i64, const_int, vector, zero
from tesserac.target.nvptx.context import Axis, Context, Memory, memory_type
from tesserac.target.nvptx.memory.arrivals import come_later, load_words
from tesserac.target.nvptx.memory.prefetch import emit_ahead
from tesserac.target.nvptx.registers import control
from tesserac.target.nvptx.registers.fragments import shuffle, word_of
from tesserac.tile.gpu.model.layout import VECTOR_BYTES, Layout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment
from tesserac.tile.gpu.rows.held_rows import LOOPS
from tesserac.types.dtype import BOOL, DType


class Place:
    """A block of memory: where it starts, how its dims run, where it ends."""

    def __init__(self, ctx: Context, mem: Memory, at: Sequence[IRValue]) -> None:
        self.ctx = ctx
        self.memory = mem
        self.element = memory_type(mem.type.dtype)
        self.bytes = self.element.bits // 8
        self.axes: list[Axis] = []
        self.strides: list[Value] = []
        self.exchanged = False
        self.last = constant_index(at[-1]) if at else None
        b = ctx.b
        self.start = const_i64(0)
        for value, stride in zip(at, mem.strides, strict=True):
            if value in ctx.axes:
                axis = ctx.axes[value]
                self.axes.append(axis)
                self.strides.append(stride)
                self.start = b.add(self.start, b.mul(axis.start, stride))
            else:
                self.start = b.add(self.start, b.mul(ctx.indices[value], stride))

    def exchange(self) -> None:
        """Sees a block of two dims with its columns as rows."""
        self.axes.reverse()
        self.strides.reverse()
        self.exchanged = not self.exchanged

    def by_neighbours(self) -> None:
        """Sees a block of two dims so that neighbours along the last one are neighbours in memory, where it can."""
        if len(self.strides) == 2 and self.strides[0].number == 1 and self.strides[1].number != 1:
            self.exchange()

    def inside(self) -> list[Value]:
        """Conditions under which every element of the block exists; equal in all threads."""
        b, cut = self.ctx.b, [axis for axis in self.axes if not axis.whole]
        return [b.icmp("sle", b.add(axis.start, const_i64(axis.block)), axis.stop) for axis in cut]

    def aligned(self, width: int) -> list[Value]:
        """Conditions under which vectors of `width` elements along the last dim are aligned; equal in all threads."""
        if width == 1:
            return []
        b, size = self.ctx.b, width * self.bytes
        if self.memory.type.space == "shared":  # each begins where a vector may
            address = b.mul(self.start, const_i64(self.bytes))
        else:
            address = b.cast("ptrtoint", b.gep(self.element, self.memory.pointer, self.start), I64)
        places = [address, *(b.mul(s, const_i64(self.bytes)) for s in self.strides[:-1])]
        tests = [b.binary("and", p, const_i64(size - 1)) for p in places]
        return [b.icmp("eq", t, const_i64(0)) for t in tests]

    def ends_whole(self, width: int) -> list[Value]:
        """Conditions under which there are elements, and the last dim ends where a vector does; equal in all
        threads."""
        b = self.ctx.b
        left = b.binary("and", b.sub(self.axes[-1].stop, self.axes[-1].start), const_i64(width - 1))
        some = [b.icmp("slt", axis.start, axis.stop) for axis in self.axes]
        return [b.icmp("eq", left, const_i64(0)), *some]

    def alignment(self) -> int:
        """Bytes at which each element of the block begins: the first part of a number begins where the number does."""
        first = self.last is not None and self.last % 2 == 0
        return 2 * self.bytes if self.memory.paired and first else self.bytes

    def vector_width(self, layout: Layout) -> int:
        if not self.strides or self.strides[-1].number != 1:
            return 1
        return min(layout.vector(len(self.strides) - 1), VECTOR_BYTES // self.bytes)


class Elements:
    """The elements of one thread: their addresses and whether they exist."""

    def __init__(self, place: Place, layout: Layout) -> None:
        """`layout` is that of the block as it is held."""
        self.place = place
        mine = place.ctx.coordinates(layout)
        if place.exchanged:
            layout, mine = layout.project((1, 0)), {1 - dim: value for dim, value in mine.items()}
        self.layout = layout
        self.b = place.ctx.b
        offset = place.start
        self.room: list[Value] = []
        for dim, (axis, stride) in enumerate(zip(place.axes, place.strides, strict=True)):
            here = mine.get(dim, const_i64(0))
            offset = self.b.add(offset, self.b.mul(here, stride))
            self.room.append(place.ctx.room(axis, here))
        self.base = self._first = self.b.gep(place.element, place.memory.pointer, offset)
        self._rooms = list(self.room)
        self._tests: dict[tuple[int, int], Value] = {}

    def address(self, register: int) -> Value:
        offset = const_i64(0)
        for dim, step in self.layout.offsets[register].items():
            offset = self.b.add(offset, self.b.mul(self.place.strides[dim], const_i64(step)))
        return self.b.gep(self.place.element, self.base, offset)

    def exists(self, register: int) -> Value:
        steps = self.layout.offsets[register]
        return all_of(self.place.ctx, [self._below(d, steps.get(d, 0)) for d in range(len(self.room))])

    def forget(self) -> None:
        """Tests made so far, and the address, are of another branch."""
        self._tests.clear()
        self.base = self._first
        self.room = [self.place.ctx.apart(room) for room in self._rooms]

    def stand_apart(self) -> None:
        """The address as a value of this branch alone. Loads of vectors, which LLVM takes apart, would else be merged
        with those of single elements in the other branch; an empty instruction behind them keeps it from doing so
        there."""
        self.base = self.b.asm(self._first.type, "mov.b64 $0, $1;", "=l,l", [self._first], pure=True)

    def _below(self, dim: int, step: int) -> Value:
        if (dim, step) not in self._tests:
            self._tests[dim, step] = self.b.icmp("sgt", self.room[dim], const_int(I32, step))
        return self._tests[dim, step]


def all_of(ctx: Context, conditions: Sequence[Value]) -> Value:
    total = const_int(I1, 1)
    for condition in conditions:
        total = condition if total.number is not None else ctx.b.binary("and", total, condition)
    return total


def emit_load(ctx: Context, op: Op) -> None:
    ty, mem = fragment(op.result), ctx.memories[op.operands[0]]
    place = Place(ctx, mem, op.operands[1:])
    place.by_neighbours()
    elements = Elements(place, ty.layout)
    width = place.vector_width(elements.layout)
    max_width = width
    inside = all_of(ctx, place.inside())
    simple = all_of(ctx, [inside, *place.aligned(width)])
    attributes = ctx.invariant() if mem.constant else ""
    in_words = width > 1 and not simple.number and place.element.is_float and place.bytes == WORD // 2

    def whole(width: int = width) -> list[Value]:
        values: list[Value] = []
        branches = width > 1 and not simple.number
        if branches:
            elements.stand_apart()
        for register in range(0, ty.layout.count, width):
            address, alignment = elements.address(register), place.alignment()
            values += _load_vector(ctx, address, ty.dtype, width, attributes, alignment, in_words)
        if branches:
            ctx.b.asm(VOID, "", "", [])
        return values

    def tested(width: int = 1) -> list[Value]:
        elements.forget()
        tests, is_row = range(0, ty.layout.count, width), _is_short_row(place, max_width)
        return [v for r in tests for v in _load_tested(ctx, elements, r, ty.dtype, attributes, width, is_row)]

    def partly() -> list[Value]:
        if not _tests_vectors(place, width):
            return tested()
        return _in_vectors(place, width, tested, lambda: _load_to_the_end(ctx, elements, ty, attributes, width))

    def one_by_one() -> list[Value]:
        elements.forget()
        return whole(1)

    rest = _unless_whole(place, width, inside, one_by_one, partly)
    if in_words:
        came = _either(place, width, simple, whole, lambda: control.paired(ctx, rest()))
        come_later(ctx, op.result, came, [place.element] * ty.layout.count)
    else:
        ctx.fragments[op.result] = _either(place, width, simple, whole, rest)
    emit_ahead(ctx, op, place)


Way = Callable[[], list[Value]]


def _in_vectors(
    place: Place, width: int, tested: Callable[[int], list[Value]], to_the_end: Way | None = None
) -> list[Value]:
    """A test for each vector where rows are made of such, or of words where there are several rows and each begins
    with one. What all rows share is read in vectors `to_the_end` also where that lies inside one."""
    b, aligned = place.ctx.b, all_of(place.ctx, place.aligned(width))

    def narrower() -> list[Value]:
        if len(place.axes) > 1 and width * place.bytes > WORD > place.bytes:
            return _in_vectors(place, WORD // place.bytes, tested)
        if to_the_end is not None and _is_shared(place, width):
            return flow.choose(b, aligned, to_the_end, lambda: tested(1))
        return tested(1)

    fits = all_of(place.ctx, [aligned, *place.ends_whole(width)])
    return flow.choose(b, fits, lambda: tested(width), narrower)


def _either(place: Place, width: int, simple: Value, whole: Way, partly: Way) -> list[Value]:
    """A block as a whole where it is simple, or in part."""
    if simple.number:
        return whole()
    tests_all = _is_short_row(place, width) and not row_parts(place.ctx.kernel)
    return partly() if tests_all else flow.choose(place.ctx.b, simple, whole, partly)


def _unless_whole(place: Place, width: int, inside: Value, one_by_one: Way, partly: Way) -> Way:
    """The part of a row that vectors do not fit: where all of it is there, words are read one by one without a test."""
    if width == 1 or len(place.axes) > 1 or place.bytes < WORD or not _goes_over_rows(place.ctx.kernel):
        return partly
    return lambda: flow.choose(place.ctx.b, inside, one_by_one, partly)


def _is_short_row(place: Place, width: int) -> bool:
    """Whether a block is a row of which only a run knows the length, or the end of one: most often it does not fill the
    block, so that no code is for those that do, unless one warp holds the row."""
    known = row_blocks(place.ctx.kernel) is not None
    return width > 1 and len(place.axes) == 1 and known and not place.axes[0].whole


def _is_shared(place: Place, width: int) -> bool:
    """Whether a block is of a vector that all rows read, such as a scale: it begins where a vector does, however long
    rows are, and only its end may lie inside one. Number by number, layer norm with a scale and a bias of rows of 1001
    f32 took 97 us on an H200 where a copy takes 68."""
    return len(place.memory.type.dims) == 1 and place.bytes >= WORD and _is_short_row(place, width)


def _tests_vectors(place: Place, width: int) -> bool:
    """Whether blocks often reach beyond the end of a dim while all their vectors are whole: those of several dims, and
    those of a dim that is known to end where a vector does."""
    if _is_short_row(place, width):
        return True
    if len(place.axes) > 1:
        return width >= MANY_ELEMENTS
    end = place.axes[-1].stop.number if place.axes else None
    return width > 1 and isinstance(end, int) and end % width == 0


def _goes_over_rows(kernel: Op) -> bool:
    """Whether teams go over rows that no thread holds."""
    names = {op.name for op in kernel.body.ops}
    return "gpu.team" in names and bool(names & set(LOOPS))


MANY_ELEMENTS, WORD = 4, 4


def _load_vector(
    ctx: Context, address: Value, dtype: DType, width: int, attributes: str, alignment: int = 0, in_words: bool = False
) -> list[Value]:
    element = memory_type(dtype)
    size = element.bits // 8
    if in_words and width > 1:
        return load_words(ctx, address, size * width, attributes)
    if width == 1:
        return [to_register(ctx, ctx.b.load(element, address, alignment or size, attributes), dtype)]
    loaded = ctx.b.load(vector(element, width), address, size * width, attributes)
    return _taken_apart(ctx, loaded, dtype, width)


def _taken_apart(ctx: Context, loaded: Value, dtype: DType, width: int) -> list[Value]:
    return [to_register(ctx, ctx.b.extract(loaded, i), dtype) for i in range(width)]


def _load_tested(
    ctx: Context, elements: Elements, register: int, dtype: DType, attributes: str, width: int, is_row: bool
) -> list[Value]:
    """Elements that do not exist are zero. Those of a row are not read at all, which costs one instruction more than a
    load; elsewhere the load goes to the start of memory instead."""
    exists, place = elements.exists(register), elements.place
    if width > 1 or is_row:
        ty = vector(memory_type(dtype), width) if width > 1 else memory_type(dtype)
        read = lambda: [ctx.b.load(ty, elements.address(register), width * place.bytes, attributes)]  # noqa: E731
        (loaded,) = flow.choose(ctx.b, exists, read, lambda: [zero(ty)])
        return _taken_apart(ctx, loaded, dtype, width) if width > 1 else [to_register(ctx, loaded, dtype)]
    address = ctx.b.select(exists, elements.address(register), place.memory.pointer)
    loads = _load_vector(ctx, address, dtype, width, attributes)
    return [ctx.b.select(exists, value, zero(value.type)) for value in loads]


def _load_to_the_end(ctx: Context, elements: Elements, ty: FragmentType, attributes: str, width: int) -> list[Value]:
    """Vectors that are all there are read at once, and of the last one what there is of it. Both are tests of their
    own: one inside the other would be a jump."""
    b, element, size = ctx.b, memory_type(ty.dtype), elements.place.bytes
    elements.forget()
    values: list[Value] = []
    for first in range(0, ty.layout.count, width):
        whole = elements.exists(first + width - 1)
        (loaded,) = _load_where(b, whole, vector(element, width), elements.address(first), width * size, attributes)
        values += [b.extract(loaded, place) for place in range(width)]
        for register in range(first, first + width - 1):
            there = b.binary("and", elements.exists(register), b.binary("xor", whole, const_int(I1, 1)))
            address, otherwise = elements.address(register), values[register]
            values[register : register + 1] = _load_where(b, there, element, address, size, attributes, otherwise)
    return [to_register(ctx, value, ty.dtype) for value in values]


def _load_where(
    b: Builder, there: Value, ty: LType, address: Value, size: int, attributes: str, otherwise: Value | None = None
) -> list[Value]:
    """What an address has, or something else, or zeros."""
    return flow.choose(b, there, lambda: [b.load(ty, address, size, attributes)], lambda: [otherwise or zero(ty)])


def to_register(ctx: Context, value: Value, dtype: DType) -> Value:
    if dtype.is_nibble:
        return wrap_nibble(ctx.b, value, dtype)
    return ctx.b.icmp("ne", value, zero(value.type)) if dtype == BOOL else value


def to_memory(ctx: Context, value: Value, dtype: DType) -> Value:
    if dtype.is_nibble:
        return ctx.b.binary("and", value, const_int(value.type, 0xF))
    return ctx.b.cast("zext", value, memory_type(dtype)) if dtype == BOOL else value


def emit_store(ctx: Context, op: Op) -> None:
    source, target, *at = op.operands
    ty, values = fragment(source), ctx.fragments[source]
    place = Place(ctx, ctx.memories[target], at)
    place.by_neighbours()
    elements = Elements(place, ty.layout)
    width = place.vector_width(elements.layout)
    inside = all_of(ctx, place.inside())
    simple = all_of(ctx, [inside, *place.aligned(width)])

    def whole(width: int = width) -> list[Value]:
        for register in range(0, ty.layout.count, width):
            group = [to_memory(ctx, v, ty.dtype) for v in values[register : register + width]]
            store_vector(ctx, group, elements.address(register), place.alignment() if width == 1 else place.bytes)
        return []

    def tested(width: int = 1) -> list[Value]:
        elements.forget()
        for register in range(0, ty.layout.count, width):
            group = [to_memory(ctx, v, ty.dtype) for v in values[register : register + width]]
            exists = elements.exists(register)
            flow.if_then(ctx.b, exists, _storing(ctx, group, elements.address(register), place.bytes))
        return []

    def partly() -> list[Value]:
        if not _tests_vectors(place, width):
            return tested()
        return _in_vectors(place, width, tested)

    def one_by_one() -> list[Value]:
        elements.forget()
        return whole(1)

    def write() -> None:
        _either(place, width, simple, whole, _unless_whole(place, width, inside, one_by_one, partly))

    if _deals_words(elements.layout, len(place.strides) - 1, place.bytes) and width == 2:
        paired = all_of(ctx, [*place.inside(), *place.aligned(2 * width)])
        flow.if_else(ctx.b, paired, lambda: _store_pairs(ctx, values, elements), write)
        return
    writes = owner(ctx, ty.layout, op.attrs.get("team"))
    write() if writes.number else flow.if_then(ctx.b, writes, write)


def _deals_words(layout: Layout, dim: int, size: int) -> bool:
    """Whether lanes hold words of 16-bit numbers along the last dim in turns, as products give them, and no copies."""
    bits = (*layout.lanes, *layout.warps)
    turns = layout.registers[:1] == ((dim, 1),) and layout.lanes[0] == (dim, 2) and (dim, _PIECE) in layout.registers
    return size == 2 and turns and None not in bits


_PIECE = 8
"""Elements that four lanes hold in turns: half of what memory moves at once."""


def _store_pairs(ctx: Context, values: list[Value], elements: Elements) -> None:
    """Two lanes exchange words, so that each has two neighbours: the even one of this piece, the odd one of the next.
    Four lanes then write 32 bytes in a row, which is what memory moves."""
    b, layout = ctx.b, elements.layout
    dim = len(elements.place.strides) - 1
    odd = b.icmp("ne", b.binary("and", ctx.lane, const_int(I32, 1)), const_int(I32, 0))
    forward = b.select(odd, const_i64(_PIECE - 2), const_i64(0))
    for register in range(0, layout.count, 2):
        offset = layout.offsets[register]
        if offset.get(dim, 0) & _PIECE:
            continue
        following = layout.register_at({**offset, dim: offset.get(dim, 0) + _PIECE})
        mine, next_ = (word_of(ctx, values[r : r + 2]) for r in (register, following))
        other = shuffle(ctx, b.select(odd, mine, next_), 1)
        pair = [b.select(odd, other, mine), b.select(odd, next_, other)]
        store_vector(ctx, pair, b.gep(elements.place.element, elements.address(register), forward), 4)


def _storing(ctx: Context, values: list[Value], address: Value, size: int) -> Callable[[], None]:
    return lambda: store_vector(ctx, values, address, size)


def store_vector(ctx: Context, values: list[Value], address: Value, size: int) -> None:
    if len(values) == 1:
        ctx.b.store(values[0], address, size)
        return
    if values[0].type.is_float and values[0].type.bits == 16:  # as they lie in registers
        words = [word_of(ctx, values[i : i + 2]) for i in range(0, len(values), 2)]
        store_vector(ctx, words, address, 2 * size)
        return
    whole = Value(vector(values[0].type, len(values)), "poison")
    for i, value in enumerate(values):
        whole = ctx.b.insert(whole, value, i)
    ctx.b.store(whole, address, size * len(values))


def owner(ctx: Context, layout: Layout, team: object) -> Value:
    """Whether this thread is the one of those with copies that writes."""
    bits = (*layout.lanes, *layout.warps)
    if isinstance(team, int):
        bits = bits[: team.bit_length() - 1]
    copies = sum(1 << i for i, bit in enumerate(bits) if bit is None)
    if not copies:
        return const_int(I1, 1)
    return ctx.b.icmp("eq", ctx.b.binary("and", ctx.thread, const_int(I32, copies)), const_int(I32, 0))
