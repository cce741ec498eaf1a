"""`docs/performance.md` and its charts: what was measured, on which machine, by which command."""

from __future__ import annotations

import re

from docs.results import machine, tables
from docs.svg import COLOURS, Axis, Chart, bars

PAGE = """\
# Performance

Every number here was measured, and stands with its command and machine in `benchmarks/results`; this page is generated
from those files. Where Tessera is slower, it says so. Run them yourself: `make bench`.

## Calls, softmax, products on a CPU

{cpu}

NumPy's softmax runs on one thread, its product on all. A product of f32 keeps one order of sums whatever the number of
threads; OpenBLAS does not have to.

## Work beside other libraries

{table}

Each number is the best other library's time over ours: above 1 Tessera is faster. Sums of floats that go to one place
(`scatter_add`) take longer: they keep one order whatever the schedule, and gather what a place gets before they add it.

## NPBench

{npbench}

The time of the suite's NumPy, Numba and JAX forms over ours, for programs of array code: linear algebra in loops,
stencils, dynamic programming, physics, learning. Ours are in `benchmarks/npbench`, as the NumPy text says them.

## Functions and their gradients

{gradients}

![time of functions](pictures/functions.svg)

![time of gradients](pictures/gradients.svg)

A gradient costs 2 to 6 times its function. PyTorch is ahead where convolutions and attention take the time; recurrent
networks and mixtures are the cases where compiling the whole program wins.

## What compiling costs

{compiling}

![time to compile](pictures/compiling.svg)

## On a GPU

{gpu}

![roofline of the kernels](pictures/roofline.svg)

The limits are the vendor's: 4.8 TB/s of memory, 989 tera-operations of bf16, 67 of f32, all dense. A softmax is counted
as five operations an element, and moves each element twice.

## Same bits

{bits}

## Everything that was measured

| file | what |
|---|---|
{files}
"""
FILES = {
    "ad-memory": "memory of derivatives through loops",
    "algebra-aarch64": "linear algebra written naively, against the form by hand and PyTorch",
    "algebra-x86_64": "the same on x86, against `jax.jit`, with the least that moving bytes takes",
    "algebra-x86_64-16-cores": "the same on 16 cores",
    "engine-x86_64": "how long the laws take for expressions of 100 nodes",
    "structured-aarch64": "operators of known structure, against NumPy, PyTorch, JAX, CoLA, linear_operator and PyLops",
    "structured-x86_64": "the same on x86, against what is there of these",
    "first-calls-x86_64": "the first call of Fourier transforms, with the code of their steps there and without",
    "transforms-aarch64": "Fourier transforms on ARM, against NumPy and PyTorch",
    "transforms-x86_64": "the same on x86",
    "crossover-aarch64": "convolutions by windows and by transforms",
    "crossover-x86_64": "the same on an x86",
    "attention-aarch64": "attention as a tile program, against its meaning and PyTorch",
    "attention-x86_64": "the same on x86 with AVX-512, and blocks beside each other",
    "attention-memory-aarch64": "how the memory of attention grows with the length of a sequence",
    "attention-memory-h200": "the same on an H200, to 131072 positions",
    "kernels-aarch64": "kernels of the library on two cores of an ARM processor, against their meanings and PyTorch",
    "kernels-x86_64": "the same on 16 cores of an x86 processor, and against JAX",
    "kernels-h200": "the same in bf16 on an H200: products, attention, decode, transpose, against PyTorch",
    "kernel-bits-h200": "kernels as tile programs under five schedules on an H200, against the CPU's bits",
    "attention-h200": "attention as a tile program on an H200, against PyTorch's best",
    "attention-back-h200": "attention forward and back on an H200, against PyTorch's best",
    "tuned-x86_64": "the compiler's schedules beside tuned ones, on an x86 processor with 16 cores",
    "tuned-h200": "the same on an H200",
    "fast-aarch64": "`with numerics(fast):` beside the default: time and error",
    "fast-x86_64": "the same on an x86 processor with 16 cores",
    "bits": "which programs have the same bits on which machines",
    "checking-aarch64": "`tesserac check`: time for large files and projects",
    "compile-examples-aarch64": "compiling each example, and growth with the number of operators",
    "compile-examples-x86_64": "the same on an x86",
    "compile-time-aarch64": "compiling, against JAX",
    "cpu-aarch64": "calls and kernels on an ARM processor",
    "cpu-x86_64": "calls and kernels on an x86 processor",
    "editor-aarch64": "answers of the language server",
    "gpu-ops-h200": "operators, library and random programs on an H200, against the CPU's bits",
    "gpu-h200": "kernels on an H200: bits and times",
    "gpu-gathers-h200": "kernels that read rows at computed places on an H200, beside what they mean and PyTorch",
    "gather-numbers-h200": "gathers of bf16 rows in products and attention on an H200, ragged sizes, against NumPy",
    "gpu-rows-h200": "rows on an H200 whose length only a run knows, beside known ones and PyTorch",
    "gpu-table-h200": "the goals of a GPU on an H200, beside PyTorch",
    "gpt2-step-h200": "a step of training GPT-2 on an H200, beside PyTorch compiled",
    "gpu-host-h200": "modules on an H200 from Python: bits, arrays that stay, other libraries, memory, faults, costs",
    "gradients-aarch64": "functions and gradients, ARM",
    "gradients-x86_64": "functions and gradients, x86",
    "growth": "how cost grows with sizes, in loops",
    "linalg-aarch64": "sweeps of rotations, tall matrices, a matrix times a column on ARM, before and after a change",
    "linalg-x86_64": "systems, factors, eigenvalues and singular values beside NumPy and PyTorch, x86",
    "mutants": "how messages do on 1000 broken programs",
    "npbench-two-cores-x86_64": "the programs of NPBench on two cores each, two days later",
    "npbench-x86_64": "the programs of NPBench, against NumPy, Numba and JAX",
    "operator-sweep": "every kind of operator under every operation, beside its matrix",
    "operators-x86_64": "functions of the library beside PyTorch, one thread of an x86 processor",
    "operators-x86_64-16": "functions of the library beside PyTorch, 16 threads of an x86 processor",
    "onnx-nodes": "the node tests that ONNX ships, each as a call of the library",
    "peer-extremes": "functions at extreme inputs beside PyTorch, NumPy and SciPy: what differs, and why",
    "peer-layers": "layers at extreme inputs beside PyTorch: what differs, and why",
    "peer-options": "layers against PyTorch over products of options: differences of values and gradients",
    "pinn": "a physics-informed network against JAX",
    "random-gradients": "gradients of random programs",
    "random-kernels-h200": "random kernels under five schedules each, on an H200, against the interpreter",
    "random-programs": "random programs against the interpreter",
    "table-aarch64": "loops, sums, scans, sorts and products beside NumPy, PyTorch and numba",
    "table-x86_64": "products, convolutions, sums, scans and scatters on 16 x86 cores beside NumPy and PyTorch",
    "training": "training the examples",
    "transformer-memory-aarch64": "what the forward pass of a transformer of 24 layers holds, beside its lower bound",
}
PEERS = re.compile(r"(tessera|jax|torch) ([\d.]+) and ([\d.]+) ms")


def performance_page() -> str:
    return PAGE.format(
        cpu="\n\n".join(_copied(name) for name in ("cpu-x86_64", "cpu-aarch64")),
        table=_beside("table-aarch64"),
        npbench=_beside("npbench-x86_64"),
        gradients=machine("gradients-x86_64"),
        compiling=machine("compile-time-aarch64"),
        gpu="`python -m benchmarks.gpu_check`, one H200. Results are compared with the bits of the interpreter first.",
        bits=_bits(),
        files="\n".join(f"| [{name}](../benchmarks/results/{name}.md) | {what} |" for name, what in FILES.items()),
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


def _copied(name: str) -> str:
    """The rows of a table that are about speed against NumPy."""
    rows = tables(name)
    chosen = [row for row in rows[1:] if "NumPy" in row[1] or "NumPy" in row[4]]
    lines = [f"| {row[0]} | {row[1]} | {row[4]} |" for row in chosen]
    return "\n".join([machine(name), "", "| | | detail |", "|---|---|---|", *lines])


def _beside(name: str) -> str:
    """A whole table, as it was measured."""
    head, *rows = tables(name)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([machine(name), "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])


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
