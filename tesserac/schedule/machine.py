"""What the compiler knows of a machine: one record for each, which scheduling, tiles and targets read.

Enters: nothing. Leaves: a `Machine` by its name. A record describes a kind of machine; what the machine at hand has
stands in its place there. Bits never depend on a schedule, so nothing here can change a
result. `tesserac machine` lists the records; `docs/machines.md` is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.types.dtype import BF16, F32, I8, I32, DType

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Vectors:
    """The vector registers of a processor. `micro_rows` x `micro_vectors` vectors of accumulators fill them, leaving
    room for one row of the right operand and the left elements. What is left of the rows of a block is taken
    `rest_rows` at a time: so few that little is computed in vain, and still as many accumulators as an fma takes to
    finish, times those that start in a cycle. `tiles` are the instructions that multiply the tiles of a matrix unit:
    `amx`, or `vnni`, for which a row of a tile is a vector; none where they are written out."""

    name: str
    vector_bits: int
    registers: int
    micro_rows: int
    micro_vectors: int
    rest_rows: int
    tiles: Literal["", "vnni", "amx"] = ""

    @property
    def has_masks(self) -> bool:
        """Whether loads take any lanes of a vector, and gathers are worth more than loads one by one."""
        return self.vector_bits >= 512

    @property
    def loads_in_part(self) -> bool:
        """Whether loads of words take the first lanes of a vector. AVX2 stores them too, which takes long on some."""
        return self.vector_bits >= 256


@dataclass(frozen=True)
class MatrixUnit:
    """The matrix unit of a core: it multiplies tiles of `rows` rows of `row_bytes` bytes, and adds to tiles of as many
    rows and columns. `products` are the types that it multiplies and those that it adds in. A tile of 16-bit numbers is
    summed by itself, then added (`numerics/tiles.py`): the order of this architecture, whatever the schedule. Sums of
    integers are exact in any order, so what multiplies vectors of bytes counts as a unit of the same tiles."""

    rows: int
    row_bytes: int
    products: tuple[tuple[DType, DType], ...]

    def terms(self, dtype: DType) -> int:
        """How many terms of a sum a tile has."""
        return self.row_bytes // dtype.bytes

    def takes(self, dtype: DType, accum: DType) -> bool:
        """Whether products of these numbers are its work: such products never have another order."""
        return (dtype, accum) in self.products


@dataclass(frozen=True)
class Code:
    """What LLVM must know of it, and what a processor must have to run the code, as the system names it."""

    triple: str
    cpu: str
    features: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rates:
    """What one core (a multiprocessor) does in a cycle, and what memory gives: bounds of a run, never measured. `fmas`
    are fused multiply-adds of f32, `matrix_fmas` those of bf16 in matrix units, which may run at another clock;
    gigabytes in a second are those of one core and of all. They give what vendors say of the machine as a whole."""

    clock_ghz: float
    fmas: int
    matrix_fmas: int
    core_gbs: float
    gbs: float
    matrix_ghz: float = 0.0


@dataclass(frozen=True)
class Residency:
    """How many programs a multiprocessor of a GPU holds: its warps, blocks of threads, registers and shared memory, and
    what of that a block costs beside what it asks for."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int = 1024


