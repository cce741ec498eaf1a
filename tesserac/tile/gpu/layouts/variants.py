"""Variants: the ways in which one neutral kernel may be lowered for an architecture, each with its conditions.

Enters: a `tile.kernel` and a machine. Leaves: `Variant`s in the order of preference; the first whose conditions hold of
the sizes runs. The last has none, so every size has a kernel, and all give the same bits:

    wgmma      tensor copies want matrices with rows of a multiple of 16 bytes    else   mma
    shared     a program's scratch in shared memory, if it fits                   else   workspace
    8 levels   up to 256 segments wait for their turn in the tree                 else   20 levels
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value, attr
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType, TileType
from tesserac.schedule.machine import Machine
from tesserac.schedule.rows.row_lengths import row_blocks, row_parts
from tesserac.tile.dialect import Config, memref_type, tile_type
from tesserac.tile.gpu.layouts.asynchronous import is_narrow, sums_rows, takes_roles
from tesserac.tile.gpu.layouts.row_copies import is_staged_gather
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import TEAM, WHOLE_WARP
from tesserac.tile.gpu.model.matrix import COLUMNS, FMA, FMA_PART, MMA, MMA_PART, ROWS, WARPGROUP, WGMMA
from tesserac.types.dims import ONE, Dim, product

ROW_ALIGNMENT = 16
"""Bytes to which tensor copies want rows aligned."""
SHALLOW, DEEP = 8, 20
SCALAR_LEVELS = 32
EXCHANGE_BYTES = 8 * 1024
"""Shared memory beside the scratch, for what threads tell each other."""


@dataclass(frozen=True)
class Variant:
    """One way. `unit` is the matrix unit ("" where there is no product), `warps` those that hold registers. `share`:
    what warps share out of the results of products that are looked at row by row, or multiplied again."""

    suffix: str
    when: tuple[Guard, ...]
    unit: str
    warps: int
    scratch: str
    levels: int
    share: str = ""
    team: int = TEAM
    """Threads that fold a block of a row."""

    @property
    def copying(self) -> int:
        """Warps that copy rows into stages: those of a producer, or all."""
        return WARPGROUP if self.unit == WGMMA else self.warps

    @property
    def teams(self) -> int:
        """How many blocks of a row are folded at once."""
        return self.warps * WHOLE_WARP // self.team


def variants(kernel: Op, machine: Machine) -> list[Variant]:
    """All ways to lower the kernel, best first."""
    config = attr(kernel, "config", Config)
    team, most = _team(kernel, config.warps), _most_blocks(kernel)
    apart = most is not None and most * team <= config.warps * WHOLE_WARP and reduces_by_teams(kernel)
    warps = config.warps if apart else _power_of_two(config.warps)  # of teams with a block each there may be three
    plain = Variant("", (), "", warps, "shared", SCALAR_LEVELS, team=team)
    found = [plain]
    dots = [op for op in kernel.walk() if op.name == "tile.dot"]
    if dots:
        found = _matrix_variants(kernel, dots, plain, config, machine)
    held = row_blocks(kernel) is not None  # so short that what is kept fits
    scratch = [memref_type(op.result) for op in kernel.walk() if op.name == "tile.alloc" and not held]
    return list(_reachable([v for base in found for v in _scratch_variants(base, scratch, machine)]))


def _reachable(found: list[Variant]) -> Iterator[Variant]:
    """Those before which none always runs, with the conditions that sizes may break."""
    for variant in found:
        open_ = tuple(guard for guard in variant.when if not _always_holds(guard))
        yield replace(variant, when=open_)
        if not open_:
            return


def _always_holds(guard: Guard) -> bool:
    left, right = guard.left.constant, guard.right.constant
    return left is not None and right is not None and guard.holds(left, right)


def reduces_by_teams(kernel: Op) -> bool:
    """Whether teams of threads fold one row each; otherwise all threads fold neighbouring columns of one block."""
    folded = [tile_type(op.operands[0]) for op in kernel.walk() if op.name == "tile.reduce"]
    return bool(folded) and all(len(ty.shape) == 1 for ty in folded)


def _team(kernel: Op, warps: int) -> int:
    """A warp for each block of a row where there are as many: half the numbers are in the registers of a thread then,
    so that more rows are under way at once."""
    most = _most_blocks(kernel)
    return WHOLE_WARP if row_parts(kernel) or (most is not None and most <= warps) else TEAM


def _most_blocks(kernel: Op) -> int | None:
    """How many blocks a row has at most, as far as that is known."""
    if (most := row_blocks(kernel)) is not None:
        return most
    trees = [op.operands[0].defining_op for op in kernel.walk() if op.name == "tile.tree"]
    sizes = [made.attrs.get("dim") if made is not None else None for made in trees]
    counts = [size.constant if isinstance(size, Dim) else None for size in sizes]
    return max((count for count in counts if count is not None), default=None) if None not in counts else None


def _power_of_two(warps: int) -> int:
    return 1 << (warps.bit_length() - 1)


def _matrix_variants(kernel: Op, dots: list[Op], plain: Variant, config: Config, machine: Machine) -> list[Variant]:
    narrow = any(map(is_narrow, dots))
    sources = [_source(operand) for dot in dots for operand in dot.operands[:2]]
    share, warps = _shared(dots, plain.warps, narrow) if works_by_rows(kernel) else ("", plain.warps)
    base = replace(plain, unit=MMA if narrow else FMA, levels=SHALLOW, share=share, warps=warps)
    fast = [base]
    warps = config.warps - WARPGROUP
    if machine.has_async_matrix_unit and config.roles == "producer_consumer" and takes_roles(kernel, warps):
        aligned = tuple(dict.fromkeys(g for mem in sources if mem is not None for g in _aligned(mem)))
        fast = [replace(base, unit=WGMMA, warps=warps, when=aligned, share=ROWS), replace(base, suffix="_mma")]
    few = tuple(_few_segments(op) for op in kernel.walk() if op.name == "tile.tree")
    if not few:
        return fast
    shallow = [replace(v, when=(*v.when, *few)) for v in fast]
    return [*shallow, replace(fast[-1], suffix="_deep", levels=DEEP)]


def works_by_rows(kernel: Op) -> bool:
    """Whether the results of products are looked at row by row, or multiplied again."""
    ops = list(kernel.walk())
    dots = [op for op in ops if op.name == "tile.dot"]
    computed = any(_source(operand) is None for dot in dots for operand in dot.operands[:2])
    return bool(dots) and (computed or any(op.name == "tile.reduce" for op in ops))



def _shared(dots: list[Op], warps: int, narrow: bool) -> tuple[str, int]:
    """What warps share out, and how many there are for it."""
    shapes = [tile_type(dot.result).shape for dot in dots]
    part = MMA_PART if narrow else FMA_PART
    by_rows = max(1, min(warps, min(rows for rows, _ in shapes) // part[0]))
    columns = [tile_type(dot.result).shape[1] for dot in dots if not sums_rows(dot)]
    by_columns = min(warps, min(columns) // part[1])
    few = all(map(is_narrow, dots)) and by_columns > by_rows and not any(_lies_left(dot) for dot in dots)
    return (COLUMNS, by_columns) if few else (ROWS, by_rows)


def _lies_left(dot: Op) -> bool:
    """Whether a right operand is computed."""
    return _source(dot.operands[1]) is None and not sums_rows(dot)


def _source(operand: Value) -> MemRefType | None:
    """The memory behind an operand, if it is not computed."""
    load = operand.defining_op
    copied = load is not None and (load.name == "tile.load" or is_staged_gather(load))
    return memref_type(load.operands[0]) if load is not None and copied else None


def _aligned(mem: MemRefType) -> list[Guard]:
    """Rows must be a multiple of 16 bytes, and there must be some."""
    unit = Dim.const(ROW_ALIGNMENT * 8 // mem.dtype.bits)
    rows = [s for s in mem.strides if s != ONE]
    some = [n for n in mem.dims if n.constant is None]
    return [
        *(Guard("divides", unit, row, f"rows of {row} elements are 16-byte aligned") for row in rows),
        *(Guard("at_least", size, Dim.const(1), f"{size} is not 0") for size in some),
    ]


def _few_segments(tree: Op) -> Guard:
    count = tree.operands[0].defining_op
    if count is None or not isinstance(count.attrs.get("dim"), Dim):
        raise LoweringError("the number of segments is not known on the host")
    segments = attr(count, "dim", Dim)
    return Guard("at_least", Dim.const(1 << SHALLOW), segments, f"at most {1 << SHALLOW} segments")


def _scratch_variants(base: Variant, scratch: list[MemRefType], machine: Machine) -> list[Variant]:
    if not scratch:
        return [base]
    size = sum((scratch_bytes(mem) for mem in scratch), start=Dim.const(0))
    room = machine.near_bytes - EXCHANGE_BYTES
    fits = Guard("at_least", Dim.const(room), size, "the scratch of a program fits shared memory")
    if size.constant is not None and size.constant <= room:
        return [base]
    outside = replace(base, suffix=base.suffix + "_workspace", scratch="workspace")
    return [replace(base, when=(*base.when, fits)), outside]


def scratch_bytes(mem: MemRefType) -> Dim:
    """Bytes of one program's scratch, rounded up so that the next one is aligned."""
    elements = product(mem.dims) if mem.contiguous else mem.strides[0] * mem.dims[0]
    return (elements * mem.dtype.bytes).ceil_div(16) * 16


def fragments_are_scalar(values: tuple[Value, ...]) -> bool:
    """Whether a tree combines single numbers, which cost no registers to keep."""
    return all(isinstance(v.type, TileType) and v.type.shape == () for v in values)
