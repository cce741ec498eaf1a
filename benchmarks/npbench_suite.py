"""`python -m benchmarks.npbench_suite CHECKOUT`: the programs of NPBench (github.com/spcl/npbench), ours beside the
suite's own NumPy, Numba and JAX forms; writes `benchmarks/results/npbench-MACHINE.md`.

CHECKOUT is a clone of the suite: inputs, sizes and the other forms are read there. Ours are in `npbench/*.tess`, as the
NumPy text says them. Each library is alone in its process; a result that is not NumPy's is no result.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import importlib
import importlib.util
import inspect
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
FORMS = {"numpy": ("_numpy",), "numba": ("_numba_n", "_numba_np"), "jax": ("_jax",)}
"""The files of the suite that hold a library's forms; the better counts: Numba's on one thread, and on all."""
OURS = {
    "cholesky": "cholesky_loops", "lenet": "lenet5", "resnet": "resnet_basicblock", "softmax": "softmax_4d",
}  # fmt: skip
"""Programs of ours that have another name than the suite's."""
FILES = ("polybench", "stencils", "others")
LEFT_OUT = {"lenet": ("N", "C_before_fc1")}
"""Arguments that ours takes from the shapes of others."""
SECONDS, CALLS = 0.5, 3
"""Each form is called for so long, and so often, at least."""
LIMIT = 300
"""Seconds for all of a library's forms of a program."""


@dataclass(frozen=True)
class Case:
    """A program of the suite, as its description says."""

    name: str
    folder: Path
    described: dict[str, Any]

    @property
    def module(self) -> str:
        return str(self.described["module_name"])

    def inputs(self, size: str) -> dict[str, Any]:
        """The arguments by name, made anew."""
        given: dict[str, Any] = dict(self.described["parameters"][size])
        init = self.described.get("init")
        if init:
            make = getattr(load(self.folder / f"{self.module}.py"), init["func_name"])
            made = make(*[given[name] for name in init["input_args"]])
            names = init["output_args"]
            given |= dict(zip(names, made if len(names) > 1 else [made], strict=True))
        return {name: given[name] for name in self.described["input_args"]}


def cases(checkout: Path) -> list[Case]:
    found = []
    for path in sorted((checkout / "bench_info").glob("*.json")):
        described = json.loads(path.read_text(encoding="utf-8"))["benchmark"]
        found.append(Case(path.stem, checkout / "npbench" / "benchmarks" / described["relative_path"], described))
    return found


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forms_of(case: Case, library: str) -> list[Callable[..., Any]]:
    if library != "tessera":
        files = [case.folder / f"{case.module}{ending}.py" for ending in FORMS[library]]
        return [getattr(load(path), case.described["func_name"]) for path in files if path.exists()]
    import tessera

    name = OURS.get(case.name, case.name)
    for file in FILES:
        module = tessera.load(HERE / "npbench" / f"{file}.tess")
        if hasattr(module, name):
            return [getattr(module, name)]
    raise LookupError(f"no program of ours is called {name}")


def outputs(before: dict[str, Any], args: dict[str, Any], returned: Any) -> list[np.ndarray]:
    """What a form gives: what it returns, then the arrays among its arguments that it has changed."""
    values = list(returned) if isinstance(returned, tuple | list) else [] if returned is None else [returned]
    arrays = [(before[name], value) for name, value in args.items() if isinstance(value, np.ndarray)]
    return [np.asarray(value) for value in (*values, *(now for then, now in arrays if not np.array_equal(then, now)))]


def measure(case: Case, library: str, size: str) -> tuple[float, list[np.ndarray]]:
    """The best form: the least time of a call, and the result of the first."""
    found = [measure_form(case, form, library, size) for form in forms_of(case, library)]
    return min(found, key=lambda one: one[0])


def measure_form(case: Case, form: Callable[..., Any], library: str, size: str) -> tuple[float, list[np.ndarray]]:
    """Calls with inputs made anew; the first, which may compile, does not count."""
    times, result = list[float](), list[np.ndarray]()
    end = time.perf_counter() + SECONDS
    while len(times) < CALLS + 1 or time.perf_counter() < end:
        args = case.inputs(size)
        if library == "tessera":
            args = {name: value for name, value in args.items() if name not in LEFT_OUT.get(case.name, ())}
        before = copy.deepcopy(args) if not times else {}
        start = time.perf_counter()
        returned = form(*args.values())
        if library == "jax":
            returned = importlib.import_module("jax").block_until_ready(returned)
        times.append(time.perf_counter() - start)
        result = result or outputs(before, args, returned)
        if len(times) > 1 and sum(times) > 20 * SECONDS:
            break
    return min(times[1:]), result


