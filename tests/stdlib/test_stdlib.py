"""The library holds its promises: it checks without a word, and the example of every public function runs, interpreted
and compiled, with the same bits."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tessera
from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.graph.interp import run_function
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import storage
from tesserac.syntax import ast
from tesserac.syntax.fmt import format_source
from tesserac.syntax.parse import parse_module
from tests.support.cpu_kernels import same_bits
from tests.support.folding import folded
from tests.support.library_functions import docs, example_of, public_names
from tests.support.source_support import check_text, compile_to_forms, library

FUNCTIONS = [pytest.param(path, name, id=name) for path, name in public_names()]


@pytest.mark.one_in(2)
@folded("path", sorted(stdlib_files()), one_in=2)
def test_doc_strings_are_read_as_the_parser_reads_them(path: str) -> None:
    items = parse_module(SourceFile(path, stdlib_files()[path])).module.items
    nodes = [item for item in items if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    found = {name: doc for (file, name), doc in docs().items() if file == path}
    assert found == {node.name: inspect.cleandoc(node.doc or "") for node in nodes}


def test_the_library_has_no_diagnostics() -> None:
    assert [d for checked in library() for d in checked.diagnostics] == []


def test_no_function_has_a_name_of_the_language() -> None:
    """It would mean something else there from one version to the next, as `skew` of a matrix does."""
    assert {name for _, name in public_names()}.isdisjoint(BUILTIN_DOCS)


@folded("path", sorted(stdlib_files()), one_in=4)
def test_files_are_in_the_one_style(path: str) -> None:
    text = stdlib_files()[path]
    assert format_source(SourceFile(path, text)).text == text, "tesserac fmt brings it into shape"


@folded(("path", "name"), FUNCTIONS, one_in=4)
def test_examples_use_what_they_explain(path: str, name: str) -> None:
    example = example_of(path, name)
    assert f"{name}(" in example.partition("\n")[2]
    assert not check_text(example, "m", library()).diagnostics


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("path", "name"), FUNCTIONS)
def test_examples_run(path: str, name: str) -> None:
    example = example_of(path, name)
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
