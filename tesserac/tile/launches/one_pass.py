"""Rows whose sum of exponentials is one pass: see `schedule/rows/one_pass.py`.

    %first = max of the first block;  %ref = exponent(%first) + 32, even
    %floor, %least = numbers whose exponents are 126 and 190 below %ref
    %sum, %top, %low = tree { sum(exp_scaled(max(x, %floor), %ref)), max(x), min(bits(x - %least)) }
    %served = %low is 70 powers of two or more, and %top's exponent at most %ref, and no less than %first's
    %again = tree(%served ? 0 : blocks) { sum(exp_term(x, exponent(%top))) }
    %total = %served ? ldexp(%sum, %ref + 1 - exponent(%top)) : %again

A term is then a normal number relative to %ref and to the maximum, or, from %least down, 0 relative to both: no x lies
between. Negative numbers have larger bits than others, so that what is below %least does not count. All partial sums
differ by the same power of two, and no bit shows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, ScalarType, TileType
from tesserac.numerics.formats import parts
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.rows.one_pass import ExponentialSum, exponential_sum
from tesserac.tile.bodies import combine_body, finished, identity_of
from tesserac.tile.dialect import tile_type
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.points import computed_tile
from tesserac.tile.launches.rows import Rows
from tesserac.types.dtype import BOOL, F32, I64, U32, DType

ABOVE = 32.0
"""How far above the first block's maximum the reference is, in powers of two."""
FLOOR = 126.0
"""How far below the reference terms are 0."""
LEAST, SPAN = 190.0, 70.0
"""How far below it they are 0 relative to the maximum, too, and up to how far above that they may be subnormal."""
LARGEST = 2.0**18
"""References up to which exponents are exact."""
LN2 = parts("ln2", F32)[0]
SINGLE = ScalarType(F32)

Compute = Callable[..., Value]


def build_one_pass(frame: Frame) -> None:
    found = exponential_sum(frame.launch)
    assert found is not None, "the schedule has looked"
    frame.enter_grid()
    rows = OnePass(frame, found)
    rows.fold_once()
    rows.results()


class OnePass(Rows):
    """A row kernel whose two reductions are folded together."""

    def __init__(self, frame: Frame, found: ExponentialSum) -> None:
        super().__init__(frame, keeps=False)
        self.found = found

    def fold_once(self) -> None:
        frame, found = self.frame, self.found
        self._prepare(found.tops)
        loop = frame.loops[self.fold]
        count = frame.size(loop.size.ceil_div(loop.block))
        first = self._first_maximum()
        reference = self._scalar((self._exponent(first),), _reference)
        floor, least = (self._scalar((reference,), partial(_below, by)) for by in (FLOOR, LEAST))
        total, top, low = self._tree(count, reference, floor, least)
        exponent = self._exponent(top)
        again = self._scalar((reference, exponent, low), _repeats, I64)
        blocks = index_op(frame.builder, "mul", frame.builder.value("tile.index", (again,), INDEX), count)
        repeated = self._repeated(blocks, exponent)
        chosen = self._scalar((total, reference, exponent, again, repeated), _chosen)
        for op in found.tops:
            frame.remember(op, finished(frame.builder, "max", top, tensor_type(op.result)))
        frame.remember(found.total, finished(frame.builder, "sum", chosen, tensor_type(found.total.result)))

    def _first_maximum(self) -> Value:
        frame = self.frame
        with frame.among({}):
            self._enter(frame.size(0))
            found = self._reduced(self.found.tops[0])
        self._leave()
        return found

    def _exponent(self, maximum: Value) -> Value:
        return computed_tile(self.frame, self.found.exponent, [maximum], [()])

    def _tree(self, count: Value, reference: Value, floor: Value, least: Value) -> list[Value]:
        frame, kinds = self.frame, (("sum", F32), ("max", F32), ("min", U32))
        body = Block([INDEX], ["block"])
        with frame.inside(body):
            numbers, _ = self._numbers(body.args[0])
            terms = self._along(numbers, (floor, reference), _scaled)
            above = self._along(numbers, (least,), _bits_above, U32)
            folded = self._fold(terms, "sum"), self._reduced(self.found.tops[0]), self._fold(above, "min")
            frame.builder.op("tile.yield", folded)
        return self._combined(count, kinds, body)

    def _repeated(self, count: Value, exponent: Value) -> Value:
        body = Block([INDEX], ["block"])
        with self.frame.inside(body):
            numbers, dims = self._numbers(body.args[0])
            terms = computed_tile(self.frame, self.found.term, [numbers, exponent], [dims, ()])
            self.frame.builder.op("tile.yield", (self._fold(terms, "sum"),))
        return self._combined(count, (("sum", F32),), body)[0]

    def _combined(self, count: Value, folds: tuple[tuple[str, DType], ...], body: Block) -> list[Value]:
        builder, kinds = self.frame.builder, [kind for kind, _ in folds]
        types = [TileType((), dtype) for _, dtype in folds]
        empty = [builder.value("tile.full", (), TileType((), t), {"value": identity_of(k, t)}) for k, t in folds]
        return builder.op("tile.tree", (count, *empty), types, {}, (body, combine_body(types, kinds))).results

    def _numbers(self, block: Value) -> tuple[Value, tuple[int, ...]]:
        """What the terms of a block are of, and the dims that it follows."""
        frame = self.frame
        self._enter(index_op(frame.builder, "mul", block, frame.size(frame.loops[self.fold].block)))
        return self._operand(self.found.term, 0)

    def _fold(self, tile: Value, kind: str) -> Value:
        attrs = {"kind": kind, "axes": (0,), **({"order": REDUCTION} if kind == "sum" else {})}
        ty = TileType((), tile_type(tile).dtype)
        return self.frame.builder.value("tile.reduce", (tile, self.frame.at[self.fold]), ty, attrs)

    def _along(self, numbers: Value, row: tuple[Value, ...], compute: Compute, dtype: DType = F32) -> Value:
        """Of each number of a block and those that its row has."""
        block = Block([SINGLE] * (1 + len(row)))
        b = Builder(block)
        b.op("form.yield", (compute(b, *block.args),))
        attrs = {"maps": ((0,), *[()] * len(row))}
        ty = TileType(tile_type(numbers).shape, dtype)
        return self.frame.builder.value("tile.map", (numbers, *row), ty, attrs, (block,), numbers.name)

    def _scalar(self, tiles: tuple[Value, ...], compute: Compute, dtype: DType = F32) -> Value:
        block = Block([ScalarType(tile_type(tile).dtype) for tile in tiles])
        b = Builder(block)
        b.op("form.yield", (compute(b, *block.args),))
        attrs = {"maps": ((),) * len(tiles)}
        return self.frame.builder.value("tile.map", tiles, TileType((), dtype), attrs, (block,))


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def _number(b: Builder, value: float) -> Value:
    return b.value("scalar.constant", (), SINGLE, {"value": value})


