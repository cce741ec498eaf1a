"""Rows of a panel whose columns lie in several runs of memory, on processors whose loads take masks.

    columns    24 25 26 27 | 30 31 32 33      the end of one line of an image, and the beginning of the next
    run 0      x  x  x  x    .  .  .  .       loaded from place 24
    run 1      .  .  .  .    x  x  x  x       loaded over it, from place 30 - 4

A vector is put together of one masked load for each run; lanes behind the last column of the block belong to none.
Where columns are two elements apart, every second lane of two such vectors is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, LType, Value, const_i64, const_int, const_vector, integer, vector, zero

RUNS = (1, 2, 4)
"""The most runs that the vectors of a panel are put together of."""
NEAR = (1, 2)
"""How far apart columns may lie."""



@dataclass(frozen=True)
class Run:
    """Lanes of a vector that are neighbours in memory: where lane 0 would lie, and which they are."""

    place: Value
    lanes: Sequence[Value]


@dataclass(frozen=True)
class MaskedLoads:
    """Loads of elements of type `stored`, `step` apart, as vectors of `lanes`, from places behind `start`."""

    b: Builder
    stored: LType
    start: Value
    lanes: int
    step: int

    def runs(self, places: Value, breaks: Value, present: Value, count: int) -> list[Run]:
        """The first `count` runs of a vector whose lanes have these places, and so many breaks before them. Lanes from
        `present` on are empty."""
        b, lanes = self.b, self.lanes
        exists = b.icmp("slt", _counted(lanes), b.splat(present, lanes))
        passed = b.binary("sub", breaks, b.splat(b.extract(breaks, 0), lanes))
        found = list[Run]()
        for number in range(count):
            mask = b.binary("and", exists, b.icmp("eq", passed, b.splat(const_i64(number), lanes)))
            first = b.minimum_int(self._first(mask), const_i64(lanes - 1))
            place = b.sub(b.extract(places, first), b.mul(first, const_i64(self.step)))
            found.append(self.run(place, mask))
        return found

    def run(self, place: Value, mask: Value) -> Run:
        """The lanes of a mask, where lane 0 would lie at this place."""
        return Run(place, self._spread(mask))

    def _first(self, mask: Value) -> Value:
        """The first lane of a mask; how many there are where it is empty."""
        b, word = self.b, integer(self.lanes)
        bits = b.cast("bitcast", mask, word)
        return b.cast("zext", b.intrinsic("llvm.cttz", word, [bits, const_int(I1, 0)], [word]), I64)

    def _spread(self, mask: Value) -> list[Value]:
        """Masks of the vectors that hold the lanes, `step` apart."""
        lanes, none = self.lanes, zero(mask.type)
        places = [place // self.step if place % self.step == 0 else lanes for place in range(lanes * self.step)]
        parts = (places[start : start + lanes] for start in range(0, len(places), lanes))
        return [mask] if self.step == 1 else [self.b.shuffle(mask, none, part) for part in parts]

    def load(self, offset: Value, runs: Sequence[Run]) -> Value:
        """The vector of these runs, `offset` behind where they lie."""
        b, whole = self.b, vector(self.stored, self.lanes)
        parts = [zero(whole)] * self.step
        for run in runs:
            start = b.gep(self.stored, self.start, b.add(offset, run.place))
            for number, mask in enumerate(run.lanes):
                address = b.gep(self.stored, start, number * self.lanes)
                operands = [address, mask, parts[number]]
                parts[number] = b.intrinsic("llvm.masked.load", whole, operands, [whole, address.type])
        return parts[0] if self.step == 1 else b.shuffle(parts[0], parts[1], range(0, 2 * self.lanes, 2))


def _counted(lanes: int) -> Value:
    """The vector 0, 1, 2, ..."""
    return const_vector([const_i64(i) for i in range(lanes)])
