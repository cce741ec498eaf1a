"""`tesserac test`: runs the test blocks of programs and reports as they go.

Enters: files or folders, and which tests are wanted. Leaves: a report, written piece by piece, and an exit status: 0 if
all tests passed, 1 if one failed or a file has mistakes, 5 if there was nothing to run.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tessera
from tessera.module import Module, run_test, tests_of
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, lines_of
from tesserac.commands.checking import show
from tesserac.commands.files import program_files
from tesserac.commands.outcome import MISTAKES, OK
from tesserac.diag.render import Palette
from tesserac.diag.snippet import Piece
from tesserac.driver.session import Session

NO_TESTS = 5
WIDTH = 80
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """Which tests to run, and how to speak of them. A test is meant if its title contains `pattern`, in any case."""

    pattern: str
    stop_at_first: bool
    verbose: bool
    palette: Palette
    device: str = "cpu"


@dataclass(frozen=True)
class Result:
    """What became of one test; `problem` is empty for one that passed. A file that cannot be loaded has no title."""

    path: str
    title: str
    seconds: float
    problem: str = ""
    source: str = ""
    printed: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}: {self.title}" if self.title else self.path


def run_tests(paths: Sequence[str], wanted: Wanted, say: Say) -> int:
    """Runs the tests of all files in order; `say` receives the report. Raises UsageMistake for a path without files."""
    start, results, skipped = time.perf_counter(), list[Result](), 0
    for path in program_files(paths):
        for found in _run_file(path, wanted, say):
            if found is None:
                skipped += 1
                continue
            results.append(found)
            if found.problem and wanted.stop_at_first:
                break
        if wanted.stop_at_first and results and results[-1].problem:
            break
    failed = [result for result in results if result.problem]
    for result in failed:
        say(_failure(result, wanted.palette))
    say(_summary(results, skipped, time.perf_counter() - start, wanted.palette))
    return MISTAKES if failed else OK if results else NO_TESTS


def _run_file(path: str, wanted: Wanted, say: Say) -> Iterator[Result | None]:
    """The result of each test that is wanted, None for one that is not."""
    start = time.perf_counter()
    try:
        module = tessera.load(path, device=wanted.device)
    except tessera.TesseraError as error:
        result = Result(path, "", time.perf_counter() - start, error.text)
        say(_line(result, wanted) if wanted.verbose else f"{path} {_mark(result, wanted)}\n")
        yield result
        return
    _say_warnings(path, wanted.palette, say)
    titles = tests_of(module)
    meant = [title for title in titles if wanted.pattern.casefold() in title.casefold()]
    yield from [None] * (len(titles) - len(meant))
    if meant and not wanted.verbose:
        say(f"{path} ")
    for title in meant:
        result = _run(module, path, title)
        say(_line(result, wanted) if wanted.verbose else _mark(result, wanted))
        yield result
        if result.problem and wanted.stop_at_first:
            break
    if meant and not wanted.verbose:
        say("\n")


def _say_warnings(path: str, palette: Palette, say: Say) -> None:
    """What `tesserac check` would say of a program that has no errors."""
    session = Session()
    source = session.read(path)
    if isinstance(source, SourceFile):
        say(show(session, session.to_show(session.check(source)), "human", palette))


def _run(module: Module, path: str, title: str) -> Result:
    start, printed = time.perf_counter(), io.StringIO()
    problem, source = "", ""
    try:
        with contextlib.redirect_stdout(printed):
            run_test(module, title)
    except tessera.TesseraError as error:
        place = next((span for span in error.spans if span.file == path), None)
        problem, source = error.text, _source_line(path, place.line) if place else ""
    return Result(path, title, time.perf_counter() - start, problem, source, printed.getvalue())


def _source_line(path: str, line: int) -> str:
    text = lines_of(Path(path).read_text(encoding="utf-8"))
    return f"{line:4} | {text[line - 1].strip()}" if 0 < line <= len(text) else ""


# ------------------------------------------------------------------------------------------------- the report


def _mark(result: Result, wanted: Wanted) -> str:
    mark = "." if not result.problem else "F" if result.title else "E"
    return _coloured(mark, result, wanted.palette)


def _line(result: Result, wanted: Wanted) -> str:
    word = "PASS" if not result.problem else "FAIL" if result.title else "ERROR"
    return f"{_coloured(word, result, wanted.palette)} {result.name} ({_time(result.seconds)})\n"


def _coloured(text: str, result: Result, palette: Palette) -> str:
    return _painted(text, "error" if result.problem else "good", palette)


def _painted(text: str, role: str, palette: Palette) -> str:
    return palette.paint(Piece(text, role))


def _failure(result: Result, palette: Palette) -> str:
    """Where it failed and why, and what the test printed until then."""
    lines = [f"\n{f'____ {result.name} ':_<{WIDTH}}", *([result.source] if result.source else []), result.problem]
    if result.printed:
        lines += ["-- printed --", result.printed.rstrip("\n")]
    head, *rest = lines
    return "\n".join([_painted(head, "error", palette), *rest]) + "\n"


def _summary(results: Sequence[Result], skipped: int, seconds: float, palette: Palette) -> str:
    failed = sum(bool(r.problem and r.title) for r in results)
    broken = sum(bool(r.problem and not r.title) for r in results)
    passed = len(results) - failed - broken
    counts = ((failed, "failed"), (passed, "passed"), (broken, "not loaded"), (skipped, "not selected"))
    shown = ", ".join(f"{number} {word}" for number, word in counts if number) or "no tests"
    line = f"{f' {shown} in {_time(seconds)} ':=^{WIDTH}}"
    return f"\n{_painted(line, 'error' if failed or broken else 'good', palette)}\n"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
