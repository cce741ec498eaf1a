"""The pictures of the documentation, drawn from the compiler and from what was measured.

Enters: a schedule, `benchmarks/results`. Leaves: SVG texts by their paths under `docs/pictures`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.results import RESULTS, gpu_times
from docs.svg import COLOURS, FAINT, INK, Axis, Chart, Drawing, Point
from docs.terminal import terminal
from tesserac.base.source import SourceFile
from tesserac.commands import names
from tesserac.diag.render import COLOURS as PALETTE
from tesserac.diag.render import render
from tesserac.driver.session import Session
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import SM_90A

ROOT = Path(__file__).resolve().parent.parent
WRONG = '''\
def predict(x: Tensor[N, D, f32], w: Tensor[D, 1, f32]) -> Tensor[N, 1, f32]:
    return x @ w

def loss(w: Tensor[D, 1, f32], x: Tensor[N, D, f32], y: Tensor[N, f32]) -> Tensor[f32]:
    return mean((predict(x, w) - y) ** 2)
'''
"""A mistake that other libraries compute without a word; the README shows what the compiler says."""
SHARED = (names.GRAPH, names.FORMS, names.SCHEDULE, names.TILE)
H200 = {"bytes": 4.8e12, "bf16": 989e12, "f32": 67e12}
"""The vendor's figures for dense work: bytes a second, operations a second."""


def pictures() -> dict[str, str]:
    return {
        "pictures/error.svg": error(),
        "pictures/levels.svg": levels(),
        "pictures/tiles.svg": tiles(),
        "pictures/roofline.svg": roofline(),
        "pictures/kovasznay-loss.svg": kovasznay_loss(),
        "pictures/kovasznay-field.svg": kovasznay_field(),
    }


def error() -> str:
    source = SourceFile("loss.tess", WRONG)
    (found,) = Session().check(source).diagnostics
    shown = f"$ tesserac check loss.tess\n{render(found, {source.path: source}, PALETTE)}"
    return terminal(shown, "tesserac check loss.tess")


def levels() -> str:
    """The way of a program, with the names that `--emit` takes."""
    drawing = Drawing(760, 446, "The levels of the compiler")
    shared = [("source", "your program, and the library in the same language"), ("ast", "typed: shapes and precision")]
    shared += [(level.name, level.title.partition(": ")[2] or level.title) for level in SHARED]
    for number, (name, words) in enumerate(shared):
        _box(drawing, (16, 16 + 48 * number), 728, name, words, COLOURS[0] if number > 1 else INK)
        drawing.arrow((380, 51 + 48 * number), (380, 63 + 48 * number), FAINT)
    y = 16 + 48 * len(shared)
    for x, chain in ((16, (names.CPU, names.LLVM, names.ASM)), (388, (names.GPU, names.PTX))):
        for number, level in enumerate(chain):
            words = level.title.partition(": ")[2] or level.title
            _box(drawing, (x, y + 48 * number), 356, level.name, words, COLOURS[1 if x == 16 else 2])
            if level is not chain[-1]:
                drawing.arrow((x + 178, y + 35 + 48 * number), (x + 178, y + 47 + 48 * number), FAINT)
    return drawing.svg()


def _box(drawing: Drawing, at: Point, width: float, name: str, words: str, colour: str) -> None:
    x, y = at
    drawing.rect(x, y, width, 34, "#ffffff", colour, 5)
    drawing.rect(x, y, 6, 34, colour)
    drawing.text(x + 16, y + 22, name, size=14, colour=colour)
    drawing.text(x + 100, y + 22, words, size=11)


