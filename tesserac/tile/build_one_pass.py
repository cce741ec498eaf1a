"""Rows whose sum of exponentials is one pass: see `schedule/one_pass.py`.

    %first = max of the first block;  %ref = exponent(%first) + 32;  %least = %first - 1000
    %sum, %top, %low = tree { sum(exp_term(x, %ref)), max(x), min(x where x >= %least) }
    %served = %low's exponent >= %ref - 125 and %top's <= %ref
    %again = tree(%served ? 0 : blocks) { sum(exp_term(x, exponent(%top))) }
    %total = %served ? ldexp(%sum, %ref - exponent(%top)) : %again

Relative to %ref all terms are normal numbers then, but for those so small that they are 0 relative to both; so are they
relative to the maximum, by which they are larger. All partial sums differ by the same power of two, and no bit shows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, ScalarType, TileType
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.one_pass import ExponentialSum, exponential_sum
from tesserac.tile.bodies import combine_body, finished, identity_of
from tesserac.tile.build_rows import Rows
from tesserac.tile.dialect import tile_type
from tesserac.tile.frame import Frame
from tesserac.tile.points import computed_tile
from tesserac.types.dtype import BOOL, F32, I64, DType

ABOVE, SPAN = 32.0, 125.0
"""How far above the first block's maximum the reference is, in powers of two, and how far below it terms are normal."""
NOTHING = 1000.0
"""What is so far below the maximum has a term of 0, whatever the reference is."""
LARGEST = 2.0**18
"""References up to which exponents are exact."""
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
        reference = self._scalar((self._exponent(first),), lambda b, x: _plus(b, x, ABOVE))
        least = self._scalar((first,), lambda b, x: _plus(b, x, -NOTHING))
        total, top, low = self._tree(count, reference, least)
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

    def _tree(self, count: Value, reference: Value, least: Value) -> list[Value]:
        frame, kinds = self.frame, ("sum", "max", "min")
        body = Block([INDEX], ["block"])
        with frame.inside(body):
            values, numbers = self._terms(body.args[0], reference)
            present = self._along(numbers, least)
            lowest = self._fold(present, "min")
            frame.builder.op("tile.yield", (values, self._reduced(self.found.tops[0]), lowest))
        return self._combined(count, kinds, body)

    def _repeated(self, count: Value, exponent: Value) -> Value:
        body = Block([INDEX], ["block"])
        with self.frame.inside(body):
            self.frame.builder.op("tile.yield", (self._terms(body.args[0], exponent)[0],))
        return self._combined(count, ("sum",), body)[0]

    def _combined(self, count: Value, kinds: tuple[str, ...], body: Block) -> list[Value]:
        builder, ty = self.frame.builder, TileType((), F32)
        empty = [builder.value("tile.full", (), ty, {"value": identity_of(kind, F32)}) for kind in kinds]
        types = [ty] * len(kinds)
        return builder.op("tile.tree", (count, *empty), types, {}, (body, combine_body(types, kinds))).results

    def _terms(self, block: Value, reference: Value) -> tuple[Value, Value]:
        """The sum of a block's terms, and what they are terms of."""
        frame, found = self.frame, self.found
        self._enter(index_op(frame.builder, "mul", block, frame.size(frame.loops[self.fold].block)))
        numbers, dims = self._operand(found.term, 0)
        terms = computed_tile(frame, found.term, [numbers, reference], [dims, ()])
        return self._fold(terms, "sum"), numbers

    def _fold(self, tile: Value, kind: str) -> Value:
        attrs = {"kind": kind, "axes": (0,), **({"order": REDUCTION} if kind == "sum" else {})}
        return self.frame.builder.value("tile.reduce", (tile, self.frame.at[self.fold]), TileType((), F32), attrs)

    def _along(self, numbers: Value, least: Value) -> Value:
        """Numbers of a block, but nothing in the place of those that are far below."""
        block = Block([SINGLE, SINGLE])
        b = Builder(block)
        far = b.value("scalar.lt", block.args, ScalarType(BOOL))
        b.op("form.yield", (b.value("scalar.select", (far, _number(b, inf), block.args[0]), SINGLE),))
        return self.frame.builder.value(
            "tile.map", (numbers, least), tile_type(numbers), {"maps": ((0,), ())}, (block,), numbers.name
        )

    def _scalar(self, tiles: tuple[Value, ...], compute: Compute, dtype: DType = F32) -> Value:
        block = Block([ScalarType(tile_type(tile).dtype) for tile in tiles])
        b = Builder(block)
        b.op("form.yield", (compute(b, *block.args),))
        attrs = {"maps": ((),) * len(tiles)}
        return self.frame.builder.value("tile.map", tiles, TileType((), dtype), attrs, (block,))


def _number(b: Builder, value: float) -> Value:
    return b.value("scalar.constant", (), SINGLE, {"value": value})


def _plus(b: Builder, x: Value, number: float) -> Value:
    return b.value("scalar.add", (x, _number(b, number)), SINGLE)


def _repeats(b: Builder, reference: Value, exponent: Value, low: Value) -> Value:
    """1 where the reference does not serve, also where something is no number; else 0."""
    lowest = _plus(b, reference, -SPAN)
    size = b.value("scalar.abs", (reference,), SINGLE)
    tests = [
        b.value("scalar.le", (exponent, reference), ScalarType(BOOL)),
        b.value("scalar.le", (lowest, b.value("scalar.exp_int", (low,), SINGLE)), ScalarType(BOOL)),
        b.value("scalar.le", (size, _number(b, LARGEST)), ScalarType(BOOL)),
    ]
    serves = tests[0]
    for test in tests[1:]:
        serves = b.value("scalar.and", (serves, test), ScalarType(BOOL))
    one, zero = (b.value("scalar.constant", (), ScalarType(I64), {"value": i}) for i in (1, 0))
    return b.value("scalar.select", (serves, zero, one), ScalarType(I64))


def _chosen(b: Builder, total: Value, reference: Value, exponent: Value, again: Value, repeated: Value) -> Value:
    up = b.value("scalar.sub", (reference, exponent), SINGLE)
    zero = b.value("scalar.constant", (), again.type, {"value": 0})
    served = b.value("scalar.eq", (again, zero), ScalarType(BOOL))
    scaled = b.value("scalar.ldexp", (total, up), SINGLE)
    return b.value("scalar.select", (served, scaled, repeated), SINGLE)

