"""Where in a program's scratch stands what lay in memory between two kernels.

Enters: how the programs of one kernel store into the memory, and those of the next load from it. Leaves: a room, with
views under which both walk it, padded so that neighbouring threads seldom meet in a bank.
See Note [Digits of an address].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.index import dim_value
from tesserac.ir.types import AxisType, MemRefType
from tesserac.tile.dialect import APART, grid, memref_type
from tesserac.types.dims import ONE, ZERO, Dim

BANKS_BYTES = 128


class NotJoined(Exception):
    """The programs of two kernels do not agree on who takes what."""


@dataclass(frozen=True)
class Shared:
    """A digit of addresses that is the number of a program, or of a block of it."""

    position: Value
    stride: int
    size: Dim
    block: int


@dataclass(frozen=True)
class Walked:
    """A dim of a block: the axis that walks it, its stride, and how many there are of it in a program."""

    axis: Value
    stride: int
    size: int


@dataclass(frozen=True)
class Access:
    """One load or store: what of its address programs share out, what its block walks, and the constant rest."""

    op: Op
    shared: tuple[Shared, ...]
    walked: tuple[Walked, ...]
    constant: Dim
    digits: tuple[tuple[int, int], ...]
    """Stride and size of all that is not shared out, but for a `constant` that only a run knows."""

    @property
    def is_load(self) -> bool:
        return self.op.name == "tile.load"


def accesses(kernel: Op, memories: Sequence[Value]) -> list[Access]:
    """All accesses of a kernel to the memory. Raises NotJoined where one is not understood."""
    units = {position for position, size in zip(kernel.body.args, grid(kernel), strict=False) if size == ONE}
    sizes = dict(zip(kernel.body.args, grid(kernel), strict=False))
    found = []
    for op in kernel.body.ops:
        first = 1 if op.name == "tile.store" else 0
        if op.name in ("tile.load", "tile.store") and op.operands[first] in memories:
            if "groups" in op.attrs:
                raise NotJoined
            found.append(_Reader(op, first, units, sizes).access())
        elif any(value in memories for value in op.operands):
            raise NotJoined
    if not found:
        raise NotJoined
    return found


class _Reader:
    def __init__(self, op: Op, first: int, units: set[Value], sizes: dict[Value, Dim]) -> None:
        self.op, self.units, self.sizes = op, units, sizes
        self.mem, self.at = memref_type(op.operands[first]), op.operands[first + 1 :]
        self.shared: list[Shared] = []
        self.walked: list[Walked] = []
        self.digits: list[tuple[int, int]] = []
        self.constant = ZERO

    def access(self) -> Access:
        for dim, (coordinate, size, stride) in enumerate(zip(self.at, self.mem.dims, self.mem.strides, strict=True)):
            if isinstance(coordinate.type, AxisType):
                self._axis(coordinate, size, _number(stride))
            elif coordinate in self.sizes:
                self._position(coordinate, size, _number(stride))
            else:
                self._constant(coordinate, size, stride, is_offset=dim == 0 and stride == ONE)
        return Access(self.op, tuple(self.shared), tuple(self.walked), self.constant, tuple(self.digits))

    def _position(self, position: Value, size: Dim, stride: int) -> None:
        if position not in self.units:
            self.shared.append(Shared(position, stride, size, 1))

    def _constant(self, coordinate: Value, size: Dim, stride: Dim, is_offset: bool) -> None:
        made = coordinate.defining_op
        value = made.attrs.get("dim") if made is not None and made.name == "index.dim" else None
        if not isinstance(value, Dim):
            raise NotJoined
        self.constant = self.constant + value * stride
        if is_offset and size == value + 1:
            self.digits += [(value.constant, 2)] if value.constant else []
        elif stride.constant is not None:
            self.digits.append((stride.constant, _number(size)))

    def _axis(self, axis: Value, size: Dim, stride: int) -> None:
        made = axis.defining_op
        assert made is not None and isinstance(axis.type, AxisType)
        start, stop = (value.defining_op for value in made.operands)
        if start is None or stop is None or stop.attrs.get("dim") != size:
            raise NotJoined
        position = _multiplied(start, axis.type.block)
        if start.attrs.get("dim") == ZERO or position in self.units:
            self.walked.append(Walked(axis, stride, _number(size)))
            self.digits.append((stride, _number(size)))
        elif position is not None and position in self.sizes:
            self.shared.append(Shared(position, stride, size, axis.type.block))
            self.walked.append(Walked(axis, stride, axis.type.block))
        else:
            raise NotJoined


def _number(dim: Dim) -> int:
    if dim.constant is None:
        raise NotJoined
    return dim.constant


def _multiplied(start: Op, block: int) -> Value | None:
    """What is multiplied by a block."""
    if start.name != "index.mul":
        return None
    value, factor = start.operands
    made = factor.defining_op
    return value if made is not None and made.attrs.get("dim") == Dim.const(block) else None


def place_between(writes: list[Access], reads: list[Access], mem: MemRefType) -> tuple[Room, dict[Value, Value]]:
    """The room, and for each position of the second kernel that of the first which takes the same."""
    cut, taken = (_sorted(accesses_[0].shared) for accesses_ in (writes, reads))
    for access, expected in (*((a, cut) for a in writes), *((a, taken) for a in reads)):
        if _sorted(access.shared) != expected:
            raise NotJoined
        _check_digits(access, expected)
    if [_key(s) for s in cut] != [_key(s) for s in taken]:
        raise NotJoined
    return Room(cut, writes, reads, mem), {b.position: a.position for a, b in zip(cut, taken, strict=True)}


def _sorted(shared: Sequence[Shared]) -> list[Shared]:
    return sorted(shared, key=lambda s: s.stride)


def _key(shared: Shared) -> tuple[object, ...]:
    return shared.stride, str(shared.size), shared.block


def _check_digits(access: Access, cut: Sequence[Shared]) -> None:
    """No other part of an address reaches into a digit that programs share out."""
    if access.constant.constant is None and not cut:
        raise NotJoined
    for shared in cut:
        whole = shared.size * shared.stride
        below = sum(stride * (size - 1) for stride, size in access.digits if stride < shared.stride)
        below += sum(s.stride * (_number(s.size) - 1) for s in cut if s.stride < shared.stride)
        above = [stride for stride, size in access.digits if stride >= shared.stride and size > 1]
        known = whole.constant
        if below >= shared.stride or (above and (known is None or any(stride % known for stride in above))):
            raise NotJoined
        last = cut[-1]
        if access.constant.constant is None and shared is not last and (known is None or last.stride % known):
            raise NotJoined


class Room:
    """Scratch of a program, and where in it an access goes."""

    def __init__(self, cut: list[Shared], writes: list[Access], reads: list[Access], mem: MemRefType) -> None:
        self.cut, self.mem = cut, mem
        self.row, self.pad = 0, 0
        self._choose_pad(writes[0], [*writes, *reads])
        ends = [self._offset(a) + sum(self._local(w.stride) * (w.size - 1) for w in a.walked) + 1 for a in writes]
        self.size = max(ends)
        self._views: dict[tuple[tuple[int, int], ...], Value] = {}

    def _local(self, stride: int) -> int:
        """What a stride is in the room."""
        near = self._near(stride)
        return near // self.row * (self.row + self.pad) + near % self.row if self.pad else near

    def _near(self, stride: int) -> int:
        for shared in self.cut:
            if shared.stride < stride:
                stride = stride // _number(shared.size) * shared.block
        return stride

    def _offset(self, access: Access) -> int:
        """A part that only a run knows stands behind all that programs share out."""
        constant = access.constant
        if constant.constant is not None:
            return sum(self._local(stride) * place for stride, place in self._places(constant.constant, access))
        last = self.cut[-1]
        rest = _number(constant - last.size * last.stride)
        inner = sum(self._local(stride) * place for stride, place in self._places(rest, access))
        return self._padded(self._near(last.stride) * last.block) + inner

    def _padded(self, near: int) -> int:
        return near // self.row * (self.row + self.pad) + near % self.row if self.pad else near

    def _places(self, constant: int, access: Access) -> list[tuple[int, int]]:
        """The digits of a constant part of an address."""
        found = []
        for stride in sorted({stride for stride, _ in access.digits}, reverse=True):
            place, constant = divmod(constant, stride)
            found.append((stride, place))
        if constant:
            raise NotJoined
        return found

    def _choose_pad(self, write: Access, all_: list[Access]) -> None:
        """Threads that write a row each meet in a bank unless rows begin in different ones."""
        walked = sorted((self._near(w.stride), w.size) for w in write.walked if w.size > 1)
        run, banks = 1, BANKS_BYTES // self.mem.dtype.bytes
        while walked and walked[0][0] == run:
            run *= walked.pop(0)[1]
        if not walked or run >= banks or walked[0][0] % (2 * run):
            return
        row = walked[0][0]
        for access in all_:
            digits = [*access.digits, *((s.stride, s.block) for s in access.shared)]
            near = [(self._near(stride), size) for stride, size in digits if size > 1]
            if any(stride % row if stride >= row else stride * size > row for stride, size in near):
                return
        self.row, self.pad = row, run

    def access(self, b: Builder, access: Access, values: dict[Value, Value], block: Block) -> None:
        """The load or store, in the room."""
        walked = [(self._local(w.stride), w.size) for w in access.walked]
        view = self._view(b, tuple(walked), block)
        at = [dim_value(b, self._offset(access)), *(self._inside(b, w, access, values) for w in access.walked)]
        op = clone_op(access.op, {**{v: v for v in access.op.operands}, **values})
        op.set_operands([*op.operands[: 0 if access.is_load else 1], view, *at])
        if not access.is_load:
            op.attrs[APART] = True
        values.update(zip(access.op.results, b.add(op).results, strict=True))

    def _inside(self, b: Builder, walked: Walked, access: Access, values: dict[Value, Value]) -> Value:
        """An axis counted from the program's own start."""
        if all(walked.stride != shared.stride for shared in access.shared):
            return values[walked.axis]
        assert isinstance(walked.axis.type, AxisType)
        return b.value("tile.axis", (dim_value(b, 0), dim_value(b, walked.size)), walked.axis.type)

    def _view(self, b: Builder, walked: tuple[tuple[int, int], ...], block: Block) -> Value:
        if walked not in self._views:
            room = self._allocated(block)
            dims = (self.size, *(size for _, size in walked))
            strides = (1, *(stride for stride, _ in walked))
            sizes, along = (tuple(map(Dim.const, numbers)) for numbers in (dims, strides))
            ty = MemRefType(sizes, self.mem.dtype, self.mem.policy, along, space="local")
            self._views[walked] = b.value("tile.view", (room,), ty, hint="room")
        return self._views[walked]

    def _allocated(self, block: Block) -> Value:
        """Scratch of such numbers that is there already is taken again: all of it has been read by now."""
        ty = MemRefType((Dim.const(self.size),), self.mem.dtype, self.mem.policy, space="local")
        rooms = (op for op in block.ops if op.name == "tile.alloc")
        there = next((op for op in rooms if memref_type(op.result).dtype == ty.dtype), None)
        if there is None:
            start = Builder.before(block.ops[0]) if block.ops else Builder(block)
            return start.value("tile.alloc", (), ty, hint="room")
        if memref_type(there.result).dims[0].evaluate({}) < self.size:
            larger = Builder.before(there).value("tile.alloc", (), ty, hint="room")
            there.result.replace_all_uses(larger)
            there.erase()
            return larger
        return there.result


# Note [Digits of an address]
# An address is a sum of digits, each with its stride and its size: those that a program walks, those of the places of a
# line, and those that say which program it is. If a digit of the last kind has the same stride, size and block in all
# accesses of both kernels, and no other digit reaches into it, then a program of the one reads what the program with
# the same number of the other wrote, and nothing else. Without these digits the address is one inside the program.
