"""The compiler knows no kernel of the library: what it does for one, it does for any that is written so."""

from __future__ import annotations

import re
from pathlib import Path

from tesserac.base.source import SourceFile
from tesserac.check.declarations.decorators import is_kernel
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tests.support.paths import ROOT

COMMENTS = re.compile(r'"""(?:.|\n)*?"""|#[^\n]*')
"""What a compiler does not act upon."""


def kernel_names() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "stdlib").rglob("*.tess"):
        items = parse_module(SourceFile(str(path), path.read_text())).module.items
        found |= {item.name for item in items if isinstance(item, ast.FunctionDef) and is_kernel(item)}
    return found


def test_nothing_in_the_compiler_names_a_kernel_of_the_library() -> None:
    names = kernel_names()
    assert len(names) >= 3, names
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    texts = {path: path.read_text() for path in Path(ROOT / "tesserac").rglob("*.py")}
    named = {path.name: wanted.findall(COMMENTS.sub("", text)) for path, text in texts.items()}
    assert not {name: found for name, found in named.items() if found}
