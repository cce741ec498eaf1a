"""The site is whole without building it: every link leads to a page and a heading, and every page can be found. The
lessons are run from top to bottom, and say what the programs say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from docs import site
from docs.nav import LESSONS, paths
from tests.conftest import Golden
from tests.support.caches import new_cache
from tests.support.lessons import Lesson, shown
from tests.support.paths import ROOT


@pytest.fixture(autouse=True)
def nothing_is_traced_later() -> Iterator[None]:
    """What a page switches on ends with it."""
    yield
    tessera.trace()


LISTED = ("errors/", "results/", "examples/")
"""Folders whose pages are listed by a page of the menu, not by the menu."""


@pytest.mark.one_in(2)
def test_every_link_leads_to_a_page_and_a_heading() -> None:
    pages = site.linked_pages()
    assert len(pages) > 100
    everything = {*pages, *site.site().files}
    for place in pages:
        assert [link for link in site.links(place) if link not in everything] == [], place


def test_a_broken_link_is_told() -> None:
    with pytest.raises(site.BrokenLink, match=r"no docs/absent\.md"):
        site._relinked("see [this](absent.md)", "docs/dims.md", "dims.md")
    with pytest.raises(site.BrokenLink, match="no such heading"):
        site._relinked("see [this](dims.md#absent)", "docs/where.md", "where.md")
    assert site._relinked("`[a](absent.md)`", "docs/dims.md", "dims.md") == "`[a](absent.md)`", "code is no link"


@pytest.mark.one_in(4)
def test_every_page_is_in_the_menu_or_listed_by_one_that_is() -> None:
    shown = paths(site.menu())
    assert len(shown) == len(set(shown))
    assert [path for path in shown if path not in site.site().pages] == []
    listed = {link for place in shown for link in site.links(place)}
    lost = [place for place in site.site().pages if place not in shown and place not in listed]
    assert lost == []
    outside = [place for place in site.site().pages if place not in shown and not place.startswith(LISTED)]
    assert outside == ["license.md"]


@pytest.mark.one_in(3)
def test_the_pages_of_the_menu_are_written(tmp_path: Path) -> None:
    site.write(tmp_path)
    for path in paths(site.menu()):
        assert (tmp_path / path).exists()
    front = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "](pictures/error.svg)" in front and "](learn/index.md)" in front


def test_every_result_that_was_measured_is_on_the_page_of_performance() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    files = [path.name for path in (ROOT / "benchmarks" / "results").glob("*.md")]
    assert [name for name in files if name not in page] == []


@pytest.mark.one_in(48)
@pytest.mark.parametrize("path", [path for _, path in LESSONS])
def test_lessons_run(path: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^```(tess|python)", text, re.MULTILINE)
    golden.check(page, Lesson(page.stem).run(text))


# --------------------------------------------------------------------------------------------------------- guides

COMPLETE = ("testing.md", "tracing.md", "training-command.md")
"""Guides that hold all they need."""
MLP = "def f(x: Tensor[N, f32]): return x * 2.0\n"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", COMPLETE)
def test_guides_run(name: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    page = ROOT / "docs" / name
    golden.check(page, Lesson(page.stem).run(page.read_text(encoding="utf-8")))


@pytest.mark.one_in(12)
def test_python_of_the_pages_about_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the files and arrays that their readers are taken to have."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    language = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```tess\n(.*?)^```$", language, re.MULTILINE | re.DOTALL)
    wanted = [block for block in blocks if "def affine(" in block or "struct Tower[" in block]
    (tmp_path / "model.tess").write_text("\n".join(wanted), encoding="utf-8")
    (tmp_path / "mlp.tess").write_text(MLP, encoding="utf-8")
    (tmp_path / "examples").mkdir()
    step = ROOT / "examples" / "train_step.tess"
    (tmp_path / "examples" / "train_step.tess").write_text(step.read_text(encoding="utf-8"), encoding="utf-8")
    shown("tesserac build mlp.tess")
    shown("tesserac build examples/train_step.tess")
    layer = {"w": np.ones((4, 4), "f4"), "b": np.ones(4, "f4")}
    x, w, b = np.ones((2, 4), "f4"), np.ones((4, 3), "f4"), np.ones(3, "f4")
    given = {"x": x, "w": w, "b": b, "grads": {"layers": [layer] * 3, "scale": 0.5}}
    for name in ("embedding.md", "language.md"):
        Lesson(name, given).run_python((ROOT / "docs" / name).read_text(encoding="utf-8"))


def test_every_form_of_import_that_the_page_of_modules_shows_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    layers = "struct Linear[D]:\n    w: Tensor[D, f32] = zeros(D)\n\ndef gelu_fast(x: Tensor[N, f32]): return gelu(x)\n"
    files = {"layers": layers, "config": "WIDTH = 8\n", "parts/config": "WIDTH = 8\n", "parts/block": "DEPTH = 2\n"}
    (tmp_path / "parts").mkdir()
    for name, text in files.items():
        (tmp_path / f"{name}.tess").write_text(text, encoding="utf-8")
    page = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for number, line in enumerate(block.splitlines()):
        (tmp_path / f"use{number}.tess").write_text(line.partition("#")[0].strip() + "\n", encoding="utf-8")
        said = shown(f"tesserac check --error-format=short use{number}.tess")
        assert "error[" not in said, said
