"""What makes a message good, as rules that a test can check.

A title under 100 characters that makes sense alone; the whole within 25 lines and 100 columns; no word that only the
compiler's authors know; no number without its dim, such as `7x8`; whatever dims the title names stand in the excerpt or
the reasons below it; a fix that is offered can be applied.
"""

from __future__ import annotations

import re
from functools import cache

from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic

JARGON = re.compile(
    r"\b(unif(y|ied|ication)|DSL|gufunc|skolem|existential|monomorph\w*|rigid|internal|LALR|traceback|AST|tokens?|lexer"
    r"|SSA|dialect|lowering|codegen|desugar\w*|nullary|arity|NoneType|TensorType|IntType|DimSpec|dataclass"
    r"|Exception|ValueError|TypeError)\b|@_|Int\["
)
BARE_NUMBERS = re.compile(r"\b\d+x\d+\b")
ESCAPES = re.compile(r"\x1b")
_MESSAGE = re.compile(r"^(?:error|warning)\[[EW]\d{4}\]: (.*)$", re.MULTILINE)
QUOTED_DIM = re.compile(r'"([A-Z]\w*)"')

MAX_TITLE, MAX_LINES, MAX_COLUMNS, MAX_STEPS = 100, 25, 100, 4


def assert_reads_well(diagnostic: Diagnostic, shown: str) -> None:
    assert_text_reads_well(diagnostic.title, shown)
    assert len(diagnostic.because) <= MAX_STEPS
    _assert_names_are_explained(diagnostic, shown)


def assert_all_read_well(said: str) -> None:
    """The same of what a command printed: every message begins in a line of its own with severity and code."""
    _, *parts = _MESSAGE.split(said)
    for title, rest in zip(parts[::2], parts[1::2], strict=True):
        assert_text_reads_well(title, f"{title}{rest}".rpartition("\n\n")[0] or title + rest)


def assert_text_reads_well(title: str, shown: str) -> None:
    assert title and len(title) <= MAX_TITLE, title
    assert not title.endswith((".", ":")) and title == title.strip(), title
    lines = shown.splitlines()
    assert len(lines) <= MAX_LINES, shown
    assert max(map(len, lines)) <= MAX_COLUMNS, max(lines, key=len)
    for wrong in (JARGON, BARE_NUMBERS, ESCAPES):
        assert not wrong.search(_ours(shown)), (wrong.search(_ours(shown)), shown)


def _ours(shown: str) -> str:
    """The message without the lines it quotes from the program."""
    return "\n".join(line for line in shown.splitlines() if not re.match(r"\s*\d+ \| |\s*\|\s+\d+ \| ", line))


def _assert_names_are_explained(diagnostic: Diagnostic, shown: str) -> None:
    body = shown.partition("\n")[2]
    for name in QUOTED_DIM.findall(diagnostic.title):
        assert re.search(rf"\b{re.escape(name)}\b", body), f"{name} of the title is nowhere below it:\n{shown}"


@cache
def _library() -> dict[str, SourceFile]:
    return {f"stdlib/{path}": SourceFile(f"stdlib/{path}", text) for path, text in stdlib_files().items()}


def source_files(source: SourceFile) -> dict[str, SourceFile]:
    """A program and the library, for a message that shows both."""
    return {source.path: source, **_library()}
