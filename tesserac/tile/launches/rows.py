"""Row kernels: passes over the folded axis, then the results.

Pass p folds what needs p earlier reductions; sums go through `tile.tree` in their blocks, extremes through `tile.for`.
Values without the folded axis are computed between the passes, once per row; values with it inside them, kept ones in
scratch. The last pass writes the results that have the folded axis.

    softmax:  m = for { max(exp_int(x)) };  s = tree { t = ...; keep t; sum(t) };  for { y = t / s }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Attr, Block, Op, Value, attr
from tesserac.ir.forms import ORDERED_KINDS, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, MemRefType, TileType
from tesserac.numerics.order import REDUCTION, Blocks
from tesserac.schedule.dialect import launch_keep
from tesserac.schedule.model.space import computing, read_reach, yielded_op
from tesserac.schedule.model.uses import Passes
from tesserac.tile.bodies import combine_body, finished, identity_of, pairwise
from tesserac.tile.dialect import tile_type
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.points import computed_tile
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType


def build_rows(frame: Frame) -> None:
    frame.enter_grid()
    fill_rows(Rows(frame))


def fill_rows(rows: Rows) -> None:
    """All passes of a kernel."""
    frame = rows.frame
    level = Passes(frame.launch).level
    reduces = [op for op in computing(frame.launch) if op.name == "form.reduce"]
    for number in sorted({level(op.operands[0]) for op in reduces}):
        here = [op for op in reduces if level(op.operands[0]) == number]
        rows.extremes([op for op in here if op.attrs["kind"] not in ORDERED_KINDS])
        rows.sums([op for op in here if op.attrs["kind"] in ORDERED_KINDS])
    rows.results()


class Rows:
    """A row kernel while it grows. `scratch` holds the kept values that some pass has written."""

    def __init__(self, frame: Frame, *, keeps: bool = True) -> None:
        self.frame = frame
        self.fold = len(frame.loops) - 1
        self.has_fold = Passes(frame.launch).has_fold
        self.scratch: dict[Op, Value] = {}
        self.keep = {frame.launch.body.ops[i] for i in launch_keep(frame.launch) if keeps}
        self.allocated = {op: self._alloc(op) for op in computing(frame.launch) if op in self.keep}

    # -- passes

    def extremes(self, ops: Sequence[Op]) -> None:
        if not ops:
            return
        frame, loop = self.frame, self.frame.loops[self.fold]
        self._prepare(ops)
        inits = [self._empty(op) for op in ops]
        types = [v.type for v in inits]
        body = Block([INDEX, *types], ["i", *(op.result.name for op in ops)])
        bounds = (frame.size(0), frame.size(loop.size))
        with frame.inside(body):
            self._enter(body.args[0])
            best = [
                pairwise(frame.builder, reduction_kind(op), held, self._reduced(op))
                for op, held in zip(ops, body.args[1:], strict=True)
            ]
            frame.builder.op("tile.yield", best)
        done = frame.builder.op("tile.for", (*bounds, *inits), types, {"step": loop.block}, (body,))
        self.finish(ops, done.results)

    def sums(self, ops: Sequence[Op]) -> None:
        if not ops:
            return
        loop = self.frame.loops[self.fold]
        count = self.frame.size(loop.size.ceil_div(loop.block))
        self.finish(ops, self.tree(ops, count).results)

    def tree(self, ops: Sequence[Op], count: Value, first: Value | None = None) -> Op:
        """Reductions of so many blocks of the row, from its beginning or the one given."""
        frame, loop = self.frame, self.frame.loops[self.fold]
        self._prepare(ops)

        def block(number: Value) -> list[Value]:
            place = number if first is None else index_op(frame.builder, "add", first, number)
            self._enter(index_op(frame.builder, "mul", place, frame.size(loop.block)))
            return [self._reduced(op) for op in ops]

        return self.combined(ops, count, block)

    def combined(self, ops: Sequence[Op], count: Value, part: Callable[[Value], list[Value]]) -> Op:
        """The tree over so many parts of each reduction."""
        frame = self.frame
        inits = [self._empty(op) for op in ops]
        types = [tile_type(v) for v in inits]
        body = Block([INDEX], ["block"])
        with frame.inside(body):
            frame.builder.op("tile.yield", part(body.args[0]))
        blocks = (body, combine_body(types, [reduction_kind(op) for op in ops]))
        return frame.builder.op("tile.tree", (count, *inits), types, {}, blocks)

    def results(self) -> None:
        """Values per row are stored at once; those along the row in one more pass."""
        frame = self.frame
        outs = [(i, yielded_op(v)) for i, v in enumerate(frame.launch.body.terminator.operands)]
        along = [(i, op) for i, op in outs if self.has_fold(op)]
        for number, op in outs:
            if not self.has_fold(op):
                frame.store(number, self.value(op))
        if not along:
            return
        loop = frame.loops[self.fold]
        self._prepare([op for _, op in along])
        bounds = (frame.size(0), frame.size(loop.size))
        body = Block([INDEX], ["i"])
        with frame.inside(body):
            self._enter(body.args[0])
            for number, op in along:
                frame.store(number, self.value(op))
            frame.builder.op("tile.yield")
        frame.builder.op("tile.for", bounds, (), {"step": loop.block}, (body,))
        self._leave()

    def _enter(self, start: Value) -> None:
        self.frame.at[self.fold] = self.frame.axis(self.frame.loops[self.fold], start)

    def _leave(self) -> None:
        self.frame.at.pop(self.fold, None)

    def finish(self, ops: Sequence[Op], totals: Sequence[Value]) -> None:
        self._leave()
        for op, total in zip(ops, totals, strict=True):
            result = finished(self.frame.builder, reduction_kind(op), total, tensor_type(op.result))
            self.frame.remember(op, result)

    # -- values

    def value(self, op: Op) -> Value:
        """The tile of a value at the present coordinates."""
        frame = self.frame
        known = frame.known(op)
        if known is not None:
            return known
        if op in self.scratch:
            return frame.remember(op, frame.load_from(self.scratch[op], self._scratch_at()))
        first = 1 if op.name == "form.gather" else 0
        operands = [self._operand(op, position) for position in range(first, len(op.operands))]
        tiles, dims = [t for t, _ in operands], [d for _, d in operands]
        tile = frame.remember(op, computed_tile(frame, op, tiles, dims))
        if op in self.keep:
            self.scratch[op] = self.allocated[op]
            frame.builder.op("tile.store", (tile, self.scratch[op], *self._scratch_at()))
        return tile

    def _operand(self, op: Op, position: int) -> tuple[Value, tuple[int, ...]]:
        frame = self.frame
        reach = read_reach(frame.launch, op, position)
        if reach is not None:
            required = frame.block_dims(op, position)
            loops = [i for i in frame.argument(reach, required).loops if i is not None]
            return frame.load(reach, required), frame.blocked(loops)
        made = op.operands[position].defining_op
        assert made is not None
        return self.value(made), frame.blocked(frame.walked(made))

    def _prepare(self, ops: Sequence[Op]) -> None:
        """Before a pass: the values and inputs per row that it will need."""
        for op in ops:
            if op in self.scratch or self.frame.known(op) is not None:
                continue
            for position, value in enumerate(op.operands):
                made = value.defining_op
                reach = read_reach(self.frame.launch, op, position)
                if reach is not None and reach.computed:
                    continue
                if reach is not None:
                    if self.fold not in self.frame.argument(reach, self.frame.block_dims(op, position)).loops:
                        self.frame.load(reach)
                elif made is not None and self.has_fold(made):
                    self._prepare([made])
                elif made is not None:
                    self.value(made)

    # -- reductions

    def _reduced(self, op: Op) -> Value:
        """The fold of the present block of a reduction's operand."""
        frame = self.frame
        tile, loops = self._operand(op, 0)
        order = op.attrs.get("order")
        attrs: dict[str, Attr] = {"kind": reduction_kind(op), "axes": (loops.index(self.fold),)}
        if reduction_kind(op) in ORDERED_KINDS:
            attrs["order"] = order if isinstance(order, Blocks) else REDUCTION
        operands = (tile, frame.at[self.fold])
        return frame.builder.value("tile.reduce", operands, self.partial(op), attrs, hint=op.result.name)

    def partial(self, op: Op) -> TileType:
        accum = attr(op, "accum", DType)
        return TileType(self.frame.tile_shape(self.frame.walked(op)), accum)

    def _empty(self, op: Op) -> Value:
        ty = self.partial(op)
        return self.frame.builder.value("tile.full", (), ty, {"value": identity_of(reduction_kind(op), ty.dtype)})

    # -- scratch

    def _alloc(self, op: Op) -> Value:
        frame, ty = self.frame, tensor_type(op.result)
        dims = tuple(
            frame.loops[i].size if i == self.fold else Dim.const(frame.loops[i].block)
            for i in frame.ordered([*frame.blocked(frame.walked(op)), self.fold])
        )
        type_ = MemRefType(dims, ty.dtype, ty.policy, space="local")
        return frame.builder.value("tile.alloc", (), type_, hint=op.result.name)

    def _scratch_at(self) -> list[Value]:
        """Coordinates in scratch: along the row as in memory, across rows from 0."""
        frame = self.frame
        at: list[Value] = []
        for i in frame.blocked(range(len(frame.loops))):
            at.append(frame.at[i] if i == self.fold else frame.from_zero(i))
        return at


def reduction_kind(op: Op) -> str:
    return attr(op, "kind", str)
