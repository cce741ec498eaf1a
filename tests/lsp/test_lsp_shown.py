"""Lines above functions and tests, and the colours of names, as plain functions."""

from __future__ import annotations

from itertools import pairwise

from tessera_lsp.features.lenses import lenses, rewrites
from tessera_lsp.features.tokens import tokens
from tesserac.base.source import SourceFile
from tests.lsp.test_lsp_features import FILES, new_session

LENSES = """def main(n: int = 3):
    print(n)

def thirds(x: Tensor[N, f32], y: Tensor[M, f32]):
    return x * float(N // M) + normal(N)

def applied(a: Tensor[M, N, f32], b: Tensor[N, K, f32], v: Tensor[K, f32]) -> Tensor[M, f32]:
    return a @ b @ v

test "one":
    assert True
"""


def test_lenses_run_and_tell() -> None:
    found = lenses(new_session(), SourceFile("a.tess", LENSES))
    assert [(lens.does, lens.name, lens.title) for lens in found] == [
        ("run main", "main", "run main"),
        ("tell", "main", "uses io"),
        ("tell", "thirds", "gives Tensor[N, f32]; uses random; checks on entry M >= 1"),
        ("tell rewrites", "applied", ""),
        ("run test", "one", "run test"),
    ]


def test_what_laws_save_is_told_where_it_is_looked_at() -> None:
    source = SourceFile("a.tess", LENSES)
    assert rewrites(new_session(), source, "applied").startswith("associativity: ((a @ b) @ v) = (a @ (b @ v)); cost: ")
    wrong = SourceFile("a.tess", LENSES.replace("@ v", "@ w"))
    assert "no mistakes" in rewrites(new_session(), wrong, "applied")


def coloured(text: str) -> dict[str, set[str]]:
    """What each name is, with its marks."""
    session, source = new_session(), SourceFile("a.tess", text)
    session.analyse(source)
    found: dict[str, set[str]] = {}
    for token in tokens(session, source, 0, len(text)):
        word = text[token.span.start : token.span.end]
        found.setdefault(word, set()).add(" ".join([token.kind, *token.marks]))
    return found


def test_names_have_the_colour_of_what_they_are() -> None:
    text = """param W: Tensor[D, E, f32]
LIMIT = 3

struct Layer[D]:
    w: Tensor[D, f32]

@kernel
def doubled(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return tile.load(x) * 2.0

def f(layer: Layer[D], y: Tensor[M, D, f32]):
    A = op.diag(layer.w)
    total = doubled(y).sum(axis=0) * LIMIT
    return A @ total
"""
    found = coloured(text)
    assert found["W"] == {"weight declaration"} and found["LIMIT"] == {"variable readonly"}
    assert found["D"] >= {"typeParameter"} and found["N"] == {"typeParameter"}
    assert found["Layer"] == {"struct declaration", "struct"} and found["w"] == {"property declaration", "property"}
    assert found["doubled"] == {"function declaration kernel", "function kernel"}
    assert found["layer"] == {"parameter declaration", "parameter"} and found["axis"] == {"parameter"}
    assert found["total"] == {"variable"} and found["A"] == {"variable", "variable linearOperator"}
    assert found["sum"] == {"method defaultLibrary"} and found["tile"] == {"namespace"}
    assert found["f32"] == found["Tensor"] == {"type defaultLibrary"}


def test_tokens_stand_in_order_and_do_not_meet() -> None:
    for path in FILES[:12]:
        text = path.read_text(encoding="utf-8")
        found = tokens(new_session(), SourceFile("a.tess", text), 0, len(text))
        places = [(token.span.start, token.span.end) for token in found]
        assert places and all(one[1] <= other[0] for one, other in pairwise(places))
        assert all(text[start:end].strip('"').isidentifier() for start, end in places)
