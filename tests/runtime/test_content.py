"""Code is found by what a function says, wherever that stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.interface import Content
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.embed.compiler import EmbeddedCompiler

PROGRAM = """struct Pair[N]:
    first: Tensor[N, f32]
    second: Tensor[N, f32]

def helper(x: Tensor[N, f32]) -> Tensor[N, f32]:
    assert all(x > 0.0), "positive"
    return x * 2.0

def f(x: Tensor[N, f32], y: Tensor[M, f32]) -> Pair[N] where M == N, N < 9:
    return Pair(first=helper(x) + 1.0, second=y)
"""


def content(text: str, path: str = "p.tess", *, release: bool = False) -> Content:
    session, source = Session(release=release), SourceFile(path, text)
    return session.content(source, session.function(source, "f"), {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("struct", "# a line\n\nstruct"),
        ("def f(", "def g(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return helper(x)\n\ndef f("),
        ("x * 2.0", "x  *  2.0  # twice"),
        ("    assert", '    """What it is for."""\n    assert'),
    ],
)
def test_what_stands_beside_a_function_is_no_part_of_it(before: str, after: str) -> None:
    first, moved = content(PROGRAM), content(PROGRAM.replace(before, after, 1))
    assert first.meaning == moved.meaning
    assert len(first.places) == len(moved.places)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2.0", "2.5"),
        ("x * 2.0", "x / 2.0"),
        ("x > 0.0", "x >= 0.0"),
        ("positive", "not negative"),
        ("N < 9", "N < 10"),
        ("x: Tensor[N, f32], y", "z: Tensor[N, f32], y"),
        ("second", "third"),
        ("f32", "f64"),
        ("return x * 2.0", "with numerics(fast):\n        return x * 2.0"),
    ],
)
def test_what_a_function_says_is_all_of_its_content(before: str, after: str) -> None:
    text = PROGRAM.replace(before, after)
    text = text.replace("helper(x) +", "helper(z) +") if "z:" in text else text
    assert content(PROGRAM).meaning != content(text).meaning


def test_a_release_and_a_file_of_another_name_are_other_content() -> None:
    meanings = {content(PROGRAM).meaning, content(PROGRAM, release=True).meaning, content(PROGRAM, "q.tess").meaning}
    assert len(meanings) == 3


def test_an_edit_elsewhere_compiles_nothing_and_messages_tell_of_the_new_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))
    positive, negative, long = (np.full(size, value, np.float32) for size, value in ((3, 1), (3, -1), (9, 1)))
    whole = np.asarray(tessera.compile(PROGRAM).f(positive, positive).first)
    monkeypatch.setattr(EmbeddedCompiler, "compile_function", None)
    moved = tessera.compile("# a line\n" + PROGRAM.replace("def f(", "# another\n\ndef f(")).f
    np.testing.assert_array_equal(np.asarray(moved(positive, positive).first), whole)
    with pytest.raises(TesseraError, match=":7:"):
        moved(negative, positive)
    with pytest.raises(TesseraError, match=":12:"):
        moved(long, long)
