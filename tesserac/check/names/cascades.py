"""One mistake, one error.

Enters: the diagnostics of a module, and where its functions stand. Leaves: those that say something of their own. A
call that fails because its callee is wrong whoever calls it (E0217) repeats what is told at the definition; where a
signature names a size that no argument has, what does not fit in the body follows from that; and what did not parse is
missing elsewhere because of that (`unread.py`). Calls that all find the same dtype of a parameter wrong are told of
once, together; not at all where the body finds it wrong too. So are signatures that have the same wrong name of a size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.names import E0201, E0204, E0217
from tesserac.diag.codes.precision import E0407
from tesserac.diag.codes.shapes import E0312
from tesserac.diag.codes.syntax import E0113
from tesserac.diag.diagnostic import Diagnostic, Fix, Label, Severity
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType

_SHAPES, _PRECISION = "E03", "E04"
DECLARED = "is declared here"
"""How the label of a parameter ends that an argument does not fit."""
NO_SIZE = "is not a size"
"""How the title ends of a name that stands for none."""
RENAMED = "call it"
"""How the fix begins that makes a new size of such a name."""
MAX_SHOWN = 2


def without_cascades(diagnostics: Sequence[Diagnostic], functions: Iterable[ast.FunctionDef]) -> list[Diagnostic]:
    """What is left when consequences are taken out."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    wrong = {d.primary.span for d in errors if d.code != E0217.id}
    doubtful = [d for d in errors if d.code in (E0204.id, E0312.id)]
    found = [(node, [d for d in doubtful if _is_in_signature(d.primary.span, node)]) for node in functions if doubtful]
    bodies = [(node, {_named(d) for d in own}) for node, own in found if own]
    return [d for d in diagnostics if not _repeats(d, wrong) and not any(_follows(d, *body) for body in bodies)]


