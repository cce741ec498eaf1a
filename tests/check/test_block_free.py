"""Kernels whose result depends on no block are taken, all others are told, with the expression and the block."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

HEAD = "@kernel\ndef f(x: KTile[M, N, f32], y: KTile[N, L, f32]):\n    T = tile.context()\n"
OWN = "    t = tile.load(x, rows=T.m, cols=T.n)\n"
LOOP = (
    "    s = tile.zeros((T.m,), f32)\n    for k in tile.range_k(x, T.k):\n        t = tile.load(x, None, k, rows=T.m)\n"
)


@pytest.mark.parametrize(
    "lines",
    [
        OWN + "    return t * 2.0 + exp(t)\n",
        "    t = tile.load(x, rows=T.m)\n    return softmax(t) + cumsum(t, axis=1) + t[:, :1]\n",
        LOOP + "        s += tile.reduce_sum(t, axis=1)\n    return s * 2.0\n",
        LOOP + "        s = s + tile.reduce_sum(exp(t), axis=1)\n    return sqrt(s)\n",
        LOOP + "        s = maximum(tile.reduce_max(t, axis=1), s)\n    return s\n",
        LOOP + "        s = minimum(s, tile.reduce_min(t, axis=1))\n    return s\n",
        LOOP + "        part = tile.reduce_sum(t, axis=1)\n        s += part\n        s += part\n    return s\n",
        "    a = tile.zeros((T.m, T.n), f32)\n    for k in tile.range_k(x, T.k):\n"
        "        a = tile.dot(tile.load(x, None, k, rows=T.m), tile.load(y, k, None, cols=T.n), a)\n    return a\n",
        OWN + "    return where(tile.row_index()[:, None] < tile.col_index()[None, :], t, 0.0)\n",
    ],
)
def test_block_free(lines: str) -> None:
    assert [d.title for d in check_text(HEAD + lines).diagnostics] == []


@pytest.mark.parametrize(
    ("lines", "block", "expression"),
    [
        (OWN + "    return t - tile.reduce_max(t, axis=1)[:, None]\n", "T.n", "tile.reduce_max(t, axis=1)"),
        (OWN + "    return softmax(t)\n", "T.n", "softmax(t)"),
        (OWN + "    return cumsum(t, axis=0)\n", "T.m", "cumsum(t, axis=0)"),
        (OWN + "    return sort(t)\n", "T.n", "sort(t)"),
        (OWN + "    return flip(t, 0)\n", "T.m", "flip(t, 0)"),
        (OWN + "    return t - t[:1]\n", "T.m", "t[:1]"),
        (OWN + "    return t * float(T.m)\n", "T.m", "`T.m` is used as a number"),
        (OWN + "    return t + cast(arange(T.n), f32)\n", "T.n", "arange(T.n)"),
        (OWN + "    return t @ transpose(t) @ t\n", "T.n", "t @ transpose(t)"),
        (LOOP + "        s += float(k)\n    return s\n", "T.k", "`k` is used as a number"),
        (LOOP + "        s = s * 0.5 + tile.reduce_sum(t, axis=1)\n    return s\n", "T.k", "s * 0.5"),
        (LOOP + "        s += sqrt(tile.reduce_sum(t, axis=1))\n    return s\n", "T.k", "sqrt(tile.red"),
        (LOOP + "        s = maximum(s, tile.reduce_sum(t, axis=1))\n    return s\n", "T.k", "maximum(s, tile"),
        (LOOP + "        s += t[:, 0]\n    return s\n", "T.k", "t[:, 0]"),
        (LOOP + "        s = tile.reduce_sum(t, axis=1)\n    return s\n", "T.k", "tile.reduce_sum(t, axis=1)"),
    ],
)
def test_block_dependent(lines: str, block: str, expression: str) -> None:
    [found] = check_text(HEAD + lines).diagnostics
    assert found.code == "E0511", found.title
    assert block in found.title and expression in found.title
