"""Types shown in the text, calls being written, and every place that means the same: as plain functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_lsp.features.definition import definition
from tessera_lsp.features.hints import LONGEST, hints
from tessera_lsp.features.hover import hover
from tessera_lsp.features.references import NotRenamed, name_at, references, renamed
from tessera_lsp.features.signature import CallSignature, signature
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Edit
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session
from tests.lsp.test_lsp_features import new_session

LAYERS = '''WIDTH = 8

struct Dense[D, H]:
    """Weights."""
    w: Tensor[D, H, f32]
    b: Tensor[H, f32]

    def apply(self, x: Tensor[B, D, f32], scale: float = 1.0):
        return x @ self.w * scale + self.b

def twice(x: Tensor[N, f32], by: float = 2.0):
    """Two x."""
    y = x * by
    y = y + x
    return y
'''
MODEL = """import layers as L
from layers import Dense, twice as double, WIDTH

def f(x: Tensor[B, WIDTH, f32], d: Dense[WIDTH, 3]):
    y = d.apply(x, scale=2.0)
    z = L.twice(y[0], by=3.0)
    return double(z) + sum(d.w)

def make() -> Dense[4, 4]:
    return Dense(w=ones(4, 4), b=zeros(4))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.tess").write_text(LAYERS)
    (tmp_path / "model.tess").write_text(MODEL)
    return tmp_path


def source_of(path: Path) -> SourceFile:
    return SourceFile(str(path), path.read_text())


def hinted(text: str) -> str:
    """The text as an editor shows it."""
    source = SourceFile("a.tess", text)
    session = new_session()
    assert not session.analyse(source).diagnostics
    edits = [Edit(source.span(h.offset, h.offset), h.text) for h in hints(session, source, 0, len(text))]
    return apply_edits(text, edits)


# --------------------------------------------------------------------------------------------------------- hints


def test_types_that_nobody_wrote_are_shown_where_they_could_be_written() -> None:
    text = """struct Pair[N]:
    a: Tensor[N, f32]

def halves(x: Tensor[B, 4, f32], w: Tensor[4, D, f32]):
    n = 3
    h = x @ w
    a, b = h[0], sum(h)
    p = Pair(a=a)
    q = p
    k: Tensor[D, f32] = a
    return (k + q.a) * b + n
"""
    shown = hinted(text)
    assert "(x: Tensor[B, 4, f32], w: Tensor[4, D, f32]) -> Tensor[D, f32]:" in shown
    assert "h: Tensor[B, D, f32] = " in shown and "a: Tensor[D, f32], b: Tensor[f32] = " in shown
    assert "    n = 3" in shown and "    p = Pair" in shown, "plain to see"
    assert "q: Pair[D] = p" in shown and shown.count("k: Tensor") == 1
    whole = text.replace("h = ", "h: Tensor[B, D, f32] = ").replace("f32]):", "f32]) -> Tensor[D, f32]:")
    assert not new_session().analyse(SourceFile("a.tess", whole)).diagnostics, "what is shown can be written"


def test_long_types_are_cut_and_only_what_is_asked_for_is_shown() -> None:
    text = "def f(x: Tensor[ManyRows, ManyColumns, f32]):\n    y = reshape(x, ManyRows * ManyColumns)\n"
    text += "    z = concat([y, y, reshape(stack([x, x, x, x, x]), 5 * ManyRows * ManyColumns)])\n    return z\n"
    source, session = SourceFile("a.tess", text), new_session()
    session.analyse(source)
    assert all(len(hint.text) <= LONGEST + 4 for hint in hints(session, source, 0, len(text)))
    assert [h.offset for h in hints(session, source, text.index("y ="), text.index("z ="))] == [text.index("y =") + 1]


# ----------------------------------------------------------------------------------------------------- signatures


def called(line: str) -> CallSignature | None:
    text = f"{LAYERS}\ndef f(q: Tensor[B, S, D, f32], l: Dense[D, H]):\n    {line}"
    return signature(new_session(), SourceFile("a.tess", text), len(text))


@pytest.mark.parametrize(
    ("line", "label", "active"),
    [
        ("y = twice(", "twice(x: Tensor[N, f32], by: float = 2.0)", 0),
        ("y = twice(q[0, :, 1], ", "twice(x: Tensor[N, f32], by: float = 2.0)", 1),
        ("twice(by=", "twice(x: Tensor[N, f32], by: float = 2.0)", 1),
        ("softmax(twice(q[", "twice(x: Tensor[N, f32], by: float = 2.0)", 0),
        ("softmax(twice(q, 1.0), ", "softmax(", 1),
        ("q.twice(", "twice(by: float = 2.0)", 0),
        ("l.apply(q, ", "apply(x: Tensor[B, D, f32], scale: float = 1.0)", 1),
        ("Dense(b=", "Dense(w: Tensor[D, H, f32], b: Tensor[H, f32])", 1),
        ("sum(q, axis=", "sum(x, axis=None, keep=False)", 1),
        ("op.diag(", "op.diag(entries)", None),
        ("range(", "range([start,] stop[, step])", None),
        ('print("twice(", ', "print(values...)", None),
    ],
)
def test_the_call_that_is_being_written(line: str, label: str, active: int | None) -> None:
    found = called(line)
    assert found is not None and found.label.startswith(label) and found.active == active


@pytest.mark.parametrize("line", ["", "x = (", "y = twice(q)", "return [q, ("])
def test_no_call_is_being_written(line: str) -> None:
    assert called(line) is None


