"""The snippets of the papers that Tessera came from are its first acceptance test: each parses, as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.render import render
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module

SEEDS = sorted((Path(__file__).parent / "cases" / "seeds").glob("*.tess"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_seed_parses(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    result = parse_module(source)
    assert not result.diagnostics, "\n".join(render(d, {source.path: source}) for d in result.diagnostics)
    assert result.module.items


def test_the_seeds_are_there() -> None:
    assert len(SEEDS) == 13


def test_a_kernel_of_the_seeds_in_detail() -> None:
    path = next(path for path in SEEDS if path.stem == "flash_attention")
    (kernel,) = parse_module(SourceFile(path.name, path.read_text(encoding="utf-8"))).module.items
    assert isinstance(kernel, ast.FunctionDef)
    assert [(p.name, p.keyword_only) for p in kernel.parameters] == [
        ("q", False),
        ("cache", False),
        ("dropout", True),
        ("causal", True),
    ]
    assert [type(s).__name__ for s in kernel.body] == ["Assignment"] * 5 + ["For", "Return"]
    loop = kernel.body[5]
    assert isinstance(loop, ast.For)
    assert [type(s).__name__ for s in loop.body if isinstance(s, ast.If)] == ["If", "If"]
