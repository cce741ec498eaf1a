"""`docs/performance.md` and its charts: what was measured, on which machine, by which command."""

from __future__ import annotations

import re

from docs.beside import extremes, overview
from docs.results import day, made, newest, tables
from docs.svg import COLOURS, Axis, Chart, bars

PAGE = """\
# Performance

Every number here was measured, and stands with its command and machine in `benchmarks/results`; this page is generated
from those files. Where Tessera is slower, it says so. Run them yourself: `make bench`.

## In short

The other library's time over ours: above 1 Tessera is faster. Within 5 % of 1 is level; the mean is geometric.
PyTorch runs eagerly, but for the step of GPT-2.

{overview}

{extremes}

{gpt2}

A sum of floats keeps one order whatever the schedule and the number of threads; a vendor's library does not have to.
That costs most in `scatter_add`. Eigenvalues and singular values (`eigh`, `svd`) are behind LAPACK.

## On an H200

{h200_made}
`ratio` is PyTorch's time over ours. Other work ran on the host: calls of less than 0.05 ms were slower than in quiet
runs, on both sides ([notes](../benchmarks/results/gpu-table-h200.md)).

{h200_table}

![roofline of the kernels](pictures/roofline.svg)

The limits are the vendor's: 4.8 TB/s of memory, 989 tera-operations of bf16, 67 of f32, all dense. A softmax is counted
as five operations an element, and moves each element twice.

## On x86-64

{x86_made}

{x86_table}

### NPBench

{npbench_made}

{npbench_table}

Programs of array code: linear algebra in loops, stencils, dynamic programming, physics, learning. The columns of the
suite's NumPy, Numba and JAX forms are their time over ours. Ours are in `benchmarks/npbench`, as the NumPy text says.

### Functions and their gradients

{gradients}

![time of functions](pictures/functions.svg)

![time of gradients](pictures/gradients.svg)

{gradients_say}

## On AArch64

{aarch64_made}

{aarch64_table}

### What compiling costs

{compiling}

![time to compile](pictures/compiling.svg)

## Same bits

{bits}

## Everything that was measured

{files}
"""
FILES = {
    "On an H200": {
        "gpu-table-h200": "products, attention, rows, sorts, transforms and host costs beside PyTorch, with the goals",
        "gpt2-step-h200": "a step of training GPT-2, beside PyTorch compiled",
        "attention-h200": "attention as a tile program, beside cuDNN",
        "attention-back-h200": "attention forward and back, beside cuDNN",
        "attention-memory-h200": "memory of attention, to 131,072 positions",
        "kernels-h200": "kernels of the library in bf16, beside what they mean and PyTorch",
        "fast-h200": "`with numerics(fast):` beside the default: time and error",
        "gpu-rows-h200": "rows whose length only a run knows, beside known ones and PyTorch",
        "gpu-gathers-h200": "kernels that read rows at computed places, beside what they mean and PyTorch",
        "gather-numbers-h200": "numbers of gathered bf16 rows in products and attention, ragged sizes",
        "tuned-h200": "the compiler's schedules beside tuned ones",
        "gpu-h200": "kernels: bits, and times of an early state",
        "gpu-ops-h200": "operators, library and random programs against the CPU's bits",
        "kernel-bits-h200": "kernels under five schedules against the CPU's bits",
        "random-kernels-h200": "random kernels under five schedules against the interpreter",
        "gpu-host-h200": "modules from Python: arrays that stay, other libraries, memory, faults, costs of a call",
    },
    "On x86-64": {
        "table-x86_64": "products, convolutions, sums, sorts, systems beside NumPy, PyTorch and Numba, 1 and 16 cores",
        "operators-x86_64": "functions of the library beside PyTorch, one thread",
        "operators-x86_64-16": "functions of the library beside PyTorch, 16 threads",
        "npbench-two-cores-x86_64": "the programs of NPBench on two cores each, beside NumPy, Numba and JAX",
        "npbench-written-x86_64": "programs of NPBench as several authors write them, on one thread",
        "npbench-x86_64": "the programs of NPBench on four cores each, two days earlier",
        "gradients-x86_64": "functions and gradients beside JAX and PyTorch",
        "kernels-x86_64": "kernels of the library beside what they mean, PyTorch and JAX",
        "attention-x86_64": "attention as a tile program, blocks beside each other",
        "linalg-x86_64": "systems, factors, eigenvalues and singular values beside NumPy and PyTorch",
        "algebra-x86_64": "linear algebra written naively, against the form by hand, PyTorch and `jax.jit`",
        "algebra-x86_64-16-cores": "the same on 16 cores",
        "structured-x86_64": "operators of known structure beside NumPy, PyTorch, JAX and others",
        "engine-x86_64": "time of the laws for expressions of 100 nodes",
        "transforms-x86_64": "Fourier transforms beside SciPy and PyTorch",
        "crossover-x86_64": "convolutions by windows and by transforms",
        "first-calls-x86_64": "the first call of Fourier transforms, with the code of their steps there and without",
        "compile-examples-x86_64": "compiling each example",
        "editor-x86_64": "a keystroke in a file",
        "fast-x86_64": "`with numerics(fast):` beside the default: time and error",
        "tuned-x86_64": "the compiler's schedules beside tuned ones",
        "cpu-x86_64": "calls and first calls, an early state",
    },
    "On AArch64": {
        "table-aarch64": "products, convolutions, sums, scans, sorts, systems beside NumPy, PyTorch and Numba",
        "gradients-aarch64": "functions and gradients beside JAX and PyTorch",
        "kernels-aarch64": "kernels of the library beside what they mean and PyTorch",
        "attention-aarch64": "attention as a tile program, beside what it means and PyTorch",
        "attention-memory-aarch64": "memory of attention by the length of a sequence",
        "algebra-aarch64": "linear algebra written naively, against the form by hand and PyTorch",
        "structured-aarch64": "operators of known structure beside NumPy, PyTorch, JAX, CoLA, PyLops and others",
        "linalg-aarch64": "sweeps of rotations, tall matrices, a matrix times a column: before and after a change",
        "transforms-aarch64": "Fourier transforms beside NumPy and PyTorch",
        "crossover-aarch64": "convolutions by windows and by transforms",
        "checking-aarch64": "`tesserac check`: time for large files and projects",
        "compile-examples-aarch64": "compiling each example, and growth with the number of operators",
        "compile-time-aarch64": "compiling a training step, beside JAX",
        "editor-aarch64": "answers of the language server",
        "fast-aarch64": "`with numerics(fast):` beside the default: time and error",
        "transformer-memory-aarch64": "memory of a transformer of 24 layers forward, beside its lower bound",
        "ad-memory": "memory of derivatives through loops",
        "growth": "how cost grows with sizes, in loops",
        "pinn": "a physics-informed network beside JAX",
        "training": "training the examples",
        "cpu-aarch64": "calls and first calls, an early state",
    },
    "Correctness": {
        "bits": "which programs have the same bits on which machines",
        "random-programs": "random programs against the interpreter",
        "random-gradients": "gradients of random programs",
        "operator-sweep": "every kind of operator under every operation, beside its matrix",
        "onnx-nodes": "the node tests that ONNX ships, each as a call of the library",
        "peer-extremes": "functions at extreme inputs beside PyTorch, NumPy and SciPy: what differs, and why",
        "peer-layers": "layers at extreme inputs beside PyTorch: what differs, and why",
        "peer-options": "layers beside PyTorch over products of options",
        "mutants": "how messages do on 1000 broken programs",
    },
}
"""What was measured, by machine. The day of each is read from its file."""
PEERS = re.compile(r"(tessera|jax|torch) ([\d.]+) and ([\d.]+) ms")


