"""The memory of one call beside its inputs and outputs: one block for all workspace slots and the workers' scratch.

    slot 0 | slot 1 | ... | what is called | scratch of worker 0 | scratch of worker 1 | ...

Buffers of one slot never live at the same time (Schedule planned them), so a slot is as large as the largest of them;
likewise one scratch serves all kernels, which run one after another. A function that is called has its workspace inside
that of its caller, in one part for all calls, and shares the scratch. Every part starts at a cache line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import memory
from tesserac.target.entry.extents import largest_in
from tesserac.types.dims import ZERO, Dim
from tesserac.types.extents import Bounds

ALIGNMENT = 64

BufferBytes = Callable[[MemRefType], Dim]
"""How many bytes the target needs for a memref; it knows the size of its packed panels."""


@dataclass(frozen=True)
class Plan:
    """Bytes of each slot, of the part for what is called, and of one worker's scratch, all multiples of the
    alignment."""

    slots: tuple[Dim, ...]
    called: Dim
    scratch: Dim

    @property
    def parts(self) -> tuple[Dim, ...]:
        """What lies one behind the other, but for the scratch."""
        return (*self.slots, self.called)


Sizes = Mapping[str, Dim]


def slot_of(buffer: Op) -> int:
    return attr(buffer, "slot", int)


def plan_workspace(
    buffers: Sequence[Op],
    kernels: Iterable[Op],
    buffer_bytes: BufferBytes,
    bounds: Bounds,
    calls: Sequence[tuple[Plan, Sizes]],
) -> Plan:
    """`bounds` are those of the loops around: a buffer whose size changes with their iterations is as large as it
    gets. `calls` are the plans of functions that are called, with their sizes."""
    lying: dict[int, list[Dim]] = defaultdict(list)
    for op in buffers:
        lying[slot_of(op)].append(buffer_bytes(_at_largest(memory(op.result), bounds)))
    slots = tuple(aligned(_largest(lying[i])) for i in range(max(lying, default=-1) + 1))
    called = _largest(largest_in(sum(plan.parts, ZERO).substitute(sizes), bounds) for plan, sizes in calls)
    scratch = [largest_in(attr(kernel, "scratch", Dim), bounds) for kernel in kernels]
    scratch += [largest_in(plan.scratch.substitute(sizes), bounds) for plan, sizes in calls]
    return Plan(slots, called, aligned(_largest(scratch)))


def _largest(sizes: Iterable[Dim]) -> Dim:
    """Each counts once: most buffers of a program have one of a few sizes."""
    return reduce(Dim.max, dict.fromkeys(sizes), ZERO)


def _at_largest(ty: MemRefType, bounds: Bounds) -> MemRefType:
    if not any(counter in dim.symbols() for dim in ty.dims for counter in bounds):
        return ty
    return MemRefType(tuple(largest_in(dim, bounds) for dim in ty.dims), ty.dtype, ty.policy, layout=ty.layout)


def aligned(size: Dim) -> Dim:
    """The size rounded up."""
    return size.ceil_div(ALIGNMENT) * ALIGNMENT
