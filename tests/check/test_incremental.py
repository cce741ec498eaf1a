"""Checking item by item says what checking the whole file says, whatever was edited before."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.source import SourceFile
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.state.rules import Instance
from tesserac.driver.session import Session
from tesserac.incremental.outline import Outline
from tesserac.syntax import split
from tesserac.syntax.split import split_items
from tesserac.types.ty import Type
from tests.support.paths import ROOT
from tests.support.sampling import spread

FILES = sorted([*(ROOT / "tests/cases/check").glob("*.tess"), *(ROOT / "examples").glob("*.tess")])
TEXTS = [path.read_text(encoding="utf-8") for path in FILES]
SNIPPETS = (
    "(", ")", "[", "]", '"', '"""', "'", ":", "\n", "\n\n", "    ", "\\\n", "#", "@", ".", ",", "=", " + ", "def ",
    "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x\n", "x", "N", "bf16", "f32", "1", "return x\n", "return",
    "half = bf16 @accum(f32)\n", 'test "t":\n    assert True\n', "from tessera.stdlib import softmax\n", "else:\n",
)  # fmt: skip


@cache
def library_session() -> Session:
    session = Session()
    assert session.library
    return session


def new_session() -> Session:
    session = Session()
    session.library = library_session().library
    return session


def agree(session: Session, source: SourceFile) -> None:
    """The same diagnostics, to the letter, in the same places."""
    whole = new_session().check(source).diagnostics
    piecewise = session.analyse(source).diagnostics
    key = {(d.code, d.primary.span) for d in whole}
    assert {(d.code, d.primary.span) for d in piecewise} == key
    assert sorted(map(repr, piecewise)) == sorted(map(repr, whole))


def edited(text: str, dice: random.Random) -> str:
    start = dice.randrange(len(text) + 1)
    match dice.randrange(4):
        case 0:
            return text[:start] + dice.choice(SNIPPETS) + text[start:]
        case 1:
            return text[:start] + text[start + dice.choice((1, 1, 3, 30)) :]
        case 2:  # a line moves
            lines = text.splitlines(keepends=True)
            line = lines.pop(dice.randrange(len(lines))) if lines else ""
            lines.insert(dice.randrange(len(lines) + 1), line)
            return "".join(lines)
    words = text.split(" ")
    words[dice.randrange(len(words))] = dice.choice(words)
    return " ".join(words)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("path", spread(FILES, 24), ids=lambda path: path.stem)
def test_a_file_as_it_is(path: Path) -> None:
    agree(new_session(), SourceFile(path.name, path.read_text(encoding="utf-8")))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", spread(range(12), 5))
def test_a_session_of_editing(seed: int) -> None:
    dice = random.Random(seed)
    session = new_session()
    texts = [dice.choice(TEXTS)]
    for _ in range(25):
        agree(session, SourceFile("edited.tess", texts[-1]))
        undo = len(texts) > 1 and dice.random() < 0.2
        texts.append(texts[-2] if undo else edited(texts[-1], dice))


PROGRAM = """
WIDTH = 4

def callee(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * 2.0

def caller(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return callee(x)

def other(x: Tensor[WIDTH, f32]) -> Tensor[4, f32]:
    return x
"""


def test_an_edit_checks_what_depends_on_it() -> None:
    outline = Outline(SourceFile("a.tess", PROGRAM))
    assert [outline.context(index) for index in range(4)] == [(0,), (1,), (1, 2), (0, 3)]


def test_the_edited_item_comes_first() -> None:
    session = new_session()
    session.analyse(SourceFile("a.tess", PROGRAM))
    broken = PROGRAM.replace("def callee(x: Tensor[N, f32])", "def callee(x: Tensor[N, f64])")
    visible = session.check_visible(SourceFile("a.tess", broken))
    assert visible.pending == 1, "the caller waits"
    assert [d.primary.span.start for d in visible.diagnostics] == [broken.index("x * 2.0")] or visible.diagnostics
    assert not session.analyse(SourceFile("a.tess", broken)).pending
    mended = session.check_visible(SourceFile("a.tess", PROGRAM))
    assert not mended.pending and not mended.diagnostics, "undoing an edit costs nothing"


def test_a_line_above_moves_everything_and_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = new_session()
    text = PROGRAM.replace("return callee(x)", "return callee(missing)")
    before = session.analyse(SourceFile("a.tess", text))
    monkeypatch.setattr("tesserac.incremental.analyser.check_module", None)
    after = session.analyse(SourceFile("a.tess", "# a comment\n" + text))
    moved = [d.primary.span.start - 12 for d in after.diagnostics]
    assert moved == [d.primary.span.start for d in before.diagnostics] and moved