def all_said(source: SourceFile, syntax: Sequence[Diagnostic], checked: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What is wrong with a file: its text, and its meaning without what that lacks because of the text."""
    if any(d.severity is Severity.ERROR for d in syntax):
        from tesserac.check.names.unread import one_per_line, unread_of

        unread = unread_of(source, syntax)
        checked = [d for d in checked if not unread.explains(d)]
        syntax = one_per_line(source, [d for d in syntax if not _decorates_a_class(source, d)])
    return _of_values([*syntax, *_sizes_together(_calls_together(_failures_together(list(checked))))])


def _decorates_a_class(source: SourceFile, diagnostic: Diagnostic) -> bool:
    """Whether it is of a decorator before a class, of which the class itself is told."""
    if diagnostic.code != E0113.id:
        return False
    behind = source.text[source.text.find("\n", source.text.rfind("\n", 0, diagnostic.primary.span.start) + 1) + 1 :]
    return behind.startswith("class ")


def _of_values(said: list[Diagnostic]) -> list[Diagnostic]:
    """Without what is said of a value that is itself a mistake, as long as there is a mistake besides."""
    errors = [d for d in said if d.severity is Severity.ERROR]
    wrong = [d for d in errors if f"`{ErrorType().show()}`" in d.title]
    return said if len(wrong) == len(errors) else [d for d in said if d not in wrong]


def _repeats(diagnostic: Diagnostic, wrong: set[Span]) -> bool:
    return diagnostic.code == E0217.id and any(label.span in wrong for label in diagnostic.secondary[:1])


def _follows(diagnostic: Diagnostic, node: ast.FunctionDef, refused: set[str]) -> bool:
    """Whether it is about sizes, or a name that is no size, in the body of a function whose signature is wrong."""
    span = diagnostic.primary.span
    about = diagnostic.code.startswith(_SHAPES) or (diagnostic.code == E0201.id and _named(diagnostic) in refused)
    return about and _is_in(span, node) and not _is_in_signature(span, node)


def _named(diagnostic: Diagnostic) -> str:
    """The name that a title quotes."""
    return diagnostic.title.partition("`")[2].partition("`")[0]


def _is_in_signature(span: Span, node: ast.FunctionDef) -> bool:
    return bool(node.body) and _is_in(span, node) and span.start < node.body[0].span.start


def _is_in(span: Span, node: ast.FunctionDef) -> bool:
    return span.file == node.span.file and node.span.start <= span.start and span.end <= node.span.end


# ---------------------------------------------------------------------------------- calls that say the same


def _calls_together(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Of calls whose arguments have one dtype, and not that of the parameter, the first, which shows the others."""
    calls: dict[tuple[Span, str], dict[Span, Diagnostic]] = {}
    for diagnostic in sorted(diagnostics, key=lambda d: d.primary.span.start):
        if (declared := _declared(diagnostic)) is not None:
            calls.setdefault((declared, diagnostic.title), {})[diagnostic.primary.span] = diagnostic
    kept = {(d.code, d.primary.span): d for d in diagnostics}
    for group in calls.values():
        first, *others = group.values()
        own = next((d for d in diagnostics if _is_own(d, first)), None)
        for diagnostic in others if own is None else (first, *others):
            del kept[diagnostic.code, diagnostic.primary.span]
        if own is not None:
            kept[own.code, own.primary.span] = replace(own, fixes=(*_declaring(first), *own.fixes))
        elif others:
            kept[first.code, first.primary.span] = _showing(first, others, "so is this", "call")
    return list(kept.values())


def _failures_together(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Of calls of one function that fail for the same reason and with the same arguments, the first, which shows the
    others."""
    groups: dict[tuple[object, ...], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        if diagnostic.code == E0217.id:
            reasons = (*diagnostic.secondary, *diagnostic.because)
            groups.setdefault((diagnostic.title, diagnostic.primary.text, reasons), []).append(diagnostic)
    shown = {id(first): _showing(first, others, "nor here", "call") for first, *others in groups.values() if others}
    gone = {id(other) for _, *others in groups.values() for other in others}
    return [shown.get(id(d), d) for d in diagnostics if id(d) not in gone]


def _sizes_together(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Of signatures that have the same name as a size, which it is not, the first, which shows the others."""
    groups: dict[str, list[Diagnostic]] = {}
    for diagnostic in sorted(diagnostics, key=lambda d: d.primary.span.start):
        is_new = all(fix.title.startswith(RENAMED) for fix in diagnostic.fixes)
        if diagnostic.code == E0204.id and diagnostic.title.endswith(NO_SIZE) and is_new:
            groups.setdefault(diagnostic.title, []).append(diagnostic)
    repeated = [group for group in groups.values() if len(group) > 1]
    shown = {
        group[0].primary.span: replace(_showing(group[0], group[1:], "nor is this", "place"), fixes=_mending_all(group))
        for group in repeated
    }
    hidden = {d.primary.span for group in repeated for d in group[1:]}
    kept = [d for d in diagnostics if d.code != E0204.id or d.primary.span not in hidden]
    return [shown.get(d.primary.span, d) if d.code == E0204.id else d for d in kept]


def _mending_all(group: Sequence[Diagnostic]) -> tuple[Fix, ...]:
    """One fix of each title, made everywhere at once."""
    alike: dict[str, Fix] = {}
    for fix in (fix for diagnostic in group for fix in diagnostic.fixes):
        before = alike.get(fix.title)
        alike[fix.title] = fix if before is None else replace(before, edits=(*before.edits, *fix.edits))
    return tuple(alike.values())


def _declared(diagnostic: Diagnostic) -> Span | None:
    """Where the parameter is declared whose dtype an argument has not."""
    labels = [label.span for label in diagnostic.secondary if label.text.endswith(DECLARED)]
    return labels[0] if diagnostic.code == E0407.id and labels else None


def _is_own(diagnostic: Diagnostic, call: Diagnostic) -> bool:
    """Whether the body of the function that is called finds fault with the same dtype of its signature."""
    declared = {edit.span for fix in _declaring(call) for edit in fix.edits}
    is_told = diagnostic.code.startswith(_PRECISION) and _declared(diagnostic) is None
    return is_told and any(step.span in declared for step in diagnostic.because)


def _showing(first: Diagnostic, others: Sequence[Diagnostic], like: str, kind: str) -> Diagnostic:
    """The first of several with the places of the others. The declaration is what mends all of them at once."""
    shown = tuple(Label(other.primary.span, like) for other in others[:MAX_SHOWN])
    more = len(others) - len(shown)
    notes = (f"and {more} more {kind}{'' if more == 1 else 's'}",) if more else ()
    fixes = dict.fromkeys((*_declaring(first), *first.fixes))
    return replace(first, secondary=(*first.secondary, *shown), notes=(*first.notes, *notes), fixes=tuple(fixes))


def _declaring(diagnostic: Diagnostic) -> list[Fix]:
    """The fixes that change the declaration, not the call."""
    return [fix for fix in diagnostic.fixes if all(edit.span != diagnostic.primary.span for edit in fix.edits)]
