"""Scan kernels: a program walks its rows block by block and puts the fold of all blocks before in front of each.

    running(blocks) { ^(b, before): s, t = scan(load x[b]);  store before + s;  yield t }

Maps before and behind it are computed block by block on the way.

What stands before is the canonical tree over that many totals, which the counter of `tile.running` has in a few
additions.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import COMBINE, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, ScalarType, TileType
from tesserac.schedule.model.space import computing, read_reach, yielded_op
from tesserac.tile.bodies import combine_body, identity_of
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.maps import map_block
from tesserac.types.dtype import DType


def build_scan(frame: Frame) -> None:
    frame.enter_grid()
    (scan,) = (op for op in computing(frame.launch) if op.name == "form.scan")
    _Scan(frame, scan).build()


class _Scan:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.op = frame, op
        self.fold = len(frame.loops) - 1
        kind, accum = op.attrs["kind"], op.attrs["accum"]
        assert isinstance(kind, str) and isinstance(accum, DType)
        self.kind = kind
        self.total = TileType(tuple(frame.loops[i].block for i in frame.blocked(range(self.fold))), accum)

    def build(self) -> None:
        loop = self.frame.loops[self.fold]
        blocks = loop.size.ceil_div(loop.block)
        frame, empty = self.frame, self._empty()
        body = Block([INDEX, self.total], ["block", "before"])
        with frame.inside(body):
            number, before = body.args
            total = self._block(number, before)
            frame.builder.op("tile.yield", (total,))
        regions = (body, combine_body([self.total], [self.kind]))
        frame.builder.op("tile.running", (frame.size(blocks), empty), (), {}, regions)

    def _block(self, number: Value, before: Value) -> Value:
        """Stores the running folds of one block; gives its total."""
        frame, loop = self.frame, self.frame.loops[self.fold]
        start = index_op(frame.builder, "mul", number, frame.size(loop.block))
        frame.at[self.fold] = frame.axis(loop, start)
        inside, total = self._scanned()
        frame.remember(self.op, self._joined(before, inside))
        for place, value in enumerate(frame.launch.body.terminator.operands):
            frame.store(place, map_block(frame, yielded_op(value)))
        return total

    def _empty(self) -> Value:
        start = {"value": identity_of(self.kind, self.total.dtype)}
        return self.frame.builder.value("tile.full", (), self.total, start)

    def _scanned(self) -> tuple[Value, Value]:
        """The running folds of the present block, and its total."""
        frame = self.frame
        reach, made = read_reach(frame.launch, self.op, 0), self.op.operands[0].defining_op
        if reach is not None:
            tile = frame.load(reach, frame.block_dims(self.op, 0))
        else:
            assert made is not None
            tile = map_block(frame, made)
        loops = frame.blocked(range(len(frame.loops)))
        whole = TileType(frame.tile_shape(loops), self.total.dtype)
        attrs = {"kind": self.kind, "dim": loops.index(self.fold)}
        done = frame.builder.op("tile.scan", (tile, frame.at[self.fold]), (whole, self.total), attrs)
        return done.results[0], done.results[1]

    def _joined(self, before: Value, inside: Value) -> Value:
        """What stands before a block combined with each of its running folds, rounded once."""
        frame, ty = self.frame, tensor_type(self.op.result)
        loops = frame.blocked(range(len(frame.loops)))
        scalar = ScalarType(self.total.dtype)
        block = Block([scalar, scalar], ["before", "inside"])
        inner = Builder(block, frame.builder.span)
        inner.op("form.yield", (inner.value(COMBINE[self.kind], block.args, scalar),))
        rows = tuple(i for i, loop in enumerate(loops) if loop != self.fold)
        attrs = {"maps": (rows, tuple(range(len(loops))))}
        result = TileType(frame.tile_shape(loops), ty.dtype, ty.policy)
        return frame.builder.value("tile.map", (before, inside), result, attrs, (block,), self.op.result.name)
