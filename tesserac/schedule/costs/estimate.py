"""What a host program costs on a machine, for choosing between two that compute the same.

Enters: a `schedule.func` whose launches are known. Leaves: a number, in bytes of main memory: what launches move, what
they compute, in the bytes that a unit could move meanwhile, and what starting them takes. Sizes that only a run knows
are nominal. A loop counts as often as it iterates, of two branches the larger one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import contracted, indices, tensor_type
from tesserac.ir.kernels import KERNEL, kernel_programs, spanning
from tesserac.ir.lines import LINES, lines_space
from tesserac.schedule.costs.cost import body_work, element_bytes, nominal
from tesserac.schedule.dialect import LENGTH, launch_lengths, memory
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import I8, I32

START = 4096
"""Bytes that a machine moves while a launch starts."""
WAITED = 2
"""How often a matrix unit could have done meanwhile what waits for an operand that a program computes: on an H200 a
product of bf16 numbers by weights of i8 took 2.8 times as long as with weights that were rounded before it for 16 and
256 rows, and 4.6 times for 4096."""
NARROW_BITS = 16
NO_SIZES: Mapping[str, Dim] = {}


def estimate(host: Op, machine: Machine) -> int:
    return _block(host.body, machine)


def launch_work(launch: Op, sizes: Mapping[str, int], machine: Machine) -> int:
    """The operations of a launch; a fused multiply-add is two."""
    return _launch_work(launch, {name: Dim.const(number) for name, number in sizes.items()}, machine)


def _launch_work(launch: Op, sizes: Mapping[str, Dim], machine: Machine) -> int:
    """Of several tensors each does its own."""
    each: list[Mapping[str, Dim]] = [
        {**sizes, LENGTH: length.substitute(dict(sizes))} for length in launch_lengths(launch)
    ]
    return sum(_work(launch.body, own, machine) for own in each or [sizes])


def _block(block: Block, machine: Machine) -> int:
    return sum(_op(op, machine) for op in block.ops)


def _op(op: Op, machine: Machine) -> int:
    inside = [_block(region.block, machine) for region in op.regions if op.name != "schedule.launch"]
    match op.name:
        case "schedule.launch":
            moved = sum(nominal(product(ty.dims), machine) * element_bytes(ty.dtype) for ty in map(memory, op.operands))
            work = _launch_work(op, NO_SIZES, machine) + lost_work(op, machine)
            return START + moved + work // machine.flops_per_byte
        case "schedule.loop":
            return _iterations(op, machine) * sum(inside)
        case "schedule.while":
            return machine.nominal * sum(inside)
        case "schedule.beside":
            return sum(inside)
    return max(inside, default=0)


def lost_work(launch: Op, machine: Machine) -> int:
    """What could have been computed meanwhile by products of the compiler's own, where a program multiplies blocks of
    memory and nothing that it has computed: those have variants for their sizes, panels that all programs share, and
    warps that finish a block while others begin the next. Programs took 1.05 to 1.15 times as long, of two products on
    a GPU twice, of one row five times. A GPU cuts a program of one product of known sizes as it does a product; of
    others it has one cut, where a product has five: 64 rows took twice as long."""
    kernels = [op for op in launch.body.ops if op.name == KERNEL and _multiplies_memory(op, _fewest(op, machine))]
    lost = sum(_work_of_products(op, machine) for op in kernels) // 2
    waiting = (_waiting_work(op, machine) + _widened_work(op, machine) for op in launch.body.ops if op.name == KERNEL)
    return lost + WAITED * sum(waiting)


def loses_much(launch: Op, machine: Machine) -> bool:
    """Whether a launch could have computed as much again as it does."""
    return lost_work(launch, machine) >= _launch_work(launch, NO_SIZES, machine)


def _waiting_work(kernel: Op, machine: Machine) -> int:
    """The products of narrow numbers of a GPU that wait for an operand which a program makes of what it loads, element
    by element: warps load it, compute it and put it where the matrix unit reads it, one after the other."""
    if not machine.warps:
        return 0
    products = [op for op in kernel.walk() if op.name == "form.contract" and any(map(_is_made, op.operands))]
    return sum(_kernel_work(kernel, [op], machine) for op in products if _is_narrow(op))


def _widened_work(kernel: Op, machine: Machine) -> int:
    """The products of bytes that a matrix unit would take and that programs compute in words."""
    if not (machine.multiplies_bytes or machine.uses_tiles(I8, I32)):
        return 0
    products = [op for op in kernel.walk() if op.name == "form.contract"]
    return _kernel_work(kernel, [op for op in products if tensor_type(op.operands[0]).dtype == I8], machine)


def _is_narrow(product: Op) -> bool:
    return all(tensor_type(value).dtype.bits <= NARROW_BITS for value in product.operands)


def _is_made(value: Value) -> bool:
    """Whether a value is computed of loaded blocks alone, and by more than a view or a gather."""
    made = value.defining_op
    while made is not None and made.name in ("form.view", "form.gather"):
        made = made.operands[0].defining_op
    return made is not None and made.name == "form.map" and bool(made.operands) and _is_of_memory(value)


def _is_of_memory(value: Value) -> bool:
    made = value.defining_op
    if made is None:
        return True
    return made.name in ("form.map", "form.view", "form.gather") and all(map(_is_of_memory, made.operands))


def _fewest(kernel: Op, machine: Machine) -> int:
    """How many products of a program lose by it."""
    dims = (kernel_programs(kernel), *spanning(kernel).values())
    return 2 if machine.warps and all(dim.constant is not None for dim in dims) else 1


def _multiplies_memory(kernel: Op, least: int) -> bool:
    """Whether a program has so many products, all of blocks that it has loaded."""
    products = [op for op in kernel.walk() if op.name == "form.contract"]
    return len(products) >= least and all(_is_loaded(value) for op in products for value in op.operands)


def _is_loaded(value: Value) -> bool:
    made = value.defining_op
    return made is None or (made.name == "form.view" and _is_loaded(made.operands[0]))


def _work_of_products(kernel: Op, machine: Machine) -> int:
    return _kernel_work(kernel, [op for op in kernel.walk() if op.name == "form.contract"], machine)


def _kernel_work(kernel: Op, products: list[Op], machine: Machine) -> int:
    """What products do in all programs of a kernel."""
    programs = nominal(kernel_programs(kernel), machine)
    return programs * sum(_contraction_work(op, spanning(kernel), machine) for op in products)


def _contraction_work(op: Op, sizes: Mapping[str, Dim], machine: Machine) -> int:
    dims = tensor_type(op.operands[0]).dims
    summed = [dims[indices(op, "lhs").index(axis)] for axis in contracted(op)]
    return 2 * _elements((*tensor_type(op.result).dims, *summed), sizes, machine)


def _iterations(loop: Op, machine: Machine) -> int:
    ends = [v.defining_op.attrs.get("dim") if v.defining_op is not None else None for v in loop.operands[:2]]
    low, high = (nominal(dim, machine) if isinstance(dim, Dim) else None for dim in ends)
    zero = ends[0] == Dim.const(0)
    return max(1, (high or machine.nominal) - (0 if zero or low is None else low))


def _work(block: Block, sizes: Mapping[str, Dim], machine: Machine) -> int:
    """What all forms of a body compute, in operations. Programs of a kernel together do what one does whose blocks
    span their dims."""
    total = 0
    for op in block.ops:
        if op.name == KERNEL:
            whole = {name: dim.substitute(dict(sizes)) for name, dim in spanning(op).items()}
            programs = nominal(kernel_programs(op).substitute(dict(sizes)), machine)
            total += programs * _work(op.body, {**sizes, **whole}, machine)
        elif op.name == "form.map":
            total += max(1, body_work(op)) * _elements(tensor_type(op.result).dims, sizes, machine)
        elif op.name == LINES:
            total += max(1, body_work(op)) * _elements(lines_space(op), sizes, machine)
        elif op.name == "form.contract":
            total += _contraction_work(op, sizes, machine)
        elif op.regions:
            total += max(_work(region.block, sizes, machine) for region in op.regions)
        elif op.name.startswith("form.") and op.operands:
            total += _elements(tensor_type(op.operands[0]).dims, sizes, machine)
    return total


def _elements(dims: tuple[Dim, ...], sizes: Mapping[str, Dim], machine: Machine) -> int:
    return nominal(product([dim.substitute(dict(sizes)) for dim in dims]), machine)
