"""Blocks that tile programs have of which nobody has said how large they are."""

from __future__ import annotations

import pytest

from tesserac.schedule.dialect import launch_loops
from tests.schedule.test_horizontal import launches

ACROSS = "tile.load(y, rows=T.n, cols=T.m)"
KERNELS = {  # and the blocks of a GPU and of a CPU
    "along memory": (
        "x: KTile[M, N, f32], b: KTile[N, f32]", "a * exp(a) + tile.load(b, cols=T.n)", ([4, 256], [8, 512])
    ),
    "across": ("x: KTile[M, N, f32], y: KTile[N, M, f32]", f"a + tile.transpose({ACROSS})", ([64, 64], [128, 128])),
    "folded": ("x: KTile[M, N, f32], y: KTile[M, f32]", "a + max(tile.load(y))", ([64, 64], [128, 128])),
}


@pytest.mark.parametrize("name", KERNELS)
def test_programs_that_compute_element_by_element_have_long_rows(name: str) -> None:
    given, body, blocks = KERNELS[name]
    text = f"@kernel\ndef k({given}) -> Tile[M, N, f32]:\n    T = tile.context()\n"
    text += f"    a = tile.load(x, rows=T.m, cols=T.n)\n    return {body}\n"
    text += f"def f({given.replace('KTile', 'Tensor')}): return k({', '.join(_names(given))})\n"
    programs = [launches(text, "f", arch)[0] for arch in ("sm_90a", "x86-64-v4")]
    assert tuple([loop.block for loop in launch_loops(program)[1:3]] for program in programs) == blocks


def _names(given: str) -> list[str]:
    return [part.split()[-1] for part in given.split(":")[:-1]]
