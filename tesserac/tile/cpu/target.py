"""What the lowering must know of a processor: vectors, registers, the shape of its matrix product.

Nothing here changes a result: orders of summation are fixed elsewhere, and every shape below only regroups outputs.
"""

from __future__ import annotations

from dataclasses import fields, replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.schedule.machine import AARCH64, AMX, AVX512_VNNI, CPUS, X86_64_V3, X86_64_V4, Machine, Vectors
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, DType

NARROWER = 0.04
"""What a register block loses with each vector of columns that it has less."""


class CpuTarget(Vectors):
    """The vectors of one family of processors, and the register blocks that they make."""

    def lanes(self, bits: int) -> int:
        """Elements of one vector register."""
        return max(1, self.vector_bits // bits)

    def micro(self, accum: DType) -> Micro:
        """The register block of a product that accumulates in `accum`."""
        lanes = self.lanes(held(accum).bits)
        return Micro(self.micro_rows, self.micro_vectors * lanes, lanes)

    def micro_for(self, accum: DType, columns: int) -> Micro:
        """That of a product of so many columns: a narrower one is a little slower, but leaves less of a block empty."""
        lanes = self.lanes(held(accum).bits)

        def work(vectors: int) -> float:
            width = vectors * lanes
            return -(-columns // width) * width * (1 + NARROWER * (self.micro_vectors - vectors))

        vectors = min((self.micro_vectors, self.micro_vectors - 1 or 1), key=work)
        return Micro(self.micro_rows, vectors * lanes, lanes)


@dataclass(frozen=True)
class Micro:
    """A register block: `rows` x `columns` accumulators, in vectors of `lanes` along the columns."""

    rows: int
    columns: int
    lanes: int


TILE_BLOCK = Micro(2 * AMX.rows, 2 * AMX.rows, AMX.rows)
"""Two by two tiles of accumulators in a matrix unit: each tile of an operand that is loaded serves twice."""


def tiled_bytes(dims: tuple[Dim, ...], dtype: DType) -> Dim:
    """Of an operand of so many terms and columns in tiles: whole ones, in pairs."""
    terms, columns = dims
    tiles = terms.ceil_div(AMX.terms(dtype)) * columns.ceil_div(TILE_BLOCK.columns) * 2
    return tiles * (AMX.rows * AMX.row_bytes)


def held(accum: DType) -> DType:
    """The dtype in which panels stand in memory: a narrow float as the f32 that registers hold it in."""
    return F32 if accum.is_float and accum.bits < 32 else accum


register_attribute("micro", Micro)


def cpu_target(machine: Machine) -> CpuTarget:
    """What a CPU that Schedule knows has."""
    own = machine.vectors
    assert own is not None, f"{machine.arch} is no CPU"
    return CpuTarget(**{field.name: getattr(own, field.name) for field in fields(own)})


NEON, AVX2, AVX512 = (cpu_target(machine) for machine in (AARCH64, X86_64_V3, X86_64_V4))
BY_ARCH = {machine.arch: cpu_target(machine) for machine in CPUS}
_WITH_VNNI = cpu_target(replace(X86_64_V4, vectors=AVX512_VNNI))
TARGETS = {target.name: target for target in (*BY_ARCH.values(), _WITH_VNNI)}
"""By what a kernel says that it is made for."""
