"""Memory between the launches of a chain that takes columns through all of its steps: a program's columns lie together.

    [B, 16, 256, 16], columns along the 256, 8 for a program:   strides 65536, 4096, 16, 1   ->   0, 128, 16, 1

Only the program reads what it wrote, so rows need no place of their own, and of the columns there are only its own. In
their usual places they would be powers of two apart, in a few sets of a cache, where no two steps find anything again.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.schedule.model.space import Reach
from tesserac.types.dims import ZERO, Dim


@dataclass(frozen=True)
class Packed:
    """How many first `axes` are rows, the elements of all `rows` and of one `row`, and of the `run` that all columns
    have without a gap, of which a program has `part`."""

    axes: int
    rows: Dim
    row: int
    run: int
    part: int

    @property
    def region(self) -> int:
        """Elements that a program has of as many as a row has."""
        return self.row // self.run * self.part

    def step(self, step: Dim) -> Dim | None:
        """The same step in packed memory; none where it is no step along one dim."""
        found = self._split(step)
        if found is None:
            return None
        rows, runs, rest = found
        return self._joined(rows, runs, rest) if sum(number != 0 for number in found) <= 1 else None

    def place(self, place: Dim) -> Dim | None:
        found = self._split(place)
        return None if found is None else self._joined(*found)

    def _split(self, number: Dim) -> tuple[int, int, int] | None:
        """How many times all rows a number of elements is, how many runs the rest, and what is left."""
        known, rows = number.constant, self.rows.constant
        if known is None:
            times = number.exact_div(self.rows).constant
            return None if times is None else (times, 0, 0)
        times, rest = (0, known) if rows is None else divmod(known, rows)
        return times, rest // self.run, rest % self.run

    def _joined(self, rows: int, runs: int, rest: int) -> Dim:
        return Dim.const(rows * self.region + runs * self.part + rest)


register_attribute("packed_columns", Packed)


def packed_reach(reach: Reach, packed: Packed) -> Reach | None:
    """How a launch reaches such memory; none where it does not go along dims."""
    inner = [_signed_step(packed, stride) for stride in reach.strides[packed.axes :]]
    lines = [(size, _signed_step(packed, stride)) for size, stride in reach.computed]
    offset = packed.place(reach.offset)
    strides = tuple(stride for stride in inner if stride is not None)
    computed = tuple((size, stride) for size, stride in lines if stride is not None)
    if offset is None or len(strides) < len(inner) or len(computed) < len(lines) or reach.panels or reach.digits:
        return None
    return replace(reach, offset=offset, strides=(*((ZERO,) * packed.axes), *strides), computed=computed)


def _signed_step(packed: Packed, step: Dim) -> Dim | None:
    if step.constant is not None and step.constant < 0:
        found = packed.step(-step)
        return None if found is None else -found
    return packed.step(step)
