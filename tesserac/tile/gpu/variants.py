"""Variants: the ways in which one neutral kernel may be lowered for an architecture, each with its conditions.

Enters: a `tile.kernel` and an `Arch`. Leaves: `Variant`s in the order of preference; the first whose conditions hold of
the sizes runs. The last has none, so every size has a kernel, and all give the same bits:

    wgmma      tensor copies want matrices with rows of a multiple of 16 bytes    else   mma
    shared     a program's scratch in shared memory, if it fits                   else   workspace
    8 levels   up to 256 segments wait for their turn in the tree                 else   20 levels
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value, attr
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType, TileType
from tesserac.tile.dialect import Config, memref_type, tile_type
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.matrix import FMA, MMA, WARPGROUP, WGMMA
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import BF16, F16, F32

ROW_ALIGNMENT = 16
"""Bytes to which tensor copies want rows aligned."""
SHALLOW, DEEP = 8, 20
SCALAR_LEVELS = 32
EXCHANGE_BYTES = 8 * 1024
"""Shared memory beside the scratch, for what threads tell each other."""


@dataclass(frozen=True)
class Arch:
    """What a generation of GPUs offers. `shared_bytes` is the most that one block may have."""

    name: str
    shared_bytes: int
    tensor_copies: bool


SM_80 = Arch("sm_80", 163 * 1024, False)
SM_89 = Arch("sm_89", 99 * 1024, False)
SM_90A = Arch("sm_90a", 227 * 1024, True)
SM_100A = Arch("sm_100a", 227 * 1024, False)
ARCHES = {arch.name: arch for arch in (SM_80, SM_89, SM_90A, SM_100A)}


@dataclass(frozen=True)
class Variant:
    """One way. `unit` is the matrix unit ("" where there is no product), `warps` those that hold registers."""

    suffix: str
    when: tuple[Guard, ...]
    unit: str
    warps: int
    scratch: str
    levels: int


def variants(kernel: Op, arch: Arch) -> list[Variant]:
    """All ways to lower the kernel, best first."""
    config = attr(kernel, "config", Config)
    plain = Variant("", (), "", _power_of_two(config.warps), "shared", SCALAR_LEVELS)
    found = [plain]
    dots = [op for op in kernel.walk() if op.name == "tile.dot"]
    if dots:
        found = _matrix_variants(kernel, dots, plain, config, arch)
    scratch = [memref_type(op.result) for op in kernel.walk() if op.name == "tile.alloc"]
    return [v for base in found for v in _scratch_variants(base, scratch, arch)]


def _power_of_two(warps: int) -> int:
    return 1 << (warps.bit_length() - 1)


def _matrix_variants(kernel: Op, dots: list[Op], plain: Variant, config: Config, arch: Arch) -> list[Variant]:
    element, accum = tile_type(dots[0].operands[0]).dtype, tile_type(dots[0].result).dtype
    narrow = element in (BF16, F16) and accum == F32
    base = replace(plain, unit=MMA if narrow else FMA, levels=SHALLOW)
    fast = [base]
    sources = [_source(operand) for dot in dots for operand in dot.operands[:2]]
    matrices = all(len(m.dims) == 2 and m.strides == (m.dims[1], ONE) for m in sources)
    if narrow and matrices and arch.tensor_copies and config.roles == "producer_consumer":
        aligned = tuple(dict.fromkeys(g for mem in sources for g in _aligned(mem)))
        warps = config.warps - WARPGROUP
        fast = [replace(base, unit=WGMMA, warps=warps, when=aligned), replace(base, suffix="_mma")]
    few = tuple(_few_segments(op) for op in kernel.walk() if op.name == "tile.tree")
    if not few:
        return fast
    shallow = [replace(v, when=(*v.when, *few)) for v in fast]
    return [*shallow, replace(fast[-1], suffix="_deep", levels=DEEP)]


def _source(operand: Value) -> MemRefType:
    """The memory behind a staged operand."""
    load = operand.defining_op
    if load is None or load.name != "tile.load":
        raise LoweringError("a matrix product reads blocks straight from memory")
    return memref_type(load.operands[0])


def _aligned(mem: MemRefType) -> list[Guard]:
    """Rows must be a multiple of 16 bytes, and there must be some."""
    unit = Dim.const(ROW_ALIGNMENT * 8 // mem.dtype.bits)
    row = mem.strides[0]
    return [
        Guard("divides", unit, row, f"rows of {row} elements are 16-byte aligned"),
        Guard("at_least", mem.dims[0], Dim.const(1), f"{mem.dims[0]} is not 0"),
        Guard("at_least", mem.dims[1], Dim.const(1), f"{mem.dims[1]} is not 0"),
    ]


def _few_segments(tree: Op) -> Guard:
    count = tree.operands[0].defining_op
    if count is None or not isinstance(count.attrs.get("dim"), Dim):
        raise LoweringError("the number of segments is not known on the host")
    segments = attr(count, "dim", Dim)
    return Guard("at_least", Dim.const(1 << SHALLOW), segments, f"at most {1 << SHALLOW} segments")


def _scratch_variants(base: Variant, scratch: list[MemRefType], arch: Arch) -> list[Variant]:
    if not scratch:
        return [base]
    size = sum((scratch_bytes(mem) for mem in scratch), start=Dim.const(0))
    room = arch.shared_bytes - EXCHANGE_BYTES
    fits = Guard("at_least", Dim.const(room), size, "the scratch of a program fits shared memory")
    if size.constant is not None and size.constant <= room:
        return [base]
    outside = replace(base, suffix=base.suffix + "_workspace", scratch="workspace")
    return [replace(base, when=(*base.when, fits)), outside]


def scratch_bytes(mem: MemRefType) -> Dim:
    """Bytes of one program's scratch, rounded up so that the next one is aligned."""
    return (product(mem.dims) * (mem.dtype.bytes)).ceil_div(16) * 16


def fragments_are_scalar(values: tuple[Value, ...]) -> bool:
    """Whether a tree combines single numbers, which cost no registers to keep."""
    return all(isinstance(v.type, TileType) and v.type.shape == () for v in values)