# ------------------------------------------------------------------------------------------------- names of files


@pytest.mark.parametrize(
    ("word", "file", "name"),
    [
        ("Dense[W", "layers", "Dense"),
        ("L.twice(", "layers", "twice"),
        ("double(z", "layers", "twice"),
        ("apply(x", "layers", "apply"),
        ("scale=2", "layers", "scale"),
        ("w)\n", "layers", "w"),
        ("b=zeros", "layers", "b"),
        ("WIDTH, 3", "layers", "WIDTH"),
    ],
)
def test_definitions_in_other_files(folder: Path, word: str, file: str, name: str) -> None:
    source = source_of(folder / "model.tess")
    at = MODEL.index(word) + (2 if word.startswith("L.") else 0)
    found = definition(new_session(), source, at)
    assert found is not None and Path(found.file).stem == file
    assert LAYERS[found.start : found.end] == name


def test_a_field_is_shown_as_it_is_here_and_as_it_is_declared(folder: Path) -> None:
    found = hover(new_session(), source_of(folder / "model.tess"), MODEL.index("w)\n"))
    assert found is not None and "w: Tensor[8, 3, f32]" in found.markdown
    assert "A field of `Dense`: `w: Tensor[D, H, f32]`" in found.markdown


def test_constructors_of_operators_are_not_the_functions_of_their_names() -> None:
    text = "def f(x: Tensor[N, f32]):\n    return op.diag(x) @ x\n"
    found = hover(new_session(), SourceFile("a.tess", text), text.index("diag"))
    assert found is not None and "Each entry of a vector times its own number." in found.markdown


def places(session: Session, path: Path, word: str) -> list[tuple[str, int]]:
    source = source_of(path)
    found = references(session, source, source.text.index(word))
    return sorted((Path(reference.span.file).stem, reference.span.start) for reference in found)


def after_renaming(folder: Path, file: str, word: str, name: str) -> dict[str, str]:
    source = source_of(folder / f"{file}.tess")
    found = renamed(new_session(), source, source.text.index(word), name)
    texts = {Path(path).stem: Path(path).read_text() for path in found}
    return {
        Path(path).stem: apply_edits(texts[Path(path).stem], [Edit(span, name) for span in spans])
        for path, spans in found.items()
    }


def test_a_local_name_is_known_wherever_it_is_given_a_value(folder: Path) -> None:
    new = after_renaming(folder, "layers", "y = x * by", "total")
    written = "y = x * by\n    y = y + x\n    return y"
    assert new["layers"] == LAYERS.replace(written, written.replace("y ", "total ").replace("n y", "n total"))
    assert "model" not in new, "another function has a y too"


def test_a_function_is_renamed_in_the_files_that_import_it(folder: Path) -> None:
    new = after_renaming(folder, "layers", "twice", "scaled")
    assert new == {"layers": LAYERS.replace("twice", "scaled"), "model": MODEL.replace("twice", "scaled")}
    from_there = after_renaming(folder, "model", "twice as", "scaled")
    assert from_there == new, "asked for where it is imported"
    assert after_renaming(folder, "model", "double", "more") == {"model": MODEL.replace("double", "more")}


def test_fields_and_parameters_are_renamed_where_callers_say_them(folder: Path) -> None:
    new = after_renaming(folder, "layers", "w: T", "weight")
    assert "self.weight *" in new["layers"] and "d.weight)" in new["model"] and "Dense(weight=" in new["model"]
    new = after_renaming(folder, "layers", "by: f", "factor")
    assert "factor: float = 2.0" in new["layers"] and "x * factor" in new["layers"] and "factor=3.0" in new["model"]


def test_sizes_are_names_of_their_function_or_struct(folder: Path) -> None:
    new = after_renaming(folder, "layers", "D, H]", "In")
    assert new == {"layers": LAYERS.replace("[D, H", "[In, H").replace("[B, D,", "[B, In,")}
    assert after_renaming(folder, "layers", "N, f32", "Rows") == {"layers": LAYERS.replace("[N,", "[Rows,")}


@pytest.mark.parametrize(
    ("word", "name", "reason"),
    [
        ("twice", "Dense", "`Dense` is defined twice"),
        ("twice", "def", "`def` is no name"),
        ("twice", "a b", "`a b` is no name"),
        ("D, H]", "rows", "`rows` is not a size"),
        ("f32", "f64", "only names that are defined in this project"),
    ],
)
def test_what_would_break_is_not_renamed(folder: Path, word: str, name: str, reason: str) -> None:
    with pytest.raises(NotRenamed, match=reason):
        after_renaming(folder, "layers", word, name)


def test_names_of_the_library_stay(folder: Path) -> None:
    text = "def f(x: Tensor[N, f32]):\n    return softmax(x) + softmax(2.0 * x)\n"
    source, session = SourceFile(str(folder / "a.tess"), text), new_session()
    assert len(references(session, source, text.index("softmax"))) == 2
    with pytest.raises(NotRenamed, match="belongs to the library"):
        name_at(session, source, text.index("softmax"))


def test_nothing_is_renamed_while_a_file_has_mistakes(folder: Path) -> None:
    (folder / "layers.tess").write_text(LAYERS.replace("x @ self.w", "x @ self.b2"))
    with pytest.raises(NotRenamed, match="has mistakes"):
        after_renaming(folder, "layers", "twice", "scaled")
