"""What the cost model knows of a machine. Descriptions, not measurements: the same program for the same target always
gets the same schedule, on whatever machine the compiler runs.

Bits never depend on a schedule, so nothing here can change a result.
"""

from __future__ import annotations

from typing import Literal

from tesserac.base.dataclass import dataclass


@dataclass(frozen=True)
class Machine:
    """A target as scheduling sees it.

    `near_bytes` is the memory closest to one computing unit (L1 data cache, shared memory of a multiprocessor).
    `flops_per_byte` is how many f32 operations one unit does while it moves a byte to or from main memory: what a
    recomputation may cost to save traffic. `nominal` stands for a size that only a run knows: the choice must be
    sensible for it and correct for every size.
    """

    arch: str
    kind: Literal["cpu", "gpu"]
    cores: int
    near_bytes: int
    flops_per_byte: int
    nominal: int

    @property
    def has_async_matrix_unit(self) -> bool:
        """Matrix products run beside the warps that feed them, so some warps had better only move data."""
        return self.arch == "sm_90a"


AARCH64 = Machine("aarch64", "cpu", 4, 64 * 1024, 4, 1024)
X86_64_V3 = Machine("x86-64-v3", "cpu", 4, 32 * 1024, 4, 1024)
SM_80 = Machine("sm_80", "gpu", 108, 163 * 1024, 12, 4096)
SM_90A = Machine("sm_90a", "gpu", 132, 227 * 1024, 16, 4096)

MACHINES = {machine.arch: machine for machine in (AARCH64, X86_64_V3, SM_80, SM_90A)}
