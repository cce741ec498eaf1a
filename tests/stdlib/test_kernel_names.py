"""The compiler knows no kernel of the library, nor what kernels are written with: what it does for one, it does for any
that is written so."""

from __future__ import annotations

import re
from pathlib import Path

from tesserac.base.resources import stdlib_files
from tests.support.paths import ROOT

COMMENTS = re.compile(r'"""(?:.|\n)*?"""|#[^\n]*')
"""What a compiler does not act upon."""
KERNEL = re.compile(r"^@(?:kernel|of_blocks)\b.*?^def (\w+)", re.MULTILINE | re.DOTALL)
"""Kernels, and what joins their blocks."""


def kernel_names() -> set[str]:
    return {name for text in stdlib_files().values() for name in KERNEL.findall(text)}


def test_nothing_in_the_compiler_names_a_kernel_of_the_library() -> None:
    names = kernel_names()
    assert len(names) >= 3, names
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    texts = {path: path.read_text() for path in Path(ROOT / "tesserac").rglob("*.py")}
    named = {path.name: wanted.findall(COMMENTS.sub("", text)) for path, text in texts.items()}
    assert not {name: found for name, found in named.items() if found}
