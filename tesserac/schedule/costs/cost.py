"""What things cost: work of scalar bodies, bytes, and sizes, with a nominal one for dims that only a run knows."""

from __future__ import annotations

from functools import cache
from weakref import ReferenceType, ref

from tesserac.ir.core import Block, Op
from tesserac.ir.forms import contract_dims, contracted, tensor_type
from tesserac.ir.lines import LINES, codelet_of
from tesserac.ir.types import ScalarType
from tesserac.numerics.elementary import PROGRAMS, program, program_dtype
from tesserac.numerics.program import Program
from tesserac.schedule.costs.approximate_functions import near_work
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim, DimError, product
from tesserac.types.dtype import DType

WEIGHTS = {"constant": 0, "dim": 0, "round": 3, "div": 8, "floor_div": 20, "mod": 20, "sqrt": 8}
"""Scalar primitives in units of one fused multiply-add; those not named cost 1, elementary functions as their steps."""

LITTLE = 64
"""The most work for which a constant or a scalar is computed by each of its readers without a second thought."""

MAX_WORK = 512
"""The most work of one element in a fused body, and in a launch: beside so much of it a store and a load are nothing,
and the time in which machine code is made grows faster than the code."""

SORT_WORK = 256
"""That of an element of a sort: some 40 cycles on a CPU, in which vectors do so many operations."""

MATRIX_BITS = 16
"""Operands up to this width are multiplied in the matrix units of a GPU."""

EPILOGUE_FACTOR = 4
"""How much longer work takes behind a product, in the few warps that have its sums, than in a launch of its own."""
SUMS_FACTOR, QUOTIENT_WORK = 2, 128
"""The same of f32 sums that become narrow numbers where the matrix unit runs by itself, and what a quotient or a root
is there, in which threads go apart that have 128 sums each. Microseconds behind a product of 4096 bf16 numbers and in a
launch of its own, on an H200: exp 197, 218; gelu 204, 228; tanh 206, 226; silu, which divides, 262, 216; tanh by silu
564, 236. Gelu to f32 took 213 and 230, but such kernels spill (4 bytes; exp 100)."""
QUOTIENTS = ("scalar.div", "scalar.sqrt", "scalar.rsqrt")

FINISHED_TERMS = 80
"""Terms of a product in the time of which warps of their own do one operation for each element of the one before:
measured on an H200."""

LAUNCH_BYTES = 8 << 20
"""Bytes that a GPU moves while one launch ends and the next begins."""

NEAR_LOADS = 2
"""Loads that cost no more than one of a value which has just been written."""


@cache
def primitive_work(name: str, dtype: DType) -> int:
    """The work of one scalar primitive on a register of its type."""
    if name not in PROGRAMS:
        return WEIGHTS.get(name, 1)
    return _weight(program(name, program_dtype(dtype)))


def _weight(steps: Program) -> int:
    """Parts count as what they are made of: few machines have an instruction for one."""
    parts = (_weight(s.program) if s.op == "part" and s.program else WEIGHTS.get(s.op, 1) for s in steps.steps)
    return sum(parts)


NOMINAL_COUNT = 16
"""A counter, whose name is in lower case: of blocks rather than of elements where sizes depend on it."""


@cache
def nominal(dim: Dim, machine: Machine) -> int:
    """The size with every symbol at its nominal value, and every counter of a loop in the midst of its iterations."""
    values = {name: machine.nominal if name[0].isupper() else NOMINAL_COUNT for name in dim.symbols()}
    try:
        return max(1, dim.evaluate(values))
    except DimError:  # a quotient that is not whole at the nominal values
        return machine.nominal


def element_bytes(dtype: DType) -> int:
    return dtype.bytes


_COUNTED: dict[int, tuple[ReferenceType[Block], int, int]] = {}
"""How many operations of a body were counted, and their work, by its id: one that grows by fusion is not counted anew.
Nothing runs when a body dies, as it would in a weak dict: a Ctrl-C that comes then would be lost."""
_MOST_COUNTED = 100_000


def body_work(op: Op) -> int:
    """The work of one element of a map, or of one point of lines."""
    codelet = codelet_of(op)
    if codelet is not None:
        return codelet.work
    block = op.body
    known, counted, work = _COUNTED.get(id(block), (None, 0, 0))
    if known is None or known() is not block or counted > len(block.ops) - 1:
        counted, work = 0, 0
    for inner in block.ops[counted:-1]:
        near = near_work(inner)
        work += primitive_work(inner.name.partition(".")[2], _dtype(inner)) if near is None else near
    if len(_COUNTED) > _MOST_COUNTED:
        _COUNTED.clear()
    _COUNTED[id(block)] = (ref(block), len(block.ops) - 1, work)
    return work


def form_work(op: Op) -> int:
    """The work of one element of a form; what has no body of scalars moves elements only, but for a sort, which moves
    each once for every digit of its key."""
    if op.name == "form.sort":
        return SORT_WORK
    return body_work(op) if op.name in ("form.map", LINES) else 0


def _dtype(scalar: Op) -> DType:
    type_ = scalar.result.type
    assert isinstance(type_, ScalarType)
    return type_.dtype