@dataclass(frozen=True)
class Machine:
    """One kind of machine.

    `near_bytes` is the memory closest to one computing unit (L1 data cache, what one block of threads may have of the
    shared memory of a multiprocessor), `second_bytes` the next one: of a core's own on a CPU, of all on a GPU, and
    `last_bytes` what all cores share behind that.
    `flops_per_byte` is how many f32 operations one unit does while it moves a byte to or from main memory: what a
    recomputation may cost to save traffic. `nominal` stands for a size that only a run knows: the choice must be
    sensible for it and correct for every size.

    `packs_operands`: operands of products are copied into panels; elsewhere they are staged as they lie. `panel_bytes`
    are those of a row of a left block: a panel of the right operand of as many rows stays in the first cache, and the
    left panels pass beside it. Where `left_panel_bytes` is not 0, these are the bytes of a row of a right block: a
    panel of the left operand of as many rows stays in the first cache, and right panels pass from the second. `columns`
    are rows of different sums that a program walks side by side where neighbours in memory belong to different sums,
    `cheap_rows` those that a program of a map takes where an element is little work. `carries_sums`: a program takes a
    block of a sum through the iterations of a loop. `takes_arguments`: results may lie in the memory of arguments,
    which are not copied to a device. `compiles_loops`: loops of small launches are machine code as a whole.
    `leaves_idle_loops`: a loop ends where its iterations have begun to change nothing.
    `calls`: functions that are called stay functions; elsewhere they are written out.
    `folds_places`: a program folds rows into places that integers say, one after the other. `warps` are those of a
    program, `column_warps` where it walks columns, and `registers` how many elements they hold at once; 0 where a
    program is one thread. `multiplies_bytes`: matrix units take 8-bit numbers. `parameter_bytes` are what a launch can
    give a kernel beside memory.
    """

    arch: str
    kind: Literal["cpu", "gpu"]
    stands_for: str
    cores: int
    near_bytes: int
    second_bytes: int
    last_bytes: int
    flops_per_byte: int
    nominal: int
    packs_operands: bool
    columns: int
    cheap_rows: int
    carries_sums: bool
    takes_arguments: bool
    compiles_loops: bool
    leaves_idle_loops: bool
    folds_places: bool
    calls: bool
    code: Code
    rates: Rates
    vectors: Vectors | None = None
    residency: Residency | None = None
    matrix_unit: MatrixUnit | None = None
    panel_bytes: int = 0
    left_panel_bytes: int = 0
    warps: int = 0
    column_warps: int = 0
    registers: int = 0
    has_async_matrix_unit: bool = False
    multiplies_bytes: bool = False
    parameter_bytes: int = 32764

    def __hash__(self) -> int:
        return hash(self.arch)  # sizes are asked for by machine some thousand times in a compilation

    @property
    def target(self) -> str:
        """What `--target` calls it."""
        return f"{'cuda' if self.kind == 'gpu' else 'cpu'}:{self.arch}"

    @property
    def register_block(self) -> tuple[int, int]:
        """Rows and columns of a product of f32 that are kept in registers at once."""
        assert self.vectors is not None, f"{self.arch} has no vector registers"
        return self.vectors.micro_rows, self.vectors.micro_vectors * self.vectors.vector_bits // F32_BITS

    def uses_tiles(self, dtype: DType, accum: DType) -> bool:
        """Whether products of these numbers are the work of a matrix unit that a core has."""
        return self.matrix_unit is not None and self.matrix_unit.takes(dtype, accum)

    def product_units(self, dtype: DType, accum: DType) -> tuple[int, int]:
        """Of how many rows and columns a program of a product may have any multiple."""
        assert self.vectors is not None, f"{self.arch} has no vector registers"
        if self.matrix_unit is not None and self.matrix_unit.takes(dtype, accum):
            return self.matrix_unit.rows, 2 * self.matrix_unit.rows
        return self.vectors.rest_rows, self.register_block[1]

    @property
    def peak_flops(self) -> float:
        """Operations of f32 in a second: two for each fused multiply-add."""
        return 2e9 * self.rates.clock_ghz * self.rates.fmas * self.cores

    @property
    def matrix_flops(self) -> float:
        """Those of products of bf16 in matrix units, of f32 where there are none."""
        if not self.rates.matrix_fmas:
            return self.peak_flops
        return 2e9 * (self.rates.matrix_ghz or self.rates.clock_ghz) * self.rates.matrix_fmas * self.cores

    @property
    def peak_bytes(self) -> float:
        """Bytes that memory gives or takes in a second."""
        return 1e9 * min(self.rates.gbs, self.rates.core_gbs * self.cores)


F32_BITS = 32
LEAST_PANEL = 512
"""Bytes: with fewer terms at a time, more is lost by sums that pass through memory."""
WARPS = 4
REGISTERS = 96
"""Elements that a thread of a GPU may hold in registers at once."""


