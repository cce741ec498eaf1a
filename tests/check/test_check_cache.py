"""What earlier runs have found is said again where it holds: of whole files, of items, of interfaces."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tesserac import cli
from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.commands import checking
from tesserac.diag.diagnostic import Diagnostic
from tesserac.driver.check_cache import CheckCache
from tests.check.test_incremental import FILES, TEXTS, edited, library_session, new_session
from tests.support.sampling import spread

BASE = """
SCALE = 2.0

def twice(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * SCALE

def inferred(x: Tensor[N, f32]):
    return x[None, :]

def generic(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]:
    return x + x

test "twice":
    assert True
"""
USER = """from base import twice, inferred, generic

def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses none:
    return generic(twice(x))

def g(x: Tensor[N, f32]) -> Tensor[1, N, f32]:
    return inferred(x)
"""


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test, where the library is at hand."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(folder))
    monkeypatch.setattr("tesserac.driver.check_cache.load_library", lambda: library_session().library)
    return folder


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are checked from now on, one entry for every time."""
    seen: list[str] = []

    def watch(place: str) -> None:
        from tesserac.check.infer import check_module

        def watched(*arguments: object) -> object:
            seen.append(Path(arguments[1].path).stem)  # type: ignore[attr-defined]
            return check_module(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(f"{place}.check_module", watched)

    watch("tesserac.modules.imports")
    watch("tesserac.incremental.analyser")
    return seen


def codes(*paths: Path) -> list[str]:
    """What a new run says."""
    run = CheckCache(Records())
    return [d.code for path in paths for d in run.of(str(path)).diagnostics]


def shown(source: SourceFile) -> tuple[Diagnostic, ...]:
    """What a new session shows, which has kept nothing."""
    session = new_session()
    return session.to_show(session.check(source))


def write(folder: Path, base: str = BASE, user: str = USER) -> tuple[Path, Path]:
    places = folder / "base.tess", folder / "user.tess"
    for place, text in zip(places, (base, user), strict=True):
        place.write_text(text, encoding="utf-8")
    return places


@pytest.mark.one_in(48)
@pytest.mark.parametrize("path", spread(FILES, 24), ids=lambda path: path.stem)
def test_a_file_whole_and_by_items(path: Path) -> None:
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))
    expected = shown(source)
    assert CheckCache(Records()).of(str(path)).diagnostics == expected
    again = CheckCache(Records())
    by_items = again._edited(source)
    assert by_items is None or by_items.diagnostics == expected
    assert again.of(str(path)).diagnostics == expected


@pytest.mark.one_in(48)
@pytest.mark.parametrize("seed", range(4))
def test_edits_between_runs(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    path = tmp_path / "edited.tess"
    text = dice.choice(TEXTS)
    for _ in range(8):
        path.write_text(text, encoding="utf-8", newline="")
        expected = shown(SourceFile(str(path), text))
        assert sorted(map(repr, CheckCache(Records()).of(str(path)).diagnostics)) == sorted(map(repr, expected))
        text = edited(text, dice)


def test_a_body_is_no_business_of_importers(tmp_path: Path, checked: list[str]) -> None:
    base, user = write(tmp_path)
    assert codes(base, user) == [] and sorted(checked) == ["base", "user"]
    del checked[:]
    write(tmp_path, "# a line more\n" + BASE.replace("return x * SCALE", "y = x * SCALE\n    return y + x"))
    assert codes(user, base) == [] and "user" not in checked and "base" in checked


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("x: Tensor[N, f32]) -> Tensor[N, f32]:", "x: Tensor[N, f64]) -> Tensor[N, f64]:", True),
        ("return x[None, :]", "return x[:, None]", True),
        ("return x + x", "return x + x + x", False),
        ("return x * SCALE", "print(1)\n    return x * SCALE", True),
        ("def twice", "def _twice", True),
    ],
)
def test_what_importers_depend_on(tmp_path: Path, checked: list[str], old: str, new: str, expected: bool) -> None:
    base, user = write(tmp_path)
    assert codes(base, user) == []
    del checked[:]
    write(tmp_path, BASE.replace(old, new))
    assert bool(codes(user)) is expected
    assert "user" in checked


def test_an_importer_that_changes_leaves_what_it_imports_alone(tmp_path: Path, checked: list[str]) -> None:
    base, user = write(tmp_path)
    assert codes(base, user) == []
    del checked[:]
    write(tmp_path, user=USER.replace("twice(x))", "twice(twice(x)))"))
    assert codes(user) == [] and set(checked) == {"user"}
    write(tmp_path, user=USER.replace("twice(x))", "twice(y))"))
    assert codes(user) == ["E0201"]


def test_one_item_is_checked_after_an_edit_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, user = write(tmp_path)
    assert codes(user) == []
    seen: list[int] = []
    from tesserac.check.infer import check_module

    def watched(*arguments: object, **named: object) -> object:
        seen.append(len(arguments[0].items))  # type: ignore[attr-defined]
        return check_module(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("tesserac.incremental.analyser.check_module", watched)
    write(tmp_path, user=USER.replace("return inferred(x)", "y = inferred(x)\n    return y"))
    assert codes(user) == [] and seen == [2], "the function and the import that it mentions"


def test_a_diagnostic_that_points_into_another_file_moves_with_it(tmp_path: Path) -> None:
    base, user = write(tmp_path, BASE.replace("twice(", "_twice("), USER.replace("twice", "_twice"))
    run = CheckCache(Records()).of(str(user))
    assert [d.code for d in run.diagnostics] == ["E0946"] and not run.alone
    write(tmp_path, "# above\n" + BASE.replace("twice(", "_twice("), USER.replace("twice", "_twice"))
    moved = CheckCache(Records()).of(str(user))
    place = moved.diagnostics[0].secondary[0].span
    assert base.read_text(encoding="utf-8")[place.start : place.end] == "_twice"


def test_damaged_records_only_cost_time(tmp_path: Path, records: Path) -> None:
    base, user = write(tmp_path)
    codes(base, user)
    for file in records.rglob("*.*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert codes(base, user) == []


def test_a_file_that_appears_changes_what_an_import_means(tmp_path: Path) -> None:
    _, user = write(tmp_path)
    (tmp_path / "base.tess").unlink()
    assert codes(user) == ["E0209"]
    write(tmp_path)
    assert codes(user) == []


def test_the_command_looks_at_nothing_that_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base, user = write(tmp_path, user=USER + "\ndef h(x: Tensor[N, f32]):\n    return missing\n")
    run = ["check", str(base), str(user)]
    assert cli.main(cli.compiler, "tesserac", run) == 1
    first = capsys.readouterr()
    monkeypatch.setattr(checking, "_check_cache", None)
    assert cli.main(cli.compiler, "tesserac", run) == 1
    assert capsys.readouterr() == first and "E0201" in first.out
