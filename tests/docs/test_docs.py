"""What the documentation says is so: its programs check, its examples run, its generated pages are those of today."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tesserac.ops  # noqa: F401  (fills the registry)
from docs.generate import compiled_pages, declared_pages, strays, write
from docs.later import NotLater, said
from tessera import TesseraError
from tessera.function import CompiledFunction
from tesserac import check
from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.model.library_annotations import ALSO, FORM_OF, TAKES, WORDS
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.check.names.refs import ALGEBRA, BUILTINS, CONSTRUCTORS, OPERATIONS
from tesserac.commands.select import Selected, select_all
from tesserac.diag.formats import render_short
from tesserac.diag.pages import page_codes
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import storage
from tesserac.ops.registry import OPERATORS
from tesserac.syntax import ast as syntax
from tesserac.syntax.parse import parse_module
from tesserac.target.cpu.build import host_platform
from tests.support.caches import new_cache
from tests.support.folding import folded
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from tests.conftest import Golden

PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
_BLOCK = re.compile(r'^```tess(?: title="[^"]*")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_SIZES = {"M": 3, "N": 5, "K": 4, "S": 2, "T": 3, "D": 4, "B": 2, "H": 2}


@cache
def session() -> Session:
    return Session(verify=True)


# ------------------------------------------------------------------------------------------------------- pages


def stale(found: dict[Path, str], golden: Golden) -> list[str]:
    if golden.update:
        write(found)
    return [path.name for path, text in found.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def test_pages_and_pictures_of_what_is_declared_are_those_of_today(golden: Golden) -> None:
    """All at once: making them is what costs."""
    found = declared_pages()
    assert stale(found, golden) == [], "run `make docs` and read the diff"
    assert strays(found) == []


@pytest.mark.one_in(12)
def test_pages_of_what_is_compiled_are_those_of_today(golden: Golden) -> None:
    assert stale(compiled_pages(), golden) == [], "run `make docs` and read the diff"


BLOCKS = [
    pytest.param(SourceFile(f"{path.name}-{number}.tess", text), id=f"{path.stem}-{number}")
    for path in PAGES
    for number, text in enumerate(_BLOCK.findall(path.read_text(encoding="utf-8")))
]


@folded("source", BLOCKS, one_in=4)
def test_programs_in_pages_check(source: SourceFile) -> None:
    checked = session().check(source)
    assert [render_short(d, {source.path: source}) for d in checked.diagnostics] == []


@folded("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere_and_codes_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:=]+)\)", text):  # `MLP[8](seed=0)` is no link
        assert (path.parent / link).exists(), link
    codes = set(re.findall(r"explain ([EW]\d{4})", text))
    assert codes <= set(page_codes())


# ------------------------------------------------------------------------------------------- what is not there yet


@pytest.mark.one_in(6)
def test_every_gap_that_the_checker_names_is_on_the_page() -> None:
    """Found in the source: the texts of `feature=` where E0299 is reported."""
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    features = set()
    for path in Path(check.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "feature" and isinstance(node.value, ast.Constant):
                features.add(str(node.value.value))
    assert features
    assert {feature for feature in features if feature not in page} == set()


@pytest.mark.one_in(2)
def test_the_list_of_gaps_notices_what_it_should_not_hold() -> None:
    with pytest.raises(NotLater, match="this compiles"):
        said("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x + x\n")
    with pytest.raises(NotLater, match="nothing here is called"):
        said("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return y\n")


# ---------------------------------------------------------------------------------------------------- examples


def library_examples() -> dict[str, str]:
    """The example of each public function of the library."""
    found = {}
    for path, text in stdlib_files().items():
        for item in parse_module(SourceFile(path, text)).module.items:
            if isinstance(item, syntax.FunctionDef) and not item.name.startswith("_"):
                found[item.name] = _example(item.doc)
    return found


def _example(doc: str | None) -> str:
    text = inspect.cleandoc(doc or "")
    return text[text.index("def ") :] + "\n"


EXAMPLES = {name: _example(op.__doc__) for name, op in OPERATORS.items()}
"""Those of the library are run by `tests/stdlib/test_stdlib.py`."""


@pytest.mark.one_in(2)
@folded("name", sorted(EXAMPLES), one_in=48)
def test_examples_of_docstrings_run_and_give_the_bits_of_the_oracle(name: str) -> None:
    source = SourceFile(f"{name}.tess", EXAMPLES[name])
    assert session().check(source).diagnostics == ()
    for selected in select_all(session(), source).functions:
        _run(source, selected)


def _run(source: SourceFile, selected: Selected) -> None:
    cpu = host_platform()
    levels = session().levels(source, selected.function, cpu.schedule)
    function = levels.forms.lookup(selected.function.symbol)
    rng = np.random.default_rng(0)
    inputs = []
    for argument in function.body.args:
        ty = tensor_type(argument)
        shape = [dim.evaluate(_SIZES) for dim in ty.dims]
        inputs.append((rng.random(shape) * 4 + 0.5).astype(storage(ty.dtype)))
    expected = run_function(levels.forms, selected.function.symbol, inputs)
    compiled = CompiledFunction(session().artifact_of(levels, selected.function, cpu))
    found = compiled(*inputs)
    for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert np.asarray(one).tobytes() == other.tobytes()


# --------------------------------------------------------------------------------------------------- in Python


_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.one_in(12)
def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's program is `model.tess` of its Python example."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "model.tess").write_text(_BLOCK.findall(text)[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    for code in _PYTHON.findall(text):
        exec(compile(code, "README.md", "exec"), {})


def test_an_error_seen_from_python_is_the_text_of_the_command_line() -> None:
    """As docs/language.md promises."""
    import tessera

    with pytest.raises(TesseraError) as caught:
        tessera.compile("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return y\n")
    assert caught.value.code == "E0201"
    assert str(caught.value).startswith("error[E0201]: nothing here is called `y`\n --> <text>:2:12\n")


def test_every_name_of_the_language_itself_is_documented() -> None:
    assert set(BUILTIN_DOCS) == {*BUILTINS, *(f"{ALGEBRA}{name}" for name in (*OPERATIONS, *CONSTRUCTORS))}
    for name, doc in BUILTIN_DOCS.items():
        assert name.removeprefix(ALGEBRA) in doc.usage and doc.text.endswith(".")


def test_every_annotation_of_the_library_is_explained() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`@(\w+)\(", page))
    assert {*WORDS, FORM_OF, ALSO, TAKES} <= told
    assert all(f'"{word}"' in page for words in WORDS.values() for word in words)
