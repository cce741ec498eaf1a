"""Programs of several files: names, types and constants across them, what cannot be imported, and stale results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

LAYERS = """
from parts.config import half, WIDTH
import parts.config as cfg

struct Linear[D, H]:
    w: Tensor[D, H, f32] = ones(D, H)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        return cfg.scale(x @ self.w)

def rounded(x: Tensor[WIDTH, f32]) -> Tensor[WIDTH, half]:
    return cast(x, half)

def _private(x: Tensor[N, f32]):
    return x
"""
CONFIG = """
WIDTH = 4
half = bf16 @accum(f32)

def scale(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]:
    return x * 2.0
"""
MAIN = """
from layers import Linear, rounded as narrowed
import layers as L
from .parts.config import WIDTH

def forward(m: L.Linear[D, H], x: Tensor[B, D, f32]):
    return m(x), L.rounded(ones(WIDTH)), narrowed(ones(4))

def build():
    return Linear[2, 3]()
"""


def write(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    return str(folder / "main.tess")


@pytest.fixture
def program(tmp_path: Path) -> str:
    return write(tmp_path, {"main.tess": MAIN, "layers.tess": LAYERS, "parts/config.tess": CONFIG})


def said(path: str) -> list[tuple[str, str]]:
    source = Session().read(path)
    assert isinstance(source, SourceFile)
    return [(d.code, d.title) for d in Session().check(source).diagnostics]


@pytest.mark.one_in(2)
def test_names_types_and_constants(program: str) -> None:
    m = tessera.load(program)
    layer, x = m.build(), np.full((2, 2), 3, "f4")
    product, rounded, again = m.forward(layer, x)
    assert np.array_equal(product, x @ layer.w * 2) and rounded.dtype == again.dtype and rounded.shape == (4,)
    assert isinstance(layer, m.Linear)


@pytest.mark.one_in(6)
def test_a_change_of_an_imported_file_is_seen(program: str, tmp_path: Path) -> None:
    x, layer = np.ones((1, 2), "f4"), {"w": np.ones((2, 3), "f4")}
    assert tessera.load(program).forward(layer, x)[0][0, 0] == 4
    (tmp_path / "parts/config.tess").write_text(CONFIG.replace("2.0", "5.0"))
    assert tessera.load(program).forward(layer, x)[0][0, 0] == 10


def test_a_session_sees_it_too(program: str, tmp_path: Path) -> None:
    session = Session()
    source = session.read(program)
    assert isinstance(source, SourceFile)
    assert session.check(source).errors == ()
    assert session.check(source) is session.check(source)
    (tmp_path / "layers.tess").write_text(LAYERS.replace("rounded", "renamed"))
    assert [d.code for d in session.check(source).errors] == ["E0209", "E0208"]


@pytest.mark.parametrize(
    ("text", "code", "title"),
    [
        ("from layers import Linaer\n", "E0209", "invalid import: `layers` has no `Linaer`"),
        ("from layers import _private\n", "E0946", "`_private` is private to `layers`"),
        ("from nowhere import f\n", "E0209", "invalid import: there is no module `nowhere`"),
        ("import parts.config\n", "E0209", "invalid import: a module in a folder needs a name here"),
        ("from broken import f\n", "E0209", "invalid import: `broken` has an error"),
        ("import circle\n", "E0947", "these files import each other: main -> circle -> main"),
        ("import main\n", "E0947", "these files import each other: main -> main"),
    ],
)
def test_what_cannot_be_imported(program: str, tmp_path: Path, text: str, code: str, title: str) -> None:
    broken = "def f(x: Tensor[N, f32], y: Tensor[M, f32]):\n    return x + y\n"
    circle = "from main import build\n"
    write(tmp_path, {"main.tess": text, "broken.tess": broken, "circle.tess": circle})
    assert said(program) == [(code, title)]


@pytest.mark.one_in(2)
def test_a_bundle_of_several_files(program: str, tmp_path: Path) -> None:
    from tesserac import cli

    out = tmp_path / "m.tessb"
    assert cli.main(cli.compiler, "tesserac", ["build", program, "-o", str(out)]) == 0
    layer = tessera.load(out).build()
    assert np.array_equal(layer.w, np.ones((2, 3), "f4"))


WEIGHTS = """
struct Norm[D]:
    scale: Tensor[D, f32] = full((D,), 2.0)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
        return x * self.scale

param W: Tensor[D, 2*D, f32]
param b: Tensor[2*D, f32] = ones(2*D)
param norm: Norm[D] = Norm[D]()

def project(x: Tensor[B, D, f32]) -> Tensor[B, 2*D, f32]:
    return norm(x) @ W + b

def width():
    return D
"""
USER = """
import weights as L
from weights import Norm, b

param W: Tensor[D, f32]

def forward(x: Tensor[B, K, f32]):
    return L.project(x) * 2.0

def own(x: Tensor[B, D, f32]):
    return x * W, L.width()

def bias():
    return b + 1.0

"""


@pytest.fixture
def weighted(tmp_path: Path) -> str:
    return write(tmp_path, {"main.tess": USER, "weights.tess": WEIGHTS})


@pytest.mark.one_in(4)
def test_params_of_an_imported_file(weighted: str, tmp_path: Path) -> None:
    m, w, x = tessera.load(weighted), np.full((2, 4), 0.5, "f4"), np.ones((5, 2), "f4")
    with pytest.raises(tessera.TesseraError, match=r"`weights\.W` has no value"):
        m.forward(x)
    m.params = {"weights.W": w}
    assert np.array_equal(m.forward(x), (x * 2 @ w + 1) * 2)
    m.params = {"weights": {"W": w, "b": np.zeros(4, "f4")}, "W": np.full(2, 3, "f4")}
    assert np.array_equal(m.forward(x), x * 2 @ w * 2)
    assert np.array_equal(m.bias(), np.ones(4, "f4"))
    product, width = m.own(x)
    assert np.array_equal(product, x * 3) and width == 2
    with pytest.raises(tessera.TesseraError, match="E0925"):
        m.forward(np.ones((5, 3), "f4"))
    with pytest.raises(tessera.TesseraError, match=r"has no param `weights\.Q`"):
        m.params = {"weights.Q": w}


def test_structs_of_an_imported_file_from_python(weighted: str) -> None:
    m, x = tessera.load(weighted), np.ones((2, 3), "f4")
    norm = m.Norm(3)
    assert np.array_equal(norm(x), x * 2) and np.array_equal(norm.scale, np.full(3, 2, "f4"))


def test_private_params_stay_private(tmp_path: Path) -> None:
    path = write(tmp_path, {"main.tess": "from w import _p\n", "w.tess": "param _p: Tensor[f32]\n"})
    assert [code for code, _ in said(path)] == ["E0946"]