def tiles() -> str:
    """How the bf16 product is cut for a GPU: the blocks are those that the schedule has chosen."""
    session, path = Session(), ROOT / "examples" / "matmul.tess"
    source = SourceFile("matmul.tess", path.read_text(encoding="utf-8"))
    function = session.function(source, "matmul_bf16")
    (launch, *_) = [
        op for op in session.levels(source, function, SM_90A).schedule.walk() if op.name == "schedule.launch"
    ]
    m, n, k = (loop.block for loop in launch_loops(launch))
    drawing = Drawing(720, 440, "The tiles of a product")
    words = f"matmul_bf16 on sm_90a: one program makes a block of {m} x {n}, walking K in blocks of {k}"
    drawing.text(16, 24, words, size=14)
    scale, left, top = 0.42, 230.0, 60.0
    a, b, c = (left - 190, top + 170), (left + 60, top), (left + 60, top + 170)
    for (x, y), (w, h), name in ((a, (160, 170), "A [M, K]"), (b, (400, 140), "B [K, N]"), (c, (400, 170), "C [M, N]")):
        drawing.rect(x, y, w, h, "#f6f8fa", INK)
        drawing.text(x + 4, y - 5, name)
    rows, columns, deep = m * scale, n * scale, k * scale
    drawing.rect(a[0], a[1] + rows, 160, rows, "#dbe7fb", "none")
    drawing.rect(b[0] + columns, b[1], columns, 140, "#fbe8d3", "none")
    for step in range(int(160 // deep)):
        drawing.rect(a[0] + step * deep, a[1] + rows, deep, rows, "none", COLOURS[0])
    for step in range(int(140 // deep)):
        drawing.rect(b[0] + columns, b[1] + step * deep, columns, deep, "none", COLOURS[1])
    drawing.rect(c[0] + columns, c[1] + rows, columns, rows, "#d8efdf", COLOURS[2])
    drawing.text(c[0] + columns * 1.5, c[1] + rows * 1.5 + 4, f"{m} x {n}", "middle", 13)
    drawing.text(a[0], a[1] + 194, f"blocks of {m} x {k}, copied to shared memory ahead of time", size=11)
    drawing.text(a[0], a[1] + 210, "each element is one ascending chain of fma, however it is cut", size=11)
    return drawing.svg()


def roofline() -> str:
    chart = Chart(
        "Kernels on an H200, against the limits of the machine",
        Axis("operations per byte of memory", 0.05, 10000, (0.1, 1, 10, 100, 1000, 10000), logarithmic=True),
        Axis("tera-operations per second", 0.1, 2000, (0.1, 1, 10, 100, 1000), logarithmic=True),
        height=420,
    )
    for kind, colour in (("bf16", COLOURS[0]), ("f32", COLOURS[1])):
        ridge = H200[kind] / H200["bytes"]
        points = [(0.05, 0.05 * H200["bytes"] / 1e12), (ridge, H200[kind] / 1e12), (10000, H200[kind] / 1e12)]
        chart.curve([(x, max(y, 0.1)) for x, y in points], colour, f"{kind}: {H200[kind] / 1e12:g}")
    for run in gpu_times():
        chart.mark(run.intensity, run.rate / 1e12, run.label, INK, "end" if run.intensity > 100 else "start")
    return chart.svg()


def _kovasznay() -> dict[str, list[list[float]]]:
    found = json.loads((RESULTS / "kovasznay.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def kovasznay_loss() -> str:
    losses = _kovasznay()["losses"]
    low = 10.0 ** int(re.sub(r".*e", "", f"{min(loss for _, loss in losses):e}"))
    ticks = [low * 10**power for power in range(12) if low * 10**power <= 100]
    chart = Chart(
        "Loss of examples/kovasznay.tess",
        Axis("step of training", 0, losses[-1][0], range(0, int(losses[-1][0]) + 1, 500)),
        Axis("loss", low, 100, ticks, logarithmic=True),
        height=300,
    )
    chart.curve([(step, loss) for step, loss in losses], COLOURS[0])
    return chart.svg()


def kovasznay_field() -> str:
    """The speed along x that was found and the exact one, in colours; the difference, magnified."""
    data = _kovasznay()
    wide, high = int(str(data["wide"])), int(str(data["high"]))
    drawing = Drawing(720, 390, "Kovasznay flow")
    found, exact = ([row[0] for row in data[name]] for name in ("found", "exact"))
    off = [abs(a - b) for a, b in zip(found, exact, strict=True)]
    most = max(map(abs, exact))
    difference = f"|difference|, at most {max(off):.1g}"
    panels = (("found: u(x, y)", found, most), ("exact", exact, most), (difference, off, max(off)))
    for number, (title, values, scale) in enumerate(panels):
        left = 16 + 236 * number
        drawing.text(left, 24, title)
        rows = [[_heat(value / scale) for value in values[row * wide :][:wide]] for row in reversed(range(high))]
        drawing.cells((left, 34), 7 * wide, 8 * high, rows)
    drawing.text(16, 382, "The network saw the equations inside, and the exact flow on the boundary only.", size=11)
    return drawing.svg()


def _heat(value: float) -> tuple[int, int, int]:
    """White at 0, blue below, red above."""
    fade = round(255 * (1 - min(abs(value), 1.0)))
    return (255, fade, fade) if value > 0 else (fade, fade, 255)
