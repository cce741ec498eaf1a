"""Loops over elements: vector loops, and folds of what their bodies yield.

A sum in the order of blocks keeps one accumulator per lane of the order (64), whatever the width of vectors; in the end
the lanes are folded in halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tesserac.ir.core import Op
from tesserac.ir.types import ScalarType
from tesserac.numerics.order import Blocks
from tesserac.target.cpu.accesses import prepare_addresses
from tesserac.target.cpu.bodies import emit_body, value_type
from tesserac.target.cpu.frame import SINGLE, Entry, Frame, Lanes, Mode, Run
from tesserac.target.cpu.registers import constant, register_type
from tesserac.target.cpu.scalars import emit_scalar
from tesserac.target.dims import floor_div
from tesserac.target.flow import for_loop
from tesserac.target.llvm_types import LType, Value, array, const_i64
from tesserac.tile.bodies import COMBINE, identity_of
from tesserac.tile.cpu.dialect import Shape
from tesserac.types.dtype import DType


def emit_vector_loop(frame: Frame, op: Op) -> None:
    """Whole groups of vectors, then single elements."""
    low, high = (frame.value(v) for v in op.operands)
    mode = _mode(op)
    middle = _whole_groups(frame, low, high, mode.lanes * mode.parts)
    prepare_addresses(frame, op.body)

    def group(i: Value, _: list[Value]) -> Sequence[Value]:
        emit_body(frame, op.body, [_run(i, mode)], mode)
        return []

    def single(i: Value, _: list[Value]) -> Sequence[Value]:
        emit_body(frame, op.body, [i], SINGLE)
        return []

    for_loop(frame.b, low, middle, const_i64(mode.lanes * mode.parts), [], group)
    for_loop(frame.b, middle, high, const_i64(1), [], single)


def _mode(op: Op) -> Mode:
    shape = op.attrs["shape"]
    assert isinstance(shape, Shape)
    return Mode(shape.lanes, shape.parts)


def _run(start: Value, mode: Mode) -> Run:
    return Run(start, tuple(p * mode.lanes for p in range(mode.parts)))


def _whole_groups(frame: Frame, low: Value, high: Value, size: int) -> Value:
    """The end of the last whole group of `size` elements."""
    b = frame.b
    count = b.binary("and", b.sub(high, low), const_i64(-size)) if size & (size - 1) == 0 else None
    if count is None:
        count = b.mul(floor_div(b, b.sub(high, low), const_i64(size)), const_i64(size))
    return b.add(low, count)


@dataclass(frozen=True)
class _Fold:
    """One folded value."""

    kind: str
    dtype: DType

    def combine(self, frame: Frame, left: Value, right: Value) -> Value:
        return emit_scalar(frame.b, COMBINE[self.kind].removeprefix("scalar."), self.dtype, [left, right])

    def start(self, frame: Frame, mode: Mode) -> Value:
        single = constant(self.dtype, identity_of(self.kind, self.dtype))
        return frame.b.splat(single, mode.lanes)


def emit_fold(frame: Frame, op: Op) -> None:
    kinds, order = op.attrs["kinds"], op.attrs["order"]
    assert isinstance(kinds, tuple)
    prepare_addresses(frame, op.body)
    folds = [_Fold(str(kind), _dtype(v.type)) for kind, v in zip(kinds, op.results, strict=True)]
    if isinstance(order, Blocks):
        results = _BlockFold(frame, op, folds, order).run()
    else:
        results = _fold_in_any_order(frame, op, folds)
    frame.entries.update(zip(op.results, results, strict=True))


def _dtype(type_: object) -> DType:
    assert isinstance(type_, ScalarType)
    return type_.dtype


def _fold_in_any_order(frame: Frame, op: Op, folds: Sequence[_Fold]) -> list[Value]:
    """`parts` accumulators of vectors, folded at the end; then the elements that are left."""
    b, mode = frame.b, _mode(op)
    low, high = (frame.value(v) for v in op.operands)
    middle = _whole_groups(frame, low, high, mode.lanes * mode.parts)
    starts = [f.start(frame, mode) for f in folds for _ in range(mode.parts)]

    def group(i: Value, held: list[Value]) -> Sequence[Value]:
        yielded = emit_body(frame, op.body, [_run(i, mode)], mode)
        new = [part for entry in yielded for part in _parts(frame, entry, mode)]
        return [_of(folds, mode.parts, n).combine(frame, h, x) for n, (h, x) in enumerate(zip(held, new, strict=True))]

    vectors = for_loop(b, low, middle, const_i64(mode.lanes * mode.parts), starts, group)
    singles = []
    for n, fold in enumerate(folds):
        whole = _fold_halves(frame, fold, vectors[n * mode.parts : (n + 1) * mode.parts])
        singles.append(_fold_vector(frame, fold, whole))

    def single(i: Value, held: list[Value]) -> Sequence[Value]:
        yielded = emit_body(frame, op.body, [i], SINGLE)
        return [f.combine(frame, h, _one(x)) for f, h, x in zip(folds, held, yielded, strict=True)]

    return for_loop(b, middle, high, const_i64(1), singles, single)


def _of(folds: Sequence[_Fold], parts: int, position: int) -> _Fold:
    return folds[position // parts]


def _parts(frame: Frame, entry: Entry, mode: Mode) -> tuple[Value, ...]:
    assert not isinstance(entry, Run)
    if isinstance(entry, Value):
        return (frame.b.splat(entry, mode.lanes),) * mode.parts
    return tuple(v if v.type.lanes else frame.b.splat(v, mode.lanes) for v in entry.parts)


def _one(entry: Entry) -> Value:
    if isinstance(entry, Lanes):
        (entry,) = entry.parts
    assert isinstance(entry, Value)
    return entry


def _fold_halves(frame: Frame, fold: _Fold, values: Sequence[Value]) -> Value:
    """r[i] = r[i] + r[i + half] until one is left; the count is a power of two."""
    held = list(values)
    while len(held) > 1:
        half = len(held) // 2
        held = [fold.combine(frame, held[i], held[i + half]) for i in range(half)]
    return held[0]


def _fold_vector(frame: Frame, fold: _Fold, value: Value) -> Value:
    """The lanes of one vector, folded in halves."""
    half = value.type.lanes // 2
    while half:
        upper = frame.b.shuffle(value, value, range(half, 2 * half))
        lower = frame.b.shuffle(value, value, range(half))
        value = fold.combine(frame, lower, upper)
        half //= 2
    return frame.b.extract(value, 0)


class _BlockFold:
    """A fold of at most one block in the order of its lanes.

    Where a group of vectors is as long as all lanes, their accumulators stay in registers; else they stand in memory,
    which is far enough from their next use.
    """

    def __init__(self, frame: Frame, op: Op, folds: Sequence[_Fold], order: Blocks) -> None:
        self.frame, self.op, self.folds, self.order = frame, op, folds, order
        self.mode = _mode(op)
        self.group = self.mode.lanes * self.mode.parts
        assert order.lanes % self.group == 0, "whole groups of vectors must fill the lanes"
        self.low, self.high = (frame.value(v) for v in op.operands)
        self.elements = [register_type(f.dtype) for f in folds]
        self.lanes = [frame.b.alloca(array(t, order.lanes), 64) for t in self.elements]

    def run(self) -> list[Value]:
        b = self.frame.b
        middle = _whole_groups(self.frame, self.low, self.high, self.group)
        if self.group == self.order.lanes:
            self._in_registers(middle)
        else:
            self._in_memory(middle)
        for_loop(b, middle, self.high, const_i64(1), [], self._single)
        return [self._fold_lanes(n) for n in range(len(self.folds))]

    def _in_registers(self, middle: Value) -> None:
        parts = self.mode.parts
        starts = [f.start(self.frame, self.mode) for f in self.folds for _ in range(parts)]
        step = const_i64(self.group)
        totals = for_loop(self.frame.b, self.low, middle, step, starts, self._group)
        self._store_lanes(const_i64(0), totals)

    def _in_memory(self, middle: Value) -> None:
        b, parts = self.frame.b, self.mode.parts
        starts = [f.start(self.frame, self.mode) for f in self.folds for _ in range(parts)]
        for lane in range(0, self.order.lanes, self.group):
            self._store_lanes(const_i64(lane), starts)

        def group(i: Value, _: list[Value]) -> Sequence[Value]:
            lane = self._lane_of(i)
            self._store_lanes(lane, self._group(i, self._load_lanes(lane)))
            return []

        for_loop(b, self.low, middle, const_i64(self.group), [], group)

    def _load_lanes(self, first: Value) -> list[Value]:
        b, held = self.frame.b, list[Value]()
        for n, fold in enumerate(self.folds):
            for offset in range(0, self.group, self.mode.lanes):
                address = self._address(n, b.add(first, const_i64(offset)))
                held.append(b.load(_lanes_type(fold, self.mode), address, self._align(n)))
        return held

    def _group(self, i: Value, held: Sequence[Value]) -> list[Value]:
        """A group of elements added to their lanes."""
        yielded = emit_body(self.frame, self.op.body, [_run(i, self.mode)], self.mode)
        new = [part for entry in yielded for part in _parts(self.frame, entry, self.mode)]
        pairs = enumerate(zip(held, new, strict=True))
        return [_of(self.folds, self.mode.parts, n).combine(self.frame, h, x) for n, (h, x) in pairs]

    def _single(self, i: Value, _: list[Value]) -> Sequence[Value]:
        """One element, added to its lane in memory."""
        frame, b, lane = self.frame, self.frame.b, self._lane_of(i)
        yielded = emit_body(frame, self.op.body, [i], SINGLE)
        for n, (fold, entry) in enumerate(zip(self.folds, yielded, strict=True)):
            address = self._address(n, lane)
            held = b.load(self.elements[n], address, self._align(n))
            b.store(fold.combine(frame, held, _one(entry)), address, self._align(n))
        return []

    def _lane_of(self, i: Value) -> Value:
        b = self.frame.b
        return b.binary("and", b.sub(i, self.low), const_i64(self.order.lanes - 1))

    def _store_lanes(self, first: Value, values: Sequence[Value]) -> None:
        b, parts = self.frame.b, self.mode.parts
        for n, value in enumerate(values):
            lane = b.add(first, const_i64(n % parts * self.mode.lanes))
            b.store(value, self._address(n // parts, lane), self._align(n // parts))

    def _address(self, n: int, lane: Value) -> Value:
        return self.frame.b.gep(self.elements[n], self.lanes[n], lane)

    def _align(self, n: int) -> int:
        return max(1, self.elements[n].bits // 8)

    def _fold_lanes(self, n: int) -> Value:
        b, fold, type_ = self.frame.b, self.folds[n], _lanes_type(self.folds[n], self.mode)
        places = range(0, self.order.lanes, self.mode.lanes)
        values = [b.load(type_, self._address(n, const_i64(i)), self._align(n)) for i in places]
        return _fold_vector(self.frame, fold, _fold_halves(self.frame, fold, values))


def _lanes_type(fold: _Fold, mode: Mode) -> LType:
    return value_type(fold.dtype, Mode(mode.lanes, 1))
