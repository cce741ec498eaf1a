"""Texts and positions: what the editor counts and what the compiler counts name the same characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tessera_lsp.documents import Change, Document, Encoding, offset_of, path_of, position_of, uri_of
from tesserac.base.source import SourceFile

TEXTS = st.text(alphabet="ab é😀∘\t\n\x0c\u2028", max_size=40)
ENCODINGS = st.sampled_from(("utf-8", "utf-16", "utf-32"))
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@given(TEXTS, ENCODINGS, st.data())
def test_positions_are_those_of_the_encoding(text: str, encoding: Encoding, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    found = position_of(SourceFile("a", text), offset, encoding)
    before = text[:offset].split("\n")
    codec, size = CODECS[encoding]
    assert found == (len(before) - 1, len(before[-1].encode(codec)) // size)
    assert offset_of(SourceFile("a", text), found, encoding) == offset


@given(TEXTS, TEXTS, ENCODINGS, st.data())
def test_changes_replace_what_they_name(text: str, new: str, encoding: Encoding, data: st.DataObject) -> None:
    source = SourceFile("a", text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    change = Change(position_of(source, start, encoding), position_of(source, end, encoding), new)
    changed = Document("file:///a", 1, source, encoding).changed(2, [change])
    assert changed.source.text == text[:start] + new + text[end:] and changed.version == 2


def test_a_position_beyond_the_end_is_the_end() -> None:
    source = SourceFile("a", "one\r\ntwo")
    assert offset_of(source, position_of(source, 3, "utf-16")._replace(character=99), "utf-16") == 3
    assert offset_of(source, position_of(source, 3, "utf-16")._replace(line=99), "utf-16") == len(source.text)


def test_a_half_of_a_character_is_its_start() -> None:
    source = SourceFile("a", "😀b")
    assert offset_of(source, position_of(source, 0, "utf-16")._replace(character=1), "utf-16") == 0


def test_addresses() -> None:
    assert path_of("file:///models/a%20b.tess") == "/models/a b.tess"
    assert path_of("untitled:Untitled-1") == "untitled:Untitled-1" == uri_of("untitled:Untitled-1")
    assert path_of(uri_of("/models/a b.tess")) == "/models/a b.tess"
