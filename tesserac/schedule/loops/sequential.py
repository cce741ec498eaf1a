"""Loops of small work: a loop in which every launch is a few elements is compiled as one loop.

    schedule.loop(%lo, %hi) { ^(%i): schedule.launch(%x, %sum) {space = []} ... }
becomes
    schedule.loop(%lo, %hi) {sequential = "1 launch of at most 1 element"} { ... the same ... }

Enters: a host program with decided launches. Leaves: the same program, with the outermost of such loops marked, and
buffers of a few elements as registers: memory of their own, which a target may hold in registers while a loop runs.
The target writes a marked loop as machine code of its own, with the code of its launches in it (`target/cpu/
sequential.py`); no launch of it is divided among threads. Bits do not change: it is the same scalar code.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.dialect import CALL, SMALL_LAUNCH, launch_space, memory
from tesserac.types.dims import product

LOOPS = ("schedule.loop", "schedule.while")
NOT_INSIDE = ("schedule.print", CALL)
"""What a loop that is compiled as one does not do."""
MAX_LAUNCHES = 64
"""In one loop: the time in which machine code is made grows with it, and what a launch costs beside a long iteration
is little."""
FEW_ITERATIONS = 16
"""What is run so few times is not worth compiling for."""
REGISTER_BYTES = 64
"""The largest buffer that is worth holding in registers."""


@function_pass(SCHEDULE, SCHEDULE, "sequential")
def sequential(host: Op) -> None:
    loops = _loops_inside(host)
    marked = 0
    while loops:
        loop = loops.pop()
        reason = _is_sequential(loop)
        if reason is None:
            loops += _loops_inside(loop)
        else:
            loop.attrs["sequential"] = reason
            marked += 1
    for op in host.body.ops if marked else ():
        if op.name == "schedule.buffer" and op.attrs["role"] == "workspace" and _fits_registers(op.result):
            op.attrs.update(role="register", slot=0)


def _is_sequential(loop: Op) -> str | None:
    """How much a loop that is compiled as one does in an iteration; None for any other."""
    inside = [op for op in loop.walk() if op.opdef.dialect == "schedule"]
    launches = [op for op in inside if op.name == "schedule.launch"]
    if not launches or len(launches) > MAX_LAUNCHES or any(op.name in NOT_INSIDE for op in inside):
        return None
    sizes = [product(launch_space(launch)).constant for launch in launches]
    largest = max((size for size in sizes if size is not None), default=0)
    if None in sizes or largest > SMALL_LAUNCH or _iterations(loop) <= FEW_ITERATIONS:
        return None
    counted = "1 launch" if len(launches) == 1 else f"{len(launches)} launches"
    return f"{counted} of at most {largest} element{'s' * (largest != 1)}"


def _iterations(loop: Op) -> int:
    """How often the innermost loops run, at least, if that is known; more than a few if not."""
    own = FEW_ITERATIONS + 1
    if loop.name == "schedule.loop":
        low, high = (_constant(value) for value in loop.operands)
        own = own if low is None or high is None else max(0, high - low)
    inner = [_iterations(op) for op in _loops_inside(loop)]
    return own * max(inner, default=1)


def _constant(bound: Value) -> int | None:
    made = bound.defining_op
    dim = made.attrs.get("dim") if made is not None else None
    return getattr(dim, "constant", None)


def _loops_inside(op: Op) -> list[Op]:
    """The loops of a body, not those inside them."""
    found: list[Op] = []
    for region in op.regions if op.name != "schedule.launch" else ():
        for inner in region.block.ops:
            found += [inner] if inner.name in LOOPS else _loops_inside(inner)
    return found


def _fits_registers(buffer: Value) -> bool:
    ty = memory(buffer)
    count = product(ty.dims).constant
    return count is not None and ty.layout == "strided" and 0 < count * element_bytes(ty.dtype) <= REGISTER_BYTES