def test_a_fault_of_the_checker_spoils_one_item(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    session = new_session()
    session.analyse(SourceFile("a.tess", PROGRAM))
    monkeypatch.setattr("tesserac.incremental.analyser.check_module", fails)
    analysis = session.analyse(SourceFile("a.tess", PROGRAM.replace("return x\n", "return x + x\n")))
    assert [view.result is None for view in analysis.items] == [False, False, False, True]


def test_an_import_of_another_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    layers = tmp_path / "layers.tess"
    layers.write_text("def twice(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n", encoding="utf-8")
    source = SourceFile(
        str(tmp_path / "model.tess"),
        "from layers import twice\n\ndef f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return twice(x)\n",
    )
    session = new_session()
    agree(session, source)
    assert not session.analyse(source).diagnostics
    layers.write_text("def twice(x: Tensor[N, f64]) -> Tensor[N, f64]:\n    return x * 2.0\n", encoding="utf-8")
    agree(session, source)
    assert session.analyse(source).diagnostics


LAYERS = """
WIDTH = 4

struct Layer[D]:
    w: Tensor[D, D, f32]

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
        return x @ self.w

def square(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * x

def each(f, x: Tensor[N, f32]) -> Tensor[N, f32]:
    return f(x) + square(x)

def loss(layer: Layer[D], x: Tensor[B, D, f32]) -> Tensor[f32]:
    y = layer(x)
    return mean(y * y)

@export
def step(layer: Layer[WIDTH], x: Tensor[B, WIDTH, f32]) -> Tensor[f32]:
    value, g = value_and_grad(loss)(layer, x)
    w = tree_map(lambda a, b: a - 0.1 * b, layer, g).w
    return value + mean(each(square, w[0]))

def main() -> Tensor[f32]:
    return step(Layer[WIDTH](seed=1), ones(3, WIDTH))

test "a step":
    assert main() >= 0.0
"""


def typed_in(text: str, place: str, added: str) -> list[str]:
    """The texts while something is typed behind a place."""
    at = text.index(place) + len(place)
    return [text[:at] + added[:count] + text[at:] for count in range(1, len(added) + 1)]


TYPED = {
    "a body": ("    y = layer(x)", " + squar(x) * missing - x"),
    "a method": ("return x @ self.w", " + self.v @ x - 1"),
    "a signature": ("def square(x: Tensor[N, f32]", ", by: float = 2.0"),
    "a result": ("def loss(layer: Layer[D], x: Tensor[B, D, f32]) -> Tensor[", "B, "),
    "a constant": ("WIDTH = 4", " * 2 - one"),
    "a lambda": ("a - 0.1 * b", " + y"),
    "a field": ("w: Tensor[D, D, f32]", " = normal(D, E)"),
    "a new function": ("    return x * x\n", "\ndef twice(y):\n    return y + squar(y) + each(twic, y)\n"),
    "an argument that is a function": ("each(square", ".T"),
    "at the end": ("    assert main() >= 0.0\n", "\ndef loss(z):\n    return z\n"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", TYPED)
def test_typing_says_what_a_fresh_check_says(where: str) -> None:
    """Character by character, then backwards, as undoing goes."""
    session = new_session()
    texts = [LAYERS, *typed_in(LAYERS, *TYPED[where])]
    for text in [*texts, *reversed(texts[:: max(len(texts) // 4, 1)])]:
        agree(session, SourceFile("typed.tess", text))


@pytest.mark.one_in(6)
def test_renaming_says_what_a_fresh_check_says() -> None:
    session = new_session()
    for old, new in (("square", "squared"), ("loss", "step"), ("Layer", "Model"), ("WIDTH", "each"), ("x", "y")):
        text = re.sub(rf"\b{old}\b", new, LAYERS)
        halfway = text.replace(new, old, 1)
        for each in (LAYERS, halfway, text, LAYERS):
            agree(session, SourceFile("renamed.tess", each))


@pytest.mark.parametrize("place", ["    y = layer(x)", "value, g = value_and_grad(loss)(layer, x)", "seed=1"])
def test_a_keystroke_checks_what_it_changes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the function reads was checked before, and what reads it waits."""
    session = new_session()
    session.analyse(SourceFile("typed.tess", LAYERS))
    edited = next(name for name in ("main", "step", "loss") if LAYERS.index(f"def {name}(") < LAYERS.index(place))
    checked: set[str] = set()
    check = ModuleChecker._check

    def noted(self: ModuleChecker, name: str, types: tuple[Type, ...]) -> Instance:
        checked.update({name} if self.name == "main" else ())
        return check(self, name, types)

    monkeypatch.setattr(ModuleChecker, "_check", noted)
    for text in typed_in(LAYERS, place, " + missing"):
        session.check_visible(SourceFile("typed.tess", text))
    assert {name for name in checked if not name.startswith("lambda$")} == {edited}


# ------------------------------------------------------------------------------------------------------- cutting


@given(st.lists(st.sampled_from((*SNIPPETS, "\nx", "\ndef", "\n)", "\nelse", "\\", "((", "))", "f(")), max_size=30))
def test_stretches_cut_as_the_whole_text_does(parts: list[str]) -> None:
    text = "".join(parts)
    remembered = split_items(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "_cuts_from", split._cuts_by_event)
        assert split_items(text) == remembered
