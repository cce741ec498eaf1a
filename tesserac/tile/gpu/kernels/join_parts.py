"""Pass `join_parts`: kernels that reach the two parts of complex numbers as two memories reach them as one.

    tile.kernel @k { ^(p, re: memref<[N], strides=[2]>, im: memref<[2, N], strides=[1, 2]>): load re[i]; load im[1, i] }
    tile.launch(x, x) @k                                        x is schedule.parts
  becomes
    tile.kernel @k { ^(p, x: memref<[N, 2]>): load x[i, 0]; load x[i, 1] }
    tile.launch(x) @k

Enters: neutral kernels and a host program. Where a kernel takes one part only, or reaches one inside a loop, its memory
stays as it is. Both parts of a number can then be read and written at once (`pairs.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op, Region, Value, clone_op
from tesserac.ir.index import constant_index, dim_value
from tesserac.ir.types import MemRefType
from tesserac.tile.dialect import grid, kernel_memrefs, memref_type
from tesserac.types.dims import ONE, ZERO, Dim

TWO = Dim.const(2)


@dataclass(frozen=True)
class _Part:
    """What a kernel takes as a memory: a part of the numbers of `numbers`, one of them for each launch."""

    place: int
    part: int
    numbers: tuple[Value, ...]
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]

    @property
    def beside(self) -> tuple[object, ...]:
        """Equal for the two parts of the same numbers."""
        return self.numbers, self.dims, self.strides


def join_parts(module: Module) -> None:
    """Changes the module in place."""
    launches: dict[object, list[Op]] = defaultdict(list)
    for op in (op for host in module.ops if host.name != "tile.kernel" for op in host.walk()):
        if op.name == "tile.launch":
            launches[op.attrs["kernel"]].append(op)
    for kernel in [op for op in module.ops if op.name == "tile.kernel"]:
        _join(kernel, launches[kernel.symbol])


def _join(kernel: Op, launches: Sequence[Op]) -> None:
    pairs, body = dict(_pairs(kernel, launches)), kernel.parent
    if not pairs or body is None:
        return
    dropped = [second.place for second in pairs.values()]
    for launch in launches:
        operands = list(launch.operands)
        for first in pairs:
            operands[first.place] = first.numbers[launches.index(launch)]
        launch.set_operands([v for place, v in enumerate(operands) if place not in dropped])
    body.insert(body.place(kernel), _rewritten(kernel, pairs))
    kernel.erase()


def _pairs(kernel: Op, launches: Sequence[Op]) -> Iterator[tuple[_Part, _Part]]:
    found: dict[object, list[_Part]] = defaultdict(list)
    for place, value in enumerate(kernel_memrefs(kernel)):
        part = _part(kernel, value, place, launches)
        if part is not None:
            found[part.beside].append(part)
    for parts in found.values():
        if sorted(part.part for part in parts) == [0, 1]:
            first, second = sorted(parts, key=lambda part: part.part)
            yield first, second


def _part(kernel: Op, value: Value, place: int, launches: Sequence[Op]) -> _Part | None:
    uses = [user for user, _ in value.uses]
    is_moved = all(op.name in ("tile.load", "tile.store") and op.parent is kernel.body for op in uses)
    given = [_numbers(launch.operands[place]) for launch in launches]
    starts = {start for _, start in given}
    if not uses or not given or not is_moved or len(starts) != 1 or any("groups" in op.attrs for op in uses):
        return None
    (start,), ty = starts, memref_type(value)
    dims, strides = ty.dims, ty.strides
    if dims[:1] == (TWO,) and strides[0] == ONE and all(constant_index(_at(op)[0]) == 1 for op in uses):
        start, dims, strides = start + 1, dims[1:], strides[1:]
    even = all(stride.mod(TWO) == ZERO for stride in strides)
    numbers = tuple(held for held, _ in given if held is not None)
    if not even or len(numbers) != len(launches) or start not in (0, 1):
        return None
    return _Part(place, start, numbers, dims, strides)


def _numbers(operand: Value) -> tuple[Value | None, int]:
    """The parts that a launch is given, and the number of the first of them."""
    made = operand.defining_op
    if made is not None and made.name == "schedule.box" and isinstance(offset := made.attrs["offset"], Dim):
        held, start = _numbers(made.operands[0])
        return (held, start + offset.constant) if offset.constant is not None else (None, 0)
    return (operand if made is not None and made.name == "schedule.parts" else None), 0


def _at(move: Op) -> list[Value]:
    return list(move.operands[(2 if move.name == "tile.store" else 1) :])


def _rewritten(kernel: Op, pairs: dict[_Part, _Part]) -> Op:
    block, values, memrefs = Block(), dict[Value, Value](), kernel_memrefs(kernel)
    for position in kernel.body.args[: len(grid(kernel))]:
        values[position] = block.add_arg(position.type, position.name)
    parts = {memrefs[part.place]: part for pair in pairs.items() for part in pair}
    firsts = {part.place: part for part in pairs}
    joined = dict[object, Value]()
    for place, value in enumerate(memrefs):
        if place in firsts:
            joined[firsts[place].beside] = block.add_arg(_numbers_type(value, firsts[place]), value.name)
        elif value not in parts:
            values[value] = block.add_arg(value.type, value.name)
    b = Builder(block, kernel.span)
    for op in kernel.body.ops:
        memory = op.operands[-1 - len(_at(op))] if op.name in ("tile.load", "tile.store") else None
        if memory in parts:
            part = parts[memory]
            at = [values[v] for v in _at(op)[len(_at(op)) - len(part.dims) :]]
            stored = [values[v] for v in op.operands[: -1 - len(_at(op))]]
            values[memory] = joined[part.beside]
            move = clone_op(op, values)
            move.set_operands([*stored, joined[part.beside], *at, dim_value(b, part.part)])
            values.update(zip(op.results, b.add(move).results, strict=True))
        else:
            b.add(clone_op(op, values))
    return Op(kernel.opdef, (), (), dict(kernel.attrs), [Region(block)], kernel.span)


def _numbers_type(value: Value, part: _Part) -> MemRefType:
    ty = memref_type(value)
    return MemRefType((*part.dims, TWO), ty.dtype, ty.policy, (*part.strides, ONE), space=ty.space)
