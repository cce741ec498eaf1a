"""`tesserac fmt`: files in the one style, or what that would change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.commands.files import rewrite
from tesserac.commands.outcome import MISTAKES, OK, Outcome
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.render import Palette, render
from tesserac.syntax.files import decoded, read_source
from tesserac.syntax.fmt import format_diff, format_source

STDIN = "-"


@dataclass(frozen=True)
class Wanted:
    """`check` writes nothing and fails where something would change; `diff` writes nothing and shows it."""

    check: bool
    diff: bool
    palette: Palette


def format_files(paths: Sequence[str], wanted: Wanted) -> Outcome:
    """A file that cannot be read as a program stays as it is, and its mistakes are shown."""
    results = [_format(path, wanted) for path in paths]
    output = "".join(r.output for r in results)
    changed = sum(r.changed for r in results)
    broken = sum(bool(r.mistakes) for r in results)
    remarks = "".join(r.mistakes for r in results)
    if STDIN not in paths:
        remarks += _counts(len(paths) - changed - broken, changed, broken, dry=wanted.check or wanted.diff)
    return Outcome(output, remarks, MISTAKES if broken or (wanted.check and changed) else OK)


@dataclass(frozen=True)
class _Result:
    output: str = ""
    mistakes: str = ""
    changed: bool = False


def _format(path: str, wanted: Wanted) -> _Result:
    source = decoded("<stdin>", sys.stdin.buffer.read()) if path == STDIN else read_source(path)
    if isinstance(source, Diagnostic):
        return _Result(mistakes=_shown([source], {}, wanted.palette))
    formatted = format_source(source)
    errors = [d for d in formatted.diagnostics if d.severity is Severity.ERROR]
    if errors:
        return _Result(mistakes=_shown(errors, {source.path: source}, wanted.palette))
    changed = formatted.text != source.text
    if wanted.diff:
        return _Result(format_diff(source, formatted.text), changed=changed)
    if wanted.check:
        return _Result(f"{source.path}\n" if changed else "", changed=changed)
    if path == STDIN:
        return _Result(formatted.text, changed=changed)
    if changed:
        rewrite(Path(path), formatted.text)
    return _Result(changed=changed)


def _shown(diagnostics: Sequence[Diagnostic], sources: dict[str, SourceFile], palette: Palette) -> str:
    return "".join(render(d, sources, palette) + "\n\n" for d in diagnostics)


def _counts(same: int, changed: int, broken: int, *, dry: bool) -> str:
    change = "would be formatted" if dry else "formatted"
    said = [(changed, change), (same, "left alone"), (broken, "with mistakes")]
    return ", ".join(f"{n} file{'' if n == 1 else 's'} {what}" for n, what in said if n) + "\n"
