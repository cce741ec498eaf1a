"""Programs over operators as new users write them, each beside what NumPy computes.

Those of a group are one module. A function takes the values that its parameters name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import linalg as la

_rng = np.random.default_rng(11)


def _real(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype("f4")


def _positive(n: int) -> Any:
    half = _real(n, n)
    return half @ half.T / n + np.eye(n, dtype="f4")


a, b, m, r = _positive(4), _positive(3), _real(4, 4) + 4 * np.eye(4, dtype="f4"), _real(3, 4)
d, e, x, y, g = abs(_real(4)) + 1, _real(4), _real(4), _real(3), _real(12)
X, B, S, u, k, t = _real(4, 5), _real(2, 5, 4), _real(2, 4, 5), _real(4, 2), _real(3), abs(_real(3)) + 1
z = (_real(4) + 1j * _real(4)).astype("c8")
C = (_real(4, 4) + 1j * _real(4, 4) + 4 * np.eye(4)).astype("c8")
p = np.array([2, 0, 3, 1])
one, none, wide = _real(1), np.zeros(0, "f4"), np.zeros((4, 0), "f4")
rows, columns, entries = np.array([0, 1, 1, 3]), np.array([1, 0, 2, 3]), _real(4)
VALUES: dict[str, Any] = {
    name: value for name, value in vars().items() if isinstance(value, np.ndarray) and not name.startswith("_")
}


def _first_difference(n: int) -> Any:
    return np.eye(n) - np.eye(n, k=-1)


def _ring(taps: Any, n: int) -> Any:
    return sum(tap * np.roll(np.eye(n), i, axis=0) for i, tap in enumerate(taps))


def _toeplitz(column: Any) -> Any:
    return np.array([[column[abs(i - j)] for j in range(len(column))] for i in range(len(column))])


def _function(matrix: Any, f: Callable[[Any], Any]) -> Any:
    w, v = la.eigh(matrix.astype("f8"))
    return (v * f(w)) @ v.T


def _direction(v: Any) -> Any:
    return v / la.norm(v)


def _sparse() -> Any:
    dense = np.zeros((4, 4))
    np.add.at(dense, (rows, columns), entries)
    return dense


Program = tuple[str, Any]
GROUPS: dict[str, list[Program]] = {
    "made": [
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return op.diag(d) @ x", d * x),
        ("def f(r: Tensor[M, N, f32], x: Tensor[N, f32]): return op.dense(r) @ x", r @ x),
        ("def f(r: Tensor[M, N, f32], y: Tensor[M, f32]): return op.dense(r).T @ y", r.T @ y),
        ("def f(x: Tensor[N, f32]): return (2.0 * op.eye(N)) @ x - op.zero(N) @ x", 2 * x),
        ("def f(p: Tensor[N, i64], x: Tensor[N, f32]): return op.permutation(p).H @ (op.permutation(p) @ x)", x),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return op.triangular(m, lower=False) @ x", np.triu(m) @ x),
        ("def f(x: Tensor[N, f32]):\n    bands = stack([ones(N), -ones(N)])\n    return op.banded(bands, 1, 0) @ x",
         _first_difference(4) @ x),
        ("def f(k: Tensor[K, f32], x: Tensor[N, f32]): return op.conv1d(k, N) @ x", _ring(k, 4) @ x),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return op.circulant(d) @ x", _ring(d, 4) @ x),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return op.toeplitz(d) @ x", _toeplitz(d) @ x),
        ("def f(z: Tensor[N, c64]): return op.ifft(N) @ (z * (op.fft(N) @ z))", np.fft.ifft(z * np.fft.fft(z))),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], g: Tensor[N*M, f32]):\n"
         "    return op.kronecker(op.dense(a), op.dense(b)) @ g", np.kron(a, b) @ g),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], g: Tensor[N*M, f32]):\n"
         "    return op.kronecker_sum(op.dense(a), op.dense(b)) @ g",
         (np.kron(a, np.eye(3)) + np.kron(np.eye(4), b)) @ g),
        ("def f(rows: Tensor[E, i64], columns: Tensor[E, i64], entries: Tensor[E, f32], x: Tensor[4, f32]):\n"
         "    return op.coo(rows, columns, entries, 4, 4).T @ x", _sparse().T @ x),
        ("def f(x: Tensor[N, f32], e: Tensor[N, f32]):\n    reflect = op.eye(N) - 2.0 * op.low_rank(e[:, None], "
         "e[:, None]) / sum(e * e)\n    return reflect @ (reflect @ x)", x),
    ],
    "combined": [
        ("def f(d: Tensor[N, f32], u: Tensor[N, K, f32], x: Tensor[N, f32]):\n"
         "    return (op.diag(d) + op.low_rank(u, u)) @ x", d * x + u @ (u.T @ x)),
        ("def f(m: Tensor[N, N, f32], d: Tensor[N, f32], x: Tensor[N, f32]):\n"
         "    A = op.dense(m)\n    return (A.H ∘ op.diag(d) ∘ A) @ x", m.T @ (d * (m @ x))),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return sym(m) @ x + skew(m) @ x", m @ x),
        ("def f(m: Tensor[N, N, f32], d: Tensor[N, f32], x: Tensor[N, f32]):\n"
         "    return commutator(op.dense(m), op.diag(d)) @ x", (m @ np.diag(d) - np.diag(d) @ m) @ x),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return power(op.dense(m), 3) @ x", la.matrix_power(m, 3) @ x),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return op.dense(m) ** -1 @ x", la.solve(m, x)),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], x: Tensor[N, f32], y: Tensor[M, f32]):\n"
         "    return op.direct_sum(op.dense(a), op.dense(b)) @ concat([x, y])", np.concatenate([a @ x, b @ y])),
        ("def f(m: Tensor[N, N, f32], d: Tensor[N, f32], x: Tensor[N, f32]):\n"
         "    return op.block([[op.dense(m)], [op.diag(d)]]) @ x", np.concatenate([m @ x, d * x])),
        ("def f(m: Tensor[N, N, f32], d: Tensor[N, f32], x: Tensor[N, f32]):\n"
         "    return op.block([[op.dense(m), op.diag(d)]]) @ concat([x, x])", m @ x + d * x),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return op.pipeline([x, op.dense(m), relu, op.dense(m).T])",
         m.T @ np.maximum(m @ x, 0)),
        ("def f(C: Tensor[N, N, c64], x: Tensor[N, f32]): return (op.dense(C) + op.dense(C).H) @ x",
         (C + C.conj().T) @ x),
        ("def f(z: Tensor[N, c64], C: Tensor[N, N, c64]): return z @ op.dense(C), op.dense(C).T @ z", (z @ C, C.T @ z)),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32], k: Tensor[3, f32]):\n    A = op.zero(N)\n"
         "    for c in [k[0], k[1], k[2]]:\n        A = A + c * op.diag(d)\n    return A @ x", k.sum() * d * x),
    ],
    "asked": [
        ("def f(a: Tensor[N, N, f32], x: Tensor[N, f32]): return solve(op.dense(a, psd=True), x)", la.solve(a, x)),
        ("def f(d: Tensor[N, f32], u: Tensor[N, K, f32], x: Tensor[N, f32]):\n"
         "    A = op.diag(d) + op.low_rank(u, u)\n    return sum(x * solve(A, x)), logdet(A)",
         (x @ la.solve(np.diag(d) + u @ u.T, x), la.slogdet(np.diag(d) + u @ u.T)[1])),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32]):\n    K = op.kronecker(op.dense(a), op.dense(b))\n"
         "    return trace(K), logdet(K), det(K), diagonal(K), cond(K), norm(K)",
         (np.trace(np.kron(a, b)), la.slogdet(np.kron(a, b))[1], la.det(np.kron(a, b)), np.kron(a, b).diagonal(),
          la.cond(np.kron(a, b)), la.norm(np.kron(a, b), 2))),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], g: Tensor[N*M, f32]):\n"
         "    return inverse(op.kronecker(op.dense(a), op.dense(b)) + 0.5 * op.eye(N*M)) @ g",
         la.solve(np.kron(a, b) + 0.5 * np.eye(12), g)),
        ("def f(m: Tensor[N, N, f32], x: Tensor[N, f32]): return resolvent(op.dense(m), 9.5) @ x",
         la.solve(9.5 * np.eye(4) - m, x)),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return solve(op.circulant(d + 4.0 * x * 0.0), x)",
         la.solve(_ring(d, 4), x)),
        ("def f(m: Tensor[N, N, f32]): return op.dense(m).shape[0] + op.dense(m).shape[1]", 8),
        ("def f(d: Tensor[N, f32], e: Tensor[N, f32]):\n    D, E = op.diag(d), op.diag(e)\n"
         "    return D ∘ E == E ∘ D, D == E", (True, False)),
        ("def f(): return (op.fft(4) / 2.0).unitary, op.fft(4).unitary, op.eye(3).psd", (True, False, True)),
        ("def f(m: Tensor[N, N, f32]): return to_dense(op.dense(m) - op.eye(N))", m - np.eye(4)),
    ],
    "spectra": [
        ("def f(a: Tensor[N, N, f32], x: Tensor[N, f32]):\n    A = sym(op.dense(a))\n"
         "    return sqrt(A) @ x, rsqrt(A) @ x, log(A) @ x, expm(A) @ x, abs(A) @ x",
         tuple(_function(a, h) @ x for h in (np.sqrt, lambda w: w**-0.5, np.log, np.exp, np.abs))),
        ("def f(r: Tensor[M, N, f32], y: Tensor[M, f32]): return pseudoinverse(spectral(op.dense(r))) @ y",
         la.pinv(r) @ y),
        ("def f(m: Tensor[N, N, f32]):\n    S = spectral(op.dense(m))\n"
         "    return S.S, reconstruct(truncate(S, 4)) @ eye(N)", (la.svd(m)[1], m)),
        ("def f(a: Tensor[N, N, f32]): return spectral_radius(op.dense(a)), spectral_radius(3.0 * op.eye(N))",
         (abs(la.eigvals(a)).max(), 3.0)),
    ],
    "batches": [
        ("def f(m: Tensor[N, N, f32], X: Tensor[N, K, f32]): return op.dense(m) @ X", m @ X),
        ("def f(m: Tensor[N, N, f32], B: Tensor[P, S, N, f32]): return op.dense(m) @ B", B @ m.T),
        ("def f(m: Tensor[N, N, f32], S: Tensor[P, N, K, f32]): return op.dense(m) @ S", m @ S),
        ("def f(d: Tensor[N, f32], B: Tensor[P, S, N, f32]): return apply(op.diag(d), B, axis=-1)", B * d),
        ("def f(d: Tensor[N, f32], B: Tensor[P, S, N, f32]): return B @ op.circulant(d)", B @ _ring(d, 4)),
        ("def f(m: Tensor[N, N, f32], X: Tensor[N, K, f32]): return solve(op.dense(m), X)", la.solve(m, X)),
        ("def f(m: Tensor[N, N, f32], X: Tensor[N, K, f32]):\n"
         "    return vmap(lambda v: op.dense(m) @ v, in_axes=1, out_axes=1)(X)", m @ X),
        ("def f(X: Tensor[N, K, f32], x: Tensor[N, f32]): return vmap(lambda c: op.diag(c) @ x, in_axes=1)(X)",
         X.T * x),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], g: Tensor[N*M, f32]):\n"
         "    return op.kronecker(op.dense(a), op.dense(b)) @ stack([g, 2.0 * g], axis=1)",
         np.kron(a, b) @ np.stack([g, 2 * g], 1)),
        ("def f(z: Tensor[N, c64]): return op.fft(N) @ stack([z, z], axis=1)", np.fft.fft(np.stack([z, z], 1), axis=0)),
        ("def f(one: Tensor[N, f32]): return op.diag(one) @ one + op.circulant(one) @ one + op.toeplitz(one) @ one",
         3 * one * one),
        ("def f(one: Tensor[1, f32]): return solve(op.dense(one[:, None]), one), logdet(op.dense(abs(one)[:, None]))",
         (np.ones(1), np.log(abs(one[0])))),
        ("def f(none: Tensor[N, f32]): return op.diag(none) @ none, op.eye(N) @ none, trace(op.diag(none))",
         (none, none, 0.0)),
        ("def f(none: Tensor[N, f32]):\n    A = op.dense(diag(none), psd=True)\n"
         "    B = op.banded(stack([none, none + 1.0, none]), 1, 1)\n"
         "    return sqrt(A) @ none, solve(B, none), spectral_radius(A)", (none, none, 0.0)),
        ("def f(wide: Tensor[N, K, f32], x: Tensor[N, f32]): return op.low_rank(wide, wide) @ x, op.dense(wide).T @ x",
         (0 * x, none)),
    ],
    "changed": [
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return grad(lambda d: sum((op.diag(d) @ x) ** 2))(d)",
         2 * d * x * x),
        ("def f(a: Tensor[N, N, f32], b: Tensor[M, M, f32], g: Tensor[N*M, f32]):\n"
         "    return grad(lambda a: sum(op.kronecker(op.dense(a), op.dense(b)) @ g))(a)",
         np.tile((g.reshape(4, 3) @ b.sum(0))[None], (4, 1))),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]):\n"
         "    return grad(lambda d: logdet(op.diag(d)) + sum(solve(op.diag(d), x)))(d)", 1 / d - x / d**2),
        ("def f(a: Tensor[N, N, f32], x: Tensor[N, f32]): return grad(lambda x: sum(x * (op.dense(a) @ x)))(x)",
         (a + a.T) @ x),
        ("def f(a: Tensor[N, N, f32]): return grad(lambda a: trace(expm(sym(op.dense(a)))))(a)", _function(a, np.exp)),
        ("def f(): return grad(lambda a: sum(sqrt(sym(op.dense(a))) @ ones(3)))(eye(3))", 0.5 * np.ones((3, 3))),
        ("def f(x: Tensor[N, f32], e: Tensor[N, f32]): return op.jacobian(lambda v: sin(v) * v, x) @ e",
         (np.cos(x) * x + np.sin(x)) * e),
        ("def f(x: Tensor[N, f32], e: Tensor[N, f32]): return op.jacobian(grad(lambda v: sum(v ** 3)), x) @ e",
         6 * x * e),
        ("def f(rows: Tensor[E, i64], columns: Tensor[E, i64], entries: Tensor[E, f32], x: Tensor[4, f32]):\n"
         "    return grad(lambda v: sum(op.coo(rows, columns, v, 4, 4) @ x))(entries)", x[columns]),
        ("def f(x: Tensor[N, f32]):\n    A = op.implicit(lambda v: cumsum(v), lambda v: flip(cumsum(flip(v))), N)\n"
         "    return A.H @ (A @ x), adjoint_defect(A) < 1.0e-5", (np.cumsum(np.cumsum(x)[::-1])[::-1], True)),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]): return jvp(lambda d: op.diag(d) @ x, (d,), (x,))",
         (d * x, x * x)),
    ],
    "carried": [
        ("struct Layer[D]:\n    A: Operator[D, D] = op.diag(ones(D))\n    b: Tensor[D, f32] = zeros(D)\n\n"
         "    def apply(self, x: Tensor[D, f32]): return relu(self.A @ x + self.b)\n"
         "def f(d: Tensor[N, f32], x: Tensor[N, f32]):\n    layer = Layer(A=op.diag(d), b=x)\n    return layer(x)",
         np.maximum(d * x + x, 0)),
        ("struct Model[D]:\n    first: Operator[D, D] = op.diag(ones(D))\n    second: Operator[D, D] = op.eye(D)\n"
         "def f(d: Tensor[N, f32], x: Tensor[N, f32]):\n    model = Model(first=op.diag(d))\n"
         "    g = grad(lambda m: sum(m.second @ (m.first @ x)))(model)\n    return (model.first - 0.5 * g.first) @ x",
         (d - 0.5 * x) * x),
        ("def twice(A: Operator[D, D], v: Tensor[D, f32]) -> Tensor[D, f32]: return A @ (A @ v)\n"
         "def f(d: Tensor[N, f32], m: Tensor[N, N, f32], x: Tensor[N, f32]):\n"
         "    return twice(op.diag(d), x), twice(op.dense(m), x)", (d * d * x, m @ (m @ x))),
        ("def shifted(A: Operator[D, D], c: float) -> Operator[D, D]: return A + c * op.eye(D)\n"
         "def f(d: Tensor[N, f32], x: Tensor[N, f32]): return shifted(op.diag(d), 2.0) @ x", (d + 2) * x),
        ("def f(d: Tensor[N, f32], x: Tensor[N, f32]):\n    A = op.diag(d)\n    for i in range(3):\n"
         "        A = 0.5 * A\n    return A @ x", d * x / 8),
        ("def f(a: Tensor[N, N, f32], x: Tensor[N, f32]):\n    A, v = op.dense(a), x\n    for i in range(4):\n"
         "        v = A @ v\n        v = v / norm(v)\n    return v", _direction(la.matrix_power(a, 4) @ x)),
        ("H = op.fft(4) / 2.0\ndef f(z: Tensor[4, c64]): return H.H @ (H @ z)", z),
        ("def f(d: Tensor[N, f32], e: Tensor[N, f32], x: Tensor[N, f32]):\n    pair = (op.diag(d), op.diag(e))\n"
         "    return pair[0] @ (pair[1] @ x)", d * e * x),
        ("def f(d: Tensor[N, f32], e: Tensor[N, f32], x: Tensor[N, f32]):\n    y = x\n"
         "    for A in [op.diag(d), op.dense(diag(e))]:\n        y = A @ y\n    return y", d * e * x),
        ("def f(a: Tensor[N, N, f32], x: Tensor[N, f32]): return cg(op.dense(a, psd=True), x)[0]", la.solve(a, x)),
    ],
}
