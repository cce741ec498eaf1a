"""The generated parts of the README and of the lesson about GPUs: what runs where, and figures with their commands."""

from __future__ import annotations

from docs.results import gradient_times, newest, tables, value
from docs.where import asks, outcomes

NPBENCH = "npbench-two-cores-x86_64"
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
    product, softmax = value("gpu-table-h200", "bf16 gemm 4096"), value("gpu-table-h200", "f32 softmax")
    return (
        f"- These compile to PTX: {runs}. [What runs where](../where.md) is the whole table, made by the tests.\n"
        f"- On an H200 the bf16 product of 4096 reaches {product[2]}, and an f32 softmax moves {softmax[2]}\n"
        "  ([measurements](../performance.md)).\n"
    )


def gpu_refused_section() -> str:
    refused = "; ".join(row.what for row in outcomes() if row.gpu.startswith("refused"))
    if not refused:
        return "- What has no rule for a GPU is an error before anything runs; it is never computed differently.\n"
    return f"- Refused for a GPU, with an error before anything runs, never computed differently: {refused}.\n"


def figures_section() -> str:
    bits = tables("bits")[1:]
    equal = sum(row[2] == "3" and row[3] == "equal" for row in bits)
    suite = [text.partition(" ")[0] for text in value(NPBENCH, "geometric mean (programs)")[1:]]
    product = value("gpu-table-h200", "bf16 gemm 4096")
    lstm = gradient_times("LSTM 64-128, batch 16, 200 steps, f32")
    faster = {name: f"{lstm[name] / lstm['tessera']:.1f}" for name in ("jax", "torch")}
    rows = [
        f"| {equal} programs | the same bits on AArch64, x86-64 and an H200 | `python -m benchmarks.bits` |",
        f"| NPBench, {len(newest(NPBENCH)) - 2} programs, two x86-64 cores | {suite[0]} times NumPy, {suite[1]} times "
        f"Numba, {suite[2]} times JAX (geometric means) | `python -m benchmarks.npbench_suite` |",
        f"| gradient of an LSTM over 200 steps, 16 x86 cores | {faster['jax']} times JAX, {faster['torch']} times "
        "PyTorch | `python -m benchmarks.gradients` |",
        f"| bf16 product of 4096³ on an H200 | {product[2]}, {product[4]} of cuBLAS | "
        "`python -m benchmarks.gpu_table` |",
    ]
    return "\n".join(["| what | measured | command |", "|---|---|---|", *rows, _not_fast()])


def _not_fast() -> str:
    svd, scatter, images = (
        value("table-x86_64", work)[0].split("**")[1]
        for work in ("svd 128 f64", "scatter_add of 1M to 1000", "conv 3x3, 256 to 256 channels, 14x14")
    )
    decode = value("gpu-table-h200", "decode bf16, 32768 keys")
    return (
        "\nNot everything is fast. Of the speed of the fastest other library, on one x86 core: `svd` of 128 rows "
        f"{svd},\n`scatter_add` {scatter}, a convolution of 256 channels {images}; on an H200: attention of one query "
        f"over 32,768 keys {decode[4]}\n([summary and all figures](docs/performance.md)).\n"
    )
