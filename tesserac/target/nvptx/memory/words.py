"""Rows that begin in the middle of a word: loads and stores by words. See Note [Turned rows] of
`tile/gpu/rows/words.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.target import flow
from tesserac.target.llvm_types import I1, I32, I64, Value, const_i64, const_int, integer, vector, zero
from tesserac.target.nvptx.context import Context, Turn
from tesserac.target.nvptx.memory import accesses as memory
from tesserac.target.nvptx.memory.accesses import Place, all_of
from tesserac.target.nvptx.memory.prefetch import emit_ahead
from tesserac.target.nvptx.registers import control
from tesserac.target.nvptx.registers.fragments import word_of
from tesserac.tile.gpu.model.layout import REDUCE_LANES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment
from tesserac.tile.gpu.rows.held_rows import LOOPS
from tesserac.tile.gpu.rows.words import WORDS, row_load

WORD, HALF = 4, 2
FIRST_HALF = 0xFFFF


def emit_axis(ctx: Context, op: Op) -> None:
    control.emit_axis(ctx, op)
    if WORDS in op.attrs:
        load = row_load(op)
        assert load is not None
        place = Place(ctx, ctx.memories[load.operands[0]], load.operands[1:])
        ctx.axes[op.result] = replace(ctx.axes[op.result], turn=_turn(place))


def _turn(place: Place) -> Turn:
    """The first and the last row of a tensor are not turned: a word of theirs may reach beyond its memory."""
    b, axis, mem = place.ctx.b, place.axes[0], place.memory
    row = b.sub(place.start, axis.start)
    last = const_i64(0)
    for size, stride in zip(mem.type.dims[:-1], mem.strides, strict=False):
        last = b.add(last, b.mul(b.sub(place.ctx.dim(size), const_i64(1)), stride))
    between = b.binary("and", b.icmp("sgt", row, const_i64(0)), b.icmp("slt", row, last))
    return Turn(b.select(between, _parity(place), const_i64(0)), between)


def _parity(place: Place) -> Value:
    """1 where a block begins in the middle of a word."""
    b = place.ctx.b
    address = b.cast("ptrtoint", b.gep(place.element, place.memory.pointer, place.start), I64)
    return b.binary("and", b.binary("lshr", address, const_i64(1)), const_i64(1))


def emit_load(ctx: Context, op: Op) -> None:
    mem, *at = op.operands
    turn = _turned(ctx, at)
    if turn is None:
        memory.emit_load(ctx, op)
        return
    place, ty = Place(ctx, ctx.memories[mem], at), fragment(op.result)
    row = _Row(place, ty, turn)

    def in_words() -> list[Value]:
        return flow.choose(ctx.b, row.has_words(), row.load_words, row.load_each)

    def arrive() -> None:
        words = row.joined(came) if row.lags else came
        ctx.fragments[op.result] = control.unpaired(ctx, words, [place.element] * ty.layout.count)

    came = flow.choose(ctx.b, row.has_vectors(), row.load_vectors, in_words) if row.has_own_vectors else in_words()
    ctx.arriving.append(arrive)
    if not row.lags:
        ctx.arrive()
    emit_ahead(ctx, op, place)


def emit_store(ctx: Context, op: Op) -> None:
    source, target, *at = op.operands
    turn = _turned(ctx, at)
    if turn is None:
        memory.emit_store(ctx, op)
        return
    row, values = _Row(Place(ctx, ctx.memories[target], at), fragment(source), turn), ctx.fragments[source]

    def in_words() -> None:
        flow.if_else(ctx.b, row.has_words(), lambda: row.store_words(values), lambda: row.store_each(values))

    if row.has_own_vectors:
        flow.if_else(ctx.b, row.has_vectors(), lambda: row.store_vectors(values), in_words)
    else:
        in_words()


def _turned(ctx: Context, at: Sequence[IRValue]) -> Turn | None:
    return ctx.axes[at[-1]].turn if at and at[-1] in ctx.axes else None


SEVERAL, FEW = 3, 16
"""Loads of a row and of vectors that all rows share, and numbers of each that a thread has, at most, where it has
registers for words of one while it asks for the next: layer norm with a scale and a bias took 42.8 us for 45.8 on an
H200 with rows of 1024 bf16, with rows of 4096, of which a thread has 32, no less."""


def _reads_vectors(kernel: Op) -> bool:
    """Whether teams hold rows, and read several vectors besides, which they would wait for one by one."""
    ops = kernel.body.ops
    held = [fragment(op.result) for op in ops if op.name == "gpu.load" and fragment(op.result).shape]
    straight = not any(op.name in LOOPS for op in ops)
    return straight and len(held) >= SEVERAL and all(ty.layout.count <= FEW for ty in held)


def _writes_rows(kernel: Op) -> bool:
    return any(op.name == "gpu.store" and fragment(op.operands[0]).shape for op in kernel.body.ops)


Test = Callable[[int], Value]


_NOTHING = (const_int(I32, 0), const_int(I32, 0))
"""No word behind others, and no half of one that stands elsewhere."""


def _always(_: int) -> Value:
    return const_int(I1, 1)


class _Row:
    """What one thread has of a block of a row: words of two neighbours, by how many places they are behind the first
    half of the first of them, and how many places of the row there are from there on (`left`)."""

    def __init__(self, place: Place, ty: FragmentType, turn: Turn) -> None:
        ctx, b = place.ctx, place.ctx.b
        self.ctx, self.b, self.place, self.turn = ctx, b, place, turn
        self.axis = place.axes[0]
        self.here = ctx.coordinates(ty.layout).get(0, const_i64(0))
        self.seam = ctx.seam(turn, self.here)
        self.begin = b.sub(b.add(place.start, self.here), turn.by)
        self.left = b.add(ctx.room(self.axis, self.here), ctx.i32(turn.by))
        self.width = place.vector_width(ty.layout)
        self.lags = bool(row_parts(ctx.kernel)) or _reads_vectors(ctx.kernel)
        """Whether more is asked for before what came is read."""
        self.has_own_vectors = self.width > HALF or (self.lags and _writes_rows(ctx.kernel))
        """Whether rows that are not turned have code of their own: words of others are as good, but for registers."""
        self.steps = [offset.get(0, 0) for offset in ty.layout.offsets]

    def has_vectors(self) -> Value:
        """Whether the row is not turned, and made of whole vectors; equal in all threads."""
        straight = self.b.icmp("eq", self.turn.by, const_i64(0))
        return all_of(self.ctx, [straight, *self.place.aligned(self.width), *self.place.ends_whole(self.width)])

    def has_words(self) -> Value:
        """Whether its words lie as it is turned: those of one row for all rows, such as a scale, often do not."""
        return self.b.binary("and", self.turn.between, self.b.icmp("eq", _parity(self.place), self.turn.by))

    # --- loads: words, the one behind them all, and which half of it stands for that of the word before -------------

    def load_vectors(self) -> list[Value]:
        words = self._without_tests(self._load_vectors)
        return [*words, *_NOTHING] if self.lags else words

    def _load_vectors(self, is_there: Test) -> list[Value]:
        count = self.width // HALF
        return [word for step in self.steps[:: self.width] for word in self._read(step, count, is_there(step))]

    def load_words(self) -> list[Value]:
        return self._without_tests(self._load_words)

    def _load_words(self, is_there: Test) -> list[Value]:
        words = [self._read(step, 1, is_there(step))[0] for step in self.steps[::HALF]]
        behind = self.b.binary("and", self.seam, self._is_there(self.axis.block))
        came = [*words, *self._read(self.axis.block, 1, behind), self._halves()]
        return came if self.lags else self.joined(came)

    def joined(self, came: list[Value]) -> list[Value]:
        """The first half of a word at the seam is that of the word 64 places on."""
        *words, behind, halves = came
        held = dict(zip(self.steps[::HALF], words, strict=True))
        following = {step: held.get(step + REDUCE_LANES, behind) for step in held if step % REDUCE_LANES == 0}
        return [self._join(following.get(step, word), word, halves) for step, word in held.items()]

    def load_each(self) -> list[Value]:
        words = control.paired(self.ctx, [self._read_one(*element) for element in self._elements()])
        return [*words, *_NOTHING] if self.lags else words

    def _read(self, step: int, count: int, there: Value) -> list[Value]:
        """So many words, zeros where there are none."""
        ty = vector(I32, count) if count > 1 else I32
        attributes = self.ctx.invariant() if self.place.memory.constant else ""

        def read() -> list[Value]:
            return [self.b.load(ty, self._address(step), WORD * count, attributes)]

        (loaded,) = read() if there.number else flow.choose(self.b, there, read, lambda: [zero(ty)])
        return [self.b.extract(loaded, i) for i in range(count)] if count > 1 else [loaded]

    def _read_one(self, there: Value, address: Value) -> Value:
        element = self.place.element
        read = lambda: [self.b.load(element, address, HALF)]  # noqa: E731
        return flow.choose(self.b, there, read, lambda: [zero(element)])[0]

    # --- stores ------------------------------------------------------------------------------------------------------

    def store_vectors(self, values: Sequence[Value]) -> None:
        self._without_tests(lambda is_there: self._store_vectors(values, is_there))

    def _store_vectors(self, values: Sequence[Value], is_there: Test) -> list[Value]:
        for register in range(0, len(values), self.width):
            step = self.steps[register]
            self._write(self._words(values[register : register + self.width]), step, is_there(step))
        return []

    def store_words(self, values: Sequence[Value]) -> None:
        """Words of which both halves are of this block, then halves: the last element of the row, and at the seam the
        first and the last one of the block."""
        b, held = self.b, dict(zip(self.steps[::HALF], self._words(values), strict=True))
        before = {step: held.get(step - REDUCE_LANES, held[step]) for step in held if step % REDUCE_LANES == 0}
        lie = {step: self._join(before.get(step, word), word, self._halves()) for step, word in held.items()}

        def store(is_there: Test) -> list[Value]:
            self._store_words(lie, is_there)
            if is_there is not _always and not self.axis.whole:
                flow.if_then(b, self._ends_in_word(), lambda: self._store_last(lie))
            return []

        self._without_tests(store)
        flow.if_then(b, self.seam, lambda: self._store_ends(held))

    def _store_words(self, words: dict[int, Value], is_there: Test) -> None:
        inner = self.b.binary("xor", self.seam, const_int(I1, 1))
        for step, word in words.items():
            there = is_there(step + 1)
            self._write([word], step, there if step else self.b.binary("and", there, inner))

    def store_each(self, values: Sequence[Value]) -> None:
        for value, (there, address) in zip(values, self._elements(), strict=True):
            self._write_one(value, there, address)

    def _ends_in_word(self) -> Value:
        """Whether the row ends with the first half of a word that this thread may have: at the seam, not of the first,
        whose first half is not of this block."""
        b = self.b
        last = b.sub(self.left, const_int(I32, 1))
        others = const_int(I32, REDUCE_LANES - max(self.width, HALF) | 1)
        mine = b.icmp("eq", b.binary("and", last, others), const_int(I32, 0))
        least = b.select(self.seam, const_int(I32, 1), const_int(I32, 0))
        return b.binary("and", mine, b.icmp("sge", last, least))

    def _store_last(self, words: dict[int, Value]) -> None:
        for step, word in words.items():
            self._write_half(word, 0, step, self.b.icmp("eq", self.left, const_int(I32, step + 1)))

    def _store_ends(self, words: dict[int, Value]) -> None:
        end = self.axis.block
        self._write_half(words[0], 1, 1, self._is_there(1))
        self._write_half(words[end - REDUCE_LANES], 0, end, self._is_there(end))

    def _write(self, words: list[Value], step: int, there: Value) -> None:
        def write() -> None:
            memory.store_vector(self.ctx, words, self._address(step), WORD)

        write() if there.number else flow.if_then(self.b, there, write)

    def _write_half(self, word: Value, half: int, step: int, there: Value) -> None:
        shifted = self.b.binary("lshr", word, const_int(I32, 8 * HALF)) if half else word
        self._write_one(self.b.cast("trunc", shifted, integer(8 * HALF)), there, self._address(step))

    def _write_one(self, value: Value, there: Value, address: Value) -> None:
        flow.if_then(self.b, there, lambda: self.b.store(value, address, HALF))

    def _words(self, values: Sequence[Value]) -> list[Value]:
        return [word_of(self.ctx, values[i : i + HALF]) for i in range(0, len(values), HALF)]

    # --- both --------------------------------------------------------------------------------------------------------

    def _without_tests(self, move: Callable[[Test], list[Value]]) -> list[Value]:
        """Blocks that are all there have code of their own."""
        inside = all_of(self.ctx, self.place.inside())
        if inside.number:
            return move(_always)
        return flow.choose(self.b, inside, lambda: move(_always), lambda: move(self._is_there))

    def _halves(self) -> Value:
        """The bits of a word at the seam that are of another word."""
        return self.b.select(self.seam, const_int(I32, FIRST_HALF), const_int(I32, 0))

    def _join(self, first: Value, second: Value, halves: Value) -> Value:
        b = self.b
        if first is second:
            return second
        others = b.binary("xor", halves, const_int(I32, -1))
        return b.binary("or", b.binary("and", first, halves), b.binary("and", second, others))

    def _is_there(self, step: int) -> Value:
        """Whether the place so far behind the first half of this thread's first word is one of the row."""
        if self.axis.whole and step < self.axis.block - 1:
            return _always(step)
        return self.b.icmp("sgt", self.left, const_int(I32, step))

    def _address(self, step: int) -> Value:
        return self.b.gep(self.place.element, self._base(self.begin), const_i64(step))

    def _base(self, begin: Value) -> Value:
        return self.b.gep(self.place.element, self.place.memory.pointer, begin)

    def _elements(self) -> list[tuple[Value, Value]]:
        """Of each element, whether it exists and where it lies."""
        b, (first, other) = self.b, self.ctx.rooms(self.axis, self.here)
        last = b.add(self.place.start, const_i64(REDUCE_LANES - 1))
        seam, rest = self._base(b.select(self.seam, last, self.begin)), self._base(self.begin)
        places = [(rest, other) if step % REDUCE_LANES else (seam, first) for step in self.steps]
        return [
            (b.icmp("sgt", room, const_int(I32, step)), b.gep(self.place.element, base, const_i64(step)))
            for step, (base, room) in zip(self.steps, places, strict=True)
        ]