def performance_page() -> str:
    return PAGE.format(
        overview=overview(),
        extremes=extremes(),
        gpt2=_gpt2(),
        h200_made=made("gpu-table-h200"),
        h200_table=_table(newest("gpu-table-h200"), range(6)),
        x86_made=made("table-x86_64"),
        x86_table=_table(newest("table-x86_64")),
        npbench_made=made("npbench-two-cores-x86_64"),
        npbench_table=_table(newest("npbench-two-cores-x86_64")),
        gradients=made("gradients-x86_64"),
        gradients_say=_gradients(),
        aarch64_made=made("table-aarch64"),
        aarch64_table=_table(newest("table-aarch64")),
        compiling=made("compile-time-aarch64"),
        bits=_bits(),
        files="\n\n".join(_files(machine, files) for machine, files in FILES.items()),
    )


def charts() -> dict[str, str]:
    found = [(row[0], PEERS.findall(row[4])) for row in tables("gradients-x86_64")[1:]]
    first = [(what, {name: float(one) for name, one, _ in times}) for what, times in found]
    second = [(what, {name: float(other) for name, _, other in times}) for what, times in found]
    return {
        "pictures/functions.svg": bars("Functions, 16 x86 cores (shorter is better)", "ms", first),
        "pictures/gradients.svg": bars("Function and gradient, 16 x86 cores (shorter is better)", "ms", second),
        "pictures/compiling.svg": _compiling(),
    }


