"""What the assembler makes of the kernels of functions: registers, instructions, accesses to memory. Needs no GPU.

    python -m benchmarks.kernel_code FILE:FUNCTION... [--arch sm_90a]

One line for each kernel and variant: threads of a block and programs in it, registers of a thread, bytes that are
spilled or lie on its stack, shared memory, instructions in all (those of a loop count once), how many loads from and
stores to memory there are of each width in bytes, those from and to shared memory (`near`), and barriers.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

from tesserac.base.source import SourceFile  # noqa: E402
from tesserac.driver.session import Session  # noqa: E402
from tesserac.ir.core import Op  # noqa: E402
from tesserac.ir.passes import run_passes  # noqa: E402
from tesserac.target.nvptx.blocks import block_bytes, block_threads, programs_beside  # noqa: E402
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of  # noqa: E402
from tesserac.target.nvptx.kernel import emit_kernel  # noqa: E402
from tesserac.target.nvptx.ptx import assemble, emit_ptx  # noqa: E402

INSTRUCTION_BYTES = 16
ACCESS = re.compile(r"\b(ld|st)\.(global|shared)(\.nc)?[.a-z0-9:]*?(\.v[248])?\.[a-z]+(\d+)\s")
COLUMNS = "kernel | threads | beside | registers | spilled | stack | shared | instructions | memory | near | barriers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="+", metavar="FILE:FUNCTION")
    parser.add_argument("--arch", default="sm_90a", choices=sorted(PLATFORMS))
    options = parser.parse_args()
    print(f"| {COLUMNS} |\n|" + "---|" * (COLUMNS.count("|") + 1))
    for named in options.functions:
        path, _, name = named.rpartition(":")
        for kernel in lowered(Path(path), name, options.arch):
            print(line(kernel, options.arch), flush=True)


def lowered(path: Path, name: str, arch: str) -> list[Op]:
    """All variants of the kernels of a function."""
    session, file = Session(), SourceFile(str(path), path.read_text())
    machine = PLATFORMS[arch].schedule
    module = session.levels(file, session.function(file, name), machine).tile
    return kernels_of(run_passes(module, [gpu_pass(machine)], verify=True))


def line(kernel: Op, arch: str) -> str:
    ptx = emit_ptx(emit_kernel(kernel, arch=arch).llvm, arch)
    made, found = assemble(ptx, arch), accesses(ptx)
    shared = sum(count for (_, where, _), count in found.items() if where == "shared")
    widths = [f"{count} x {kind}{width}" for (kind, where, width), count in sorted(found.items()) if where == "global"]
    cells = [
        kernel.symbol, block_threads(kernel), programs_beside(kernel), made.registers, made.spilled_bytes,
        made.stack_bytes, block_bytes(kernel), instructions(made.cubin), ", ".join(widths), shared,
        sum("barrier" in text or "bar.sync" in text for text in ptx.splitlines()),
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def accesses(ptx: str) -> Counter[tuple[str, str, int]]:
    """How many loads and stores there are, by where they go and how many bytes they move."""
    found: Counter[tuple[str, str, int]] = Counter()
    for kind, where, _, vector, bits in ACCESS.findall(ptx):
        found[kind, where, int(vector[2:] or 1) * int(bits) // 8] += 1
    return found


def instructions(cubin: bytes) -> int:
    """How many there are in the sections of code of an ELF file of 64 bits."""
    start, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    sections = [struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(count)]
    texts = sections[names]
    total = 0
    for section in sections:
        first = texts[4] + section[0]
        if cubin[first : cubin.index(b"\0", first)].startswith(b".text."):
            total += section[5] // INSTRUCTION_BYTES
    return total


if __name__ == "__main__":
    main()
