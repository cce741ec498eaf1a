"""What things cost: work of scalar bodies, bytes, and sizes, with a nominal one for dims that only a run knows."""

from __future__ import annotations

from functools import cache

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim, DimError, product
from tesserac.types.dtype import DType

WEIGHTS = {
    "constant": 0, "dim": 0, "cast": 1, "round": 3, "ldexp": 6, "exp_int": 4,
    "div": 8, "floor_div": 20, "mod": 20, "sqrt": 8, "rsqrt": 10,
    "exp_frac": 16, "exp": 20, "log": 20, "tanh": 24, "erf": 24, "sin": 30, "cos": 30,
}  # fmt: skip
"""Scalar primitives in units of one fused multiply-add; those not named cost 1."""


@cache
def nominal(dim: Dim, machine: Machine) -> int:
    """The size with every symbol at its nominal value."""
    try:
        return max(1, dim.evaluate(dict.fromkeys(dim.symbols(), machine.nominal)))
    except DimError:  # a quotient that is not whole at the nominal values
        return machine.nominal


def element_bytes(dtype: DType) -> int:
    return (dtype.bits + 7) // 8


def body_work(op: Op) -> int:
    """The work of one element of a map."""
    return sum(WEIGHTS.get(inner.name.partition(".")[2], 1) for inner in op.body.ops[:-1])


def element_traffic(op: Op) -> int:
    """The bytes of one element of a result."""
    return element_bytes(tensor_type(op.result).dtype)


def recompute_pays(producer: Op, consumers: list[Op], kept_anyway: bool, machine: Machine) -> bool:
    """Whether consumers had better compute the producer's elements themselves than read them from memory.

    Recomputing saves the store and the loads; it costs the producer's work for every evaluation beyond the first.
    """
    if not producer.operands:
        return True
    size = nominal(product(tensor_type(producer.result).dims), machine)
    spaces = [nominal(product(tensor_type(c.result).dims), machine) / size for c in consumers]
    evaluations = sum(max(1.0, s) for s in spaces) + (1 if kept_anyway else 0)
    moved = element_traffic(producer) * (len(consumers) + (0 if kept_anyway else 1))
    return (evaluations - 1) * body_work(producer) <= moved * machine.flops_per_byte


def scratch_pays(producer: Op, machine: Machine) -> bool:
    """Whether a value that two passes over a row need had better be kept in scratch than computed twice: the copy
    stays near the computing unit, where a byte costs a fraction of one from main memory."""
    return body_work(producer) > 2 * element_traffic(producer) * machine.flops_per_byte // 4


def power_of_two_below(value: float, low: int, high: int) -> int:
    """The largest power of two in low .. high that is at most `value`."""
    block = high
    while block > low and block > value:
        block //= 2
    return block
