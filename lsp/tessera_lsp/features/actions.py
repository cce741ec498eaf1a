"""The fixes of diagnostics as actions of the editor."""

from __future__ import annotations

from tessera_lsp.features.diagnostics import shown
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Applicability, Diagnostic, Fix
from tesserac.driver.mending import with_mending_fixes
from tesserac.driver.session import Session


@dataclass(frozen=True)
class Action:
    """A fix that can be applied to the file, for the diagnostic it mends."""

    diagnostic: Diagnostic
    fix: Fix

    @property
    def preferred(self) -> bool:
        """Whether an editor may choose it without asking: it is safe, and the only one that is."""
        safe = [fix for fix in self.diagnostic.fixes if fix.applicability is Applicability.SAFE]
        return safe == [self.fix]


def actions(session: Session, source: SourceFile, start: int, end: int) -> list[Action]:
    """The fixes of what is wrong in a range, safe ones first. Fixes of files other than this one are left out, and so
    are those with which the program is no better."""
    said = session.check_at(source, start).diagnostics
    touched = [
        diagnostic
        for diagnostic in shown(said)
        if diagnostic.primary.span.start <= end and start <= diagnostic.primary.span.end
    ]
    before = (session.suppose(source) if touched else None) or said
    mended = with_mending_fixes(touched, source, session.suppose, before)
    found = [Action(diagnostic, fix) for diagnostic in mended for fix in diagnostic.fixes if _is_here(fix, source)]
    return sorted(found, key=lambda action: action.fix.applicability is not Applicability.SAFE)


def _is_here(fix: Fix, source: SourceFile) -> bool:
    return bool(fix.edits) and all(edit.span.file == source.path for edit in fix.edits)
