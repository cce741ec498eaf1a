"""Damaged files at the command line and at the loader: a diagnostic and a status, never a traceback."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac import cli
from tests.support.paths import ROOT
from tests.support.sampling import spread

EXAMPLES = ROOT / "examples"
TEXTS = [path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.tess")) if path.stat().st_size < 2_000]
PIECES = [
    "(", ")", "[", ":", "=", "def ", "struct ", "for ", "@", '"', '"""', 'f"{', "\t", "\0", "\n", "lambda ", "Tensor[",
    "1e999", "-", "**", "...", "None", "return ", "where ", "->", "é", "\\", "#", ";", 'test "a":', "param p: ",
    "import ", "9" * 400, "2**64",
]  # fmt: skip


def damaged(rng: random.Random) -> bytes:
    text = rng.choice(TEXTS)
    for _ in range(rng.randint(1, 5)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.randint(0, 30))
        piece = rng.choice([rng.choice(PIECES), text[start:end] * 2, "", text[:end]])
        text = text[:start] + piece + text[end if rng.random() < 0.7 else start :]
    return text.encode("utf-8") if rng.random() < 0.9 else rng.randbytes(rng.randint(0, 200))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", spread(range(30), 10))
def test_damaged_programs(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "damaged.tess"
    path.write_bytes(damaged(random.Random(seed)))
    out = str(tmp_path / "o.tessb")
    commands = [["check", str(path)], ["fmt", "--check", str(path)], ["build", str(path), "-o", out]]
    for words in commands[: 3 if seed % 5 == 0 else 2]:
        status = cli.main(cli.compiler, "tesserac", words)
        said = "".join(capsys.readouterr())
        assert status in (0, 1, 2) and "Traceback" not in said and "E0999" not in said


SOURCE = "@export\ndef f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"


def test_damaged_bundles(tmp_path: Path) -> None:
    source, bundle = tmp_path / "f.tess", tmp_path / "f.tessb"
    source.write_text(SOURCE)
    assert cli.main(cli.compiler, "tesserac", ["build", str(source), "-o", str(bundle)]) == 0
    whole, rng = bundle.read_bytes(), random.Random(0)
    for _ in range(60):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        bundle.write_bytes(rng.choice([bytes(data), whole[: rng.randrange(len(whole))], rng.randbytes(100)]))
        with pytest.raises(tessera.TesseraError, match="E0910"):
            tessera.load(bundle)


ROW: dict[str, object] = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
HEADERS: list[object] = [
    [], 3, {"W": 3}, {"W": {}}, {"W": {**ROW, "shape": [-4]}}, {"W": {**ROW, "dtype": "X"}},
    {"W": {**ROW, "dtype": []}}, {"W": {**ROW, "shape": ["a"]}}, {"W": {**ROW, "data_offsets": [0, 1600]}},
    {"W": {**ROW, "data_offsets": [8, -16]}}, {"W": {**ROW, "shape": None}}, {"W": {**ROW, "shape": [2**70]}},
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=str)
def test_damaged_weights(header: object, tmp_path: Path) -> None:
    m = tessera.compile("param W: Tensor[N, f32]\ndef f(x: Tensor[N, f32]): return x * W")
    path, text = tmp_path / "w.safetensors", json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + np.ones(4, "f4").tobytes())
    with pytest.raises(tessera.TesseraError, match="E0929"):
        m.load(path)
