"""Which schedules are tried: all of a space, as many as the cost model thinks are worth measuring.

Enters: the options of each setting, sizes of the problem, a machine. Leaves: candidates, best guess first. The model
counts what programs load together, what of a program is near, and cores that have nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, prod

from tesserac.ir.kernels import Cut, setting_name
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim

Settings = dict[str, int]
CPU_SPACE = {"m": (16, 32, 64, 128, 256), "n": (48, 96, 192, 384), "k": (64, 128, 256, 512)}
GPU_SPACE = {"m": (32, 64, 128), "n": (32, 64, 128), "k": (16, 32, 64), "warps": (4, 8), "stages": (2, 3)}
"""What is tried of a kernel that names no space: block sizes that it has, and what machines have besides."""
PRODUCT_SPACE = {"m": (24, 48, 96, 192), "n": (96, 192, 384, 768), "k": (128, 256, 512)}
"""What is tried of a product on a CPU: whole blocks of registers."""
ELEMENT = 4


def default_space(cuts: Sequence[str], machine: Machine) -> dict[str, tuple[int, ...]]:
    space = GPU_SPACE if machine.warps else CPU_SPACE
    return {name: options for name, options in space.items() if name in (*cuts, "warps", "stages")}


def candidates(
    space: Mapping[str, Sequence[int]],
    cuts: Mapping[str, Cut],
    own: Sequence[str],
    sizes: Mapping[str, int],
    machine: Machine,
    most: int,
) -> list[Settings]:
    """The settings to measure; `cuts` are the dims that blocks cut, by their names, and `own` those of the grid."""
    every = [dict(zip(space, point, strict=True)) for point in product(*space.values())]
    extents = {name: cut.over.evaluate(dict(sizes)) for name, cut in cuts.items()}
    every.sort(key=lambda settings: _cost(settings, extents, own, machine))
    return every[:most]


def _cost(settings: Settings, extents: Mapping[str, int], own: Sequence[str], machine: Machine) -> float:
    """A guess at time: loads of all programs, more where a program's blocks are not near, per core that has work."""
    blocks = {name: max(1, min(extent, settings.get(name, 64))) for name, extent in extents.items()}
    padded = {name: ceil(extent / blocks[name]) * blocks[name] for name, extent in extents.items()}
    programs = prod(ceil(extents[name] / blocks[name]) for name in own) or 1
    inner = prod(padded[name] for name in extents if name not in own)
    rows = prod(blocks[name] for name in own)
    near = ELEMENT * (sum(blocks.values()) * max(blocks.values(), default=1))
    loads = programs * inner * (1 + sum(blocks[name] for name in own))
    spill = 1.0 + max(0.0, near / machine.near_bytes - 1.0)
    waves = ceil(programs / machine.cores) * machine.cores / programs
    return (loads * spill + programs * rows * inner * 0.25) * waves


def block_names(cuts: Sequence[Cut]) -> dict[str, Cut]:
    """Dims that are cut, by what a schedule calls their blocks: `m` of `T_m`."""
    return {block_name(cut.block): cut for cut in cuts}


def block_name(block: Dim) -> str:
    return setting_name(block.symbol or "")
