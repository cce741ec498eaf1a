"""`tessera run FILE --name value ...`: words of the command line as arguments of `main`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tesserac import cli
from tests.support.caches import new_cache

MAIN = """\
def main(x: Tensor[N, f32], n: int, lr: f32 = 0.5, name: str = "plain", *, twice: bool = False) -> Tensor[N, f32]:
    y = x * lr + float(n)
    if name == "3":
        y = y * 10.0
    if twice:
        y = y * 2.0
    return y
"""
TAKES = """\
`main` takes
  --x              Tensor[N, f32]
  --n              int
  --lr             f32  [default: 0.5]
  --name           str  [default: plain]
  --twice          bool  [default: False]
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    (tmp_path / "main.tess").write_text(MAIN)
    np.save(tmp_path / "x.npy", np.array([1, 2], "f4"))

    def call(*words: str, file: str = "main.tess") -> tuple[int, str, str]:
        status = cli.main(cli.runner, "tessera", ["run", file, *words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    return call


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--x", "x.npy", "--n", "3"], "[3.5, 4. ]"),
        (["--n=-3", "--x=x.npy"], "[-2.5, -2. ]"),
        (["--x", "x.npy", "--n", "-3", "--lr", "1e0"], "[-2., -1.]"),
        (["--x", "x.npy", "--n", "1_000", "--threads", "1"], "[1000.5, 1001. ]"),
        (["--x", "x.npy", "--n", "0x10", "--name", "3"], "[165., 170.]"),
        (["--x", "x.npy", "--n", "0", "--twice", "true", "--lr", "2"], "[4., 8.]"),
        (["--", "--x", "x.npy", "--n", "0"], "[0.5, 1. ]"),
    ],
)
def test_words_become_arguments(run: Run, words: Sequence[str], values: str) -> None:
    assert run(*words) == (0, f"Tensor[2, f32]\n{values}\n", "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "`main` also needs `x`, `n`"),
        (["--x", "x.npy"], "`main` also needs `n`"),
        (["--steps", "3"], "`main` has no parameter `steps`"),
        (["--n"], "`--n` needs a value"),
        (["3"], "`3` belongs to no parameter: write `--name 3`"),
        (["--n", "1", "--n", "2"], "`n` is given twice"),
        (["--n", "1.5"], "`1.5` is no int, which `n` takes"),
        (["--twice", "perhaps"], "`perhaps` is no bool, which `twice` takes"),
        (["--x", "absent.npy"], "there is no file `absent.npy` for `x`"),
        (["--x", "some"], "`some` is no Tensor[N, f32], nor a file *.npy, which `x` takes"),
        (["--x", "main.tess"], "`main.tess` is no Tensor[N, f32], nor a file *.npy, which `x` takes"),
    ],
)
def test_misuse_lists_what_main_takes(run: Run, words: Sequence[str], problem: str) -> None:
    assert run(*words) == (2, "", f"error: {problem}\n{TAKES}")


@pytest.mark.parametrize("content", [b"nothing", b"", b"PK\003\004", b"\x93NUMPY"], ids=repr)
def test_a_file_that_is_no_array(run: Run, content: bytes) -> None:
    Path("bad.npy").write_bytes(content)
    status, out, err = run("--x", "bad.npy", "--n", "1")
    assert (status, out) == (2, "") and err.startswith("error: `bad.npy` is no array of NumPy: ")


def test_arrays_that_do_not_fit_are_mistakes_of_the_call(run: Run) -> None:
    np.save("x.npy", np.ones((2, 2), "f4"))
    status, out, err = run("--x", "x.npy", "--n", "1")
    assert (status, out) == (1, "") and err.startswith("error[E0923]") and "it must be Tensor[" in err


def test_main_without_parameters(run: Run) -> None:
    Path("plain.tess").write_text("def main() -> Tensor[2, f32]:\n    return ones(2)\n")
    assert run(file="plain.tess") == (0, "Tensor[2, f32]\n[1., 1.]\n", "")
    status, _, err = run("--n", "3", file="plain.tess")
    assert status == 2 and err == "error: `main` has no parameter `n`\n`main` takes no arguments\n"


def test_a_bundle_takes_arguments_too(run: Run) -> None:
    Path("scale.tess").write_text("def main(x: Tensor[N, f32], by: f32) -> Tensor[N, f32]:\n    return x * by\n")
    assert cli.main(cli.compiler, "tesserac", ["build", "scale.tess"]) == 0
    status, out, _ = run("--x", "x.npy", "--by", "3", file="scale.tessb")
    assert (status, out) == (0, "Tensor[2, f32]\n[3., 6.]\n")
    assert "  --by             tensor\n" in run("--by", "3", file="scale.tessb")[2]


# --- --save ----------------------------------------------------------------------------------------------------------

PIXELS = "def main(rank: int = 2):\n    x = cast(arange(6), u8)\n    return reshape(x, (2, 3)) if rank == 2 else x\n"


def saved(tmp_path: Path, name: str, program: str, *words: str) -> tuple[int, Path]:
    (tmp_path / "m.tess").write_text(program, encoding="utf-8")
    target = tmp_path / name
    return cli.main(cli.runner, "tessera", ["run", str(tmp_path / "m.tess"), "--save", str(target), *words]), target


def test_save_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, target = saved(tmp_path, "x.npy", PIXELS)
    assert status == 0 and capsys.readouterr().out.startswith("wrote ")
    assert np.array_equal(np.load(target), np.arange(6, dtype=np.uint8).reshape(2, 3))
    status, target = saved(tmp_path, "x.npz", "def main():\n    return ones(2), zeros(3)\n")
    assert status == 0 and [np.load(target)[name].shape for name in ("arr_0", "arr_1")] == [(2,), (3,)]


@pytest.mark.parametrize(
    ("name", "program", "words", "text"),
    [
        ("x.jpg", PIXELS, (), "the name must end in .npy, .npz, .png"),
        ("x.png", PIXELS, ("--rank", "1"), "but `main` returned Tensor[6, u8]"),
        ("x.npy", "def main():\n    return ones(2), zeros(3)\n", (), "one tensor, but `main` returned a tuple"),
        ("none/x.npy", PIXELS, (), "No such file or directory"),
    ],
)
def test_what_cannot_be_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, program: str, words: tuple[str, ...], text: str
) -> None:
    status, target = saved(tmp_path, name, program, *words)
    assert status == 2 and text in capsys.readouterr().err and not target.exists()
