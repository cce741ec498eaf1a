"""Any text gives a tree and diagnostics: nothing is raised, every span lies in the text, everything can be shown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.source import SourceFile
from tesserac.diag import codes
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.formats import render_json, render_short
from tesserac.diag.render import render
from tesserac.syntax.dump import dump
from tesserac.syntax.parse import parse_items, parse_module
from tesserac.syntax.split import split_items
from tesserac.syntax.walk import children, descendants
from tests.support.paths import CASES
from tests.support.sampling import examples

SEEDS = [
    path.read_text(encoding="utf-8") for path in sorted((CASES / "seeds").glob("*.tess"))
]
KEYWORDS = "def struct param buffer test from import if elif else for while with return assert pass lambda in is not or"
SIGNS = '( ) [ ] { } : ; , . ... -> = == += @ ∘ * ** / // | & ~ < \' " \'\'\' """ f" {x} \\ # \0 class x y 1 1.5 0x'
LAYOUT = ("\n", "\n    ", "\n\t", "\n        ", " ", "\r\n", "\ufeff", "é", "漢", "\ud800")
WORDS = [*KEYWORDS.split(), *SIGNS.split(), *LAYOUT]


def assert_sound(text: str) -> None:
    start = time.process_time()
    source = SourceFile("fuzz.tess", text)
    result = parse_module(source)
    assert time.process_time() - start < 5
    for item in result.module.items:
        for node in descendants(item):
            assert 0 <= node.span.start <= node.span.end <= len(text)
            assert all(node.span.start <= c.span.start and c.span.end <= node.span.end for c in children(node))
    for diagnostic in result.diagnostics:
        assert_shown(diagnostic, source)
    render_json(result.diagnostics, {source.path: source})
    dump(result.module, source)


def assert_shown(diagnostic: Diagnostic, source: SourceFile) -> None:
    assert diagnostic.code in codes.ALL
    assert len(diagnostic.title) <= 100
    assert 0 <= diagnostic.primary.span.start <= len(source.text)
    shown = render(diagnostic, {source.path: source}) + render_short(diagnostic, {source.path: source})
    shown.encode("utf-8")
    assert "\x1b" not in shown


@pytest.mark.one_in(16)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert_sound(text)


@pytest.mark.one_in(2)
@examples(300)
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_any_words(words: list[str]) -> None:
    assert_sound("".join(words))
    assert_sound(" ".join(words))


@pytest.mark.one_in(2)
@examples(200)
@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS])) + text[end:]
    assert_sound(text)


@pytest.mark.one_in(16)
def test_every_prefix_of_every_seed() -> None:
    for seed in SEEDS:
        for end in range(0, len(seed), 7):
            assert_sound(seed[:end])


@given(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4), st.data())
def test_parsing_is_the_same_with_and_without_memory(seeds: list[str], data: st.DataObject) -> None:
    """What an item gives does not depend on where its text was met before."""
    text = "\n".join(seeds)
    start = data.draw(st.integers(0, len(text)))
    edited = text[:start] + data.draw(st.sampled_from(WORDS)) + text[start:]
    fresh = SourceFile(f"fresh{data.draw(st.integers())}.tess", edited)
    parse_module(SourceFile("m.tess", text))
    known = SourceFile("m.tess", edited)
    assert dump(parse_module(known).module, known) == dump(parse_module(fresh).module, fresh)
    assert _places(known) == _places(fresh)


def _places(source: SourceFile) -> list[tuple[str, int, int]]:
    return [(d.code, d.primary.span.start, d.primary.span.end) for d in parse_module(source).diagnostics]


def test_an_edit_reparses_one_item() -> None:
    text = "\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(50))
    before = {id(placed.item) for placed in parse_items(SourceFile("e.tess", text))}
    after = parse_items(SourceFile("e.tess", text.replace("x + 7\n", "x * 77\n")))
    assert sum(id(placed.item) not in before for placed in after) == 1
    assert [placed.by for placed in after] == [0] * 8 + [1] * 42


def test_unchanged_items_are_the_same_nodes() -> None:
    first = parse_module(SourceFile("s.tess", "x = 1\ny = 2\nz = 3\n")).module.items
    second = parse_module(SourceFile("s.tess", "x = 1\ny = 5\nz = 3\n")).module.items
    assert first[0] is second[0]
    assert first[1] is not second[1]
    assert first[2] is second[2]


@given(st.text(alphabet="ab()[]'\"#\n\\ @d", max_size=60))
def test_pieces_are_in_order_and_lose_nothing(text: str) -> None:
    position = 0
    for start, end in split_items(text):
        between = text[position:start]
        assert all(not line.strip() or line.lstrip().startswith("#") for line in between.splitlines())
        assert start < end
        position = end
    assert not text[position:].strip() or text[position:].lstrip().startswith("#")


def test_a_function_parses_in_milliseconds() -> None:
    kernel = next(seed for seed in SEEDS if "def flash_attention" in seed)
    times = []
    for i in range(12):
        start = time.process_time()
        parse_module(SourceFile(f"speed{i}.tess", kernel))
        times.append(time.process_time() - start)
    assert min(times) < 0.05  # about 4 ms here; the margin is for machines under load
