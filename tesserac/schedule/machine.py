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

    `packs_operands`: operands of products are copied into panels; elsewhere they are staged as they lie. `panel_bytes`
    are those of a row of a left block: a panel of the right operand of as many rows stays in the first cache, and the
    left panels pass beside it. `register_rows` x `register_columns` of a product are kept in registers at once: blocks
    are cut there. `columns` are rows of different sums that a program walks side by side where neighbours
    in memory belong to different sums, `cheap_rows` those that a program of a map takes where an element is little
    work. `carries_sums`: a program takes a block of a sum through the iterations of a loop. `takes_arguments`: results
    may lie in the memory of arguments, which are not copied to a device. `compiles_loops`: loops of small launches are
    machine code as a whole. `leaves_idle_loops`: a loop ends where its iterations have begun to change nothing.
    `calls`: functions that are called stay functions; elsewhere they are written out.
    `folds_places`: a program folds rows into places that integers say, one after the other. `warps` are those of a
    program, `column_warps` where it walks columns, and `registers` how many elements they hold at once; 0 where a
    program is one thread.
    """

    arch: str
    kind: Literal["cpu", "gpu"]
    cores: int
    near_bytes: int
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
    panel_bytes: int = 0
    register_rows: int = 0
    register_columns: int = 0
    warps: int = 0
    column_warps: int = 0
    registers: int = 0

    @property
    def has_async_matrix_unit(self) -> bool:
        """Matrix products run beside the warps that feed them, so some warps had better only move data."""
        return self.arch == "sm_90a"


def _cpu(arch: str, near_bytes: int, panel_bytes: int, registers: tuple[int, int]) -> Machine:
    return Machine(
        arch, "cpu", 4, near_bytes, flops_per_byte=4, nominal=1024, packs_operands=True,
        columns=64, cheap_rows=8, carries_sums=True, takes_arguments=True, compiles_loops=True,
        leaves_idle_loops=True, folds_places=True, calls=True, panel_bytes=panel_bytes, register_rows=registers[0],
        register_columns=registers[1],
    )  # fmt: skip


def _gpu(arch: str, cores: int, near_bytes: int, flops_per_byte: int) -> Machine:
    return Machine(
        arch, "gpu", cores, near_bytes, flops_per_byte, nominal=4096, packs_operands=False,
        columns=16, cheap_rows=1, carries_sums=False, takes_arguments=False, compiles_loops=False,
        leaves_idle_loops=False, folds_places=False, calls=False, warps=WARPS, column_warps=8,
        registers=WARPS * 32 * REGISTERS,
    )  # fmt: skip


WARPS = 4
REGISTERS = 96
"""Elements that a thread of a GPU may hold in registers at once."""

AARCH64 = _cpu("aarch64", 64 * 1024, 2048, (8, 12))
X86_64_V3 = _cpu("x86-64-v3", 32 * 1024, 1024, (6, 16))
X86_64_V4 = _cpu("x86-64-v4", 48 * 1024, 1024, (12, 32))
SM_80 = _gpu("sm_80", 108, 163 * 1024, 12)
SM_89 = _gpu("sm_89", 128, 99 * 1024, 40)
SM_90A = _gpu("sm_90a", 132, 227 * 1024, 16)
SM_100A = _gpu("sm_100a", 148, 227 * 1024, 10)

MACHINES = {machine.arch: machine for machine in (AARCH64, X86_64_V3, X86_64_V4, SM_80, SM_89, SM_90A, SM_100A)}
