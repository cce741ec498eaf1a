"""The library holds its promises: it checks without a word, and the example of every public function runs, interpreted
and compiled, with the same bits."""

import inspect
from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import storage
from tesserac.syntax import ast
from tesserac.syntax.fmt import format_source
from tesserac.syntax.parse import parse_module
from tests.support.cpu_kernels import same_bits
from tests.support.folding import folded
from tests.support.source_support import check_text, compile_to_forms, library


@cache
def public_functions() -> list[tuple[str, ast.FunctionDef]]:
    found = []
    for path, text in stdlib_files().items():
        items = parse_module(SourceFile(path, text)).module.items
        found += [(path, i) for i in items if isinstance(i, ast.FunctionDef) and not i.name.startswith("_")]
    return found


FUNCTIONS = [pytest.param(path, node, id=node.name) for path, node in public_functions()]


def test_the_library_has_no_diagnostics() -> None:
    assert [d for checked in library() for d in checked.diagnostics] == []


@folded("path", sorted(stdlib_files()))
def test_files_are_in_the_one_style(path: str) -> None:
    text = stdlib_files()[path]
    assert format_source(SourceFile(path, text)).text == text, "tesserac fmt brings it into shape"


def example_of(node: ast.FunctionDef) -> str:
    doc = inspect.cleandoc(node.doc or "")
    return doc[doc.index("def ") :]


@folded(("path", "node"), FUNCTIONS)
def test_examples_use_what_they_explain(path: str, node: ast.FunctionDef) -> None:
    example = example_of(node)
    assert f"{node.name}(" in example.partition("\n")[2]
    assert not check_text(example, "m", library()).diagnostics


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("path", "node"), FUNCTIONS)
def test_examples_run(path: str, node: ast.FunctionDef) -> None:
    example = example_of(node)
    module = compile_to_forms(example)
    (function,) = module.ops
    sizes = {"B": 2, "M": 3, "N": 5}
    rng = np.random.default_rng(0)
    args = []
    for value in function.body.args:
        ty = tensor_type(value)
        args.append(rng.normal(size=[d.evaluate(sizes) for d in ty.dims]).astype(storage(ty.dtype)))
    expected = run_function(module, function.symbol, args)
    compiled = tessera.compile(example).f(*args)
    for got, result in zip(compiled if isinstance(compiled, tuple) else (compiled,), expected, strict=True):
        assert np.isfinite(result.astype(np.complex128)).all()
        same_bits(np.asarray(got), np.asarray(result))
