"""What editors ask, as plain functions; and that no text, however broken, makes one of them fail."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tessera_lsp.answers import ANSWERS
from tessera_lsp.convert import Converter
from tessera_lsp.documents import Document
from tessera_lsp.features.actions import actions
from tessera_lsp.features.completion import completion
from tessera_lsp.features.definition import definition
from tessera_lsp.features.diagnostics import LIMIT, shown
from tessera_lsp.features.formatting import formatting
from tessera_lsp.features.hints import hints
from tessera_lsp.features.hover import hover
from tessera_lsp.features.lenses import lenses
from tessera_lsp.features.references import references
from tessera_lsp.features.signature import signature
from tessera_lsp.features.symbols import symbols
from tessera_lsp.features.tokens import tokens
from tessera_lsp.server import OPTIONS
from tesserac.base.source import SourceFile
from tesserac.base.targets import TARGETS
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.check.names.refs import ALGEBRA, BUILTINS, OPERATIONS
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session
from tests.support import sampling

ROOT = Path(__file__).resolve().parents[2]
TEXT = '''half = bf16 @accum(f32)
WIDTH = 4

struct Layer[D, H]:
    """Weights."""
    w: Tensor[D, H, f32] = ones(D, H)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        return x @ self.w

def scaled(x: Tensor[N, f32], by: float = 2.0) -> Tensor[N, f32]:
    """x times a number."""
    return x * by

def attend(q: Tensor[B, S, D, f32], w: Tensor["D", H, f32]):
    h = q @ w
    total = sum(h, axis=S)
    for i in range(4):
        total = total + scaled(total[0], by=3.0)
    return total

test "scaled":
    assert True
'''


@cache
def library() -> Session:
    session = Session()
    assert session.library
    return session


def new_session() -> Session:
    session = Session()
    session.library = library().library
    return session


def offset(word: str, nth: int = 0, text: str = TEXT) -> int:
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    return at


def hovered(word: str, nth: int = 0) -> str:
    found = hover(new_session(), SourceFile("a.tess", TEXT), offset(word, nth))
    return found.markdown if found is not None else ""


def defined(word: str, nth: int = 0) -> int | None:
    found = definition(new_session(), SourceFile("a.tess", TEXT), offset(word, nth))
    return found.start if found is not None else None


def completed(text: str) -> list[str]:
    """The names offered at `|`."""
    at = text.index("|")
    source = SourceFile("a.tess", text.replace("|", ""))
    return [suggestion.name for suggestion in completion(new_session(), source, at)]


# --------------------------------------------------------------------------------------------------------- hover


@pytest.mark.parametrize(
    ("word", "nth", "text"),
    [
        ("q @ w", 0, "q: Tensor[B, S, D, f32]"),
        ("@ w\n", 0, "q @ w: Tensor[B, S, H, f32]"),
        ("h = ", 0, "h: Tensor[B, S, H, f32]"),
        ("scaled(total", 0, "def scaled(x: Tensor[N, f32], by: float = 2.0) -> Tensor[N, f32]"),
        ("scaled(total", 0, "x times a number."),
        ("scaled(total", 0, "Here: `Tensor[H, f32]`"),
        ("by=3.0", 0, "by: float"),
        ("attend", 0, "-> Tensor[B, H, f32]"),
        ("sum(", 0, "Sum over axes"),
        ("bf16", 0, "8 significant bits"),
        ("range", 0, "never unrolled"),
        ("D, f32], w", 0, "`D`: a size of `q`, `w`"),
        ("WIDTH", 0, "WIDTH = 4"),
        ("Layer", 0, "struct Layer[D, H]:\n    w: Tensor[D, H, f32] = ones(D, H)"),
        ("x @ self", 0, "x: Tensor[B, D, f32]"),
    ],
)
def test_hover(word: str, nth: int, text: str) -> None:
    assert text in hovered(word, nth)


def test_an_operator_is_shown_with_what_it_is_made_of_and_what_is_proven() -> None:
    text = "def f(m: Tensor[N, N, f32], d: Tensor[N, f32]):\n    A = sym(op.dense(m)) + op.diag(d)\n    return A @ d\n"
    found = hover(new_session(), SourceFile("a.tess", text), text.index("A @"))
    assert found is not None and "A: Operator[N, N, f32]" in found.markdown
    assert "sum(scaled(dense), scaled(adjoint(dense)), diag); self_adjoint, normal" in found.markdown


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", [*BUILTINS, *OPERATIONS])
def test_names_of_the_language_are_offered_and_explained(name: str) -> None:
    text = f"def f(x: Tensor[N, f32]):\n    return {name}(x)\n"
    source = SourceFile("a.tess", text)
    found = hover(new_session(), source, text.index(f"{name}(x)"))
    doc = BUILTIN_DOCS.get(name) or BUILTIN_DOCS[f"{ALGEBRA}{name}"]
    assert found is not None and doc.text in found.markdown
    assert name in completed(text.replace(f"{name}(x)", "|"))


def test_hover_is_where_the_word_is() -> None:
    source = SourceFile("a.tess", "# a line\n" + TEXT)
    session = new_session()
    session.analyse(SourceFile("a.tess", TEXT))
    found = hover(session, source, offset("q @ w", text=source.text))
    assert found is not None and source.slice(found.span) == "q", "although the item was checked a line above"


# ---------------------------------------------------------------------------------------------------- definition


@pytest.mark.parametrize(
    ("word", "nth", "target"),
    [
        ("q @ w", 0, "q: Tensor"),
        ("h, axis", 0, "h = q"),
        ("total[0]", 0, "total = sum"),
        ("total +", 0, "total = sum"),
        ("scaled(total", 0, "scaled(x"),
        ("by=3.0", 0, "by: float"),
        ("S)", 0, "S, D, f32]"),
        ('"D"', 0, "D, f32], w"),
        ("N, f32]:", 0, "N, f32], by"),
        ("x * by", 0, "x: Tensor[N"),
    ],
)
def test_definition(word: str, nth: int, target: str) -> None:
    assert defined(word, nth) == offset(target)


def test_an_imported_name_is_what_it_names() -> None:
    text = "from tessera.stdlib import softmax as soft\n\ndef f(x: Tensor[N, f32]): return soft(x)\n"
    source = SourceFile("a.tess", text)
    found = definition(new_session(), source, source.text.index("soft(x)"))
    assert found is not None and found.file == "stdlib/nn/softmax.tess"


# ---------------------------------------------------------------------------------------------------- completion


STRUCTS = """struct Layer[D, H]:
    w: Tensor[D, H, f32]
    b: Tensor[H, f32]

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        {body}

    def norm(self): return sum(self.w * self.w)

