"""`T.d` of a kernel: the columns that a load says it of, else those of the first load that takes all of them."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

KERNEL = """
@kernel
def f(x: KTile[M, N, f32], w: KTile[N, 8, f32]) -> {0}:
    T = tile.context()
{1}
"""
ROWS = "    t = tile.load(x, rows=T.m)\n    return tile.reduce_sum(t, axis=1) / float(T.d)"
BEFORE = "    acc = tile.zeros((T.m, T.d), f32)\n    return acc + tile.load(x, rows=T.m)"
SECOND = "    t = tile.load(x, rows=T.m)\n    return tile.dot(t, tile.load(w)) + tile.zeros((T.m, T.d), f32)"
SAID = "    t = tile.load(x, rows=T.m)\n    return tile.dot(t, tile.load(w, cols=T.d)) + tile.zeros((T.m, T.d), f32)"
BY_BLOCK = "    t = tile.load(x, rows=T.m, cols=T.n)\n    return t / float(T.d)"


@pytest.mark.parametrize(
    ("result", "body", "code"),
    [
        ("Tile[M, f32]", ROWS, ""),
        ("Tile[M, N, f32]", BEFORE, ""),
        ("Tile[M, 8, f32]", SECOND, "E0302"),
        ("Tile[M, 8, f32]", SAID, ""),
        ("Tile[M, N, f32]", BY_BLOCK, "E0505"),
    ],
)
def test_the_whole_dim_is_that_of_a_load(result: str, body: str, code: str) -> None:
    found = check_text(KERNEL.format(result, body)).diagnostics
    assert [one.code for one in found] == ([code] if code else [])
    if code == "E0505":
        assert "cols=T.d" in str(found[0])
