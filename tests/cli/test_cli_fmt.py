"""`tesserac fmt`: files in the one style, what would change, and files that are left alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tesserac import cli

UGLY = "def f( x :Tensor[ 'N' , f32 ] ):\n  return x+1.0   # one more\n"
NEAT = "def f(x: Tensor[N, f32]):\n    return x + 1.0  # one more\n"
BROKEN = "def f(x:\n    return x\n"

Fmt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fmt(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fmt:
    monkeypatch.chdir(tmp_path)
    for name, text in (("ugly", UGLY), ("neat", NEAT), ("broken", BROKEN)):
        (tmp_path / f"{name}.tess").write_text(text)

    def call(*words: str) -> tuple[int, str, str]:
        status = cli.main(cli.compiler, "tesserac", ["fmt", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_files_are_written_where_they_change(fmt: Fmt) -> None:
    Path("ugly.tess").chmod(0o640)
    before = Path("neat.tess").stat().st_mtime_ns
    assert fmt("ugly.tess", "neat.tess") == (0, "", "1 file formatted, 1 file left alone\n")
    assert Path("ugly.tess").read_text() == NEAT and Path("neat.tess").read_text() == NEAT
    assert Path("ugly.tess").stat().st_mode & 0o777 == 0o640
    assert Path("neat.tess").stat().st_mtime_ns == before
    assert fmt("ugly.tess") == (0, "", "1 file left alone\n")


def test_check_names_what_would_change(fmt: Fmt) -> None:
    assert fmt("--check", "ugly.tess", "neat.tess") == (
        1, "ugly.tess\n", "1 file would be formatted, 1 file left alone\n"
    )  # fmt: skip
    assert Path("ugly.tess").read_text() == UGLY
    assert fmt("--check", "neat.tess")[0] == 0


def test_diff_shows_what_would_change(fmt: Fmt) -> None:
    status, out, _ = fmt("--diff", "ugly.tess", "neat.tess")
    assert status == 0 and Path("ugly.tess").read_text() == UGLY
    assert out.startswith("--- ugly.tess\n+++ ugly.tess") and "+    return x + 1.0  # one more\n" in out
    assert out.count("---") == 1
    assert fmt("--diff", "--check", "ugly.tess")[0] == 1


def test_a_file_with_mistakes_stays_as_it_is(fmt: Fmt) -> None:
    status, out, err = fmt("broken.tess", "ugly.tess", "absent.tess")
    assert (status, out) == (1, "")
    assert "broken.tess:1:" in err and "error[E0901]" in err
    assert err.endswith("1 file formatted, 2 files with mistakes\n")
    assert Path("broken.tess").read_text() == BROKEN and Path("ugly.tess").read_text() == NEAT


def test_standard_input(fmt: Fmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(UGLY.encode())))
    assert fmt("-") == (0, NEAT, "")


def test_standard_input_that_is_no_text(fmt: Fmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'x = "\xff"\n'), errors="surrogateescape"))
    status, output, remarks = fmt("-")
    assert (status, output) == (1, "") and "E0902" in remarks and "byte 0xff at position 5" in remarks
