"""Accesses that stand side by side: the two parts of complex numbers, or the elements of a short line, read or written
by one iteration.

    %r = cpu.load(%z, %i, 0)         elements 0, 2, 4, ... of a run: without this a load for each lane
    %m = cpu.load(%z, %i, 1)         elements 1, 3, 5, ...
are one load of twice as many lanes, of which each takes every second. Stores of 2, 4, 8, ... such elements are a matrix
of lanes and places, which is transposed in registers and written in rows. Enters: the body of a loop. Leaves: for each
access those beside it, and vectors taken apart and put together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.ir.types import MemRefType
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value

Group = tuple[Op, ...]
"""Accesses of elements that follow each other in memory, a power of two of them."""


def neighbours(block: Block, most: int) -> dict[Op, Group]:
    """Per access those it is beside, itself among them: two loads, or up to `most` stores."""
    lines: dict[object, dict[int, Op]] = defaultdict(dict)
    for op in block.ops:
        for line, number in _places(op):
            lines[line].setdefault(number, op)
    found: dict[Op, Group] = {}
    for ops in sorted(lines.values(), key=len, reverse=True):
        for group in _runs(ops, most):
            if not any(op in found for op in group):
                found.update(dict.fromkeys(group, group))
    return found


def _runs(ops: dict[int, Op], most: int) -> Iterator[Group]:
    """Runs that begin at a multiple of their length, the longest first."""
    size = most
    left = dict(ops)
    while size > 1:
        for start in [number for number in left if number % size == 0]:
            run = range(start, start + size)
            if all(number in left for number in run):
                group = tuple(left.pop(number) for number in run)
                if size == 2 or group[0].name == "cpu.store":
                    yield group
                else:
                    left.update(zip(run, group, strict=True))
        size //= 2


def _places(op: Op) -> Iterator[tuple[object, int]]:
    """The lines that an element is one of, and where it stands there: one for each dim of stride 1 in which a number
    says the place."""
    if op.name in ("cpu.load", "cpu.store"):
        memory, *at = op.operands if op.name == "cpu.load" else op.operands[1:]
        for dim, number in _numbers(memory, at):
            yield (op.name, memory, dim, *at[:dim], *at[dim + 1 :]), number


def _numbers(memory: IRValue, at: list[IRValue]) -> Iterator[tuple[int, int]]:
    assert isinstance(memory.type, MemRefType)
    for dim, (place, stride) in enumerate(zip(at, memory.type.strides, strict=True)):
        number = constant_index(place)
        if number is not None and stride.constant == 1:
            yield dim, number


def apart(b: Builder, both: Value, lanes: int, backwards: bool = False) -> tuple[Value, Value]:
    """The even and the odd elements of a vector, from its start or its end."""
    order = range(0, 2 * lanes, 2)[:: -1 if backwards else 1]
    even, odd = (b.shuffle(both, both, [place + start for place in order]) for start in (0, 1))
    return even, odd


def transposed(b: Builder, vectors: Sequence[Value], lanes: int) -> list[Value]:
    """As many vectors, with the first lane of all, then the second of all, and so on. Each round of zipping the first
    half with the second brings elements of one lane twice as near to each other."""
    found = list(vectors)
    low, high = ([lane + lanes * part for lane in half for part in (0, 1)] for half in _halves(lanes))
    for _ in range(len(vectors).bit_length() - 1):
        middle = len(found) // 2
        pairs = zip(found[:middle], found[middle:], strict=True)
        found = [b.shuffle(left, right, half) for left, right in pairs for half in (low, high)]
    return found


def _halves(lanes: int) -> tuple[range, range]:
    return range(lanes // 2), range(lanes // 2, lanes)