def differ(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """How two results are not the same, if they are not."""
    pairs = list(zip(found, wanted, strict=False))
    if not pairs:
        return "no result"
    for one, other in pairs:
        if one.shape != other.shape:
            return f"{one.shape}, not {other.shape}"
        near = 1e-6 * float(np.max(np.abs(other), initial=1.0))
        if not np.allclose(one, other, rtol=1e-4, atol=near, equal_nan=True):
            return "other numbers"
    return ""


def alone(case: Case, library: str, size: str, kept: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """A row of one library, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.npbench_suite", *arguments, "--inside", library, case.name, str(kept)]
    settings = {**os.environ, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, env=settings, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no result in {LIMIT} s"}
    lines = [line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")]
    return json.loads(lines[0]) if lines else {"failed": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}


def inside(case: Case, library: str, size: str, kept: Path) -> None:
    seconds, result = measure(case, library, size)
    if library == "numpy":
        np.savez(kept, *result)
        said = ""
    else:
        with np.load(kept) as stored:
            said = differ(result, [stored[name] for name in stored.files])
    print("ROW " + json.dumps({"seconds": seconds, "differs": said}), flush=True)


def mean(ratios: Sequence[float]) -> str:
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} ({len(ratios)})" if ratios else "-"


def row(name: str, found: dict[str, dict[str, Any]]) -> tuple[str, dict[str, float]]:
    """A line of the table, and ours against each of the others."""
    ours = found["tessera"].get("seconds")
    ratios, cells = dict[str, float](), [f"{ours * 1e3:.3g} ms" if ours else found["tessera"]["failed"]]
    for library in FORMS:
        seconds = found.get(library, {}).get("seconds")
        if seconds and ours and not found[library]["differs"] and not found["tessera"]["differs"]:
            ratios[library] = seconds / ours
        cells.append(f"{ratios[library]:.2f}" if library in ratios else "-")
    return f"| {name} | {' | '.join(cells)} | {found['tessera'].get('differs', '')} |", ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=inspect.cleandoc(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("checkout", type=Path, help="a clone of NPBench")
    parser.add_argument("--size", default="S", choices=["S", "M", "L", "paper"])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--libraries", nargs="*", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--output", type=Path, default=HERE / "results" / f"npbench-{platform.machine()}.md")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    every = {case.name: case for case in cases(options.checkout)}
    if options.inside:
        library, name, kept = options.inside
        inside(every[name], library, options.size, Path(kept))
        return
    arguments = [str(options.checkout.resolve()), "--size", options.size]
    kept = Path(os.environ.get("TMPDIR", "/tmp")) / f"npbench-{os.getpid()}.npz"
    lines, all_ratios = list[str](), {library: list[float]() for library in FORMS}
    for name in options.only or every:
        kept.unlink(missing_ok=True)
        order = ["numpy", "tessera", *(library for library in options.libraries if library != "numpy")]
        found = {library: alone(every[name], library, options.size, kept, arguments) for library in order}
        line, ratios = row(name, found)
        lines.append(line)
        print(line, flush=True)
        for library, ratio in ratios.items():
            all_ratios[library].append(ratio)
    kept.unlink(missing_ok=True)
    write(options.output, options.size, lines, all_ratios)


def write(output: Path, size: str, lines: Sequence[str], ratios: dict[str, list[float]]) -> None:
    command, today = f"`python -m benchmarks.npbench_suite CHECKOUT --size {size}`", datetime.date.today().isoformat()
    head = (
        f"# NPBench\n\n{command}, {today}, {platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}.\n\n"
        "Ours, and the time of the suite's other forms over ours: above 1 Tessera is faster. Each library is alone in\n"
        "its process; the least time of a call, without what compiling takes.\n\n"
    )
    means = f"| geometric mean (programs) | | {' | '.join(mean(ratios[library]) for library in FORMS)} | |"
    table = [f"| program | ours | {' | '.join(FORMS)} | differs |", "|---" * (3 + len(FORMS)) + "|", *lines, means]
    output.write_text(head + "\n".join(table) + "\n", encoding="utf-8")
    print(means)


if __name__ == "__main__":
    main()
