"""What diagnostics are made of on disk."""

from __future__ import annotations

from tesserac.base import source
from tesserac.base.codec import classes_in
from tesserac.diag import diagnostic
from tesserac.diag.diagnostic import Applicability, Severity

DIAGNOSTICS = tuple(classes_in(source, diagnostic))
NAMED = {f"{type(member).__name__}.{member.name}": member for kind in (Severity, Applicability) for member in kind}
