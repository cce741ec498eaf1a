"""Levels of optimisation: the same bits at each, code of its own in the cache, and a setting that is no level."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.cli import compiler, main
from tests.support.caches import new_cache
from tests.support.paths import ROOT

PROGRAM = """
def probabilities(x: Tensor[B, D, f32], w: Tensor[D, C, f32]) -> Tensor[B, C, f32]:
    return softmax(x @ w)

def slopes(x: Tensor[B, D, f32], w: Tensor[D, C, f32]) -> Tensor[D, C, f32]:
    return grad(lambda v: sum(log(1.0 + exp(sin(x @ v)))))(w)

def narrow(x: Tensor[B, D, f32], w: Tensor[D, C, f32]) -> Tensor[B, C, f16]:
    return cast(x, f16) @ cast(w, f16)

def running(x: Tensor[B, D, f32], w: Tensor[D, C, f32]) -> Tensor[B, D, f32]:
    return cumsum(sort(x, axis=1), axis=0)

def stepped(x: Tensor[B, D, f32], w: Tensor[D, C, f32]) -> Tensor[B, D, f32]:
    for i in range(1, B):
        x[i, 0] = x[i - 1, 0] * 0.5 + x[i, 1]
    return x
"""
NAMES = ("probabilities", "slopes", "narrow", "running", "stepped")


def _bits(level: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    monkeypatch.setenv("TESSERA_OPT_LEVEL", level)
    module, rng = tessera.compile(PROGRAM), np.random.default_rng(3)
    x, w = rng.standard_normal((37, 19), np.float32), rng.standard_normal((19, 13), np.float32)
    return [getattr(module, name)(x, w).tobytes() for name in NAMES]


@pytest.mark.one_in(48)
def test_levels_have_code_of_their_own_and_the_same_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    found, entries = {}, set()
    for level in ("0", "1", "3"):
        found[level] = _bits(level, monkeypatch)
        kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
        assert len(kept - entries) >= len(NAMES), f"level {level} took the code of another"
        entries = kept
    assert found["0"] == found["1"] == found["3"]


@pytest.mark.parametrize("text", ["4", "-1", "fast", "1.0"])
def test_what_is_no_level_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSERA_OPT_LEVEL", text)
    message = f"error[E0914]: TESSERA_OPT_LEVEL must be 0, 1, 2 or 3, not `{text}`"
    with pytest.raises(tessera.TesseraError, match="E0914"):
        tessera.compile("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x + 1.0\n").f(np.ones(3, np.float32))
    program = str(next(ROOT.glob("examples/*.tess")))
    for more in (["-o", os.devnull], ["--emit", "asm"]):
        assert main(compiler, "tesserac", ["build", program, *more]) == 1
        assert capsys.readouterr().err.startswith(message)
