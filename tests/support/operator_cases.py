"""Operators of small sizes and the matrices that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

HEADER = """
def f{number}(
    M: Tensor[4, 4, f64], C: Tensor[4, 4, c128], d: Tensor[4, f64], e: Tensor[4, c128], Q: Tensor[4, 2, f64],
    L: Tensor[4, 3, f64], R: Tensor[4, 3, c128], t: Tensor[3, f64], m: Tensor[2, 2, f64], n: Tensor[2, c128],
    s: f64, x: Tensor[4, f64], X: Tensor[4, 3, f64], K: Tensor[3, 2, 2, f64], i: Tensor[3, i32], j: Tensor[3, i64],
    T: Tensor[3, 2, 1, c128], p: Tensor[4, i64],
):
    A = {tree}
    return A @ x, A @ X, A.H @ x
"""
NAMES = "MCdeQLRtmnsxXKijTp"


def values() -> dict[str, Any]:
    rng = np.random.default_rng(7)

    def real(*shape: int) -> Any:
        return rng.normal(size=shape)

    def both(*shape: int) -> Any:
        return real(*shape) + 1j * real(*shape)

    basis, _ = np.linalg.qr(real(4, 2))
    return {
        "M": real(4, 4), "C": both(4, 4), "d": real(4), "e": both(4), "Q": basis, "L": real(4, 3), "R": both(4, 3),
        "t": real(3), "m": real(2, 2), "n": both(2), "s": np.float64(1.75), "x": real(4), "X": real(4, 3),
        "K": real(3, 2, 2), "i": np.array([1, 0, 1], "i4"), "j": np.array([0, 1, 0]), "T": both(3, 2, 1),
        "p": np.array([2, 0, 3, 1]),
    }  # fmt: skip


V = values()


def circulant(taps: Any, size: int) -> Any:
    matrix = np.zeros((size, size))
    for i in range(size):
        for j, tap in enumerate(taps):
            matrix[i, (i - j) % size] += tap
    return matrix


def placed(blocks: Any, rows: Any, columns: Any, size: int) -> Any:
    whole = np.zeros((size, size), blocks.dtype)
    for block, row, column in zip(blocks, rows, columns, strict=True):
        height, width = block.shape
        whole[row * height : (row + 1) * height, column * width : (column + 1) * width] += block
    return whole


def joined(first: Any, second: Any) -> Any:
    rows, columns = first.shape
    whole = np.zeros((rows + second.shape[0], columns + second.shape[1]), complex)
    whole[:rows, :columns], whole[rows:, columns:] = first, second
    return whole


def banded(bands: Any, upper: int) -> Any:
    size = bands.shape[1]
    matrix = np.zeros((size, size), bands.dtype)
    for r, row in enumerate(bands):
        for j in range(size):
            if 0 <= j + r - upper < size:
                matrix[j + r - upper, j] = row[j]
    return matrix


def toeplitz(column: Any, row: Any) -> Any:
    at = np.arange(len(column))[:, None] - np.arange(len(row))
    return np.where(at >= 0, column[np.maximum(at, 0)], row[np.maximum(-at, 0)])
