"""The bytes that a host program moves, counted at given sizes: a measure of its work that no machine disturbs.

Enters: a `schedule.func`, a number for each of its sizes, and how often a `while` iterates. Leaves: bytes. Every launch
reads and writes each element that it reaches once; a loop does so in each of its iterations, and of two branches the
larger counts. No operand is frozen. So the growth of the bytes with a size shows a copy that somebody hid in a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tesserac.ir.calls import call_dims, callee_of
from tesserac.ir.core import Block, Op, Value
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.dialect import LENGTH, Predicate, launch_kind, launch_lengths, launch_space, memory
from tesserac.schedule.maps.horizontal import one_tensor
from tesserac.schedule.model.space import Reach, reaches
from tesserac.types.dims import ZERO, Dim

Sizes = Mapping[str, int]


def bytes_moved(host: Op, sizes: Sizes, iterations: int) -> int:
    """What one call moves; `iterations` is how often a loop iterates that sizes do not count."""
    beside = host.parent.ops if host.parent is not None else [host]
    return _Traffic(iterations, {func.symbol: func for func in beside}).block(host.body, dict(sizes))


class _Traffic:
    def __init__(self, iterations: int, functions: Mapping[str, Op]) -> None:
        self._iterations = iterations
        self._functions = functions

    def block(self, block: Block, sizes: dict[str, int]) -> int:
        return sum(self._op(op, sizes) for op in block.ops)

    def _op(self, op: Op, sizes: dict[str, int]) -> int:
        blocks = [region.block for region in op.regions]
        match op.name:
            case "schedule.launch":
                return launch_bytes(op, sizes)
            case "schedule.call":
                callee, inside = self._functions[callee_of(op)], call_dims(op)
                return self.block(callee.body, {name: dim.evaluate(sizes) for name, dim in inside.items()})
            case "schedule.loop":
                return self._loop(op, sizes)
            case "schedule.while":
                return self._iterations * sum(self.block(block, sizes) for block in blocks)
            case "schedule.beside":
                return sum(self.block(block, sizes) for block in blocks)
            case "schedule.cond":
                return max(self.block(block, sizes) for block in blocks)
            case "schedule.kept":
                return self.block(blocks[-1], sizes)
            case "schedule.select":
                return self.block(blocks[chosen_region(op, sizes)], sizes)
        return 0

    def _loop(self, op: Op, sizes: dict[str, int]) -> int:
        bounds = [_bound(value, sizes) for value in op.operands[:2]]
        low, high = bounds if None not in bounds else (0, self._iterations)
        assert low is not None and high is not None
        counter = str(op.attrs["counter"])
        if not _mentions(op.body, counter):
            return max(0, high - low) * self.block(op.body, {**sizes, counter: low})
        return sum(self.block(op.body, {**sizes, counter: iteration}) for iteration in range(low, high))


def launch_bytes(launch: Op, sizes: Sizes) -> int:
    """What a launch reads and writes, each element of a memory once where it walks it more often; of a tile program all
    that it is given."""
    if lengths := launch_lengths(launch):
        single = one_tensor(launch)
        return sum(launch_bytes(single, {**sizes, LENGTH: length.evaluate(sizes)}) for length in lengths)
    if launch_kind(launch) == "program":
        types = map(memory, launch.operands)
        return sum(prod(d.evaluate(sizes) for d in ty.dims) * element_bytes(ty.dtype) for ty in types)
    return sum(_reached(launch, reach, sizes) for reach in dict.fromkeys(reaches(launch)))


def _reached(launch: Op, reach: Reach, sizes: Sizes) -> int:
    ty, space = memory(launch.operands[reach.operand]), launch_space(launch)
    walked = [size for size, stride in zip(space, reach.strides, strict=True) if stride != ZERO or reach.computed]
    return prod(d.evaluate(sizes) for d in (ty.dims if reach.panels else walked)) * element_bytes(ty.dtype)


def chosen_region(select: Op, sizes: Sizes) -> int:
    """Which of its regions runs at these sizes."""
    predicates = select.attrs["predicates"]
    assert isinstance(predicates, tuple)
    held = [isinstance(p, Predicate) and _holds(p, sizes) for p in predicates]
    return held.index(True) if True in held else len(held)


def _holds(predicate: Predicate, sizes: Sizes) -> bool:
    left, right = predicate.left.evaluate(sizes), predicate.right.evaluate(sizes)
    if predicate.kind == "each_thread":
        return left >= right  # one thread's: traffic is counted for all of a product, however it is shared
    return left >= right if predicate.kind == "at_least" else right % left == 0


def _bound(value: Value, sizes: Sizes) -> int | None:
    """The end of a loop; None where only the run knows it."""
    dim = value.defining_op.attrs.get("dim") if value.defining_op is not None else None
    return dim.evaluate(sizes) if isinstance(dim, Dim) else None


def _mentions(block: Block, counter: str) -> bool:
    """Whether a size that a launch or a loop inside walks depends on the counter."""
    spaces = (launch_space(op) for op in _inside(block) if op.name == "schedule.launch")
    ends = (op.attrs["dim"] for op in _inside(block) if op.name == "index.dim")
    dims = [*(dim for space in spaces for dim in space), *(dim for dim in ends if isinstance(dim, Dim))]
    return any(counter in dim.symbols() for dim in dims)


def _inside(block: Block) -> list[Op]:
    return [inner for op in block.ops for inner in op.walk()]
