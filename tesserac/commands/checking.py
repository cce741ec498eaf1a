"""`tesserac check`: what is to be said about files, in the format asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.commands.files import FoundSources, wanted_files
from tesserac.commands.outcome import MISTAKES, OK, Outcome
from tesserac.diag.check_record import record_of
from tesserac.diag.codes.names import E0209
from tesserac.diag.codes.projects import E0940, E0941, E0942, E0943, E0944, E0945, E0947
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.formats import render_json, render_short
from tesserac.diag.render import Palette, render

if TYPE_CHECKING:
    from tesserac.check.model.typed import Guard, Require
    from tesserac.driver.check_cache import CheckCache
    from tesserac.driver.session import Checked, Session


_PROJECT_FILE = {code.id for code in (E0940, E0941, E0942, E0943, E0944, E0945)}
_NO_MODULE = re.compile(r"there is no module `(?!\.)")


@dataclass(frozen=True)
class Wanted:
    """How to say it: the format, the colours, and whether guards, and what loops keep, are listed too."""

    format: str
    palette: Palette
    guards: bool
    memory: bool = False


def check_files(paths: Sequence[str], wanted: Wanted) -> Outcome:
    """Checks files and the programs in folders, or without paths the project of the current folder. What an earlier
    run has found of files that have not changed is said again, without looking at them."""
    files, said = wanted_files(paths)
    records = Records()
    cache: CheckCache | None = None
    for path in files:
        record = record_of(path, records)
        if record is None:
            cache = cache or _check_cache(records)
            record = cache.of(path)
        said += record.diagnostics
    return _outcome(_told_once(said), len(files), FoundSources(), wanted)


def _check_cache(records: Records) -> CheckCache:
    from tesserac.driver.check_cache import CheckCache

    return CheckCache(records)


def check_deeply(session: Session, paths: Sequence[str], wanted: Wanted) -> Outcome:
    """The same with every function at hand: lists what is wanted, and under `session.verify` lowers what is sound,
    verifying every pass."""
    from tesserac.driver.growth import growth_mistakes

    files, said = wanted_files(paths)
    sound: list[Checked] = []
    for path in files:
        source = session.read(path)
        if isinstance(source, Diagnostic):
            said.append(source)
            continue
        checked = session.check(source)
        said += session.to_show(checked)
        if not checked.errors:
            sound.append(checked)
            said += growth_mistakes(source)
            said += _lowering_mistakes(session, checked) if session.verify else ()
    outcome = _outcome(_told_once(said), len(files), session.sources(), wanted)
    guards = "".join(list_guards(one) + list_promises(one) for one in sound) if wanted.guards else ""
    memory = "".join(_list_all_memory(session, one) for one in sound) if wanted.memory else ""
    return replace(outcome, output=outcome.output + guards + memory)


def _list_all_memory(session: Session, checked: Checked) -> str:
    """What derivatives keep, and what loops copy: this takes the levels below the checker."""
    from tesserac.commands.copies import list_copies
    from tesserac.commands.memory import list_memory

    return list_memory(checked) + list_copies(session, checked)


def _outcome(said: Sequence[Diagnostic], files: int, sources: Mapping[str, SourceFile], wanted: Wanted) -> Outcome:
    output = rendered(said, sources, wanted.format, wanted.palette)
    status = MISTAKES if any(d.severity is Severity.ERROR for d in said) else OK
    return Outcome(output, "" if wanted.format == "json" else summary(said, files), status)


def _told_once(said: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Files that import each other all have that mistake; it is told of the first. Where a project file is wrong, the
    modules that are not found by it are not told at all."""
    is_lost = any(d.code in _PROJECT_FILE for d in said)
    kept: dict[object, Diagnostic] = {}
    for diagnostic in said:
        if is_lost and diagnostic.code == E0209.id and _NO_MODULE.search(diagnostic.title):
            continue
        circle = frozenset(step.span for step in diagnostic.because) if diagnostic.code == E0947.id else diagnostic
        kept.setdefault(circle, diagnostic)
    return list(kept.values())


def _lowering_mistakes(session: Session, checked: Checked) -> Sequence[Diagnostic]:
    """What the levels below the checker do not support yet."""
    from tesserac.commands.targets import find_target
    from tesserac.driver.refusals import ProgramError, SizesMissing

    target = find_target("cpu")
    found: list[Diagnostic] = []
    for function in checked.result.module.functions:
        try:
            levels = session.levels(checked.source, function, target.machine)
            target.lower(levels.tile, verify=True)
        except SizesMissing:
            continue  # it is compiled for each size, which only a call knows
        except ProgramError as problem:
            found += problem.diagnostics
    return found


def show(session: Session, diagnostics: Sequence[Diagnostic], format_: str, palette: Palette) -> str:
    return rendered(diagnostics, session.sources(), format_, palette)


def rendered(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, SourceFile], format_: str, palette: Palette
) -> str:
    if format_ == "json":
        return render_json(diagnostics, sources) + "\n"
    if format_ == "short":
        return "".join(render_short(d, sources) + "\n" for d in diagnostics)
    return "".join(render(d, sources, palette) + "\n\n" for d in diagnostics)


def summary(diagnostics: Sequence[Diagnostic], files: int) -> str:
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    warnings = sum(d.severity is Severity.WARNING for d in diagnostics)
    counts = [_count(n, word) for n, word in ((errors, "error"), (warnings, "warning")) if n]
    return f"{_count(files, 'file')} checked: {', '.join(counts) or 'no mistakes'}\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def list_guards(checked: Checked) -> str:
    """The checks that calls of each function make, on entry and where they come to them, with where each came from and
    why it is left to them."""
    from tesserac.check.analysis.reach import requirements

    functions = checked.result.module.functions
    entry = [(function.name, guard) for function in functions for guard in function.guards]
    inside = [(function.name, check) for function in functions for check in requirements(function.body)]
    path = checked.source.path
    listed = _listed(checked, f"{path}: guards, checked on entry\n", entry)
    listed += _listed(checked, f"{path}: checked where the program comes to them\n", inside)
    return listed or f"{path}: no guards\n"


def _listed(checked: Checked, head: str, rules: Sequence[tuple[str, Guard | Require]]) -> str:
    lines = [
        f"  {name}: {rule.text}  (line {checked.source.position(rule.span.start)[0]})\n      {rule.reason}\n"
        for name, rule in rules
    ]
    return head + "".join(lines) if lines else ""


def list_promises(checked: Checked) -> str:
    """What `@verify.numerics` promises of each function, and who sees to it."""
    return "".join(
        f"  {function.name}: {promise.text}  ({'proven' if promise.is_proven else 'checked when a debug build runs'})\n"
        for function in checked.result.module.functions
        for promise in function.promises
    )
