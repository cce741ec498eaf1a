"""Reductions over dims along which the nest does not run in vectors: lanes are rows of scratch.

    tile.reduce(%t: tile<[512, 128]>, axes = [0])   ==>    rows[64, 128] = 0
                                                           for p: vectors c:  rows[p % 64, c] += t[p, c]
                                                           for h in 32, 16, ..., 1, l < h:  rows[l, c] += rows[l + h, c]
                                                           result[c] = rows[0, c]

Position p counts the folded dims in row-major order, so several of them fold as one sequence. Rows of scratch lie in
the second cache: positions that add to the same one are taken together where one dim is folded (p and p + 64), and of
the last loop three halves at a time. Where long rows of memory are folded, all that a lane adds is taken together, and
eight lanes are folded as soon as they are there:

    for l in 0 .. 8:  for j in 0 .. 8, c:  near[j, c] = t[l + 8 j, c] + t[l + 8 j + 64, c] + ...
                      for c:               rows[l, c] = near[0 .. 8, c] folded
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

from tesserac.ir.core import Value
from tesserac.ir.forms import COMBINE
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.shapes import best_dim
from tesserac.tile.cpu.tiles import Axes, Loaded, Stored, Tile
from tesserac.tile.dialect import compute_scalar

TOGETHER = 2
"""Positions of one lane that are added at once: of more rows of memory the processor reads less ahead."""
FOLDED = 8
"""Lanes that are folded at once."""
LONG_ROWS = 2048
"""Bytes of a row from which the processor reads ahead in eight of them at once."""


def fold_rows(
    ctx: Context, tile: Tile, axes: Axes, folded: tuple[int, ...], kind: str, order: Blocks | Free, result: Stored
) -> None:
    """Folds the dims `folded` of a tile into `result`."""
    _RowFold(ctx, tile, axes, folded, kind, order, result).run()


class _RowFold:
    def __init__(
        self,
        ctx: Context,
        tile: Tile,
        axes: Axes,
        folded: tuple[int, ...],
        kind: str,
        order: Blocks | Free,
        result: Stored,
    ) -> None:
        self.ctx, self.tile, self.result = ctx, tile, result
        shape = tile.type.shape
        self.extents = ctx.extents(axes, shape)
        self.folded = folded
        self.kept = [d for d in range(len(shape)) if d not in folded]
        self.inner = self._inner_dim()
        self.type = compute_scalar(tile.type)
        self.kind = kind
        self.lanes = order.lanes if isinstance(order, Blocks) else 1
        width = 1 if self.inner is None else shape[self.inner]
        plain = isinstance(tile, Loaded) and self.type.dtype.bytes * width >= LONG_ROWS
        self.by_lanes = plain and len(folded) == 1 and self.lanes == FOLDED * FOLDED
        self.rows = ctx.scratch((FOLDED if self.by_lanes else self.lanes, width), self.type.dtype)
        self.near = ctx.scratch((FOLDED, width), self.type.dtype)
        self.evaluator = Evaluator(ctx, ctx.depth)

    def _inner_dim(self) -> int | None:
        """The dim that stays along which vectors run."""
        if not self.kept:
            return None
        best = best_dim([self.tile], [])
        return best if best in self.kept else self.kept[-1]

    def run(self) -> None:
        ctx = self.ctx
        with ExitStack() as loops:
            outer = {
                d: loops.enter_context(ctx.loop(ctx.dim(0), self.extents[d])) for d in self.kept if d != self.inner
            }
            if self.by_lanes:
                left = self._fold_by_lanes(outer)
            else:
                self._clear()
                self._accumulate(outer)
                left = self.lanes
            while left > 1:
                left = self._fold(left)
            self._finish(outer)

    def _fold_by_lanes(self, outer: dict[int, Value]) -> int:
        """All positions of a lane at once, and eight lanes as soon as they are there; how many rows are left."""
        ctx = self.ctx
        with ctx.loop(ctx.dim(0), ctx.dim(FOLDED), hint="l") as row:
            with ctx.loop(ctx.dim(0), ctx.dim(FOLDED), hint="j") as place:
                lane = ctx.index("add", row, ctx.index("mul", place, FOLDED))
                with self._columns() as column:
                    self._put(self._of_lane(lane, outer, column), self.near, place, column)
            with self._columns() as column:
                held = [self._held(self.near, ctx.dim(place), column) for place in range(FOLDED)]
                self._put(self._folded(held), self.rows, row, column)
        return FOLDED

    def _of_lane(self, lane: Value, outer: dict[int, Value], column: Value) -> Value:
        ctx, [fold] = self.ctx, self.folded
        above = ctx.index("add", ctx.index("sub", self.extents[fold], lane), self.lanes - 1)
        count = ctx.index("floor_div", ctx.index("max", above, 0), self.lanes)

        def step(number: Value, total: Value) -> Value:
            place = ctx.index("add", lane, ctx.index("mul", number, self.lanes))
            return self._both(total, self._element({**outer, fold: place}, column))

        start = self.evaluator.constant(self.type, identity_of(self.kind, self.type.dtype))
        return ctx.carrying_loop(ctx.dim(0), count, start, step)

    def _clear(self) -> None:
        ctx = self.ctx
        with ctx.loop(ctx.dim(0), ctx.dim(self.lanes), hint="lane") as lane, self._columns() as column:
            start = self.evaluator.constant(self.type, identity_of(self.kind, self.type.dtype))
            ctx.builder.op("cpu.store", (start, self.rows, lane, column))

    def _accumulate(self, outer: dict[int, Value]) -> None:
        ctx, begin = self.ctx, self._accumulate_together(outer)
        with ExitStack() as loops:
            places = dict(outer)
            position = ctx.dim(0)
            for d in self.folded:
                places[d] = loops.enter_context(ctx.loop(begin, self.extents[d], hint="p"))
                position = ctx.index("add", ctx.index("mul", position, self.extents[d]), places[d])
            lane = ctx.index("rem", position, self.lanes) if self.lanes > 1 else ctx.dim(0)
            with self._columns() as column:
                total = self._both(self._held(self.rows, lane, column), self._element(places, column))
                self._put(total, self.rows, lane, column)

    def _accumulate_together(self, outer: dict[int, Value]) -> Value:
        """Positions that add to one row, several at a time, where one dim is folded; how many positions that are."""
        ctx, size = self.ctx, TOGETHER * self.lanes
        if len(self.folded) > 1 or self.lanes == 1:
            return ctx.dim(0)
        [fold] = self.folded
        whole = ctx.index("sub", self.extents[fold], ctx.index("rem", self.extents[fold], size))
        with ctx.loop(ctx.dim(0), whole, size, "p") as first, ctx.loop(ctx.dim(0), ctx.dim(self.lanes)) as lane:
            start = ctx.index("add", first, lane)
            with self._columns() as column:
                total = self._held(self.rows, lane, column)
                for number in range(TOGETHER):
                    places = {**outer, fold: ctx.index("add", start, number * self.lanes)}
                    total = self._both(total, self._element(places, column))
                self._put(total, self.rows, lane, column)
        return whole

    def _fold(self, lanes: int) -> int:
        """Folds the rows of so many lanes, in halves; how many are left."""
        ctx, left = self.ctx, max(1, lanes // FOLDED)
        with ctx.loop(ctx.dim(0), ctx.dim(left), hint="lane") as lane:
            rows = [ctx.index("add", lane, place) for place in range(0, lanes, left)]
            with self._columns() as column:
                held = [self._held(self.rows, row, column) for row in rows]
                self._put(self._folded(held), self.rows, lane, column)
        return left

    def _folded(self, held: list[Value]) -> Value:
        """In halves."""
        while len(held) > 1:
            half = len(held) // 2
            held = [self._both(x, y) for x, y in zip(held[:half], held[half:], strict=True)]
        return held[0]

    def _element(self, places: dict[int, Value], column: Value) -> Value:
        at = tuple(column if d == self.inner else places[d] for d in range(len(self.extents)))
        return self.evaluator.element(self.tile, at)

    def _held(self, rows: Value, lane: Value, column: Value) -> Value:
        return self.ctx.builder.value("cpu.load", (rows, lane, column), self.type)

    def _both(self, left: Value, right: Value) -> Value:
        return self.ctx.builder.value(COMBINE[self.kind], (left, right), self.type)

    def _put(self, total: Value, rows: Value, lane: Value, column: Value) -> None:
        self.ctx.builder.op("cpu.store", (total, rows, lane, column))

    def _finish(self, outer: dict[int, Value]) -> None:
        ctx = self.ctx
        with self._columns() as column:
            value = ctx.builder.value("cpu.load", (self.rows, ctx.dim(0), column), self.type)
            places = [column if d == self.inner else outer[d] for d in self.kept]
            ctx.builder.op("cpu.store", (value, self.result.memory, *places))

    def _columns(self) -> AbstractContextManager[Value]:
        """Vectors along the inner dim; one element where none is left."""
        return self.ctx.vector_loop(self.ctx.dim(1) if self.inner is None else self.extents[self.inner], "c")
