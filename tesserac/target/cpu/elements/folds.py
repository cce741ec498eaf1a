"""Folds of what the body of a loop over elements yields.

A maximum is folded in any order, on x86 as integers (`ordered_floats.py`). A sum in the order of blocks keeps one
accumulator per lane of the order (64), whatever the width of vectors; in the end the lanes are folded in halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.forms import COMBINE
from tesserac.ir.types import ScalarType
from tesserac.numerics.order import Blocks
from tesserac.target.cpu.elements.accesses import prepare_addresses
from tesserac.target.cpu.elements.bodies import emit_body, prepare_functions
from tesserac.target.cpu.elements.frame import Frame, Lanes, Mode, Run
from tesserac.target.cpu.elements.groups import group_index, known_count, loop_over, may_be_in_part, modes, take_part
from tesserac.target.cpu.elements.ordered_floats import as_float, as_ordered, is_ordered
from tesserac.target.cpu.elements.registers import constant, register_type
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.llvm_types import LType, Value, array, const_i64, vector
from tesserac.tile.bodies import identity_of
from tesserac.types.dtype import DType


def emit_fold(frame: Frame, op: Op) -> None:
    prepare_addresses(frame, op.body)
    kinds, order = op.attrs["kinds"], op.attrs["order"]
    assert isinstance(kinds, tuple)
    folds = [_Fold(str(kind), _dtype(v.type)) for kind, v in zip(kinds, op.results, strict=True)]
    if not isinstance(order, Blocks):
        folds = [replace(fold, ordered=is_ordered(frame, fold.kind, fold.element)) for fold in folds]
    run = _BlockFold(frame, op, folds, order) if isinstance(order, Blocks) else _AnyOrderFold(frame, op, folds)
    frame.entries.update(zip(op.results, run.results(), strict=True))


def _dtype(type_: object) -> DType:
    assert isinstance(type_, ScalarType)
    return type_.dtype


@dataclass(frozen=True)
class _Fold:
    """One folded value."""

    kind: str
    dtype: DType
    ordered: bool = False
    """Whether floats are held as integers of their order."""

    @property
    def element(self) -> LType:
        return register_type(self.dtype)

    @property
    def align(self) -> int:
        return max(1, self.element.bits // 8)

    def combine(self, frame: Frame, left: Value, right: Value) -> Value:
        if self.ordered:
            return frame.b.intrinsic(f"llvm.s{self.kind}", left.type, [left, right], [left.type])
        return emit_scalar(frame.b, COMBINE[self.kind].removeprefix("scalar."), self.dtype, [left, right])

    def starts(self, frame: Frame, mode: Mode) -> list[Value]:
        """What the accumulators of one group hold at first."""
        single = constant(self.dtype, identity_of(self.kind, self.dtype))
        return [self.held(frame, frame.b.splat(single, mode.lanes))] * mode.parts

    def held(self, frame: Frame, value: Value) -> Value:
        """A value as accumulators hold it."""
        return as_ordered(frame.b, value, self.kind) if self.ordered else value

    def result(self, frame: Frame, held: Value) -> Value:
        return as_float(frame.b, held, self.element) if self.ordered else held


def _folded_group(frame: Frame, op: Op, folds: Sequence[_Fold], i: Value, mode: Mode, held: list[Value]) -> list[Value]:
    """A group of elements combined with what is held: `parts` values of each fold, one fold after the other."""
    yielded = emit_body(frame, op.body, [group_index(i, mode)], mode)
    new: list[Value] = []
    for entry in yielded:
        assert not isinstance(entry, Run)
        parts = entry.parts if isinstance(entry, Lanes) else (entry,) * mode.parts
        new += [v if v.type.lanes else frame.b.splat(v, mode.lanes) for v in parts]
    owners = [fold for fold in folds for _ in range(mode.parts)]
    combined = [f.combine(frame, h, f.held(frame, x)) for f, h, x in zip(owners, held, new, strict=True)]
    if frame.mask is None:
        return combined
    return [frame.b.select(frame.mask, x, h) for x, h in zip(combined, held, strict=True)]


def _fold_halves(frame: Frame, fold: _Fold, values: Sequence[Value]) -> Value:
    """r[i] = r[i] + r[i + half] until one is left; what has none beside it stays, as of three the middle one."""
    held = list(values)
    while len(held) > 1:
        half = (len(held) + 1) // 2
        beside = dict(enumerate(held[half:]))
        held = [fold.combine(frame, value, beside[i]) if i in beside else value for i, value in enumerate(held[:half])]
    return held[0]


def _fold_vector(frame: Frame, fold: _Fold, value: Value) -> Value:
    """The lanes of one vector, folded in halves."""
    half = value.type.lanes // 2
    while half:
        lower, upper = (frame.b.shuffle(value, value, range(s, s + half)) for s in (0, half))
        value = fold.combine(frame, lower, upper)
        half //= 2
    return frame.b.extract(value, 0)


class _AnyOrderFold:
    """Accumulators of the widest mode, folded to those of the next where its elements are used up."""

    def __init__(self, frame: Frame, op: Op, folds: Sequence[_Fold]) -> None:
        self.frame, self.op, self.folds = frame, op, folds

    def results(self) -> list[Value]:
        low, high = (self.frame.value(v) for v in self.op.operands)
        ways = modes(self.op, known_count(low, high))
        held = [v for fold in self.folds for v in fold.starts(self.frame, ways[0])]
        for mode in ways:
            if not mode.lanes and may_be_in_part(self.frame, self.op, low, high):
                held = self._narrowed(take_part(self.frame, self.op, low, high, held, self._group), mode)
                break
            held = self._narrowed(held, mode)
            prepare_functions(self.frame, self.op.body, mode)
            low, *held = loop_over(self.frame, low, high, mode, held, self._group)
        return [fold.result(self.frame, value) for fold, value in zip(self.folds, held, strict=True)]

    def _group(self, i: Value, mode: Mode, held: list[Value]) -> Sequence[Value]:
        return _folded_group(self.frame, self.op, self.folds, i, mode, held)

    def _narrowed(self, held: list[Value], mode: Mode) -> list[Value]:
        """As many accumulators per fold as the mode has parts, scalars for single elements."""
        count = len(held) // len(self.folds)
        if count == mode.parts and bool(held[0].type.lanes) == bool(mode.lanes):
            return held
        narrowed = []
        for n, fold in enumerate(self.folds):
            value = _fold_halves(self.frame, fold, held[n * count : (n + 1) * count])
            narrowed.append(value if mode.lanes else _fold_vector(self.frame, fold, value))
        return narrowed


class _BlockFold:
    """A fold of at most one block in the order of its lanes.

    Where a group is as long as all lanes, or all elements are known to be fewer whole vectors, their accumulators stay
    in registers. Else they stand in memory: a lane is used again only after all others, so the way through memory is
    never waited for.
    """

    def __init__(self, frame: Frame, op: Op, folds: Sequence[_Fold], order: Blocks) -> None:
        self.frame, self.op, self.folds, self.count = frame, op, folds, order.lanes
        self.low, self.high = (frame.value(v) for v in op.operands)
        self.lanes = [frame.b.alloca(array(f.element, order.lanes), 64) for f in folds]

    def results(self) -> list[Value]:
        widest, *narrower = modes(self.op)
        few = known_count(self.low, self.high)
        if few is not None and widest.lanes and 0 < few <= self.count and self._is_in_vectors(few, widest.lanes):
            return self._of_few(few, widest.lanes)
        assert self.count % widest.size == 0, "whole groups must fill the lanes"
        prepare_functions(self.frame, self.op.body, widest)
        if widest.size == self.count:
            starts = [v for fold in self.folds for v in fold.starts(self.frame, widest)]
            low, *totals = loop_over(self.frame, self.low, self.high, widest, starts, self._in_registers)
            self._put(const_i64(0), widest, totals)
        else:
            self._clear(widest)
            (low,) = loop_over(self.frame, self.low, self.high, widest, [], self._in_memory)
        for mode in narrower:
            if not mode.lanes and may_be_in_part(self.frame, self.op, low, self.high):
                take_part(self.frame, self.op, low, self.high, [], self._in_memory)
                break
            (low,) = loop_over(self.frame, low, self.high, mode, [], self._in_memory)
        return [self._fold_lanes(fold, memory, widest) for fold, memory in zip(self.folds, self.lanes, strict=True)]

    def _is_in_vectors(self, few: int, lanes: int) -> bool:
        """Whether so many elements are whole vectors, or the last may be a part of one."""
        rest = self.frame.b.add(self.low, const_i64(few - few % lanes))
        return few % lanes == 0 or may_be_in_part(self.frame, self.op, rest, self.high)

    def _of_few(self, few: int, lanes: int) -> list[Value]:
        """All elements at once; the other lanes hold what they start with."""
        whole, b = few // lanes, self.frame.b
        mode, rest = Mode(lanes, whole), b.add(self.low, const_i64(whole * lanes))
        starts = [fold.starts(self.frame, Mode(lanes, 1))[0] for fold in self.folds]
        held = [start for start in starts for _ in range(whole)]
        totals = _folded_group(self.frame, self.op, self.folds, self.low, mode, held) if whole else []
        left = take_part(self.frame, self.op, rest, self.high, starts, self._in_registers)
        room, results = self.count // lanes, []
        for n, fold in enumerate(self.folds):
            vectors = [*totals[n * whole : (n + 1) * whole], left[n], *[starts[n]] * room][:room]
            results.append(_fold_vector(self.frame, fold, _fold_halves(self.frame, fold, vectors)))
        return results

    def _in_registers(self, i: Value, mode: Mode, held: list[Value]) -> Sequence[Value]:
        return _folded_group(self.frame, self.op, self.folds, i, mode, held)

    def _in_memory(self, i: Value, mode: Mode, _: list[Value]) -> Sequence[Value]:
        b = self.frame.b
        lane = b.binary("and", b.sub(i, self.low), const_i64(self.count - 1))
        held = [b.load(_part_type(fold, mode), place, fold.align) for fold, place in self._places(lane, mode)]
        self._put(lane, mode, _folded_group(self.frame, self.op, self.folds, i, mode, held))
        return []

    def _clear(self, mode: Mode) -> None:
        starts = [v for fold in self.folds for v in fold.starts(self.frame, mode)]
        for lane in range(0, self.count, mode.size):
            self._put(const_i64(lane), mode, starts)

    def _put(self, lane: Value, mode: Mode, values: Sequence[Value]) -> None:
        for (fold, place), value in zip(self._places(lane, mode), values, strict=True):
            self.frame.b.store(value, place, fold.align)

    def _places(self, lane: Value, mode: Mode) -> list[tuple[_Fold, Value]]:
        """The address of every part of a group that starts at a lane, one fold after the other."""
        b = self.frame.b
        return [
            (fold, b.gep(fold.element, memory, b.add(lane, const_i64(part * mode.lanes))))
            for fold, memory in zip(self.folds, self.lanes, strict=True)
            for part in range(mode.parts)
        ]

    def _fold_lanes(self, fold: _Fold, memory: Value, mode: Mode) -> Value:
        b, type_ = self.frame.b, _part_type(fold, mode)
        places = (b.gep(fold.element, memory, lane) for lane in range(0, self.count, mode.lanes))
        values = [b.load(type_, place, fold.align) for place in places]
        return _fold_vector(self.frame, fold, _fold_halves(self.frame, fold, values))


def _part_type(fold: _Fold, mode: Mode) -> LType:
    return vector(fold.element, mode.lanes) if mode.lanes else fold.element
