"""`tesserac check --fix`: the safe fixes of diagnostics, made in the files or shown as a diff.

Enters: files. Leaves: their new texts. Fixes are made in rounds: after each the files are checked again, since one
mistake may have hidden another. A round takes fixes in the order of the text and leaves out one that would touch what
another has changed: the next round has it. One is made only if the program with it is better: see `driver/mending.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, lines_of
from tesserac.commands.files import files_of, program_files, project_here, rewrite
from tesserac.diag.diagnostic import Applicability, Diagnostic, Fix
from tesserac.driver.mending import is_clean, with_edits
from tesserac.driver.session import Session

MAX_ROUNDS = 20


@dataclass(frozen=True)
class Made:
    """A fix as it was made: where, the code it mends, and its title."""

    path: str
    line: int
    code: str
    title: str


@dataclass
class Fixed:
    """A file with its fixes, and its text before them."""

    before: SourceFile
    after: SourceFile
    made: list[Made] = field(default_factory=list)


def fix_source(session: Session, source: SourceFile) -> Fixed:
    """A file with its safe fixes made, round by round, until none is left."""
    fixed = Fixed(source, source)
    said = session.check(source).diagnostics
    for _ in range(MAX_ROUNDS):
        chosen = _clean_fixes(session, safe_fixes(said, fixed.after), fixed.after)
        if not chosen:
            break
        new = with_edits(fixed.after, [edit for _, fix in chosen for edit in fix.edits])
        fixed.made += [_made(diagnostic, fix, fixed.after) for diagnostic, fix in chosen]
        fixed.after, said = new, session.check(new).diagnostics
    return fixed


def _clean_fixes(
    session: Session, chosen: list[tuple[Diagnostic, Fix]], source: SourceFile
) -> list[tuple[Diagnostic, Fix]]:
    """Those with which the program is better, and nothing new is said: all of them together, as a rule."""

    def check(text: SourceFile) -> Sequence[Diagnostic]:
        return session.check(text).diagnostics

    def are_clean(fixes: list[tuple[Diagnostic, Fix]]) -> bool:
        edits = [edit for _, fix in fixes for edit in fix.edits]
        return is_clean(source, [diagnostic for diagnostic, _ in fixes], edits, check)

    if not chosen or are_clean(chosen):
        return chosen
    kept: list[tuple[Diagnostic, Fix]] = []
    for fix in chosen:
        kept += [fix] if are_clean([*kept, fix]) else []
    return kept


def safe_fixes(said: Iterable[Diagnostic], source: SourceFile) -> list[tuple[Diagnostic, Fix]]:
    """The first safe fix of each diagnostic that edits this file alone; of two that overlap the earlier."""
    chosen: list[tuple[Diagnostic, Fix]] = []
    taken: list[tuple[int, int]] = []
    for diagnostic in sorted(said, key=lambda d: d.primary.span.start):
        safe = [fix for fix in diagnostic.fixes if fix.edits and fix.applicability is Applicability.SAFE]
        if not safe or any(edit.span.file != source.path for edit in safe[0].edits):
            continue
        spans = [(edit.span.start, edit.span.end) for edit in safe[0].edits]
        if not any(_overlap(own, other) for own in spans for other in taken):
            taken += spans
            chosen.append((diagnostic, safe[0]))
    return chosen


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether two edits touch; two insertions at one place do."""
    return (left[0] < right[1] and right[0] < left[1]) or left == right


def _made(diagnostic: Diagnostic, fix: Fix, source: SourceFile) -> Made:
    line = source.position(fix.edits[0].span.start)[0]
    old = source.text[fix.edits[0].span.start : fix.edits[0].span.end]
    change = f"`{old}` is now `{fix.edits[0].replacement}`" if len(fix.edits) == 1 and old.strip() else fix.title
    return Made(source.path, line, diagnostic.code, change)


def fix_files(session: Session, paths: Sequence[str], *, diff: bool) -> str:
    """Fixes files in place, or with `diff` only shows what would change. Leaves what was done, for a person."""
    output: list[str] = []
    for path in program_files(paths) if paths else files_of(project_here()):
        source = session.read(path)
        if isinstance(source, Diagnostic):
            continue  # it cannot be read, which the check says
        fixed = fix_source(session, source)
        if not fixed.made:
            continue
        if diff:
            output.append(_diff(fixed))
        else:
            rewrite(Path(path), fixed.after.text)
            output += [f"{made.path}:{made.line}: fixed[{made.code}]: {made.title}\n" for made in fixed.made]
    return "".join(output)


def _diff(fixed: Fixed) -> str:
    old, new = lines_of(fixed.before.text), lines_of(fixed.after.text)
    lines = difflib.unified_diff(old, new, fixed.before.path, f"{fixed.before.path} (fixed)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
