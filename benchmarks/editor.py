"""`python -m benchmarks.editor`: how long the editor waits, from the server's process to the answer.

A file of 300 functions is opened and typed into, one character at a time, in its middle. Times are what a client
measures; writes `benchmarks/results/editor-*.md`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from benchmarks.report import Row, table

ROOT = Path(__file__).resolve().parent.parent
URI = "file:///editor-benchmark.tess"
FILE = lsp.TextDocumentIdentifier(URI)
FUNCTIONS = 300
TYPED = " + c * 0.5 - missing_name + softmax(z) * 2.0 - maximum(z, c) + (z / 3.0) "
KEYSTROKES = 200

FUNCTION = '''@export
def block_{number}(x: Tensor[B, S, D, f32], w: Tensor[D, H, f32], v: Tensor[H, D, f32], b: Tensor[D, f32]) -> Tensor[B, S, D, f32]:
    """Block {number}: two products, a normalisation and a softmax."""
    h = x @ w
    h = maximum(h, 0.0)
    y = h @ v
    y = y + b
    m = mean(y, axis=-1, keep=True)
    c = y - m
    s = sqrt(mean(c * c, axis=-1, keep=True) + 1e-5)
    z = c / s
    p = softmax(z, axis=-1)
    q = p * x
    return q + {rest}

'''  # noqa: E501


def program(functions: int = FUNCTIONS) -> str:
    """Two functions of three call the one before them, as layers do."""
    rests = ("x", *(f"block_{number - 1}(x, w, v, b)" if number % 3 else "x" for number in range(1, functions)))
    return "".join(FUNCTION.format(number=number, rest=rest) for number, rest in enumerate(rests))


class Editor:
    """A client that types, and notes when diagnostics of a version arrive."""

    def __init__(self) -> None:
        self.client = LanguageClient("benchmark", "1")
        self.version = 0
        self._arrived: dict[int, asyncio.Event] = {}

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def arrived(params: lsp.PublishDiagnosticsParams) -> None:
            self._arrived.setdefault(params.version or 0, asyncio.Event()).set()

    async def start(self) -> None:
        own = [str(ROOT / part) for part in (".", "runtime", "lsp")]
        paths = os.pathsep.join([*own, os.environ.get("PYTHONPATH", "")])
        await self.client.start_io(sys.executable, "-m", "tessera_lsp", env={**os.environ, "PYTHONPATH": paths})
        await self.client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        self.client.initialized(lsp.InitializedParams())

    async def told(self, version: int) -> None:
        await self._arrived.setdefault(version, asyncio.Event()).wait()

    async def open(self, text: str) -> None:
        self.version += 1
        self.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(URI, "tessera", self.version, text))
        )
        await self.told(self.version)

    def type(self, start: lsp.Position, end: lsp.Position, text: str) -> int:
        self.version += 1
        event = lsp.TextDocumentContentChangePartial(lsp.Range(start, end), text)
        file = lsp.VersionedTextDocumentIdentifier(uri=URI, version=self.version)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(file, [event]))
        return self.version


async def timed(action: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await action()
    return (time.perf_counter() - start) * 1e3


def summary(what: str, samples: list[float], goals: tuple[int, int]) -> Row:
    p50, p95 = statistics.median(samples), statistics.quantiles(samples, n=20)[-1]
    value = f"p50 {p50:.1f}, p95 {p95:.1f} ms"
    goal = f"{goals[0]} / {goals[1]} ms"
    detail = f"{len(samples)} samples, max {max(samples):.0f} ms"
    return Row(what, value, goal, p50 <= goals[0] and p95 <= goals[1], detail)


async def keystrokes(editor: Editor, line: int, column: int) -> list[float]:
    """Types and deletes a long expression again and again, waiting for the diagnostics of each character."""
    samples: list[float] = []
    at = 0
    for number in range(KEYSTROKES):
        at = number % len(TYPED)
        if number and at == 0:
            version = editor.type(lsp.Position(line, column), lsp.Position(line, column + len(TYPED)), "")
            await editor.told(version)
        place = lsp.Position(line, column + at)
        samples.append(await timed(lambda place=place, at=at: editor.told(editor.type(place, place, TYPED[at]))))
        await asyncio.sleep(0.03)
    return samples


async def signature_edits(editor: Editor, line: int, column: int) -> list[float]:
    """Changes the dtype in a signature that another function uses, to and fro: the function itself is told at once."""
    samples: list[float] = []
    start, end = lsp.Position(line, column), lsp.Position(line, column + 3)
    for number in range(20):
        text = ("f64", "f32")[number % 2]
        samples.append(await timed(lambda text=text: editor.told(editor.type(start, end, text))))
        await asyncio.sleep(0.3)
    return samples


async def measure() -> list[Row]:
    text = program()
    lines = text.split("\n")
    function = next(i for i, line in enumerate(lines) if line.startswith(f"def block_{FUNCTIONS // 2 + 1}("))
    body = next(i for i in range(function, len(lines)) if lines[i].strip() == "z = c / s")
    editor = Editor()
    started = await timed(editor.start)
    opened = await timed(lambda: editor.open(text))
    place = lsp.Position(body, lines[body].index("c /"))
    rows = [
        Row("process start to `initialize` answered", f"{started:.0f} ms", "900 ms", started <= 900),
        Row(
            f"open {len(lines)} lines, {FUNCTIONS} functions, to all diagnostics",
            f"{opened:.0f} ms",
            "2000 ms",
            opened <= 2000,
        ),
        summary("keystroke in a body to diagnostics", await keystrokes(editor, body, len(lines[body])), (20, 50)),
        summary(
            "edit of a signature to its diagnostics",
            await signature_edits(editor, function, lines[function].index("f32")),
            (60, 150),
        ),
    ]
    client = editor.client
    hovers = [await timed(lambda: client.text_document_hover_async(lsp.HoverParams(FILE, place))) for _ in range(50)]
    rows.append(summary("hover", hovers, (5, 20)))
    complete = lsp.CompletionParams(FILE, place)
    lists = [await timed(lambda: client.text_document_completion_async(complete)) for _ in range(50)]
    rows.append(summary("completion", lists, (15, 50)))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rows.append(Row("memory of the server at its highest", f"{memory:.0f} MB", "300 MB", memory <= 300))
    return rows


def main() -> None:
    rows = asyncio.run(measure())
    for row in rows:
        print(row.line())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    text = f"# The editor's server\n\n`python -m benchmarks.editor`, {machine}, Python {platform.python_version()}.\n\n"
    path = Path(__file__).parent / "results" / f"editor-{platform.machine()}.md"
    path.write_text(text + table(rows), encoding="utf-8")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
