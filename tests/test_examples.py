"""Every example runs, from the command line and from Python, and gives what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac import cli
from tesserac.commands import names

FOLDER = Path(__file__).resolve().parent.parent / "examples"
bf16 = ml_dtypes.bfloat16

MAIN = {
    "vector_add": "Tensor[8, f32]\n[1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]\n",
    "softmax": (
        "Tensor[2, 4, f32]\n"
        "[[0.0320586 , 0.08714432, 0.23688282, 0.6439143 ],\n"
        " [0.0320586 , 0.08714432, 0.2368828 , 0.6439142 ]]\n"
    ),
    "mlp": "Tensor[f32] 4.958769750373904e-06\n",
    "matmul": "Tensor[2, 2, f32]\n[[ 5., 14.],\n [14., 50.]]\n",
}
"""What `tessera run` prints. The digits are part of the promise: the same bits on every machine."""


def load(name: str) -> tessera.module.Module:  # type: ignore[name-defined]
    return tessera.load(FOLDER / f"{name}.tess")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def test_every_example_is_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.tess")} == set(MAIN)


@pytest.mark.parametrize("name", MAIN)
def test_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(cli.runner, "tessera", ["run", str(FOLDER / f"{name}.tess")]) == 0
    assert capsys.readouterr().out == MAIN[name]


def test_the_headers_say_how_to_run_them() -> None:
    for name in MAIN:
        assert f"tessera run examples/{name}.tess" in (FOLDER / f"{name}.tess").read_text()


def test_vector_add() -> None:
    x, y = normal(1001), normal(1001)[::-1]
    assert np.array_equal(load("vector_add").add(x, y), x + y)


def test_softmax() -> None:
    x = normal(7, 1500) * 10
    e = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
    assert np.allclose(load("softmax").softmax_rows(x), e / e.sum(axis=1, keepdims=True), rtol=1e-6, atol=0)


def test_matmul() -> None:
    a, b = normal(33, 70), normal(70, 41)
    exact = a.astype("f8") @ b.astype("f8")
    assert np.allclose(load("matmul").matmul_f32(a, b), exact, rtol=0, atol=1e-4)
    narrow = load("matmul").matmul_bf16(a.astype(bf16), b.astype(bf16))
    assert narrow.dtype == bf16
    exact = a.astype(bf16).astype("f8") @ b.astype(bf16).astype("f8")
    assert np.allclose(narrow.astype("f8"), exact, rtol=2**-8, atol=1e-4)


def test_the_demo_shows_every_level_on_a_page_or_two(tmp_path: Path) -> None:
    variables = os.environ | {"TESSERA_CACHE_DIR": str(tmp_path)}
    line = [sys.executable, str(FOLDER / "demo.py")]
    shown = subprocess.run(line, env=variables, capture_output=True, text=True, check=True).stdout
    for heading in ("source", *(level.name for level in names.CPU_LEVELS[1:]), "result", "next"):
        assert f"\n{heading:9} " in shown
    assert shown.count("equal") == 1
    assert len(shown.splitlines()) < 100


def test_mlp() -> None:
    m = load("mlp")
    net = m.MLP(
        l1=m.Linear(w=normal(5, 6) / 4, b=normal(6)), l2=m.Linear(w=normal(6, 3) / 4, b=normal(3))
    )
    x, y = normal(7, 5), normal(7, 3)
    losses = []
    for _ in range(30):
        net, loss = m.step(net, x, y, lr=0.2)
        losses.append(loss)
    h = np.maximum(x @ net.l1.w + net.l1.b, 0)
    assert np.isclose(m.loss(net, x, y), np.mean((h @ net.l2.w + net.l2.b - y) ** 2), rtol=1e-4)
    assert losses[-1] < 0.5 * losses[0]
