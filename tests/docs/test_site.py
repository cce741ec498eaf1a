"""The site is whole without building it: every link leads to a page and a heading, and every page can be found. The
lessons are run from top to bottom, and say what the programs say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs import site
from docs.nav import LESSONS, paths
from tests.conftest import Golden
from tests.support.caches import new_cache
from tests.support.lessons import Lesson
from tests.support.paths import ROOT

LISTED = ("errors/", "results/", "examples/")
"""Folders whose pages are listed by a page of the menu, not by the menu."""


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


def test_every_page_is_in_the_menu_or_listed_by_one_that_is() -> None:
    shown = paths(site.menu())
    assert len(shown) == len(set(shown))
    assert [path for path in shown if path not in site.site().pages] == []
    listed = {link for place in shown for link in site.links(place)}
    lost = [place for place in site.site().pages if place not in shown and place not in listed]
    assert lost == []
    outside = [place for place in site.site().pages if place not in shown and not place.startswith(LISTED)]
    assert outside == ["license.md"]


def test_the_pages_and_the_menu_are_written(tmp_path: Path) -> None:
    site.write(tmp_path)
    settings = json.loads((tmp_path / "mkdocs.yml").read_text(encoding="utf-8"))
    assert (tmp_path / settings["INHERIT"]).resolve() == ROOT / "mkdocs.yml"
    for path in paths(settings["nav"]):
        assert (tmp_path / "pages" / path).exists()
    front = (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")
    assert "](pictures/error.svg)" in front and "](learn/index.md)" in front


def test_every_result_that_was_measured_is_on_the_page_of_performance() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    files = [path.name for path in (ROOT / "benchmarks" / "results").glob("*.md")]
    assert [name for name in files if name not in page] == []


@pytest.mark.parametrize("path", [path for _, path in LESSONS])
def test_lessons_run(path: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^```(tess|python)", text, re.MULTILINE)
    golden.check(page, Lesson(page.stem).run(text))
