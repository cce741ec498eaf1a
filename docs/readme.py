"""The generated parts of the README and of the lesson about GPUs: what runs where, and figures with their commands."""

from __future__ import annotations

from docs.results import gpu_times, tables, value
from docs.where import asks, outcomes

COLLECTIVES = "collectives across several devices"
NAMED = ("loops", "gradients", "kernels")
"""Kinds of programs that have a row of their own."""


def where_section() -> str:
    found = outcomes()
    cpu, gpu = _count([row.cpu for row in found]), _count([row.gpu for row in found])
    refused = "; ".join(row.what for row in found if row.gpu.startswith("refused"))
    rows = [
        f"| tensor programs | {cpu} | {gpu} |",
        *(f"| {row.what} | {row.cpu} | {row.gpu} |" for row in found if row.what in NAMED),
        f"| meshes, `pmap` | {_mesh('`pmap(mesh=)`')}; collectives of several devices: {_mesh(COLLECTIVES)} | - |",
        f"| schedules, hints | {_hints()} | - |",
        '| called from Python | yes | yes, `device="cuda"`: all operators, all examples |',
    ]
    note = f"\nRefused on a GPU, with an error before anything runs: {refused}.\n" if refused else ""
    return "\n".join(["| | CPU (x86-64, AArch64) | NVIDIA GPU (sm_90a) |", "|---|---|---|", *rows, note])


def _mesh(what: str) -> str:
    """Works, is only checked, or is refused."""
    said = asks()[what]
    return "works" if said == "runs" else "checked, on one device" if said.startswith("runs") else said


def _hints() -> str:
    said = [text for text in asks().values() if text.startswith("runs")]
    taken = sum(text == "runs" for text in said)
    return f"{taken} of {len(said)} kinds are taken; `inspect` names the others, and why"


def _count(said: list[str]) -> str:
    runs = sum(text.startswith("runs") for text in said)
    return f"all {len(said)} kinds run" if runs == len(said) else f"{runs} of {len(said)} kinds run"


def gpu_runs_section() -> str:
    runs = "; ".join(row.what for row in outcomes() if row.gpu.startswith("runs"))
    best = {run.label.partition(" ")[0]: run.label.partition(": ")[2] for run in gpu_times()}
    return (
        f"- These compile to PTX: {runs}. [What runs where](../where.md) is the whole table, made by the tests.\n"
        f"- On an H200 the bf16 product reaches {best['matmul_bf16']} TFLOP/s, and softmax moves {best['softmax']}\n"
        "  ([measurements](../performance.md)).\n"
    )


def gpu_refused_section() -> str:
    refused = "; ".join(row.what for row in outcomes() if row.gpu.startswith("refused"))
    if not refused:
        return "- What has no rule for a GPU is an error before anything runs; it is never computed differently.\n"
    return f"- Refused for a GPU, with an error before anything runs, never computed differently: {refused}.\n"


def figures_section() -> str:
    softmax = value("cpu-x86_64", "row softmax 1024x1024")
    one = value("cpu-x86_64", "row softmax 1024x1024, one thread")
    product = value("cpu-x86_64", "f32 matmul 1024")
    matmul = max((run for run in gpu_times() if run.label.startswith("matmul_bf16")), key=lambda run: run.rate)
    bits = tables("bits")[1:]
    equal = sum(row[2] == "3" and row[3] == "equal" for row in bits)
    rows = [
        f"| {equal} programs | the same bits on AArch64, x86-64 and an H200 | `python -m benchmarks.bits` |",
        f"| softmax of 1024 x 1024, f32 | {_times(softmax[0])} NumPy on 16 x86 cores, {_times(one[0])} on one | "
        "`python -m benchmarks` |",
        f"| bf16 product of 4096³ on an H200 | {matmul.rate / 1e12:.0f} TFLOP/s, {matmul.rate / 989e12:.0%} of the "
        "limit | `python -m benchmarks.gpu_check` |",
    ]
    note = (
        f"\nNot everything is fast: an f32 product of 1024³ on 16 x86 cores runs at {_times(product[0])} the speed of\n"
        "NumPy's OpenBLAS, and a gradient of attention or convolutions takes several times as long as in PyTorch\n"
        "([all figures](docs/performance.md)).\n"
    )
    return "\n".join(["| what | measured | command |", "|---|---|---|", *rows, note])


def _times(text: str) -> str:
    return f"{float(text.removesuffix('x NumPy')):.3g} times"
