"""`make demo`: in twenty seconds a mistake and its fix, one function at every level, speed, a gradient, a picture."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

import tessera
from tesserac.base.long_work import telling
from tesserac.base.source import SourceFile
from tesserac.commands import names
from tesserac.commands.counting_bar import CountingBar
from tesserac.commands.levels import FunctionLevels
from tesserac.commands.select import read, select_one
from tesserac.commands.targets import find_target
from tesserac.diag.render import COLOURS, PLAIN, apply_edits, render
from tesserac.driver.session import Session

FOLDER = Path(__file__).parent
PROGRAM, FUNCTION = FOLDER / "softmax.tess", "softmax_rows"
WIDTH = 108
COLOURED = sys.stdout.isatty()
BOLD, DIM, END = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if COLOURED else ("", "", "")

WRONG = """\
def loss(predicted: Tensor[N, 1, f32], wanted: Tensor[N, f32]) -> Tensor[f32]:
    return mean((predicted - wanted) ** 2)
"""
TELLING = {
    names.GRAPH: r"graph\.exp_term\(",
    names.FORMS: r"form\.reduce.*sum",
    names.SCHEDULE: r"schedule\.launch",
    names.TILE: r"tile\.reduce.*sum",
    names.CPU: r"cpu\.fold.*sum",
    names.LLVM: r"x float> @llvm\.fma",
    names.ASM: r"\b(fmla|vfmadd\w*)\b",
}
"""A line of each level that shows what it is about."""
GRADIENT = """\
def f(x: Tensor[N, f64]) -> Tensor[f64]:
    y = x
    for i in range(5):
        y = sin(y) + softmax(y * x)
    return logsumexp(y)

