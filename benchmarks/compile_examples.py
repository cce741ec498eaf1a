"""`python -m benchmarks.compile_examples`: what compiling each example costs, and how it grows with the operators.

Every figure is of a process of its own that has imported the compiler and loaded the library before, with no artifact
kept: CPU seconds of checking, of the levels that all targets share, and of code for this machine, and the time that
passed. `operators` are those of the Graph when every operator has become a form. Programs of 32 to 512 layers in a row
show the growth. Writes `benchmarks/results/compile-examples-MACHINE.md`.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from benchmarks.installed import as_installed

EXAMPLES = Path(__file__).parent.parent / "examples"
RESULTS = Path(__file__).parent / "results"
LAYERS = (32, 64, 128, 256, 512)
ALSO = {"softmax": "softmax_rows", "matmul": "matmul_f32", "kovasznay": "step", "train_step": "step"}
"""Functions of examples that are compiled beside their `main`."""


class Cost(NamedTuple):
    operators: int
    passed: float
    check: float
    levels: float
    code: float

    @property
    def total(self) -> float:
        return self.check + self.levels + self.code


def programs() -> list[tuple[str, str]]:
    """What is compiled: a path or a number of layers, and the name of a function."""
    found: list[tuple[str, str]] = []
    for path in sorted(EXAMPLES.glob("*.tess")):
        found += [(str(path), name) for name in ("main", ALSO.get(path.stem, "main"))]
    return [*dict.fromkeys(found), *((str(layers), "chain") for layers in LAYERS)]


def layers_text(layers: int) -> str:
    """Layers that do not become one kernel: each has a product and a norm, with a number of its own."""
    lines = [f"    x = rmsnorm(tanh(x @ w + {i + 1}.0))" for i in range(layers)]
    head = "def chain(x: Tensor[B, 64, f32], w: Tensor[64, 64, f32]) -> Tensor[B, 64, f32]:"
    return "\n".join([head, *lines, "    return x\n"])


def cost(where: str, name: str) -> Cost:
    """Compiles one function in this process, which has NumPy, as every one has that makes arrays to call it with."""
    import numpy  # noqa: F401

    from tesserac.base.collecting import collection_paused
    from tesserac.base.recursion import deep_recursion
    from tesserac.base.source import SourceFile
    from tesserac.commands.select import select_one
    from tesserac.driver.session import Session
    from tesserac.target.cpu.build import host_platform

    text = layers_text(int(where)) if where.isdecimal() else Path(where).read_text(encoding="utf-8")
    session, source, cpu = Session(), SourceFile("program.tess", text), host_platform()
    assert session.library
    with collection_paused(), deep_recursion():
        start, times = perf_counter(), [process_time()]
        function = select_one(session, source, name).function
        times.append(process_time())
        levels = session.levels(source, function, cpu.schedule)
        times.append(process_time())
        session.artifact_of(levels, function, cpu)
        times.append(process_time())
        passed = perf_counter() - start
    operators = sum(op.opdef.dialect == "form" and not op.opdef.terminator for op in levels.forms.walk())
    return Cost(operators, passed, *(after - before for before, after in itertools.pairwise(times)))


def measured(where: str, name: str) -> Cost:
    command = [sys.executable, "-m", "benchmarks.compile_examples", "--one", where, name]
    done = subprocess.run(command, env=as_installed(), capture_output=True, text=True, check=True)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def row(where: str, name: str) -> str:
    found = measured(where, name)
    what = f"{where} layers in a row" if where.isdecimal() else f"{Path(where).name}: {name}"
    each = 1000 * found.total / max(found.operators, 1)
    figures = (found.check, found.levels, found.code, found.total, found.passed)
    times = " | ".join(f"{seconds:.2f}" for seconds in figures)
    return f"| {what} | {found.operators} | {times} | {each:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / f"compile-examples-{platform.machine()}.md")
    parser.add_argument("--one", nargs=2, metavar=("WHERE", "FUNCTION"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(cost(*options.one)))
        return
    lines = []
    for where, name in programs():
        lines.append(row(where, name))
        print(lines[-1], flush=True)
    today = datetime.date.today().isoformat()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    head = f"# What compiling the examples costs\n\n`python -m benchmarks.compile_examples`, {today}, {machine}."
    said = "CPU seconds of one compilation each, beyond imports; then the time that passed, with LLVM on\nall cores, "
    said += "and milliseconds of the processor for each operator.\n"
    titles = "| program | operators | check | levels | code | all | passed | ms each |\n" + "|---" * 8 + "|"
    options.output.write_text("\n".join([f"{head} {said}", titles, *lines]) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
