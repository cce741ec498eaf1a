"""`make demo`: one program through every level, what each level made of it, and the result.

The same at length: tesserac inspect examples/softmax.tess:softmax_rows
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

import tessera
from tesserac.commands import names
from tesserac.commands.decisions import describe_schedule
from tesserac.commands.inspection import source_lines
from tesserac.commands.levels import FunctionLevels
from tesserac.commands.select import read, select_one
from tesserac.commands.targets import find_target
from tesserac.driver.session import Session

PROGRAM = Path(__file__).with_name("softmax.tess")
FUNCTION = "softmax_rows"
WIDTH = 110
BOLD, DIM, END = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if sys.stdout.isatty() else ("", "", "")

TELLING = {
    names.GRAPH: r"graph\.(max|exp_term|sum|div)\(",
    names.FORMS: r"form\.reduce|scalar\.(exp_term|div)",
    names.TILE: r"tile\.(kernel|load|reduce|store)",
    names.CPU: r"cpu\.(kernel|fold|vector_loop)",
    names.LLVM: r"define|x float> @llvm\.fma",
    names.ASM: r"\b(fmla|vfmadd\w*|fdiv|vdivps)\b",
}
"""Lines of a level that show what it is about."""
MOST_LINES = 5

T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """What the action gives, and the milliseconds it took."""
    start = time.perf_counter()
    result = action()
    return result, (time.perf_counter() - start) * 1000


def heading(name: str, title: str, facts: str) -> None:
    print(f"\n{BOLD}{name:9}{END} {title}  {DIM}{facts}{END}")


def telling_lines(text: str, pattern: str) -> Iterator[str]:
    found = [line.strip() for line in text.splitlines() if re.search(pattern, line)]
    for line in list(dict.fromkeys(found))[:MOST_LINES]:
        line = " ".join(line.split())
        yield line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def show_levels(levels: FunctionLevels) -> None:
    """Every level with its size and a few of its lines; the time stands at the last of those that are made together."""
    _, shared = timed(lambda: levels.shared)
    for level in levels.target.levels[1:]:
        text, took = timed(lambda: levels.text(level))  # noqa: B023  (called at once)
        times = {names.GRAPH: "", names.FORMS: "", names.SCHEDULE: "", names.TILE: f", {shared:.0f} ms down to here"}
        heading(level.name, level.title, f"{len(text.splitlines())} lines{times.get(level, f', {took:.0f} ms')}")
        if level == names.SCHEDULE:
            print("".join(f"    {line}\n" for line in describe_schedule(levels.shared.schedule).splitlines()), end="")
        for line in telling_lines(text, TELLING.get(level, "$^")):
            print(f"    {line}")


def show_result() -> None:
    """Compiled for real: against NumPy in value and speed, and on one thread against all of them in bits."""
    module = tessera.load(PROGRAM)
    x = np.random.default_rng(0).normal(size=(2048, 1024)).astype("f4")
    y, first = timed(lambda: module.softmax_rows(x))
    ours = min(timed(lambda: module.softmax_rows(x))[1] for _ in range(7))
    expected, theirs = min((timed(lambda: numpy_softmax(x)) for _ in range(7)), key=lambda pair: pair[1])
    threads = tessera.get_num_threads()
    tessera.set_num_threads(1)
    same = np.array_equal(module.softmax_rows(x), y)
    heading("result", "softmax_rows of 2048 x 1024 random numbers", f"first call {first:.0f} ms, with compiling")
    print(f"    largest difference from NumPy   {np.abs(y - expected).max():.1e}")
    print(f"    {f'bits on 1 and {threads} threads':31} {'equal' if same else 'DIFFERENT'}")
    print(f"    time                            {ours:.2f} ms; NumPy {theirs:.2f} ms")


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main() -> None:
    session = Session()
    source = read(session, PROGRAM)
    checked, took = timed(lambda: select_one(session, source, FUNCTION))
    print(f"{BOLD}One program through every level{END}")
    heading("source", str(PROGRAM.relative_to(PROGRAM.parents[1])), f"parsed and checked in {took:.0f} ms")
    print("".join(f"    {line}\n" for line in source_lines(source, FUNCTION).splitlines()), end="")
    show_levels(FunctionLevels(session, source, checked.function, find_target("cpu")))
    show_result()
    heading("next", "where to go from here", "")
    print("    .venv/bin/tesserac inspect examples/softmax.tess:softmax_rows    all of it, source lines beside")
    print("    .venv/bin/tesserac build examples/matmul.tess --emit ptx --function matmul_bf16")
    print("    .venv/bin/tessera run examples/matmul.tess")
    print("    docs/softmax.md, docs/language.md, docs/architecture.md")


if __name__ == "__main__":
    main()
