"""Checks a program as the compiler does: parsed, with the library in scope."""

from __future__ import annotations

from functools import cache

from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.check.names.cascades import all_said
from tesserac.check.names.lint import lint_module
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.modules.library import Library, load_library
from tesserac.syntax.parse import parse_module


@cache
def library() -> Library:
    """The standard library, each module with those before it in scope; the prelude is first."""
    return load_library()


def check_text(text: str, path: str = "example.tess") -> CheckResult:
    source = SourceFile(path, text)
    return check_module(parse_module(source).module, source, "example", library())


def diagnose(source: SourceFile) -> tuple[Diagnostic, ...]:
    """Everything that `tesserac check` would say about a file."""
    parsed = parse_module(source)
    checked = check_module(parsed.module, source, "example", library())
    said = tuple(all_said(source, parsed.diagnostics, checked.diagnostics))
    has_errors = any(d.severity is Severity.ERROR for d in said)
    return said if has_errors else (*said, *lint_module(parsed.module, source))
