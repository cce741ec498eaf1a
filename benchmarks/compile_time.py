"""`python -m benchmarks.compile_time`: what compiling costs against the number of layers, beside JAX.

Four programs of L layers: a transformer's step of training with AdamW, the same with its weights given away, a
perceptron's step, and the transformer forward only. Every figure is of a process of its own that has imported
everything before: CPU seconds (of all threads) from text to machine code, and the most memory that the process held.
`pip install '.[peers]'` brings JAX; without it Tessera's own figures are shown. Writes
`benchmarks/results/compile-time-MACHINE.md`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.compile_programs import PROGRAMS, text

RESULTS = Path(__file__).parent / "results"
LAYERS = (2, 4, 8, 16, 32, 64)
LIMIT = 900
"""Seconds after which a compilation is given up."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.megabytes:.0f} MB"


def tessera_cost(program: str, layers: int) -> tuple[float, float]:
    """Compiles one of the programs with Tessera, in this process."""
    from tesserac.base.collecting import collection_paused
    from tesserac.base.recursion import deep_recursion
    from tesserac.base.source import SourceFile
    from tesserac.commands.select import select_one
    from tesserac.driver.session import Session
    from tesserac.target.cpu.build import host_platform

    session, source, cpu = Session(), SourceFile("layers.tess", text(program, layers)), host_platform()
    assert session.library
    before = _cpu_seconds()
    with collection_paused(), deep_recursion():
        session.artifact(source, select_one(session, source, "step").function, cpu)
    return _cpu_seconds() - before, _megabytes()


def jax_cost(program: str, layers: int) -> tuple[float, float]:
    """The same with JAX: tracing, lowering and compiling."""
    from benchmarks.compile_peers import jax_step

    step, arguments, donated = jax_step(program, layers)
    import jax

    before = _cpu_seconds()
    jax.jit(step, donate_argnums=donated).lower(*arguments).compile()
    return _cpu_seconds() - before, _megabytes()


def _cpu_seconds() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _megabytes() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(compiler: str, program: str, layers: int) -> Cost | None:
    """The cost in a new process; None where it takes too long or fails."""
    command = [sys.executable, "-m", "benchmarks.compile_time", "--one", compiler, program, str(layers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def rows(compilers: Sequence[str], layers: Sequence[int]) -> list[str]:
    lines: list[str] = []
    for program, what in PROGRAMS.items():
        for number in layers:
            costs = [measured(compiler, program, number) for compiler in compilers]
            cells = ["-" if cost is None else str(cost) for cost in costs]
            lines.append(f"| {what} | {number} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / f"compile-time-{platform.machine()}.md")
    parser.add_argument("--layers", type=int, nargs="+", default=LAYERS)
    parser.add_argument("--one", nargs=3, metavar=("COMPILER", "PROGRAM", "LAYERS"))
    options = parser.parse_args()
    if options.one:
        compiler, program, number = options.one
        print(json.dumps({"Tessera": tessera_cost, "JAX": jax_cost}[compiler](program, int(number))))
        return
    from benchmarks.__main__ import machine  # which imports what the processes measured have no use for

    compilers = ["Tessera", *(["JAX"] if find_spec("jax") else [])]
    lines = rows(compilers, options.layers)
    today = datetime.date.today().isoformat()
    command = f"`python -m benchmarks.compile_time`, {today}, {machine()}"
    head = f"# What compiling costs\n\n{command}. CPU seconds and the most memory.\n"
    titles = f"| program | layers | {' | '.join(compilers)} |\n|---|---|{'---|' * len(compilers)}"
    options.output.write_text("\n".join([head, titles, *lines]) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