def _cpu(
    arch: str, stands_for: str, cores: int, caches: tuple[int, int, int], panel_bytes: int, vectors: Vectors,
    rates: Rates, code: Code, matrix_unit: MatrixUnit | None = None,
) -> Machine:  # fmt: skip
    return Machine(
        arch, "cpu", stands_for, cores, *caches, flops_per_byte=4, nominal=1024, packs_operands=True,
        columns=64, cheap_rows=8, carries_sums=True, takes_arguments=True, compiles_loops=True,
        leaves_idle_loops=True, folds_places=True, calls=True, code=code, rates=rates, vectors=vectors,
        matrix_unit=matrix_unit, panel_bytes=panel_bytes,
    )  # fmt: skip


def _gpu(
    arch: str, stands_for: str, cores: int, second_bytes: int, flops_per_byte: int, ptx: str, rates: Rates,
    residency: Residency, *, asynchronous: bool = False, by_bytes: bool = False,
) -> Machine:  # fmt: skip
    return Machine(
        arch, "gpu", stands_for, cores, residency.shared_bytes - residency.reserved_bytes, second_bytes, 0,
        flops_per_byte, nominal=4096, packs_operands=False,
        columns=16, cheap_rows=1, carries_sums=False, takes_arguments=False, compiles_loops=False,
        leaves_idle_loops=False, folds_places=False, calls=False, code=Code(NVPTX, arch, ptx), rates=rates,
        residency=residency, warps=WARPS, column_warps=8, registers=WARPS * 32 * REGISTERS,
        has_async_matrix_unit=asynchronous, multiplies_bytes=by_bytes,
        parameter_bytes=4 * KIB if ptx == "+ptx80" else 32764,
    )  # fmt: skip


NVPTX = "nvptx64-nvidia-cuda"
_LINUX_X86, _LINUX_ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
NEON = Vectors("neon", vector_bits=128, registers=32, micro_rows=8, micro_vectors=3, rest_rows=4)
AVX2 = Vectors("avx2", vector_bits=256, registers=16, micro_rows=6, micro_vectors=2, rest_rows=3)
AVX512 = Vectors("avx512", vector_bits=512, registers=32, micro_rows=12, micro_vectors=2, rest_rows=4)

AVX512_VNNI, AVX512_AMX = (replace(AVX512, name=f"avx512-{name}", tiles=name) for name in ("vnni", "amx"))

AMX = MatrixUnit(rows=16, row_bytes=64, products=((BF16, F32), (I8, I32)))
VNNI = replace(AMX, products=((I8, I32),))

_V3 = ("avx2", "bmi2", "f16c", "fma")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_AMX = (*_V4, "amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512_vnni")
_ARM = ("asimd", "fp")
_ARM_SVE = (*_ARM, "asimddp", "asimdhp", "atomics", "bf16", "fphp", "i8mm", "lrcpc", "sve")
_ARM_APPLE = (*_ARM, "asimddp", "asimdhp", "atomics", "fphp", "lrcpc")
_AMX_FEATURES = "+amx-bf16,+amx-int8,+amx-tile,+avx512bf16,+avx512vnni"
_SVE_FEATURES = "+bf16,+dotprod,+fullfp16,+i8mm,+lse,+rcpc,+sve"
_APPLE_FEATURES = "+dotprod,+fullfp16,+lse,+rcpc"

