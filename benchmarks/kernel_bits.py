"""Kernels as tile programs on a GPU: the same bits under every schedule, and the bits of the CPU.

    python -m benchmarks.kernel_bits [--arch sm_90a] [--out DIR]

Every kernel of `tests/support/kernel_programs.py` under five schedules, over sizes with ragged edges and several
segments; the memory of results holds ones before. The report names what differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

from benchmarks.bits import digest, run_on_gpu  # noqa: E402
from tests.support.kernel_programs import BLOCKS, PROGRAMS, arguments, scheduled  # noqa: E402

SIZES = ((1, 1), (37, 70), (130, 513), (5, 4100), (3, 9000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = ["| kernel | schedule | launches | result |", "|---|---|---|---|"]
    bad = 0
    for name in PROGRAMS:
        for blocks in BLOCKS:
            launches, problems = compare(name, blocks, options.arch)
            bad += bool(problems)
            lines.append(f"| {name} | {blocks or 'chosen'} | {launches} | {'; '.join(problems) or 'equal'} |")
            print(lines[-1], flush=True)
    if options.out:
        title = f"# Kernels on a GPU against the CPU\n\n`python -m benchmarks.kernel_bits`: sizes {SIZES}.\n\n"
        (options.out / "kernel-bits.md").write_text(title + "\n".join(lines) + "\n")
    sys.exit(1 if bad else 0)


def compare(name: str, blocks: tuple[int, ...] | None, arch: str) -> tuple[int, list[str]]:
    """How many launches the kernel is, and what is wrong with its results."""
    import tessera
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    source = SourceFile("f.tess", scheduled(PROGRAMS[name], blocks))
    session = Session()
    try:
        program = session.gpu_program(source, session.function(source, "f"), PLATFORMS[arch])
    except Exception as problem:
        return 0, [f"does not build: {problem}"]
    meaning = tessera.compile(PROGRAMS[name]).f
    return len(program.steps), list(differences(name, program, meaning))


def differences(name: str, program: Any, meaning: Any) -> Iterator[str]:
    for size in SIZES:
        args = arguments(name, *size)
        try:
            got = digest(run_on_gpu(program, *args))
        except Exception as problem:
            yield f"{size}: {type(problem).__name__}: {problem}"
            return
        wanted = meaning(*args)
        if got != digest(tuple(map(np.asarray, wanted)) if isinstance(wanted, tuple) else wanted):
            yield f"{size}: other bits"


if __name__ == "__main__":
    main()
