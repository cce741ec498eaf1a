"""The library's kernels are nothing special: the compiler knows none of them by name."""

from __future__ import annotations

import ast

from tesserac.check.declarations.decorators import is_kernel
from tesserac.modules.library import library_sources
from tesserac.syntax import ast as tess
from tesserac.syntax.parse import parse_module
from tests.support.paths import ROOT


def kernels() -> set[str]:
    items = [item for source in library_sources().values() for item in parse_module(source).module.items]
    return {item.name for item in items if isinstance(item, tess.FunctionDef) and is_kernel(item)}


def test_the_compiler_names_no_kernel_of_the_library() -> None:
    names = kernels()
    assert names, "the library has kernels"
    for path in sorted((ROOT / "tesserac").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not names & texts, f"{path} names {sorted(names & texts)}"