AARCH64 = _cpu(
    "aarch64", "Neoverse N1", 4, (64 * KIB, 1 * MIB, 32 * MIB), 2048, NEON,
    Rates(2.5, 8, 0, 20, 190), Code(_LINUX_ARM, "generic", "+neon,+fp-armv8", _ARM),
)  # fmt: skip
AARCH64_SVE = _cpu(
    "aarch64-sve", "Neoverse V1", 16, (64 * KIB, 1 * MIB, 32 * MIB), 2048, NEON,
    Rates(2.6, 16, 0, 25, 300), Code(_LINUX_ARM, "generic", f"+neon,+fp-armv8,{_SVE_FEATURES}", _ARM_SVE),
)  # fmt: skip
APPLE = _cpu(
    "apple", "Apple M1", 8, (128 * KIB, 3 * MIB, 8 * MIB), 2048, NEON,
    Rates(3.2, 16, 0, 50, 68), Code(_LINUX_ARM, "generic", f"+neon,+fp-armv8,{_APPLE_FEATURES}", _ARM_APPLE),
)  # fmt: skip
X86_64_V3 = _cpu(
    "x86-64-v3", "Haswell, Zen 2", 8, (32 * KIB, 512 * KIB, 16 * MIB), 1024, AVX2,
    Rates(3.3, 16, 0, 15, 45), Code(_LINUX_X86, "x86-64-v3", "", _V3),
)  # fmt: skip
X86_64_V4 = _cpu(
    "x86-64-v4", "Ice Lake SP, Zen 4", 16, (48 * KIB, 1280 * KIB, 32 * MIB), 1024, AVX512,
    Rates(2.9, 32, 0, 12, 190), Code(_LINUX_X86, "x86-64-v4", "", _V4),
)  # fmt: skip
X86_64_V4_AMX = _cpu(
    "x86-64-v4-amx", "Sapphire Rapids", 16, (48 * KIB, 2 * MIB, 105 * MIB), 1024, AVX512_AMX,
    Rates(2.9, 32, 512, 12, 300), Code(_LINUX_X86, "x86-64-v4", _AMX_FEATURES, _AMX), AMX,
)  # fmt: skip
SM_80 = _gpu(
    "sm_80", "A100", 108, 40 * MIB, 12, "+ptx80",
    Rates(1.41, 64, 1024, 40, 1555), Residency(64, 32, 65536, 164 * KIB),
)  # fmt: skip
SM_86 = _gpu(
    "sm_86", "RTX 3090", 82, 6 * MIB, 38, "+ptx80",
    Rates(1.7, 128, 256, 40, 936), Residency(48, 16, 65536, 100 * KIB),
)  # fmt: skip
SM_89 = _gpu(
    "sm_89", "RTX 4090", 128, 72 * MIB, 40, "+ptx84",
    Rates(2.52, 128, 256, 40, 1008), Residency(48, 24, 65536, 100 * KIB), by_bytes=True,
)  # fmt: skip
SM_90A = _gpu(
    "sm_90a", "H200", 132, 50 * MIB, 16, "+ptx86",
    Rates(1.98, 128, 2048, 60, 4800, matrix_ghz=1.83), Residency(64, 32, 65536, 228 * KIB),
    asynchronous=True, by_bytes=True,
)  # fmt: skip
SM_100A = _gpu(
    "sm_100a", "B200", 148, 126 * MIB, 10, "+ptx86",
    Rates(1.98, 128, 4096, 80, 7700, matrix_ghz=1.86), Residency(64, 32, 65536, 228 * KIB), by_bytes=True,
)  # fmt: skip

CPUS = (X86_64_V3, X86_64_V4, X86_64_V4_AMX, AARCH64, AARCH64_SVE, APPLE)
"""Of each family the one with the least first."""
GPUS = (SM_80, SM_86, SM_89, SM_90A, SM_100A)
MACHINES = {machine.arch: machine for machine in (*CPUS, *GPUS)}


def as_found(described: Machine, code: Code, cores: int, caches: Sequence[int]) -> Machine:
    """The machine at hand: as described, but for what it has; a cache of size 0 is one of which nothing is known."""
    known = (described.near_bytes, described.second_bytes, described.last_bytes)
    near, second, last = (here or said for here, said in zip(caches, known, strict=True))
    if described.vectors == AVX512 and "avx512_vnni" in code.needs:
        described = replace(described, vectors=AVX512_VNNI, matrix_unit=VNNI)
    panel_bytes = _panel_bytes(described, near)
    if panel_bytes < described.panel_bytes or _has_wide_vectors(described):
        described = replace(described, panel_bytes=panel_bytes, left_panel_bytes=described.panel_bytes)
    return replace(described, code=code, cores=cores, near_bytes=near, second_bytes=second, last_bytes=last)


def _has_wide_vectors(described: Machine) -> bool:
    """Whether a vector is a line. A thread by itself took 0.72 and 0.81 of the time for squares of 512 and 1024 where
    left panels stay, on a core with 48 KiB, which has room for either."""
    return described.vectors is not None and described.vectors.vector_bits == 512


def _panel_bytes(described: Machine, near: int) -> int:
    """As described; less where a panel of f32 of as many rows would be more than two thirds of the first cache."""
    found, columns = described.panel_bytes, described.register_block[1]
    while 3 * found * columns > 2 * near and found > LEAST_PANEL:
        found //= 2
    return found
