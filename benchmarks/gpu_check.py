"""Checks the four programs on a device: results against the canonical orders, variants against each other, and speed.

    python -m benchmarks.gpu_check --out DIR [--arch sm_90a] [--only softmax]

Each program runs in a process of its own, with a time limit, so that a fault or a hang costs one program. The results
go to DIR/gpu_check.json and DIR/gpu_check.md. Needs a CUDA device, NumPy, ml_dtypes and llvmlite.
"""

from __future__ import annotations

import argparse
import json
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
from benchmarks.apart import run_apart  # noqa: E402
from benchmarks.gpu_cases import Case  # noqa: E402

Row = dict[str, Any]
TIME_LIMIT = 150


@dataclass(frozen=True)
class Program:
    """A function of the examples, its cases, and what to time: sizes, and work per call in bytes or in operations.
    `arch` is the one to build for, if not the device's."""

    file: str
    function: str
    cases: Callable[[], Iterator[Case]]
    timed: tuple[tuple[str, tuple[tuple[int, ...], ...], float, str], ...]
    dtype: type
    arch: str = ""


def _matmul(*sizes: int) -> tuple[tuple[str, tuple[tuple[int, ...], ...], float, str], ...]:
    return tuple((f"{n}^3", ((n, n), (n, n)), 2.0 * n**3, "TFLOP/s") for n in sizes)


PROGRAMS = {
    "add": Program(
        "vector_add",
        "add",
        gpu_cases.vadd_cases,
        (("2^26", ((1 << 26,),) * 2, 12.0 * 2**26, "TB/s"),),
        np.float32,
    ),
    "softmax": Program(
        "softmax",
        "softmax_rows",
        gpu_cases.softmax_cases,
        (("32768x4096", ((32768, 4096),), 8.0 * 32768 * 4096, "TB/s"),),
        np.float32,
    ),
    "matmul_f32": Program("matmul", "matmul_f32", gpu_cases.matmul_f32_cases, _matmul(1024, 4096), np.float32),
    "matmul_bf16": Program(
        "matmul", "matmul_bf16", gpu_cases.matmul_bf16_cases, _matmul(1024, 4096, 8192), ml_dtypes.bfloat16
    ),
    "matmul_bf16_sm80": Program(
        "matmul", "matmul_bf16", gpu_cases.matmul_bf16_cases, _matmul(1024, 4096), ml_dtypes.bfloat16, "sm_80"
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
    rows = [row for name in names for row in run_one(name, options.arch)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_check.json").write_text(json.dumps(rows, indent=1))
    title = "# Checks on a GPU\n\n`python -m benchmarks.gpu_check --out DIR`\n\n"
    (options.out / "gpu_check.md").write_text(title + markdown(rows))
    bad = [row for row in rows if not row["ok"]]
    print(f"{len(rows) - len(bad)} of {len(rows)} checks passed")
    sys.exit(1 if bad else 0)


def run_one(name: str, arch: str) -> list[Row]:
    """Rows of one program from a process of its own, as far as it came."""
    command = [sys.executable, __file__, "--inside", "--out", ".", "--arch", arch, "--only", name]
    output, ended = run_apart(command, TIME_LIMIT)
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
        program = build(chosen.file, chosen.function, chosen.arch or arch)
        took = time.perf_counter() - started
        yield row(name, "build", None, f"{took * 1e3:.0f} ms, variants {[k.name for k in program.kernels]}")
        for case in chosen.cases():
            yield from check_case(name, program, case)
        yield from measure(name, program, chosen)
    except Exception:
        yield row(name, "exception", traceback.format_exc())


def row(name: str, case: str, problem: str | None, figure: str = "equal") -> Row:
    return {"program": name, "case": case, "ok": problem is None, "problem": problem, "figure": figure}


def build(file: str, function: str, arch: str) -> Any:
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    session = Session()
    source = SourceFile(f"{file}.tess", (ROOT / "examples" / f"{file}.tess").read_text())
    return session.gpu_program(source, session.function(source, function), PLATFORMS[arch])


def launches(program: Any, symbols: dict[str, int]) -> list[Any]:
    """The launches that these sizes choose."""
    return list(_chosen(program.steps, symbols))


def _chosen(steps: Any, symbols: dict[str, int]) -> Iterator[Any]:
    from tessera.gpu_program import Launch, Select

    for step in steps:
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, Select):
            held = [arm for p, arm in zip(step.predicates, step.arms, strict=False) if p.holds(symbols)]
            yield from _chosen((held or step.arms[-1:])[0], symbols)


def forced(program: Any, position: int, launch: Any) -> Any:
    """The program with only one kernel, in place of the one that `launch` would choose, and with a host program of its
    own."""
    from tesserac.target.nvptx.build import host_machine_of
    from tesserac.target.nvptx.host.code import host_image

    made = program._replace(steps=(launch._replace(kernels=(position,)),))
    return made._replace(host=lambda machine: host_image(made, host_machine_of(machine)))


def calls(program: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Calls of each kernel that may run on these inputs, by name; that of the chosen one first. What is more than one
    launch is called as a whole."""
    from benchmarks.gpu_runs import GpuCall
    from tessera.gpu_effects import checked_symbols

    symbols = checked_symbols(program, [array.shape for array in inputs])
    whole, found = GpuCall(program, inputs), launches(program, symbols)
    names = [whole.variant(launch).name for launch in found]
    yield " ".join(names), whole
    for position in like(program.steps, found[0]) if len(found) == 1 else ():
        kernel = program.kernels[position]
        if kernel.name not in names and all(c.holds(symbols) for c in kernel.conditions):
            yield kernel.name, GpuCall(forced(program, position, found[0]), inputs)


def like(steps: Any, launch: Any) -> list[int]:
    """The kernels of all launches with the operands of one: the others read copies."""
    from tessera.gpu_program import Launch, Select

    found: list[int] = []
    for step in steps:
        if isinstance(step, Launch) and step.operands == launch.operands:
            found += step.kernels
        elif isinstance(step, Select):
            found += [position for arm in step.arms for position in like(arm, launch)]
    return list(dict.fromkeys(found))


def check_case(name: str, program: Any, case: Case) -> Iterator[Row]:
    """The chosen kernel against the expectation, then every other one that may run against the chosen one."""
    (chosen, call), *others = calls(program, case.inputs)
    result = outcome(call)
    yield row(name, f"{case.name} {chosen}", case.check(result))
    for other, call in others:
        yield row(name, f"{case.name} {other} = {chosen}", gpu_cases.same_bits(result)(outcome(call)))


def outcome(call: Any) -> Any:
    """The result of a call whose output memory held NaNs before."""
    call.fill_outputs(0xFF)
    call.execute()
    return call.results()[0]


def measure(name: str, program: Any, chosen: Program) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for label, shapes, work, unit in chosen.timed:
        inputs = tuple(np.asarray(rng.standard_normal(s, np.float32).astype(chosen.dtype)) for s in shapes)
        for kernel, call in calls(program, inputs):
            call.time(2)
            best = min(call.time(5) for _ in range(5))
            figure = f"{best:.3f} ms, {work / best / 1e9:.2f} {unit}"
            yield row(name, f"time {label} {kernel}", None, figure)


if __name__ == "__main__":
    main()
