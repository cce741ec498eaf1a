"""`python -m benchmarks.keystrokes`: processor time of a keystroke in files as people write them.

A line is typed behind one that is there, character by character, in functions that call and are called. `key` is from
the change of the text to the diagnostics that an editor is sent at once, `rest` what follows once nobody types: the
functions that use the edited one. Milliseconds of the processor, in one process, without the protocol. Writes a table
to standard output.
"""

from __future__ import annotations

import gc
import statistics
from pathlib import Path
from time import process_time

from tessera_lsp.answers import diagnostics
from tessera_lsp.documents import Change, Document, Position
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

ROOT = Path(__file__).resolve().parent.parent
TYPED = " + c * 0.5 - missing_name + softmax(z) * 2.0 "
PLACES = (
    ("examples/char_transformer.tess", "return rmsnorm(x) @ self.head"),
    ("examples/char_transformer.tess", "return mean(cast(right[:, 8:], f32))"),
    ("examples/char_transformer.tess", "value, g = value_and_grad(loss)(s.model, ids, after)"),
    ("examples/char_transformer.tess", "s, text = init(), data()"),
    ("examples/kovasznay.tess", None),
    ("benchmarks/npbench/written_products.tess", None),
)
"""Files and lines; in the middle of the file where no line is named."""


def keystrokes(session: Session, path: str, line: str | None) -> tuple[list[float], list[float]]:
    """Milliseconds of each keystroke, and of what follows it."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.split("\n")
    at = len(lines) // 2 if line is None else next(i for i, each in enumerate(lines) if line in each)
    while not lines[at].startswith("    "):
        at += 1
    document = Document(f"file:///{path}", 1, SourceFile(path, text), "utf-16")
    session.analyse(document.source)
    gc.collect()
    gc.freeze()
    keys, rest = [], []
    for number, character in enumerate(TYPED):
        place = Position(at, len(lines[at]) + number)
        start = process_time()
        document = document.changed(number + 2, [Change(place, place, character)])
        analysis = session.check_visible(document.source)
        diagnostics(session, document, analysis)
        keys.append((process_time() - start) * 1e3)
        start = process_time()
        session.analyse(document.source)
        rest.append((process_time() - start) * 1e3)
    return keys, rest


def main() -> None:
    session = Session()
    assert session.library
    print("| file | line | key, median | 95 % | most | rest, median | most |\n|---|---|---|---|---|---|---|")
    with deep_recursion():
        for path, line in PLACES:
            keys, rest = keystrokes(session, path, line)
            p95 = statistics.quantiles(keys, n=20)[-1]
            figures = (statistics.median(keys), p95, max(keys), statistics.median(rest), max(rest))
            cells = [Path(path).name, f"`{line}`" if line else "in the middle", *(f"{ms:.0f}" for ms in figures)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
