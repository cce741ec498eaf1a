"""Accesses that stand side by side: the two parts of complex numbers, read or written by one iteration.

    %r = cpu.load(%z, %i, 0)         elements 0, 2, 4, ... of a run: without this a load for each lane
    %m = cpu.load(%z, %i, 1)         elements 1, 3, 5, ...
are one load of twice as many lanes, of which each takes every second; a pair of stores the other way round. Enters: the
body of a loop. Leaves: for each access of a pair the other, and vectors taken apart and put together.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.index import constant_index
from tesserac.ir.types import MemRefType
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value


def neighbours(block: Block) -> dict[Op, Op]:
    """Per access the one that reads or writes the next element, or the one before."""
    waiting: dict[object, Op] = {}
    found: dict[Op, Op] = {}
    for op in block.ops:
        for other, own in _places(op):
            if (partner := waiting.get(other)) is not None and op not in found and partner not in found:
                found[op], found[partner] = partner, op
            waiting.setdefault(own, op)
    return found


def _places(op: Op) -> Iterator[tuple[object, object]]:
    """Where an element stands and its neighbour would, for each dim of stride 1 that a number says the place in."""
    if op.name not in ("cpu.load", "cpu.store"):
        return
    memory, *at = op.operands if op.name == "cpu.load" else op.operands[1:]
    for dim, number in _numbers(memory, at):
        rest = (op.name, memory, dim, *at[:dim], *at[dim + 1 :])
        yield (rest, number ^ 1), (rest, number)


def _numbers(memory: IRValue, at: list[IRValue]) -> Iterator[tuple[int, int]]:
    assert isinstance(memory.type, MemRefType)
    for dim, (place, stride) in enumerate(zip(at, memory.type.strides, strict=True)):
        number = constant_index(place)
        if number is not None and stride.constant == 1:
            yield dim, number


def is_first(op: Op) -> bool:
    """Whether an access of a pair has the lower address."""
    memory, *at = op.operands if op.name == "cpu.load" else op.operands[1:]
    ((_, number), *_) = _numbers(memory, at)
    return number % 2 == 0


def apart(b: Builder, both: Value, lanes: int) -> tuple[Value, Value]:
    """The even and the odd elements of a vector."""
    even, odd = (b.shuffle(both, both, range(start, 2 * lanes, 2)) for start in (0, 1))
    return even, odd


def together(b: Builder, even: Value, odd: Value, lanes: int) -> Value:
    """A vector of elements of two in turn."""
    return b.shuffle(even, odd, [lane + lanes * part for lane in range(lanes) for part in (0, 1)])