def run(layer: Layer[D, H], other: Tensor[N, f32]):
    {after}
"""


@pytest.mark.parametrize("text", ["return self.|", "y = x @ self.|\n        return y", "return x @ self.w + self.|b"])
def test_a_method_is_offered_what_its_struct_has(text: str) -> None:
    assert completed(STRUCTS.format(body=text, after="return other")) == ["w", "b", "apply", "norm"]


@pytest.mark.parametrize(
    ("text", "is_struct"),
    [
        ("return layer.|", True),
        ("made = Layer[2, 3](w=ones(2, 3), b=ones(3))\n    return made.|", True),
        ("same = layer\n    return same.|", True),
        ("return other.|", False),
        ("return other.x.layer.|", False),
    ],
)
def test_a_struct_is_offered_its_fields_and_methods(text: str, is_struct: bool) -> None:
    found = completed(STRUCTS.format(body="return x @ self.w", after=text))
    assert (found == ["w", "b", "apply", "norm"]) == is_struct
    assert is_struct or "softmax" in found


def test_notes_and_advice_reach_the_editor() -> None:
    """Whatever the command line says in words is in the message or among the actions."""
    text = "def f(x: Tensor[N, f32]):\n    with device(tpu): x = x + x\n    return x.sum(axis=3)\n"
    uri = "file:///f.tess"
    document = Document(uri, 1, SourceFile("f.tess", text), "utf-16")
    found = library().analyse(document.source).diagnostics
    assert any(d.notes for d in found)
    for diagnostic in found:
        message = Converter(document, {}).diagnostic(diagnostic).message
        advice = [fix.title for fix in diagnostic.fixes if not fix.edits]
        assert all(text in message for text in (*diagnostic.notes, *advice))


@pytest.mark.one_in(48)
def test_the_library_in_an_editor_has_no_mistakes() -> None:
    files = sorted((ROOT / "stdlib").rglob("*.tess"))
    for path in files:
        assert not library().check(SourceFile(str(path), path.read_text(encoding="utf-8"))).errors


def test_the_words_of_library_files_are_not_for_programs(tmp_path: Path) -> None:
    text = "@within(0, 1)\ndef f(x: Tensor[N, f32]): return x\n"
    for path in (tmp_path / "stdlib" / "f.tess", Path("stdlib/f.tess")):
        found = library().check(SourceFile(str(path), text)).errors
        assert [diagnostic.code for diagnostic in found] == ["E0508"]


def test_words_are_those_of_the_language() -> None:
    """Without the flag `\\p{L}` is the letter p, and no completion opens while typing."""
    pattern = json.loads((ROOT / "vscode-extension" / "language-configuration.json").read_text())["wordPattern"]
    assert pattern["flags"] == "u" and "\\p{L}" in pattern["pattern"]


def test_completion_by_place() -> None:
    start = "def f(value: Tensor[M, N, f32], other: int):\n    local = value\n"
    assert set(completed(start + "    return |")[:5]) == {"value", "M", "N", "other", "local"}
    assert {"softmax", "sum", "f32", "range", "f", "return"} <= set(completed(start + "    return |"))
    assert "later" not in completed(start + "    a = |\n    later = 1\n")
    assert completed("def f(x: Tensor[M, N, f32], y: Tensor[|")[:2] == ["M", "N"]
    assert "bf16" in completed("def f(x: Tensor[M, N, |]): return x")
    assert completed("half = bf16 @|")[0] == "accum(f32)"
    assert completed("@|\ndef f(): return 1")[0] == "export"
    assert {"T", "softmax", "exp"} <= set(completed(start + "    return value.|"))
    assert "T" not in completed(start + "    return op.|") and "softmax" in completed(start + "    return op.|")
    assert completed(start + "    # a comment |") == []
    assert completed(start + '    print("text |')[:1] == []


def test_completion_of_the_targets_of_a_schedule() -> None:
    start = "s = Schedule(block=(64, 64)).on("
    assert {"cpu", "cuda", "cuda:sm_90a"} <= set(completed(start + '"|'))
    assert completed(start + '"cuda:sm_9|", warps=4)') == [t.removeprefix("cuda:") for t in TARGETS if "cuda:" in t]
    assert set(completed(start + "'cpu:x86-64-v|')")) == {"v3", "v4", "v4-amx"}
    assert completed("s = Schedule(block=(64, 64)).other(\"|") == []


# ----------------------------------------------------------------------------------------- actions, symbols, edits


@pytest.mark.one_in(24)
def test_the_only_safe_fix_is_preferred() -> None:
    session = new_session()
    for path in sorted((ROOT / "tests/cases/check").glob("*.tess")):
        source = SourceFile(path.name, path.read_text(encoding="utf-8"))
        for action in actions(session, source, 0, len(source.text)):
            fixed = apply_edits(source.text, list(action.fix.edits))
            assert fixed != source.text
            safe = [fix for fix in action.diagnostic.fixes if fix.applicability == "safe"]
            assert action.preferred == (safe == [action.fix])


def test_symbols() -> None:
    found = symbols(new_session(), SourceFile("a.tess", TEXT))
    assert [(s.name, s.kind) for s in found] == [
        ("half", "constant"),
        ("WIDTH", "constant"),
        ("Layer", "struct"),
        ("scaled", "function"),
        ("attend", "function"),
        ('test "scaled"', "test"),
    ]
    assert [(s.name, s.kind) for s in found[2].children] == [("w", "field"), ("apply", "method")]
    assert all(s.span.start <= s.name_span.start <= s.name_span.end <= s.span.end for s in found)


def test_formatting_is_the_formatter() -> None:
    source = SourceFile("a.tess", TEXT.replace("x * by", "x*by"))
    assert apply_edits(source.text, list(formatting(source))) == TEXT.replace('"D"', "D")


@pytest.mark.one_in(12)
def test_a_hundred_diagnostics_are_enough() -> None:
    text = "".join(f"def f{i}():\n    return missing{i}\n" for i in range(LIMIT + 20))
    analysis = new_session().analyse(SourceFile("a.tess", text))
    assert len(analysis.diagnostics) == LIMIT + 20 and len(shown(analysis.diagnostics)) == LIMIT


def test_every_announced_request_has_an_answer() -> None:
    assert OPTIONS.keys() == ANSWERS.keys()


# --------------------------------------------------------------------------------------------------- whatever text


def ask_everything(session: Session, text: str, at: int) -> None:
    source = SourceFile("fuzzed.tess", text)
    hover(session, source, at)
    definition(session, source, at)
    completion(session, source, at)
    actions(session, source, 0, at)
    symbols(session, source)
    hints(session, source, 0, at)
    signature(session, source, at)
    references(session, source, at)
    tokens(session, source, 0, len(text))
    lenses(session, source)


FILES = sorted([*(ROOT / "examples").glob("*.tess"), *(ROOT / "tests/cases/seeds").glob("*.tess")])


@pytest.mark.one_in(48)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prefixes(path: Path) -> None:
    """A file as it is typed, from its first character; of a long one some."""
    text = path.read_text(encoding="utf-8")
    session = new_session()
    for end in range(0, len(text) + 1, max(1, len(text) // (25 if sampling.thorough else 6))):
        ask_everything(session, text[:end], end)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(4))
def test_random_edits(seed: int) -> None:
    dice = random.Random(seed)
    session = new_session()
    text = TEXT
    for _ in range(60):
        at = dice.randrange(len(text) + 1)
        cut = dice.choice((0, 0, 1, 20))
        text = text[:at] + dice.choice(("(", "[", '"""', "\n", ".", "@", "x", "def ", "")) + text[at + cut :]
        ask_everything(session, text, min(at, len(text)))


@pytest.mark.one_in(48)
def test_opening_a_file_runs_none_of_it() -> None:
    """Neither the code generator nor the runtime's kernels are even loaded."""
    program = (
        "import sys; from tesserac.driver.session import Session; from tesserac.base.source import SourceFile\n"
        "from tessera_lsp.features.hover import hover\n"
        f"source = SourceFile('a.tess', {TEXT!r}); session = Session()\n"
        "session.analyse(source); hover(session, source, 9)\n"
        "assert not {'llvmlite', 'tesserac.target.cpu.build', 'tessera.cpu'} & sys.modules.keys()"
    )
    path = ":".join(str(ROOT / part) for part in (".", "runtime", "lsp"))
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": path})
