"""Rows that one warp holds: passes over a row are written out part by part, and nothing leaves the registers.

    softmax of 768:  x0, x1 = load(0 .. 512), load(512 .. 768);  m = max(max(x0), max(x1))
                     t0, t1 = ...;  s = sum(t0) + sum(t1);  store(t0 / s), store(t1 / s)

Parts but the last are whole blocks of the canonical order, of which the host knows that they are there; the last is no
longer than it may be. They combine by the aligned tree, so that the bits are those of rows in loops. A warp waits for
no other, and several of them share a block of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tesserac.ir.core import Op, Value
from tesserac.ir.types import AxisType
from tesserac.schedule.model.space import read_reach, yielded_op
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.tile.bodies import pairwise
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.rows import Rows, fill_rows, reduction_kind


def build_held_rows(frame: Frame) -> None:
    frame.enter_grid()
    fill_rows(HeldRows(frame, row_parts(frame.launch)))


class HeldRows(Rows):
    """A row kernel whose row is a few parts. `tiles` are the values that each part has so far."""

    def __init__(self, frame: Frame, parts: Sequence[int]) -> None:
        super().__init__(frame, keeps=False)
        self.parts = parts
        self.tiles: list[dict[object, Value]] = [{} for _ in parts]
        self.axes = [self._axis(number) for number in range(len(parts))]

    def extremes(self, ops: Sequence[Op]) -> None:
        self.sums(ops)

    def sums(self, ops: Sequence[Op]) -> None:
        self._prepare(ops)
        for _ in self._each():  # all of it is asked for before any of it is waited for
            self._ask(ops)
        found = [[self._reduced(op) for op in ops] for _ in self._each()]
        self.finish(ops, [self._tree(op, list(parts)) for op, *parts in zip(ops, *found, strict=True)])

    def results(self) -> None:
        frame = self.frame
        outs = [(i, yielded_op(v)) for i, v in enumerate(frame.launch.body.terminator.operands)]
        for number, op in outs:
            if not self.has_fold(op):
                frame.store(number, self.value(op))
        along = [(i, op) for i, op in outs if self.has_fold(op)]
        self._prepare([op for _, op in along])
        for _ in self._each():
            for number, op in along:
                frame.store(number, self.value(op))

    def _ask(self, ops: Sequence[Op]) -> None:
        """Loads what these forms read along the row."""
        for op in ops:
            for position, value in enumerate(op.operands):
                reach, made = read_reach(self.frame.launch, op, position), value.defining_op
                if reach is not None and not reach.computed:
                    self.frame.load(reach, self.frame.block_dims(op, position))
                elif made is not None and self.has_fold(made) and self.frame.known(made) is None:
                    self._ask([made])

    def _axis(self, number: int) -> Value:
        """All parts but the last end where the next begins."""
        frame, start = self.frame, sum(self.parts[:number])
        ends = start + self.parts[number] if number + 1 < len(self.parts) else frame.loops[self.fold].size
        return frame.builder.value("tile.axis", (frame.size(start), frame.size(ends)), AxisType(self.parts[number]))

    def _each(self) -> Iterator[int]:
        """Each part in turn, as the block of the row at which the frame is."""
        frame, whole = self.frame, self.frame.loops
        for number, size in enumerate(self.parts):
            blocks = (*whole[: self.fold], replace(whole[self.fold], block=size))
            with frame.among(self.tiles[number]):
                frame.loops, frame.at[self.fold] = blocks, self.axes[number]
                yield number
                frame.loops = whole
        self._leave()

    def _tree(self, op: Op, values: list[Value]) -> Value:
        """Neighbours combine; an odd last one passes."""
        while len(values) > 1:
            pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
            values = [
                pairwise(self.frame.builder, reduction_kind(op), *pair) if len(pair) == 2 else pair[0] for pair in pairs
            ]
        return values[0]
