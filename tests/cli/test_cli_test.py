"""`tesserac test`: which tests run, what is said of them, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac import cli

MODULE = """
from helper import twice

struct Layer[D]:
    w: Tensor[D, f32] = ones(D)

param bias: Tensor[3, f32] = full((3,), 2.0)

def double(x: Tensor[N, f32]) -> Tensor[N, f32]:
    assert min(x) >= 0.0, f"least is {min(x):.1f}"
    return twice(x)

test "doubles":
    assert all(double(ones(3)) == 2.0)

test "structs and params":
    assert sum(bias) == 6.0 and sum(Layer[4]().w) == 4.0
"""
HELPER = "def twice(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x + x\n"
FAILING = (
    MODULE
    + """
test "a wrong sum":
    print("before")
    y = double(ones(2))
    assert sum(y) == 5.0, "the sum"

test "inside a function":
    assert all(double(-ones(2)) == 0.0)
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.tess").write_text(HELPER)
    (tmp_path / "good.tess").write_text(MODULE)
    (tmp_path / "bad.tess").write_text(FAILING)
    (tmp_path / "broken.tess").write_text("def f(x: Tensor[N, f32]): return y\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = cli.main(cli.compiler, "tesserac", ["test", *words])
    return status, capsys.readouterr().out


@pytest.mark.one_in(2)
def test_all_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, str(folder / "good.tess"))
    assert status == 0 and f"{folder / 'good.tess'} ..\n" in said and " 2 passed in " in said


def test_every_test_has_a_line_when_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = run(capsys, "-v", str(folder / "good.tess"))
    assert [line.partition(" (")[0] for line in said.splitlines() if line.startswith("PASS")] == [
        f"PASS {folder / 'good.tess'}: doubles",
        f"PASS {folder / 'good.tess'}: structs and params",
    ]


@pytest.mark.one_in(2)
def test_a_failure_shows_line_text_values_and_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, str(folder / "bad.tess"))
    assert status == 1 and " 2 failed, 2 passed in " in said
    head, first, second = said.split("____ ")
    assert head.startswith(f"{folder / 'bad.tess'} ..FF\n")
    assert 'assert sum(y) == 5.0, "the sum"' in first and "does not hold: the sum" in first
    assert "`sum(y)` = 4.0" in first and "-- printed --\nbefore\n" in first
    assert "assert min(x) >= 0.0" in second and "does not hold: least is -1.0" in second


@pytest.mark.one_in(2)
def test_the_first_failure_may_be_the_last(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, "-x", str(folder / "bad.tess"), str(folder / "good.tess"))
    assert status == 1 and " 1 failed, 2 passed in " in said and "good.tess" not in said


def test_titles_are_selected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, "-k", "DOUB", str(folder / "bad.tess"))
    assert status == 0 and " 1 passed, 3 not selected in " in said


def test_nothing_to_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, str(folder / "helper.tess"))[0] == 5
    assert run(capsys, "-k", "nothing", str(folder / "good.tess"))[0] == 5


@pytest.mark.one_in(4)
def test_a_folder_and_what_cannot_be_loaded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, str(folder))
    assert status == 1 and " 2 failed, 4 passed, 1 not loaded in " in said and "error[E0201]" in said
    (folder / "empty").mkdir()
    assert run(capsys, str(folder / "empty"))[0] == 2


def test_titles_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "twice.tess").write_text('test "a":\n    assert 1 == 1\n\ntest "a":\n    assert 1 == 1\n')
    status, said = run(capsys, str(tmp_path / "twice.tess"))
    assert status == 1 and "error[E0202]" in said


def test_warnings_are_shown_before_the_tests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = folder / "warned.tess"
    function = "def f(x: Tensor[N, f32]):\n    x + 1.0\n    return x\n"
    program.write_text(f'{function}\ntest "one":\n    assert sum(f(ones(2))) == 2.0\n')
    status, said = run(capsys, str(program))
    assert status == 0
    assert "warning[W" in said and said.index("warning[W") < said.index(f"{program} .\n")
