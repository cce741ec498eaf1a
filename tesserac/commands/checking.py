"""`tesserac check`: what is to be said about files, in the format asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tesserac.commands.files import files_of, program_files, project_here
from tesserac.commands.outcome import MISTAKES, OK, Outcome
from tesserac.diag.codes.projects import E0947
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.formats import render_json, render_short
from tesserac.diag.render import Palette, render
from tesserac.session import Checked, ProgramError, Session, SizesMissing


@dataclass(frozen=True)
class Wanted:
    """How to say it: the format, the colours, and whether guards are listed too."""

    format: str
    palette: Palette
    guards: bool


def check_files(session: Session, paths: Sequence[str], wanted: Wanted) -> Outcome:
    """Checks files and the programs in folders, one by one, or without paths the project of the current folder; under
    `session.verify` also lowers what is sound, verifying every pass."""
    files = program_files(paths) if paths else files_of(project_here())
    said = _project_mistakes(session, files)
    sound: list[Checked] = []
    for path in files:
        source = session.read(path)
        if isinstance(source, Diagnostic):
            said.append(source)
            continue
        checked = session.check(source)
        said += checked.diagnostics
        if not checked.errors:
            sound.append(checked)
            said += _lowering_mistakes(session, checked) if session.verify else ()
    said = _circles_once(said)
    output = show(session, said, wanted.format, wanted.palette)
    output += "".join(list_guards(one) + list_promises(one) for one in sound) if wanted.guards else ""
    status = MISTAKES if any(d.severity is Severity.ERROR for d in said) else OK
    return Outcome(output, "" if wanted.format == "json" else summary(said, len(files)), status)


def _project_mistakes(session: Session, files: Sequence[str]) -> list[Diagnostic]:
    """What is wrong with the project files of programs, each once."""
    projects = (session.project_of(path) for path in files)
    return list(dict.fromkeys(d for project in projects if project is not None for d in project.diagnostics))


def _circles_once(said: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Files that import each other all have that mistake; it is told of the first."""
    kept: dict[object, Diagnostic] = {}
    for diagnostic in said:
        circle = frozenset(step.span for step in diagnostic.because) if diagnostic.code == E0947.id else diagnostic
        kept.setdefault(circle, diagnostic)
    return list(kept.values())


def _lowering_mistakes(session: Session, checked: Checked) -> Sequence[Diagnostic]:
    """What the levels below the checker do not support yet."""
    from tesserac.commands.targets import find_target

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
    sources = session.sources()
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
    """The checks that calls of each function make on entry, with where each came from and why it is left to them."""
    source = checked.source
    lines = [
        f"  {function.name}: {guard.text}  (line {source.position(guard.span.start)[0]})\n      {guard.reason}\n"
        for function in checked.result.module.functions
        for guard in function.guards
    ]
    head = f"{source.path}: {'guards, checked on entry' if lines else 'no guards'}\n"
    return head + "".join(lines)


def list_promises(checked: Checked) -> str:
    """What `@verify.numerics` promises of each function, and who sees to it."""
    return "".join(
        f"  {function.name}: {promise.text}  ({'proven' if promise.is_proven else 'checked when a debug build runs'})\n"
        for function in checked.result.module.functions
        for promise in function.promises
    )
