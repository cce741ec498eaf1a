"""Which schedules are tried: all of a space, as many as the cost model thinks are worth measuring.

Enters: the options of each setting, a kernel, sizes of the problem, a machine. Leaves: candidates, best guess first.
The model counts cycles of the core that has the most to do: what products multiply and load in each round, what a round
and a program cost besides, more where blocks do not stay near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, prod

from tesserac.ir.core import Op
from tesserac.ir.forms import contracted, indices, tensor_type
from tesserac.ir.kernels import Cut, kernel_blocks, kernel_own, kernel_programs, setting_name
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.machine import Machine
from tesserac.schedule.programs.blocks import products_of, staged_bytes
from tesserac.types.dims import Dim, DimError

Settings = dict[str, int]
CPU_SPACE = {"m": (16, 32, 64, 96, 128, 256), "n": (48, 96, 192, 384), "k": (64, 128, 256, 512)}
GPU_SPACE = {"m": (32, 64, 128), "n": (32, 64, 128), "k": (16, 32, 64), "warps": (0, 4, 8), "stages": (2, 3)}
"""What is tried of a kernel that names no space: block sizes that it has, and what machines have besides; 0 leaves a
setting to the compiler."""
PRODUCT_SPACE = {"m": (24, 48, 96, 192), "n": (96, 192, 384, 768), "k": (128, 256, 512)}
"""What is tried of a product on a CPU: whole blocks of registers."""
COLUMNS_SPACE = (16, 32, 64, 128, 256)
"""What is tried of a reduction across rows: sums that are walked side by side."""
WARPS_SPACE = (1, 2, 4, 8, 16)
STAGES = (4, 3, 2)
LOADED = 16
"""Bytes that a core loads in a cycle from what is behind its near memory."""
ROUND, PROGRAM = 200, 2000
"""Cycles that a round of a loop over blocks, and a program, take besides."""


def default_space(cuts: Sequence[str], machine: Machine) -> dict[str, tuple[int, ...]]:
    space = GPU_SPACE if machine.warps else CPU_SPACE
    return {name: options for name, options in space.items() if name in (*cuts, "warps", "stages")}


def all_of(space: Mapping[str, Sequence[int]]) -> list[Settings]:
    """Every choice of a space; none of one that has nothing to choose."""
    points = product(*space.values()) if space else ()
    return [{name: value for name, value in zip(space, point, strict=True) if value} for point in points]


def candidates(
    space: Mapping[str, Sequence[int]], kernel: Op, sizes: Mapping[str, int], machine: Machine, most: int
) -> list[Settings]:
    """The settings of a kernel to measure."""
    every = [settings for settings in all_of(space) if settings]
    every.sort(key=lambda settings: _cycles(kernel, settings, sizes, machine))
    return every[:most]


def _cycles(kernel: Op, settings: Settings, sizes: Mapping[str, int], machine: Machine) -> float:
    cuts, own = kernel_blocks(kernel), kernel_own(kernel)
    extents = {cut.block: _number(cut.over, sizes) for cut in cuts}
    blocks = {cut.block: min(extents[cut.block], settings.get(block_name(cut.block), 64)) for cut in cuts}
    rounds = {block: ceil(extents[block] / size) for block, size in blocks.items()}
    programs = _number(kernel_programs(kernel), sizes) * prod(rounds[block] for block in own)
    turns = prod(count for block, count in rounds.items() if block not in own)
    known = {**blocks, **{Dim.sym(name): size for name, size in sizes.items()}}
    work = sum(_round_cycles(op, known, machine) for op in products_of(kernel))
    near = sum(staged_bytes(kernel, op, known, settings.get("stages", 1)) for op in products_of(kernel))
    spill = max(1.0, near / machine.near_bytes)
    waves = ceil(programs / machine.cores)
    return waves * (PROGRAM + turns * (ROUND + work * spill))


def _round_cycles(contract: Op, sizes: Mapping[Dim, int], machine: Machine) -> float:
    """Multiplying and loading, which overlap in part."""
    narrow = tensor_type(contract.operands[0]).dtype.bits == 16
    rate = machine.rates.matrix_fmas if narrow and machine.rates.matrix_fmas else machine.rates.fmas
    dims = tensor_type(contract.operands[0]).dims
    terms = [dims[indices(contract, "lhs").index(axis)] for axis in contracted(contract)]
    fmas = _elements((*tensor_type(contract.result).dims, *terms), sizes) / rate
    types = [tensor_type(value) for value in contract.operands]
    loads = sum(_elements(ty.dims, sizes) * element_bytes(ty.dtype) for ty in types) / LOADED
    return max(fmas, loads) + min(fmas, loads) / 2


def _elements(dims: Sequence[Dim], sizes: Mapping[Dim, int]) -> int:
    return prod(sizes.get(dim) or dim.constant or 1 for dim in dims)


def _number(dim: Dim, sizes: Mapping[str, int]) -> int:
    try:
        return max(1, dim.evaluate(dict(sizes)))
    except DimError:
        return 1


def block_names(cuts: Sequence[Cut]) -> dict[str, Cut]:
    """Dims that are cut, by what a schedule calls their blocks: `m` of `T_m`."""
    return {block_name(cut.block): cut for cut in cuts}


def block_name(block: Dim) -> str:
    return setting_name(block.symbol or "")