def element_traffic(op: Op) -> int:
    """The bytes of one element of a result."""
    return element_bytes(tensor_type(op.result).dtype)


def recompute_pays(producer: Op, consumers: list[Op], kept_anyway: bool, machine: Machine) -> bool:
    """Whether consumers had better compute the producer's elements themselves than read them from memory.

    Recomputing saves the store and the loads; it costs the producer's work, and loads of what it reads, for every
    evaluation beyond the first: a sum that grows by a term in each layer is not read term by term in all later ones. A
    scalar is computed once per program, and a little work, no division, hides behind the traffic that a reader has
    anyway. What is kept anyway for a reduction is likely to stay near. Long programs, such as those that draw random
    numbers, are kept apart: kernels that read their result are then alike, and compiled once.
    """
    if body_work(producer) <= LITTLE and not (producer.operands and tensor_type(producer.result).rank):
        return True
    size = nominal(product(tensor_type(producer.result).dims), machine)
    stretched = [nominal(product(tensor_type(c.result).dims), machine) / size for c in consumers]
    if max(stretched) > 1:
        hidden = all(2 * body_work(producer) <= _idle_work(consumer, machine) for consumer in consumers)
        return hidden and body_work(producer) < WEIGHTS["div"]
    loads = [_extra_loads(producer, consumer, size, machine) for consumer in consumers]
    if kept_anyway:
        return not scratch_pays(producer) and max(loads) <= NEAR_LOADS * element_traffic(producer)
    saved = element_traffic(producer) * (len(consumers) + 1) - (sum(loads) - max(loads))
    return (len(consumers) - 1) * body_work(producer) <= saved * machine.flops_per_byte


def _extra_loads(producer: Op, consumer: Op, size: int, machine: Machine) -> float:
    """Bytes that a map reads for each of its elements if it computes the producer's, and does not read anyway."""
    read = [tensor_type(v) for v in dict.fromkeys(producer.operands) if v not in consumer.operands]
    return sum(nominal(product(ty.dims), machine) / size * element_bytes(ty.dtype) for ty in read)


def _idle_work(consumer: Op, machine: Machine) -> int:
    """Work per element that a map could do beside its own while it waits for memory."""
    read = max((element_bytes(tensor_type(v).dtype) for v in consumer.operands), default=0)
    return (element_traffic(consumer) + read) * machine.flops_per_byte - body_work(consumer)


def scratch_pays(producer: Op) -> bool:
    """Whether a value that two passes over a row need had better be kept in scratch than computed twice: a store and a
    load, against its work. Near memory (L1, shared) moves about a byte in the time of one operation, everywhere."""
    return body_work(producer) > 2 * element_traffic(producer)


def apart_pays(product_: Op, maps: list[Op], machine: Machine) -> bool:
    """Whether maps over a product in a matrix unit had better be a launch of their own than be computed where it ends.

    There a few warps work on them, beside the next product where it is rounded to 16 bits, else while the unit waits:
    slowly, and nothing else hides the way to memory. A launch of their own costs the product's way to memory, unless
    that is written anyway, and back.
    """
    if not machine.warps or tensor_type(product_.operands[0]).dtype.bits > MATRIX_BITS:
        return False
    dims = tensor_type(product_.result).dims
    inside = {op.result for op in (product_, *maps)}
    read = {v for op in maps for v in op.operands if v not in inside and tensor_type(v).rank >= len(dims)}
    moved = sum(element_bytes(tensor_type(v).dtype) for v in (*read, *(op.result for op in maps)))
    work = _work_behind(product_, maps, machine) / machine.flops_per_byte
    anyway = any(user not in maps for user, _ in product_.result.uses)
    saved = moved + work - (1 if anyway else 2) * element_traffic(product_)
    return saved * nominal(product(dims), machine) > LAUNCH_BYTES


def _work_behind(product_: Op, maps: list[Op], machine: Machine) -> float:
    work = sum(map(form_work, maps))
    sums, *written = (tensor_type(op.result).dtype.bits for op in (product_, *maps))
    if machine.has_async_matrix_unit and sums > MATRIX_BITS >= max(written, default=0):
        return (work + QUOTIENT_WORK * sum(map(_quotients, maps))) * SUMS_FACTOR
    return max(0, work - _work_beside(product_, machine)) * EPILOGUE_FACTOR


def _quotients(op: Op) -> int:
    """Quotients and roots of one element of a map of any numbers: those of functions are of numbers in a range."""
    scalars = [inner for region in op.regions for inner in region.block.ops if near_work(inner) is None]
    return sum(inner.name in QUOTIENTS for inner in scalars)


def _work_beside(product_: Op, machine: Machine) -> int:
    """The work of an element that warps of their own do while the unit has the next block."""
    if not machine.has_async_matrix_unit or tensor_type(product_.result).dtype.bits != MATRIX_BITS:
        return 0
    sizes = contract_dims(product_)
    return nominal(product([sizes[i] for i in contracted(product_)]), machine) // FINISHED_TERMS


def power_of_two_below(value: float, low: int, high: int) -> int:
    """The largest power of two in low .. high that is at most `value`."""
    block = high
    while block > low and block > value:
        block //= 2
    return block