def _table(rows: list[list[str]], columns: range | None = None) -> str:
    """A table as it was measured, or some of its columns."""
    chosen = [[row[at] for at in columns or range(len(row))] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in chosen]
    return "\n".join([lines[0], "|---" * len(chosen[0]) + "|", *lines[1:]])


def _files(machine: str, files: dict[str, str]) -> str:
    rows = [f"| [{name}](../benchmarks/results/{name}.md) | {day(name)} | {what} |" for name, what in files.items()]
    return "\n".join([f"### {machine}: files", "", "| file | day | what |", "|---|---|---|", *rows])


def _gpt2() -> str:
    ours, peer = (float(row[1]) for row in newest("gpt2-step-h200")[1:3])
    return (
        f"A [step of training GPT-2 124M](../benchmarks/results/gpt2-step-h200.md) takes {ours} ms, PyTorch compiled "
        f"{peer} ({peer / ours:.2f}; runs differ, see there)."
    )


def _gradients() -> str:
    """What a gradient costs, and beside whom."""
    told = [PEERS.findall(row[4]) for row in newest("gradients-x86_64")[1:]]
    found = [{name: (float(one), float(other)) for name, one, other in row} for row in told]
    costs = sorted(row["tessera"][1] / row["tessera"][0] for row in found)
    least = sum(min(row, key=lambda name: row[name][1]) == "tessera" for row in found)
    return (
        f"A gradient costs {costs[0]:.1f} to {costs[-1]:.1f} times its function here. Of {len(found)} gradients "
        f"Tessera's takes the least time in {least}."
    )


def _compiling() -> str:
    steps = [row for row in tables("compile-time-aarch64")[1:] if row[0] == "transformer, step of AdamW"]
    rows = [row for row in steps if "-" not in row[2:4]]  # both were measured
    times = [[float(row[1]), *(float(cell.split(" s")[0]) for cell in row[2:4])] for row in rows]
    most = max(max(row[1:]) for row in times)
    chart = Chart(
        "Compiling a transformer's step of training",
        Axis("layers", 0, times[-1][0], [row[0] for row in times]),
        Axis("seconds of CPU", 0, most * 1.1, range(0, int(most) + 2, 5)),
        height=320,
    )
    for column, name in ((1, "Tessera"), (2, "JAX")):
        chart.curve([(row[0], row[column]) for row in times], COLOURS[column - 1])
        chart.mark(times[-2][0], times[-2][column], name, COLOURS[column - 1], "start" if column == 2 else "end")
    return chart.svg()


def _bits() -> str:
    rows = tables("bits")[1:]
    three = [row for row in rows if row[2] == "3" and row[3] == "equal"]
    differ = [f"`{row[0]}` ({row[3]})" for row in rows if row[3] != "equal"]
    return (
        f"{len(three)} of {len(rows)} programs, each at several sizes, give the same bits on AArch64, x86-64 and an "
        f"H200. Those that do not run on all three are equal where they run. Different: {', '.join(differ)}; see "
        "[numerics](numerics.md)."
    )
