"""Offsets to lines and columns and back; files that can and cannot be read; the cache folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.files import write_file
from tesserac.base.cache import user_cache_dir
from tesserac.base.resources import grammar_text, stdlib_files
from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import MAX_SOURCE


def test_positions_count_from_one() -> None:
    source = SourceFile("a.tess", "ab\ncd\n")
    assert [source.position(i) for i in range(7)] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1)]
    assert source.line_text(2) == "cd"
    assert source.line_text(3) == ""


def test_a_carriage_return_belongs_to_the_line_end() -> None:
    source = SourceFile("a.tess", "ab\r\ncd")
    assert source.line_text(1) == "ab"
    assert source.position(4) == (2, 1)


@given(st.text(alphabet="ab\n\r\t∘", max_size=40))
def test_position_and_offset_are_inverse(text: str) -> None:
    source = SourceFile("a.tess", text)
    for offset in range(len(text) + 1):
        line, column = source.position(offset)
        assert text[:offset].count("\n") == line - 1
        if column <= len(source.line_text(line)) + 1:
            assert source.offset(line, column) == offset


def test_spans_cover_and_know() -> None:
    assert Span("a", 2, 3).to(Span("a", 7, 9)) == Span("a", 2, 9)
    assert Span("a", 0, 0).known
    assert not NO_SPAN.known
    assert SourceFile("a", "hello").slice(Span("a", 1, 3)) == "el"


def test_read_source_gives_text_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.tess"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    source = read_source(path)
    assert isinstance(source, SourceFile)
    assert source.text == "x = 1\r\n"


def _code(result: SourceFile | Diagnostic) -> str:
    assert isinstance(result, Diagnostic)
    return result.code


def test_read_source_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "latin.tess").write_bytes(b"x = 1  # caf\xe9\n")
    (tmp_path / "large.tess").write_bytes(b"#" * MAX_SOURCE)
    (tmp_path / "nearly.tess").write_bytes(b"#" * (MAX_SOURCE - 1))
    assert _code(read_source(tmp_path / "absent.tess")) == "E0901"
    assert _code(read_source(tmp_path)) == "E0901"
    assert _code(read_source("nul\0byte")) == "E0901"
    assert _code(read_source(tmp_path / "latin.tess")) == "E0902"
    assert _code(read_source(tmp_path / "large.tess")) == "E0903"
    assert isinstance(read_source(tmp_path / "nearly.tess"), SourceFile)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESSERA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert user_cache_dir() == Path("/somewhere/tessera")
    monkeypatch.setenv("TESSERA_CACHE_DIR", "/elsewhere")
    assert user_cache_dir() == Path("/elsewhere")


def test_writing_replaces_whole_files_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_file(target, b"one")
    write_file(target, b"two")
    assert target.read_bytes() == b"two"
    assert [p.name for p in target.parent.iterdir()] == ["file"]


def test_the_package_finds_its_data() -> None:
    assert "item_input" in grammar_text()
    assert all(name.endswith(".tess") for name in stdlib_files())
