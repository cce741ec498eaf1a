"""Hashes of results, to be compared between machines: equal hashes are equal bits.

    python -m benchmarks.bits --backend cpu gpu --out DIR [--arch sm_90a] [--only softmax_rows] [--jobs 8]
        [--against A.json ...]
    python -m benchmarks.bits --compare A.json B.json ... --out DIR

The first runs every program of bits.tess on this machine's processor, its GPU, or both, and writes one JSON file for
each (DIR/bits-cpu-x86_64.json, DIR/bits-gpu-sm_90a.json), then a report of these and of the files given with
`--against` (DIR/bits.md). Each program runs in a process of its own, with a time limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

from benchmarks.apart import run_apart  # noqa: E402
from benchmarks.bits_cases import PER_ARCHITECTURE, SIZES, inputs  # noqa: E402

Array = np.ndarray[Any, Any]
Hashes = dict[str, dict[str, str]]
"""Program -> sizes -> hash, or what went wrong."""
TIME_LIMIT = 120
FAILED = "failed: "


def main() -> None:
    options = _options()
    if options.inside:
        for case, outcome in run_program(options.inside, options.backend[0], options.arch):
            print("ROW " + json.dumps([case, outcome]), flush=True)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    files = [Path(p) for p in options.compare or options.against]
    if not options.compare:
        files = [*(run_backend(backend, options) for backend in options.backend), *files]
    stems = [path.stem for path in files]
    names = [path.stem if stems.count(path.stem) == 1 else str(path) for path in files]
    text, equal = report({name: json.loads(path.read_text()) for name, path in zip(names, files, strict=True)})
    (options.out / "bits.md").write_text(text)
    print(text)
    sys.exit(0 if equal else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", choices=["cpu", "gpu"], default=["cpu"])
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--only", choices=sorted(SIZES))
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side")
    parser.add_argument("--against", nargs="*", default=[])
    parser.add_argument("--compare", nargs="+")
    parser.add_argument("--inside", choices=sorted(SIZES), help=argparse.SUPPRESS)
    return parser.parse_args()


def run_backend(backend: str, options: argparse.Namespace) -> Path:
    """All programs on one backend; the file of their hashes."""
    names = [options.only] if options.only else list(SIZES)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(names, pool.map(lambda name: run_one(name, backend, options.arch), names), strict=True))
    machine = options.arch if backend == "gpu" else platform.machine().lower()
    path: Path = options.out / f"bits-{backend}-{machine}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def run_one(name: str, backend: str, arch: str) -> dict[str, str]:
    """Hashes of one program from a process of its own, as far as it came."""
    command = [sys.executable, "-m", "benchmarks.bits", "--inside", name, "--backend", backend, "--arch", arch]
    started = time.perf_counter()
    output, ended = run_apart(command, TIME_LIMIT)
    rows = dict(json.loads(line[4:]) for line in output.splitlines() if line.startswith("ROW "))
    if ended:
        rows["process"] = FAILED + ended
    for line in output.splitlines():
        if not line.startswith("ROW "):
            print(f"    {line}")
    bad = [f"{case}: {outcome}" for case, outcome in rows.items() if outcome.startswith(FAILED)]
    took = time.perf_counter() - started
    summary = f"{backend} {name:18} {len(rows) - len(bad)} of {len(rows)} ran, {took:.1f} s"
    print(summary, *bad, sep="\n    ", flush=True)
    return rows


# --- one program, in its own process ------------------------------------------------------------------------------


def run_program(name: str, backend: str, arch: str) -> Iterator[tuple[str, str]]:
    try:
        function, signature = build(name, backend, arch)
    except Exception:
        yield "build", FAILED + traceback.format_exc()
        return
    for sizes in SIZES[name]:
        case = " ".join(f"{symbol}={value}" for symbol, value in sizes.items())
        try:
            yield case, digest(function(*inputs(name, signature, sizes)))
        except Exception:
            yield case, FAILED + traceback.format_exc()


def build(name: str, backend: str, arch: str) -> tuple[Callable[..., object], Any]:
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session

    session = Session()
    source = SourceFile("bits.tess", (Path(__file__).parent / "bits.tess").read_text())
    function = session.function(source, name)
    if backend == "gpu":
        from tesserac.target.nvptx.build import PLATFORMS

        program = session.gpu_program(source, function, PLATFORMS[arch])
        return partial(run_on_gpu, program), program.signature
    from tessera.function import CompiledFunction
    from tesserac.target.cpu.build import host_platform

    compiled = CompiledFunction(session.artifact(source, function, host_platform()))
    return compiled.fast, compiled.signature


def run_on_gpu(program: Any, *arrays: Array) -> tuple[Array, ...]:
    """As a call does it, but what no kernel writes is seen: the memory of the results held ones before."""
    from benchmarks.gpu_runs import GpuCall

    call = GpuCall(program, arrays)
    call.fill_outputs(0xFF)
    call.execute()
    return call.results()


def digest(result: object) -> str:
    """SHA-256 of dtypes, shapes and bytes, with every NaN as one."""
    arrays = [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]
    total = hashlib.sha256()
    for array in arrays:
        plain = np.array(array, order="C")
        if plain.dtype.kind not in "iub":
            plain[np.isnan(plain)] = np.nan
        total.update(f"{plain.dtype.name} {plain.shape} ".encode())
        total.update(plain.tobytes())
    return total.hexdigest()


# --- the report ---------------------------------------------------------------------------------------------------


def report(machines: dict[str, Hashes]) -> tuple[str, bool]:
    """A row per program, and whether everything is equal that must be."""
    names = list(dict.fromkeys(name for hashes in machines.values() for name in hashes))
    made = "`python -m benchmarks.bits --backend cpu gpu --out DIR --against benchmarks/results/bits-cpu-aarch64.json`"
    lines = ["# The same bits", "", f"{made}. Machines: {', '.join(machines)}.", ""]
    lines += ["| program | sizes | machines | result |", "|---|---|---|---|"]
    problems: list[str] = []
    for name in names:
        tables = {machine: hashes[name] for machine, hashes in machines.items() if name in hashes}
        cases = list(dict.fromkeys(case for table in tables.values() for case in table))
        different = {case: problem for case in cases if (problem := _problem(case, tables))}
        allowed = name in PER_ARCHITECTURE and not any("failed" in p for p in different.values())
        fine = "equal" if len(tables) > 1 else "ran"
        verdict = fine if not different else f"{len(different)} differ{' (left to the architecture)' * allowed}"
        lines.append(f"| {name} | {len(cases)} | {len(tables)} | {verdict} |")
        if not allowed:
            problems += [f"- {name} {case}: {problem}" for case, problem in different.items()]
    return "\n".join([*lines, "", *problems, ""]), not problems


def _problem(case: str, tables: dict[str, dict[str, str]]) -> str:
    """What is wrong with one call: a failure, or which machines disagree. A program not built is not called."""
    called = {machine: table for machine, table in tables.items() if case == "build" or "build" not in table}
    if case in ("build", "process"):
        called = {machine: table for machine, table in called.items() if case in table}
    outcomes = {machine: table.get(case, FAILED + "not run") for machine, table in called.items()}
    bad = [f"{m} {o.splitlines()[-1] if o.splitlines() else o}" for m, o in outcomes.items() if o.startswith(FAILED)]
    if bad:
        return "failed: " + "; ".join(bad)
    groups: dict[str, list[str]] = {}
    for machine, outcome in outcomes.items():
        groups.setdefault(outcome, []).append(machine)
    return "" if len(groups) < 2 else " / ".join(" = ".join(group) for group in groups.values())


if __name__ == "__main__":
    main()