def _plus(b: Builder, x: Value, number: float) -> Value:
    return b.value("scalar.add", (x, _number(b, number)), SINGLE)


def _reference(b: Builder, exponent: Value) -> Value:
    """The even number next to what is ABOVE an exponent."""
    above = b.value("scalar.mul", (_plus(b, exponent, ABOVE), _number(b, 0.5)), SINGLE)
    return b.value("scalar.mul", (b.value("scalar.rint", (above,), SINGLE), _number(b, 2.0)), SINGLE)


def _below(by: float, b: Builder, reference: Value) -> Value:
    """The number whose exponent is so far below the reference."""
    return b.value("scalar.mul", (_plus(b, reference, -by), _number(b, LN2)), SINGLE)


def _scaled(b: Builder, x: Value, floor: Value, reference: Value) -> Value:
    return b.value("scalar.exp_scaled", (b.value("scalar.max", (x, floor), SINGLE), reference), SINGLE)


def _bits_above(b: Builder, x: Value, least: Value) -> Value:
    distance = b.value("scalar.sub", (x, least), SINGLE)
    return b.value("scalar.bitcast", (distance,), ScalarType(U32), {"dtype": U32})


def _repeats(b: Builder, reference: Value, exponent: Value, low: Value) -> Value:
    """1 where the reference does not serve, also where something is no number; else 0."""
    size = b.value("scalar.abs", (reference,), SINGLE)
    ordered = [
        (exponent, reference),
        (_plus(b, reference, -ABOVE - 1.0), exponent),
        (b.value("scalar.constant", (), low.type, {"value": _bits((SPAN + 1.0) * LN2)}), low),
        (size, _number(b, LARGEST)),
    ]
    tests = [b.value("scalar.le", pair, ScalarType(BOOL)) for pair in ordered]
    serves = tests[0]
    for test in tests[1:]:
        serves = b.value("scalar.and", (serves, test), ScalarType(BOOL))
    one, zero = (b.value("scalar.constant", (), ScalarType(I64), {"value": i}) for i in (1, 0))
    return b.value("scalar.select", (serves, zero, one), ScalarType(I64))


def _chosen(b: Builder, total: Value, reference: Value, exponent: Value, again: Value, repeated: Value) -> Value:
    up = b.value("scalar.sub", (_plus(b, reference, 1.0), exponent), SINGLE)
    zero = b.value("scalar.constant", (), again.type, {"value": 0})
    served = b.value("scalar.eq", (again, zero), ScalarType(BOOL))
    scaled = b.value("scalar.ldexp", (total, up), SINGLE)
    return b.value("scalar.select", (served, scaled, repeated), SINGLE)