def slope(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(f)(x)
"""
SPEED = """\
def softmax_rows(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return softmax(x)

def gaussian(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return exp(-0.5 * (x - 0.5) ** 2) * 0.3989423

def product(x: Tensor[M, K, f32], y: Tensor[K, N, f32]) -> Tensor[M, N, f32]:
    return x @ y
"""
T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """What the action gives, and the milliseconds it took."""
    start = time.perf_counter()
    result = action()
    return result, (time.perf_counter() - start) * 1000


def best(action: Callable[[], object]) -> float:
    return min(timed(action)[1] for _ in range(5))


def heading(number: int, title: str) -> None:
    print(f"\n{BOLD}{number}. {title}{END}")


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


# ------------------------------------------------------------------------------------------------------ the parts


def show_mistake(session: Session) -> None:
    """A loss that others compute without a word; the program with the first fix is checked again."""
    heading(1, "A mistake, found before anything runs")
    source = SourceFile("loss.tess", WRONG)
    (found,), took = timed(lambda: session.check(source).diagnostics)
    print(indented(render(found, {source.path: source}, COLOURS if COLOURED else PLAIN)))
    mended = SourceFile("loss.tess", apply_edits(WRONG, list(found.fixes[0].edits)))
    left = session.check(mended).diagnostics
    print(f"    With fix 1: {mended.text.splitlines()[1].strip()}")
    print(f"    {len(left)} errors.  {DIM}checked in {took:.0f} ms{END}")


def show_levels(session: Session) -> None:
    heading(2, f"One function at every level: {FUNCTION} of examples/{PROGRAM.name}")
    source = read(session, PROGRAM)
    levels = FunctionLevels(session, source, select_one(session, source, FUNCTION).function, find_target("cpu"))
    for level in levels.target.levels[1:]:
        text, took = timed(lambda: levels.text(level))  # noqa: B023  (called at once)
        line = next((line for line in text.splitlines() if re.search(TELLING[level], line)), "")
        shown = " ".join(line.split())
        shown = shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"
        print(f"    {BOLD}{level.name:9}{END}{DIM}{len(text.splitlines()):5} lines {took:5.0f} ms{END}  {level.title}")
        print(f"              {DIM}{shown}{END}")


def show_speed() -> None:
    heading(3, "Speed, and bits")
    m = tessera.compile(SPEED)
    x = np.random.default_rng(0).normal(size=(2048, 1024)).astype("f4")
    y = np.ascontiguousarray(x[:1024])
    runs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "softmax of 2048 x 1024": (lambda: m.softmax_rows(x), lambda: numpy_softmax(x)),
        "exp(-(x - 0.5)² / 2) / √2π": (lambda: m.gaussian(x), lambda: numpy_gaussian(x)),
        "product of 1024³": (lambda: m.product(y, y), lambda: y @ y),
    }
    others = torch_runs(x, y)
    for name, (ours, theirs) in runs.items():
        peer = f", torch {best(others[name]):7.2f} ms" if others else ""
        print(f"    {name:28} {best(ours):7.2f} ms, NumPy {best(theirs):7.2f} ms{peer}")
    many, threads = m.softmax_rows(x), tessera.get_num_threads()
    tessera.set_num_threads(1)
    same = many.tobytes() == m.softmax_rows(x).tobytes()
    tessera.set_num_threads(threads)
    print(f"    bits on 1 and {threads} threads: {'equal' if same else 'DIFFERENT'}")


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def numpy_gaussian(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (x - 0.5) ** 2) * np.float32(0.3989423)


def torch_runs(x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], object]]:
    """The same in PyTorch, where it is installed."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    a, b = torch.from_numpy(x), torch.from_numpy(y)
    return {
        "softmax of 2048 x 1024": lambda: torch.softmax(a, 1),
        "exp(-(x - 0.5)² / 2) / √2π": lambda: torch.exp(-0.5 * (a - 0.5) ** 2) * 0.3989423,
        "product of 1024³": lambda: b @ b,
    }


def show_gradient() -> None:
    heading(4, "A gradient through a loop, against finite differences")
    print(indented(GRADIENT))
    m = tessera.compile(GRADIENT)
    x, step = np.random.default_rng(1).normal(size=6), 1e-6
    found = m.slope(x)
    expected = np.array([(m.f(x + step * e) - m.f(x - step * e)) / (2 * step) for e in np.eye(6)])
    print(f"    grad        {np.array2string(found, precision=6, floatmode='fixed')}")
    print(f"    differences {np.array2string(expected, precision=6, floatmode='fixed')}")
    print(f"    largest difference {np.abs(found - expected).max():.0e}")


def show_picture() -> None:
    heading(5, "A picture: tessera run examples/mandelbrot.tess --save mandelbrot.png")
    m = tessera.load(FOLDER / "mandelbrot.tess")
    if COLOURED:
        pixels, took = timed(lambda: m.picture(44, 96, 60))
        for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
            print("    " + "".join(map(half_block, upper, lower)) + END)
    else:
        pixels, took = timed(lambda: m.picture(24, 96, 60))
        for row in pixels.mean(axis=2):
            print("    " + "".join(" .:-=+*#%@"[int(value) * 10 // 256] for value in row))
    print(f"    {DIM}compiled and computed in {took:.0f} ms{END}")


def half_block(upper: np.ndarray, lower: np.ndarray) -> str:
    """Two pixels in one character."""
    front, back = (";".join(map(str, pixel)) for pixel in (upper, lower))
    return f"\x1b[38;2;{front};48;2;{back}m▀"


def keep_library(session: Session) -> None:
    """A wheel brings the library checked; a checkout checks and keeps it once for each state of the compiler."""
    with CountingBar("files of the library checked, once") as bar, telling(bar.show):
        _, took = timed(lambda: session.library)
    if took > 2000:
        print(f"    The library is checked and kept, once for this compiler.  {DIM}{took / 1000:.0f} s{END}")


def main() -> None:
    session = Session()
    keep_library(session)
    start = time.perf_counter()
    show_mistake(session)
    show_levels(session)
    show_speed()
    show_gradient()
    show_picture()
    print(f"\n{BOLD}Next{END}  {time.perf_counter() - start:.0f} s so far")
    print("    docs/learn/index.md                                               ten lessons, about an hour")
    print("    .venv/bin/tesserac inspect examples/softmax.tess:softmax_rows     every level in full")
    print("    .venv/bin/tessera run                                             a prompt")


if __name__ == "__main__":
    main()
