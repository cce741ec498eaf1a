"""How the memory of attention grows with the length of a sequence: linearly, also where it is written out.

    python -m benchmarks.attention_memory [--gpu] [--sizes 1024 32768] [--measured 16384] [--out FILE]

For each length S, of one head of 64, what a call holds beside its operands and results: its workspaces, counted from
the program that runs, and up to `--measured` what the process held at most beyond that before the call (on a GPU the
device's memory, without operands and results). `attention` is the library's, `written out` is softmax(q @ k.T * c) @ v,
`back` is the first with its gradient; `scores` has the scores in memory: softmax_safe(q @ k.T * c) @ v, which no law
computes in another way.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

WIDTH = 64
SIZES = {False: [2**n for n in range(10, 16)], True: [2**n for n in range(10, 18)]}
ARGS = ", ".join(f"{name}: Tensor[1, S, {WIDTH}, f32]" for name in "qkv")
BODIES = {
    "attention": "attention(q, k, v)",
    "written out": "softmax(q @ k.T * 0.125) @ v",
    "back": "grad(lambda q, k, v: sum(attention(q, k, v)), wrt=(0, 1, 2))(q, k, v)",
    "scores": "softmax_safe(q @ k.T * 0.125) @ v",
}
RESULTS = {"back": 3}
"""How many tensors as large as an operand a call gives, where it is not one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--measured", type=int, default=16384, help="the longest sequence that runs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.inside[0], list(map(int, options.inside[1:])), options.gpu)
        return
    text = report(options.gpu, options.sizes or SIZES[options.gpu], options.measured)
    print(text)
    if options.out:
        options.out.write_text(text)


def report(gpu: bool, sizes: list[int], measured: int) -> str:
    where = "sm_90a" if gpu else platform.machine()
    lines = [
        f"# Memory of attention, f32, one head of {WIDTH}, {where}\n",
        f"`python -m benchmarks.attention_memory{' --gpu' * gpu}`. MiB beside operands and results: workspaces as the "
        "program counts them, and what a process held where it ran.\n",
        f"| S | {' | '.join(f'{name} | held' for name in BODIES)} |",
        f"|---|{'---|---|' * len(BODIES)}",
    ]
    counted = {name: workspaces(name, sizes, gpu) for name in BODIES}
    ran = {name: apart(name, [size for size in sizes if size <= measured], gpu) for name in BODIES}
    for size in sizes:
        cells = [str(size)]
        for name in BODIES:
            cells += [f"{counted[name][size] / 2**20:.1f}", f"{ran[name][size]:.0f}" if size in ran[name] else "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def program(name: str) -> str:
    return f"def f({ARGS}):\n    return {BODIES[name]}\n"


def workspaces(name: str, sizes: list[int], gpu: bool) -> dict[int, int]:
    """Bytes of all workspaces for each length; those that share a slot are one."""
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.ir.types import MemRefType
    from tesserac.schedule.dialect import memory
    from tesserac.target.cpu.build import host_platform
    from tesserac.target.nvptx.build import PLATFORMS
    from tesserac.types.dims import product

    session, source = Session(), SourceFile("memory.tess", program(name))
    platform_ = PLATFORMS["sm_90a"] if gpu else host_platform()
    levels = session.levels(source, session.function(source, "f"), platform_.schedule)
    host = next(op for op in levels.schedule.ops if op.name == "schedule.func")
    slots: dict[int, list[MemRefType]] = {}
    for op in host.walk():
        if op.name == "schedule.buffer" and op.attrs["role"] == "workspace":
            slots.setdefault(int(str(op.attrs["slot"])), []).append(memory(op.result))

    def most(types: list[MemRefType], size: int) -> int:
        return max(product(ty.dims).evaluate({"S": size}) * ty.dtype.bytes for ty in types)

    return {size: sum(most(types, size) for types in slots.values()) for size in sizes}


def apart(name: str, sizes: list[int], gpu: bool) -> dict[int, float]:
    """What a process of its own holds, in MiB, for each length that it came to."""
    command = [sys.executable, "-m", "benchmarks.attention_memory", *["--gpu"] * gpu, "--inside", name]
    done = subprocess.run([*command, *map(str, sizes)], cwd=ROOT, capture_output=True, text=True, check=False)
    print(name, done.stdout, done.stderr[-500:], file=sys.stderr, flush=True)
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    return dict(rows)


def inside(name: str, sizes: list[int], gpu: bool) -> None:
    import tessera

    function = tessera.compile(program(name), device="cuda" if gpu else "cpu").f
    function(*(np.zeros((1, 2, WIDTH), np.float32) for _ in range(3)))  # compiled, before memory is measured
    for size in sizes:
        print("ROW " + json.dumps([size, held(function, name, size, gpu)]), flush=True)


def held(function: Callable[..., object], name: str, size: int, gpu: bool) -> float:
    import tessera

    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, size, WIDTH), np.float32) for _ in range(3)]
    results = RESULTS.get(name, 1) * inputs[0].nbytes / 2**20
    if gpu:
        placed = tessera.to_device(tuple(inputs))
        before = tessera.device_memory().in_use
        function(*placed)
        return (tessera.device_memory().peak - before) / 2**20 - results
    Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the most that the process held so far
    start = _status("VmRSS")
    function(*inputs)
    return max(0.0, _status("VmHWM") - start - results)


def _status(name: str) -> float:
    """What Linux says of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1024


if __name__ == "__main__":
    main()
