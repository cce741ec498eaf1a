"""Programs with their diagnostics and types written beside the lines.

`# error[E0301]` and `# warning[W0401]` stand on the line of the primary span; a diagnostic that is not written down
fails the test. `# type: T` gives the type of the value that the line assigns or returns.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.check.infer import check_module
from tesserac.check.names.cascades import all_said
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.syntax.walk import descendants
from tesserac.types.ty import Type
from tests.support.checking import library
from tests.support.paths import CASES as PROGRAMS

CASES = sorted((PROGRAMS / "check").glob("*.tess"))
EXPECTED = re.compile(r"(?:error|warning)\[([EW]\d{4})\]")


def expected_codes(text: str) -> list[tuple[int, str]]:
    comments = (line.partition("#")[2] for line in text.splitlines())
    return [(number, code) for number, comment in enumerate(comments, 1) for code in EXPECTED.findall(comment)]


def expected_types(text: str) -> dict[int, str]:
    found = ((number, line.partition("# type: ")[2]) for number, line in enumerate(text.splitlines(), 1))
    return {number: shown.strip() for number, shown in found if shown}


def shown_types(module: ast.Module, source: SourceFile, types: dict[ast.Expr, Type]) -> dict[int, str]:
    shown: dict[int, str] = {}
    for node in descendants(module):
        if isinstance(node, ast.Assignment | ast.AugmentedAssignment | ast.Return) and node.value in types:
            assert node.value is not None
            line, _ = source.position(node.span.start)
            shown[line] = types[node.value].show()
    return shown


@pytest.mark.one_in(8)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    parsed = parse_module(source)
    assert parsed.diagnostics == ()
    result = check_module(parsed.module, source, path.stem, library())
    found = [(source.position(d.primary.span.start)[0], d.code) for d in all_said(source, (), result.diagnostics)]
    assert sorted(found) == sorted(expected_codes(source.text))
    shown = shown_types(parsed.module, source, dict(result.types))
    assert {line: shown.get(line) for line in expected_types(source.text)} == expected_types(source.text)
