"""LLVM text to PTX, and PTX to machine code where `ptxas` is installed.

Enters: text from `kernel.py`. Leaves: PTX. LLVM ends the process on an operation it cannot select, so only what
`selection.py` knows is let through; programs have it done in a process of its own (`worker.py`).
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tesserac.base.dataclass import dataclass
from tesserac.schedule.machine import MACHINES, NVPTX
from tesserac.target.compile import CodegenError, passes
from tesserac.target.nvptx.selection import check_selectable


@cache
def initialize() -> None:
    """Has LLVM get ready, once. Additions that differ by a constant are not looked for: in a block with as many of them
    as a product has, that took three quarters of the time, grows with the square of their number, and the assembler
    finds them again. No other target has that pass."""
    llvm.set_option("", "-opt-disable=slsr")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def _machine(arch: str) -> Any:
    initialize()
    target = llvm.Target.from_triple(NVPTX)
    features = MACHINES[arch].code.features  # the version of PTX must be said, else LLVM takes an old one
    return target.create_target_machine(cpu=arch, features=features, opt=3)


def emit_ptx(text: str, arch: str) -> str:
    """PTX for one architecture. Which passes there are does not depend on what was compiled for a CPU before. That of
    global value numbering which looks at memory took a sixth of LLVM's time and found nothing in any of 254 kernels."""
    check_selectable(text)
    machine = _machine(arch)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(str(error)) from error
    (_simplify_functions if MATRIX_UNIT in text else _simplify)(module, machine)
    with passes(scheduled=False, reduced=True, forwarded=False):
        return str(machine.emit_assembly(module))


MATRIX_UNIT = "wgmma.mma_async"
"""A product of groups of warps: most of a kernel that has one are lists of registers."""


def _simplify(module: Any, machine: Any) -> None:
    """Common addresses are computed once and before loops."""
    builder = llvm.create_pass_builder(machine, _options())
    builder.getModulePassManager().run(module, builder)


def _simplify_functions(module: Any, machine: Any) -> None:
    """The same in three fifths of the time, without what LLVM does once more for a module as a whole. Kernels with
    products of groups of warps are as long then, within one of a hundred instructions; others need a few registers
    more. Fewer passes yet, in a sixth of the time, leave twice as many instructions of some kernels."""
    builder = llvm.create_pass_builder(machine, _options())
    manager = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)


def _options() -> Any:
    """Loops stay as they are written: copies of a body side by side, which LLVM made of those that copy edges, are a
    sixth of a product's instructions and no faster."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = options.loop_vectorization = options.loop_interleaving = False
    return options


@dataclass(frozen=True)
class Assembled:
    """Machine code of one kernel and what the assembler said of it."""

    cubin: bytes
    registers: int
    spilled_bytes: int
    stack_bytes: int
    notes: tuple[str, ...]
    """Warnings and remarks such as C7510, that products of a warp group are serialised."""


class AssemblerError(Exception):
    """The assembler refused the text, or is not installed."""


@cache
def find_ptxas() -> Path | None:
    """The assembler in the `nvidia-cuda-nvcc` package, if that is installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(folder).glob("cu*/bin/ptxas")):
            return path
    return None


def assemble(ptx: str, arch: str) -> Assembled:
    """Runs the assembler and reads its report."""
    ptxas = find_ptxas()
    if ptxas is None:
        raise AssemblerError("ptxas is not installed: it comes with the package nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [str(ptxas), "-v", f"-arch={arch}", str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        report = done.stdout + done.stderr
        if done.returncode:
            raise AssemblerError(report)
        return Assembled(result.read_bytes(), *_read_report(report))


def _read_report(report: str) -> tuple[int, int, int, tuple[str, ...]]:
    def number(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, report))

    notes = tuple(line for line in report.splitlines() if re.search(r"C7\d\d\d|warning", line, re.IGNORECASE))
    spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return number(r"Used (\d+) registers"), spilled, number(r"(\d+) bytes stack frame"), notes
