"""Every kind of operator as a program makes it, with its matrix in float64 or complex128.

All are of 6 entries, or of 6 and 4, and made of the values that `values` has: `PARAMETERS` are their types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy import linalg as la

from tests.support.operator_cases import banded, circulant, joined, placed, toeplitz

NUMPY = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
PARAMETERS = {
    "m": "N, N", "h": "N, N", "s": "N, N", "q": "N, N", "d": "N", "e": "N", "c": "N", "u": "N, K", "v": "N, K",
    "o": "N, K", "k": "T", "a": "P, P", "b": "Q, Q", "g": "Q", "r": "M, N", "t": "M", "w": "3, N", "l": "E",
    "B": "G, 2, 2", "f": "",
}  # fmt: skip
"""The dims of tensors of numbers."""
PLACES = {"p": "N, i64", "i": "E, i64", "j": "E, i64", "S": "N + 1, i64", "I": "G, i32", "J": "G, i64"}


@cache
def values(dtype: str) -> dict[str, Any]:
    """What the parameters are given, of numbers that the dtype has."""
    rng = np.random.default_rng(5)

    def new(*shape: int) -> Any:
        return rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.startswith("c") else 0)

    half, unitary, near = new(6, 6), la.qr(new(6, 6))[0], np.eye(6)
    column, other = new(6) / 4, new(4)
    column[0] = other[0] = 4
    numbers = {
        "m": new(6, 6) / 2 + 3 * near, "h": half @ half.conj().T / 6 + near, "s": half + half.conj().T, "q": unitary,
        "d": abs(new(6)) + new(6) * 0.3 + 2, "e": new(6), "c": column, "u": new(6, 2), "v": new(6, 2),
        "o": unitary[:, :2],
        "k": new(3) / 4 + [2, 0, 0], "a": new(2, 2) / 2 + 2 * np.eye(2), "b": new(3, 3) / 2 + 2 * np.eye(3),
        "g": abs(new(3)) + new(3) * 0.3 + 2, "r": new(4, 6), "t": other, "w": new(3, 6) + 6 * np.eye(3)[1:2].T,
        "l": new(8) / 4 + 2, "B": new(4, 2, 2) + 2 * np.eye(2), "f": new() + 2,
        "x": new(6), "y": new(4), "X": new(6, 2), "Y": new(4, 2), "W": new(2, 5, 6), "V": new(2, 5, 4),
    }  # fmt: skip
    places = {
        "p": np.array([2, 0, 5, 1, 4, 3]), "i": np.array([3, 0, 1, 1, 5, 2, 3, 4]),
        "j": np.array([3, 0, 1, 4, 5, 2, 3, 4]), "S": np.array([0, 1, 1, 3, 4, 7, 8]),
        "I": np.array([0, 2, 1, 1], "i4"), "J": np.array([0, 2, 0, 1]),
    }  # fmt: skip
    return {name: np.asarray(one).astype(NUMPY[dtype]) for name, one in numbers.items()} | places


def wide(dtype: str) -> SimpleNamespace:
    """The values as float64 or complex128, by attribute."""
    kind = "c16" if dtype.startswith("c") else "f8"
    return SimpleNamespace(**{n: v if v.dtype.kind == "i" else v.astype(kind) for n, v in values(dtype).items()})


@dataclass(frozen=True)
class Kind:
    """An expression and its matrix; whether the laws know that it is self-adjoint, also when its numbers are complex;
    whether it has no inverse; and the sizes that it takes and gives."""

    text: str
    matrix: Callable[[Any], Any]
    own: bool = False
    own_if_real: bool = False
    singular: bool = False
    sizes: tuple[str, str] = ("N", "N")

    def text_of(self, dtype: str) -> str:
        """What has no numbers of its own is of f32, unless a dtype is said."""
        if dtype in ("f32", "c64"):
            return self.text
        return re.sub(r"(op\.(?:eye|zero|fft|ifft|permutation)\([^)]*)\)", rf"\1, dtype={dtype})", self.text)

    def is_own(self, dtype: str) -> bool:
        return self.own or (self.own_if_real and dtype.startswith("f"))


_FOURIER = np.fft.fft(np.eye(6))


def _ring(taps: Any) -> Any:
    return circulant(taps.real, 6) + 1j * circulant(taps.imag, 6) if np.iscomplexobj(taps) else circulant(taps, 6)


def _toeplitz(column: Any, row: Any) -> Any:
    return toeplitz(column, np.concatenate([column[:1], row[1:]]))


def _summed(rows: Any, columns: Any, entries: Any) -> Any:
    whole = np.zeros((6, 6), entries.dtype)
    np.add.at(whole, (rows, columns), entries)
    return whole


def _rows(starts: Any) -> Any:
    return np.repeat(np.arange(6), np.diff(starts))


def adjoint(m: Any) -> Any:
    return np.conj(m).T


def exponential(m: Any) -> Any:
    """By the series of a part of m, squared again and again: m may have too few eigenvectors. Squaring doubles errors,
    so that it has more digits than what it is compared with."""
    halvings = 8
    many = m.astype(np.clongdouble if np.iscomplexobj(m) else np.longdouble)
    term = found = np.eye(len(m), dtype=many.dtype)
    for n in range(1, 24):
        term = term @ many / (n * 2**halvings)
        found = found + term
    for _ in range(halvings):
        found = found @ found
    return found.astype(m.dtype)


_WIDE, _TWICE, _GRID = ("N", "M"), ("2*Q", "2*Q"), ("P*Q", "P*Q")
KINDS: dict[str, Kind] = {
    "eye": Kind("op.eye(N)", lambda z: np.eye(6), own=True),
    "zero": Kind("op.zero(N)", lambda z: np.zeros((6, 6)), own=True, singular=True),
    "zero, wide": Kind("op.zero(N, M)", lambda z: np.zeros((4, 6)), singular=True, sizes=_WIDE),
    "dense": Kind("op.dense(m)", lambda z: z.m),
    "dense, wide": Kind("op.dense(r)", lambda z: z.r, sizes=_WIDE),
    "dense, tall": Kind("op.dense(r).H", lambda z: adjoint(z.r), sizes=("M", "N")),
    "definite": Kind("op.dense(h, psd=True)", lambda z: z.h, own=True),
    "self-adjoint": Kind("op.dense(s, self_adjoint=True)", lambda z: z.s, own=True),
    "unitary": Kind("op.dense(q, unitary=True)", lambda z: z.q),
    "diag": Kind("op.diag(d)", lambda z: np.diag(z.d), own_if_real=True),
    "projector": Kind("op.projector(o)", lambda z: z.o @ adjoint(z.o), own=True, singular=True),
    "fft": Kind("op.fft(N)", lambda z: _FOURIER),
    "ifft": Kind("op.ifft(N)", lambda z: _FOURIER.conj() / 6),
    "conv1d": Kind("op.conv1d(k, N)", lambda z: _ring(z.k)),
    "circulant": Kind("op.circulant(c)", lambda z: _ring(z.c)),
    "toeplitz": Kind("op.toeplitz(c, d)", lambda z: _toeplitz(z.c, z.d)),
    "toeplitz, wide": Kind("op.toeplitz(t, c)", lambda z: _toeplitz(z.t, z.c), sizes=_WIDE),
    "toeplitz, one": Kind("op.toeplitz(c)", lambda z: _toeplitz(z.c, np.conj(z.c)), own_if_real=True),
    "kronecker": Kind("op.kronecker(op.dense(a), op.dense(b))", lambda z: np.kron(z.a, z.b), sizes=_GRID),
    "kronecker, diag": Kind(
        "op.kronecker(op.dense(a), op.diag(g))", lambda z: np.kron(z.a, np.diag(z.g)), sizes=_GRID
    ),
    "kronecker sum": Kind(
        "op.kronecker_sum(a, b)", lambda z: np.kron(z.a, np.eye(3)) + np.kron(np.eye(2), z.b), sizes=_GRID
    ),
    "direct sum": Kind("op.direct_sum(op.dense(b), op.diag(g))", lambda z: joined(z.b, np.diag(z.g)), sizes=_TWICE),
    "low rank": Kind("op.low_rank(u, v)", lambda z: z.u @ adjoint(z.v), singular=True),
    "update": Kind("op.diag(d) + op.low_rank(u, v)", lambda z: np.diag(z.d) + z.u @ adjoint(z.v)),
    "block sparse": Kind("op.block_sparse(B, I, J, N)", lambda z: placed(z.B, z.I, z.J, 6)),
    "implicit": Kind(
        "op.implicit(lambda x: d * x + sum(x), lambda y: conj(d) * y + sum(y), N)", lambda z: np.diag(z.d) + 1
    ),
    "permutation": Kind("op.permutation(p)", lambda z: np.eye(6)[z.p]),
    "lower": Kind("op.triangular(m)", lambda z: np.tril(z.m)),
    "upper": Kind("op.triangular(m, lower=False)", lambda z: np.triu(z.m)),
    "banded": Kind("op.banded(w, 1, 1)", lambda z: banded(z.w, 1)),
    "block": Kind(
        "op.block([[b, op.eye(Q)], [0, op.diag(g)]])",
        lambda z: np.block([[z.b, np.eye(3)], [np.zeros((3, 3)), np.diag(z.g)]]),
        sizes=_TWICE,
    ),
    "jacobian": Kind("op.jacobian(lambda x: 5.0 * x + x * x + sum(x), e)", lambda z: np.diag(5 + 2 * z.e) + 1),
    "coo": Kind("op.coo(i, j, l, N)", lambda z: _summed(z.i, z.j, z.l)),
    "csr": Kind("op.csr(S, j, l, N)", lambda z: _summed(_rows(z.S), z.j, z.l), singular=True),
    "multiple": Kind("f * op.dense(m) / 2.0", lambda z: z.f * z.m / 2),
    "sum": Kind("op.dense(m) + op.permutation(p) - op.diag(d)", lambda z: z.m + np.eye(6)[z.p] - np.diag(z.d)),
    "composed": Kind("op.diag(d) ∘ op.dense(m) ∘ op.permutation(p)", lambda z: np.diag(z.d) @ z.m @ np.eye(6)[z.p]),
    "gram": Kind("op.dense(m).H ∘ op.dense(m)", lambda z: adjoint(z.m) @ z.m, own=True),
    "symmetric part": Kind("sym(op.dense(m))", lambda z: (z.m + adjoint(z.m)) / 2, own=True),
    "transposed": Kind("op.dense(m).T", lambda z: z.m.T),
    "inverse": Kind("inverse(op.dense(m))", lambda z: la.inv(z.m)),
    "spectral": Kind("spectral(op.dense(h, psd=True))", lambda z: z.h, own=True),
    "singular values": Kind("spectral(op.dense(m))", lambda z: z.m),
    "exponential": Kind("expm(op.dense(m) / 4.0)", lambda z: exponential(z.m / 4)),
}
