"""`python -m benchmarks.checking`: how long `tesserac check` takes, in new processes, cold and after edits.

A file of 5,000 lines, programs of `benchmarks.dims` that are meant to take long, then projects of many files that
import each other, up to 50,000 lines. Times of the processor are given beside those of the clock, since other programs
share the machine; goals are held against the former. Writes `benchmarks/results/checking-*.md`.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import dims
from benchmarks.editor import FUNCTION, program
from benchmarks.installed import as_installed
from benchmarks.report import Row, table

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = 334
"""Of 15 lines each: 5,000 lines."""
PER_FILE = 33
FILES = (25, 100)
"""A file of 33 functions has 500 lines."""
RUNS = 2
COMMAND = "import sys; from tesserac.cli import tesserac; sys.exit(tesserac())"


class Took(NamedTuple):
    """Seconds of the processor, and of the clock."""

    cpu: float
    clock: float

    def text(self) -> str:
        return f"{self.cpu:.2f} s ({self.clock:.2f} s by the clock)"


def check(folder: Path, cache: Path, *paths: str) -> Took:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "runtime", "lsp"))
    env = as_installed(TESSERA_CACHE_DIR=str(cache), PYTHONPATH=path)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    arguments = [sys.executable, "-c", COMMAND, "check", *paths]
    subprocess.run(arguments, cwd=folder, env=env, check=True, capture_output=True)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return Took(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end - start)


def best(action: Callable[[], Took]) -> Took:
    return min((action() for _ in range(RUNS)), key=lambda took: took.cpu)


def forget(cache: Path) -> None:
    """What is known of programs; the library stays, as an installed compiler has it."""
    for record in cache.glob("check-*/*"):
        record.unlink()


def one_file(folder: Path, cache: Path) -> list[Row]:
    text = program(FUNCTIONS)
    path = folder / "model.tess"
    path.write_text(text, encoding="utf-8")
    (folder / "small.tess").write_text("def f(x: Tensor[N, f32]):\n    return x\n", encoding="utf-8")
    check(folder, cache, "small.tess")

    def cold() -> Took:
        forget(cache)
        return check(folder, cache, "model.tess")

    def small() -> Took:
        forget(cache)
        return check(folder, cache, "small.tess")

    def edited() -> Took:
        path.write_text(text.replace("z = c / s", f"z = c / s * {time.time()}", 1), encoding="utf-8")
        return check(folder, cache, "model.tess")

    size = f"{text.count(chr(10))} lines, {FUNCTIONS} functions"
    rows = [_row("start and one small function", best(small), 0.5), _row(f"{size}: cold", best(cold), 5.0)]
    rows.append(_row(f"{size}: unchanged", best(lambda: check(folder, cache, "model.tess")), 0.4))
    rows.append(_row(f"{size}: one body edited", best(edited), None))
    return rows


def project(folder: Path, files: int) -> int:
    """Every file imports the two before it; gives the number of lines."""
    folder.mkdir()
    (folder / "tessera.toml").write_text('[project]\nname = "generated"\n', encoding="utf-8")
    lines = 0
    for number in range(files):
        text = "".join(_import(before) for before in range(max(number - 2, 0), number))
        for index in range(PER_FILE):
            rest = f"{_block(number - 1, index)}(x, w, v, b)" if number and index % 3 == 0 else "x"
            rest += f" + {_block(number - 2, 1)}(x, w, v, b)" if number > 1 and index == 1 else ""
            text += FUNCTION.format(number=f"{number}_{index}", rest=rest)
        (folder / f"layer_{number}.tess").write_text(text, encoding="utf-8")
        lines += text.count("\n")
    return lines


def _block(file: int, index: int) -> str:
    return f"layer_{file}.block_{file}_{index}"


def _import(file: int) -> str:
    return f"import layer_{file}\n"


def projects(folder: Path, cache: Path) -> list[Row]:
    rows: list[Row] = []
    per_line: list[float] = []
    for files in FILES:
        here = folder / f"project_{files}"
        lines = project(here, files)
        took = check(here, cache)
        per_line.append(took.cpu / lines)
        rows.append(_row(f"project of {files} files, {lines} lines: cold", took, None))
    ratio = per_line[-1] / per_line[0]
    rows.append(Row("cost of a line, in the largest to the smallest", f"{ratio:.2f}", "< 1.3", ratio < 1.3))
    rows.append(_row("the largest, unchanged", check(here, cache), None))
    middle = here / f"layer_{files // 2}.tess"
    middle.write_text(middle.read_text(encoding="utf-8").replace("y = y + b", "y = y + b + b", 1), encoding="utf-8")
    rows.append(_row("the largest, one body edited in the middle", check(here, cache), None))
    return rows


def pathological() -> list[Row]:
    """Programs that no one should write: checked, or told to be too complex."""
    return [Row(f"{name} ({said})", f"{cpu:.2f} s", "< 1 s", cpu < 1.0) for name, cpu, said in dims.measure()]


def _row(what: str, took: Took, goal: float | None) -> Row:
    return Row(what, took.text(), f"< {goal} s" if goal else "", goal is None or took.cpu < goal)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder, cache = Path(temporary), Path(temporary) / "cache"
        rows = one_file(folder, cache)
        for row in rows:
            print(row.line(), flush=True)
        found = [*pathological(), *projects(folder, cache)]
        for row in found:
            print(row.line(), flush=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    text = f"# `tesserac check`\n\n`python -m benchmarks.checking`, {machine}, Python {platform.python_version()}.\n\n"
    path = Path(__file__).parent / "results" / f"checking-{platform.machine()}.md"
    path.write_text(text + table([*rows, *found]), encoding="utf-8")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
