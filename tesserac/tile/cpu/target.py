"""What the lowering must know of a processor: vectors, registers, the shape of its matrix product.

Nothing here changes a result: orders of summation are fixed elsewhere, and every shape below only regroups outputs.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.types.dtype import F32, DType

NARROWER = 0.04
"""What a register block loses with each vector of columns that it has less."""


@dataclass(frozen=True)
class CpuTarget:
    """One family of processors. `micro_rows` x `micro_vectors` vectors of accumulators fill its registers, leaving
    room for one row of the right operand and the left elements."""

    name: str
    vector_bits: int
    registers: int
    micro_rows: int
    micro_vectors: int

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


def held(accum: DType) -> DType:
    """The dtype in which panels stand in memory: a narrow float as the f32 that registers hold it in."""
    return F32 if accum.is_float and accum.bits < 32 else accum


register_attribute("micro", Micro)

NEON = CpuTarget("neon", vector_bits=128, registers=32, micro_rows=8, micro_vectors=3)
AVX2 = CpuTarget("avx2", vector_bits=256, registers=16, micro_rows=6, micro_vectors=2)
AVX512 = CpuTarget("avx512", vector_bits=512, registers=32, micro_rows=12, micro_vectors=2)

TARGETS = {target.name: target for target in (NEON, AVX2, AVX512)}
BY_ARCH = {"aarch64": NEON, "x86-64-v3": AVX2, "x86-64-v4": AVX512}
"""What a machine that Schedule knows has."""
