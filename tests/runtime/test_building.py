"""`tesserac build`: what a bundle holds, what it leaves out and why, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac import cli
from tests.support.caches import new_cache


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def build(text: str, *words: str) -> int:
    Path("p.tess").write_text(text)
    return cli.main(cli.compiler, "tesserac", ["build", "p.tess", *words])


HELPERS = {
    "an operator of functions": (
        "def helper(c: Tensor[N, f32]):\n    return op.implicit(lambda x: x * c, lambda x: x * c, N)\n"
    ),
    "a function": "def helper(c: Tensor[N, f32]):\n    return lambda x: x * c\n",
    "the length of an fft": "def helper(x: Tensor[N, f32]):\n    return rfft(x)\n",
}
OTHER = "\ndef double(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"


@pytest.mark.one_in(48)
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_a_helper_that_no_caller_can_use_is_left_out(helper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(helper + OTHER) == 0
    assert "left out `helper`: " in capsys.readouterr().err
    module = tessera.load("p.tessb")
    assert module.double(np.ones(2, np.float32)).tolist() == [2, 2] and not hasattr(module, "helper")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_what_is_exported_is_not_left_out(helper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("@export\n" + helper + OTHER) == 1
    assert build(helper, "--function", "helper") == 1
    assert build(helper) == 1, "nothing is left"
    assert capsys.readouterr().err.count("error[E0") == 3 and not Path("p.tessb").exists()


def test_sizes_and_ints_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert build(HELPERS["the length of an fft"], "--specialize", "N=8") == 0
    assert tessera.load("p.tessb").helper(np.ones(8, np.float32)).shape == (5,)
    ints = "def f(x: Tensor[N, f32], k: int, *, window: int = 4):\n    return x * float(k + window)\n"
    assert build(ints) == 2 and "`f`: it waits for `k`" in capsys.readouterr().err
    assert build(ints, "--specialize", "k=3", "--specialize", "window=128") == 0
    module = tessera.load("p.tessb")
    assert module.f(np.ones(1, np.float32), 3, window=128).tolist() == [131]
    with pytest.raises(tessera.TesseraError, match="was not built with"):
        module.f(np.ones(1, np.float32), 3)
    assert build(ints, "--specialize", "k=3", "--specialize", "M=7") == 2
    assert "these functions have `N`, `k`, `window`" in capsys.readouterr().err


STRUCTS = {
    "a list of a known length": (
        "struct Layer[D]:\n    w: Tensor[D, D, f32]\n\nstruct Tower[L, D]:\n    layers: List[L, Layer[D]]\n\n"
        "def run(t: Tower[2, 4], x: Tensor[4, f32]) -> Tensor[4, f32]:\n"
        "    for layer in t.layers:\n        x = x @ layer.w\n    return x\n",
        lambda m: m.run({"layers": [{"w": 2 * np.eye(4, dtype=np.float32)}] * 2}, np.ones(4, np.float32)).tolist(),
        [4.0] * 4,
    ),
    "a dtype that is said": (
        "def run(c: KVCache[1, 2, 4, 8, f32], k: Tensor[1, 2, 1, 8, f32]) -> KVCache[1, 2, 4, 8]:\n"
        "    return c.append(k, k)\n",
        lambda m: m.run(
            {"K": np.zeros((1, 2, 4, 8), np.float32), "V": np.zeros((1, 2, 4, 8), np.float32), "len": np.int32(0)},
            np.ones((1, 2, 1, 8), np.float32),
        ).len.tolist(),
        1,
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", STRUCTS.values(), ids=STRUCTS)
def test_a_struct_that_says_all_waits_for_nothing(case: tuple[str, object, object]) -> None:
    text, call, expected = case
    assert build(text) == 0
    assert call(tessera.load("p.tessb")) == expected  # type: ignore[operator]
    assert call(tessera.load("p.tess")) == expected  # type: ignore[operator]


@pytest.mark.parametrize("level", ["ptx", "tile", "graph", "llvm"])
def test_a_level_of_nothing_is_refused(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("def f(x: Tensor[N, f32], k: int):\n    return x * float(k)\n", "--emit", level) == 2
    said = capsys.readouterr()
    assert not said.out and "`f`: it waits for `k`" in said.err


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "body",
    [
        "    print(sum(x))\n    return x\n",
        "    assert sum(x) > 0.0\n    return x\n",
        "    return sort(x)\n",
        "    return x[argsort(x)]\n",
    ],
)
def test_ptx_of_what_the_host_has_a_part_in(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n" + body, "--emit", "ptx") == 0
    said = capsys.readouterr()
    assert ".entry" in said.out and not said.err


def test_others_may_read_a_bundle() -> None:
    before = os.umask(0o022)
    try:
        assert build(OTHER) == 0
    finally:
        os.umask(before)
    assert Path("p.tessb").stat().st_mode & 0o777 == 0o644


def test_a_size_of_a_function_is_none_of_a_kernel_with_that_name() -> None:
    """What is said of `M` is said of the functions that are built, not of what they call."""
    kernel = "@kernel\ndef scaled(a: KTile[M, N, f32]):\n    T = tile.context()\n"
    kernel += "    return tile.load(a, rows=T.m, cols=T.n) * float(M) + float(N) * 100.0\n"
    function = "@export\ndef f(x: Tensor[N, M, f32]):\n    return scaled(x)\n"
    assert build(kernel + function, "--specialize", "M=3") == 0
    assert tessera.load("p.tessb").f(np.ones((5, 3), np.float32)).tolist() == [[305.0] * 3] * 5
