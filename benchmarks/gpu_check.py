"""Checks the GPU programs on a device: results against the canonical orders, variants against each other, and speed.

    python -m benchmarks.gpu_check --out DIR [--arch sm_90a] [--only softmax]

Each program runs in a process of its own, with a time limit, so that a fault or a hang costs one program. The results
go to DIR/gpu_check.json and DIR/gpu_check.md. Needs a CUDA device, pycuda, NumPy, ml_dtypes and llvmlite.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

from benchmarks import gpu_cases  # noqa: E402
from benchmarks.gpu_cases import Case  # noqa: E402

Row = dict[str, Any]
TIME_LIMIT = 150


@dataclass(frozen=True)
class Program:
    """A neutral kernel, its cases, and what to time: sizes, and work per call in bytes or in operations."""

    text: str
    cases: Callable[[], Iterator[Case]]
    timed: tuple[tuple[str, tuple[tuple[int, ...], ...], float, str], ...]
    dtype: type


def _matmul(*sizes: int) -> tuple[tuple[str, tuple[tuple[int, ...], ...], float, str], ...]:
    return tuple((f"{n}^3", ((n, n), (n, n)), 2.0 * n**3, "TFLOP/s") for n in sizes)


PROGRAMS = {
    "vadd": Program("vadd", gpu_cases.vadd_cases, (("2^26", ((1 << 26,),) * 2, 12.0 * 2**26, "TB/s"),), np.float32),
    "softmax": Program(
        "softmax",
        gpu_cases.softmax_cases,
        (("32768x4096", ((32768, 4096),), 8.0 * 32768 * 4096, "TB/s"),),
        np.float32,
    ),
    "matmul_f32": Program("matmul_f32_gpu", gpu_cases.matmul_f32_cases, _matmul(1024, 4096), np.float32),
    "matmul_bf16_sm80": Program(
        "matmul_bf16_sm80", gpu_cases.matmul_bf16_cases, _matmul(1024, 4096), ml_dtypes.bfloat16
    ),
    "matmul_bf16_sm90": Program(
        "matmul_bf16_sm90", gpu_cases.matmul_bf16_cases, _matmul(1024, 4096, 8192), ml_dtypes.bfloat16
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    parser.add_argument("--inside", action="store_true", help="run in this process and print rows")
    options = parser.parse_args()
    if options.inside:
        for row in check_program(options.only, options.arch):
            print("ROW " + json.dumps(row), flush=True)
        return
    names = [options.only] if options.only else list(PROGRAMS)
    rows = [row for name in names for row in run_apart(name, options.arch)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_check.json").write_text(json.dumps(rows, indent=1))
    (options.out / "gpu_check.md").write_text(markdown(rows))
    bad = [row for row in rows if not row["ok"]]
    print(f"{len(rows) - len(bad)} of {len(rows)} checks passed")
    sys.exit(1 if bad else 0)


def run_apart(name: str, arch: str) -> list[Row]:
    """Rows of one program from a process of its own, as far as it came."""
    command = [sys.executable, __file__, "--inside", "--out", ".", "--arch", arch, "--only", name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT)
        ended = "" if process.returncode == 0 else f"the process ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        ended = f"no end after {TIME_LIMIT} s"
    rows = []
    for line in output.splitlines():
        if line.startswith("ROW "):
            rows.append(json.loads(line[4:]))
            print(summary(rows[-1]), flush=True)
        else:
            print(f"    {line}", flush=True)
    if ended:
        rows.append({"program": name, "case": "process", "ok": False, "problem": ended})
        print(summary(rows[-1]), flush=True)
    return rows


def summary(row: Row) -> str:
    state = "ok  " if row["ok"] else "FAIL"
    return f"{state} {row['program']:18} {row['case']:42} {row.get('problem') or row.get('figure', '')}"


def markdown(rows: list[Row]) -> str:
    lines = ["| program | case | result |", "|---|---|---|"]
    for row in rows:
        result = row.get("figure", "equal") if row["ok"] else f"**{row['problem']}**"
        lines.append(f"| {row['program']} | {row['case']} | {result} |")
    return "\n".join(lines) + "\n"


# --- one program, in its own process ------------------------------------------------------------------------------


def check_program(name: str, arch: str) -> Iterator[Row]:
    chosen = PROGRAMS[name]
    try:
        started = time.perf_counter()
        program = build(chosen.text, arch)
        took = time.perf_counter() - started
        yield row(name, "build", None, f"{took * 1e3:.0f} ms, variants {[k.name for k in program.kernels]}")
        for case in chosen.cases():
            yield from check_case(name, program, case)
        yield from measure(name, program, chosen)
    except Exception:
        yield row(name, "exception", traceback.format_exc())


def row(name: str, case: str, problem: str | None, figure: str = "equal") -> Row:
    return {"program": name, "case": case, "ok": problem is None, "problem": problem, "figure": figure}


def build(text: str, arch: str) -> Any:
    import tesserac.ops.scalar  # noqa: F401  (registers the operations of the text)
    from tesserac.ir.parser import parse_module
    from tesserac.target.nvptx.plan import build_program
    from tesserac.tile.gpu.variants import ARCHES

    module = parse_module((ROOT / "tests" / "cases" / "tile" / f"{text}.tile").read_text())
    return build_program(module, ARCHES[arch])


def forced(program: Any, position: int) -> Any:
    """The program with only one variant of its kernel."""
    (launch,) = program.steps
    return program._replace(steps=(launch._replace(kernels=(position,)),))


def check_case(name: str, program: Any, case: Case) -> Iterator[Row]:
    """The chosen variant against the expectation, then every other variant that may run against the chosen one."""
    from tessera.cuda import GpuCall

    call = GpuCall(program, case.inputs)
    chosen = call.variant(program.steps[0])
    result = outcome(call)
    yield row(name, f"{case.name} {chosen.name}", case.check(result))
    for position, kernel in enumerate(program.kernels):
        if kernel.name != chosen.name and all(c.holds(call.symbols) for c in kernel.conditions):
            other = outcome(GpuCall(forced(program, position), case.inputs))
            yield row(name, f"{case.name} {kernel.name} = {chosen.name}", gpu_cases.same_bits(result)(other))


def outcome(call: Any) -> Any:
    """The result of a call whose output memory held NaNs before."""
    call.fill_outputs(0xFF)
    call.execute()
    (result,) = call.results()
    return result


def measure(name: str, program: Any, chosen: Program) -> Iterator[Row]:
    from tessera.cuda import GpuCall

    rng = np.random.default_rng(0)
    for label, shapes, work, unit in chosen.timed:
        inputs = [np.asarray(rng.standard_normal(s, np.float32).astype(chosen.dtype)) for s in shapes]
        symbols = GpuCall(program, inputs)
        for position, kernel in enumerate(program.kernels):
            if all(c.holds(symbols.symbols) for c in kernel.conditions):
                call = GpuCall(forced(program, position), inputs)
                call.time(2)
                best = min(call.time(5) for _ in range(5))
                figure = f"{best:.3f} ms, {work / best / 1e9:.2f} {unit}"
                yield row(name, f"time {label} {kernel.name}", None, figure)


if __name__ == "__main__":
    main()
