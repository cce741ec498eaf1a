"""The parser's tables: one grammar, one result; kept on disk, and never believed when they do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lark.exceptions import GrammarError

from tesserac.base.resources import grammar_text
from tesserac.syntax import tables
from tesserac.syntax.lexer import vocabulary
from tesserac.syntax.reserved import RESERVED


@pytest.fixture(scope="module")
def built() -> tables.Tables:
    return tables.build(grammar_text())


@pytest.mark.one_in(8)
def test_tables_survive_being_written_down(built: tables.Tables) -> None:
    assert tables.decode(tables.encode(built)) == built


@pytest.mark.one_in(12)
def test_one_grammar_gives_one_table(built: tables.Tables) -> None:
    """Also under another hash seed: what is shipped must not depend on the machine that built it."""
    code = "from tesserac.syntax.tables import *; print(encode(build(grammar_text())))"
    seed = os.environ | {"PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=seed)
    assert run.stdout.strip() == tables.encode(built)


@pytest.mark.one_in(4)
def test_a_conflict_in_the_grammar_is_an_error() -> None:
    ambiguous = grammar_text().replace("?sum: product\n", "?sum: product\n    | sum PLUS sum -> binary_op\n")
    assert ambiguous != grammar_text()
    with pytest.raises(GrammarError, match=r"[Cc]onflict|[Cc]ollision"):
        tables.build(ambiguous)


def test_reserved_words_are_no_keywords_of_the_grammar() -> None:
    assert not vocabulary().keywords & RESERVED.keys()


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"key": 1}'])
def test_damaged_tables_are_not_tables(damage: str) -> None:
    assert tables.decode(damage) is None


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: tables.Tables) -> Path:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tables, "shipped_tables_text", lambda: None)
    monkeypatch.setattr(tables, "build", lambda grammar: built)
    return tmp_path


def _load() -> tables.Tables:
    return tables.load_tables.__wrapped__()


@pytest.mark.one_in(6)
def test_tables_are_cached_and_a_damaged_cache_is_mended(cache_dir: Path, built: tables.Tables) -> None:
    assert _load() == built
    (cached,) = cache_dir.iterdir()
    kept = cached.read_bytes()
    assert tables.encode(built).encode() in kept
    cached.write_text("half a fi")
    assert _load() == built
    assert cached.read_bytes() == kept


@pytest.mark.one_in(3)
def test_a_good_cache_needs_no_building(cache_dir: Path, built: tables.Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    _load()
    monkeypatch.setattr(tables, "build", None)
    assert _load() == built


@pytest.mark.one_in(4)
def test_shipped_tables_are_used_only_for_their_grammar(
    cache_dir: Path, built: tables.Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "shipped_tables_text", lambda: tables.encode(built).replace(built.key, "0" * 32))
    assert _load().key == built.key
    monkeypatch.setattr(tables, "shipped_tables_text", lambda: tables.encode(built))
    monkeypatch.setattr(tables, "build", None)
    (cached,) = cache_dir.iterdir()
    cached.unlink()
    assert _load() == built


def test_a_cache_that_cannot_be_written_only_costs_time(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = cache_dir / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(blocked / "inside"))
    assert _load().key


def test_parsing_does_not_import_the_generator(cache_dir: Path) -> None:
    """From tables kept where no other test writes."""
    code = (
        "import sys; from tesserac.base.source import SourceFile; from tesserac.syntax.parse import parse_module;"
        "assert parse_module(SourceFile('a', 'x = 1')).module.items; print('lark' in sys.modules)"
    )
    assert _load()  # the cache is there now
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
