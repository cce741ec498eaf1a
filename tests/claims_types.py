"""Sections 2 and 8: dims, guards, broadcasting, dtypes, scalars, effects; indexing."""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np
from claims_support import Checks, Claim, Fails, Refused, Runs, body, floats, ints

X = floats(1, 2, 3)
M = floats([1, 2, 3], [4, 5, 6])
XY = "x: Tensor[N, f32], y: Tensor[M, f32]"

DIMS: list[Claim] = [
    Checks("quotes change nothing", 'def f(x: Tensor["N", f32]) -> Tensor[N, f32]:\n    return x\n'),
    Runs("a dim is a value in the body", body("return x * float(N)"), (X,), [3, 6, 9]),
    Runs("a dim linear in one symbol is solved", body("return x[:K] * float(K)", given="x: Tensor[2*K + 1, f32]"), (X,), [1]),
    Fails("with a guard that it divides", body("return x[:K]", given="x: Tensor[2*K, f32]"), (X,), "E0924"),
    Refused("an unbound symbol is no value", body("return x * float(B)", given="x: Tensor[B*H, f32]"), "E0306"),
    Checks("but stands in types", "def f(x: Tensor[B*H, f32]) -> Tensor[B*H, f32]:\n    return x\n"),
    Refused("a symbol only in the result", "def f(x: Tensor[Nn, f32]) -> Tensor[Nm, f32]:\n    return x\n", "E0312", ""),
    Refused("symbols start with an upper-case letter", "def f(x: Tensor[n, f32]):\n    return x\n", "E0204"),
    Runs("`...` is the same leading dims", "def f(x: Tensor[..., N, f32], y: Tensor[..., N, f32]) -> Tensor[..., f32]:\n    return sum(x * y, axis=-1)\n", (M, M), [14, 77]),
    Runs("possibly none", "def f(x: Tensor[..., N, f32]) -> Tensor[..., f32]:\n    return sum(x, axis=-1)\n", (X,), 6),
    Runs("a local may shadow a symbol", body("N = 2.0", "return x * N"), (X,), [2, 4, 6]),
    Runs("an annotation names a size", body("y: Tensor[K, f32] = x[1:]", "return y * float(K)"), (X,), [4, 6]),
    Refused("or is held to it", body("y: Tensor[N, f32] = x[1:]", "return y"), "E0308"),
    Runs("where states facts", "def f(x: Tensor[D, f32], h: int) -> Tensor[h, D/h, f32] where D % h == 0:\n    return reshape(x, (h, D/h))\n", (floats(1, 2, 3, 4), 2), [[1, 2], [3, 4]]),
    Fails("which are guards on entry", "def f(x: Tensor[D, f32], h: int) -> Tensor[h, D/h, f32] where D % h == 0:\n    return reshape(x, (h, D/h))\n", (X, 2), "E0925"),
    Refused("two symbols are not equal", body("return x + y", given=XY), "E0302"),
    Refused("a symbol is no number", body("return x + y", given="x: Tensor[N, f32], y: Tensor[3, f32]"), "E0302"),
    Runs("unless a fact says so", "def f(x: Tensor[N, f32], y: Tensor[M, f32]) where N == M:\n    return x + y\n", (X, X), [2, 4, 6]),
    Runs("dims may be 0", body("return sum(x)"), (np.zeros(0, "f4"),), 0),
    Runs("a literal 1 stretches", body("return x[:, None] * x[None, :]"), (floats(1, 2),), [[1, 2], [2, 4]]),
    Refused("[N, 1] - [N] is an error", body("return x[:, None] - x"), "E0303"),
    Refused("reshape does not move elements", body("return reshape(x, (D, N))", given="x: Tensor[N, D, f32]"), "E0305"),
    Refused("the transpose that fits is named", body("return x @ y", given="x: Tensor[B, D, f32], y: Tensor[S, D, f32]"), "E0301", "y.T"),
    Runs("an alias of a type", "V = Tensor[3, f32]\ndef f(x: V) -> V: return x\n", (X,), [1, 2, 3]),
]

SCALARS: list[Claim] = [
    Runs("aliases of dtypes", body("return cast(x, fp32) + cast(x, F32) + cast(x, \"float32\")"), (X,), [3, 6, 9]),
    Runs("dtype of a parameter", "def f(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]: return x\n", (X,), [1, 2, 3]),
    Refused("two dtypes in one operator", body("return x + y", given="x: Tensor[N, f32], y: Tensor[N, f64]"), "E0402", ""),
    Runs("an int literal takes a float dtype", body("return x + 1"), (X,), [2, 3, 4]),
    Refused("that holds it", body("return x + 300", given="x: Tensor[N, u8]"), "E0403", ""),
    Refused("a float literal and integers", body("return x + 0.5", given="x: Tensor[N, i32]"), "E0403", ""),
    Refused("float of a tensor", body("return float(sum(x))"), "E0210", "cast"),
    Runs("cast(0, i32) is a tensor", body("return cast(0, i32) + n", given="n: i32"), (4,), 4),
    Runs("sqrt of an int is a float", body("return x * sqrt(4)"), (X,), [2, 4, 6]),
    Runs("rsqrt(float(D))", body("return x * rsqrt(float(D))", given="x: Tensor[D, f32]"), (floats(2, 2, 2, 2),), [1, 1, 1, 1]),
    Runs("ints are compile-time", body("return reshape(x, (k, N/k))", given="x: Tensor[N, f32], k: int"), (floats(1, 2), 2), [[1], [2]]),
    Runs("floats take the dtype they meet", body("return x * s", given="x: Tensor[N, f32], s: float"), (X, 2.0), [2, 4, 6]),
    Runs("a dtype is a 0-d tensor", body("return x * lr", given="x: Tensor[N, f32], lr: f32"), (X, 2.0), [2, 4, 6]),
    Runs("exact division of dims", body("return x[: N/2]"), (floats(1, 2, 3, 4),), [1, 2]),
    Fails("is a guard", body("return x[: N/2]"), (X,), "E0925"),
    Refused("/ on integer tensors", body("return x / 2", given="x: Tensor[N, i32]"), "E0405", "//"),
    Runs("// floors", body("return x // 2, x % 2", given="x: Tensor[N, i32]"), (ints(-3, 3),), ([-2, 1], [1, 1])),
    Refused("and, or need one bool", body("return x > 1.0 and x < 2.0"), "E0214"),
    Runs("elementwise is & and |", body("return (x > 1.0) & (x < 3.0) | ~(x > 0.0)"), (X,), [False, True, False]),
]

EFFECTS: list[Claim] = [
    Refused("a missing effect", "def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses none:\n    print(x)\n    return x\n", "E0601"),
    Refused("one not had", "def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses io:\n    return x\n", "W0601"),
    Checks("uses io", "def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses io:\n    print(x)\n    return x\n"),
]

G = "x: Tensor[A, B, f32]"
INDEXING: list[Claim] = [
    Runs("x[i] drops a dim", body("return x[1]", given=G), (M,), [4, 5, 6]),
    Runs("x[a:b]", body("return x[:, 1:3]", given=G), (M,), [[2, 3], [5, 6]]),
    Runs("negative as in NumPy", body("return x[-1, -2:]", given=G), (M,), [5, 6]),
    Runs("None and ...", body("return x[..., None, 0]", given=G), (M,), [[1], [4]]),
    Runs("steps", body("return x[:, ::2]", given=G), (M,), [[1, 3], [4, 6]]),
    Runs("backwards", body("return x[::-1, ::-2]", given=G), (M,), [[6, 4], [3, 1]]),
    Runs("symbolic bounds", body("return x[:, 1:B]", given=G), (M,), [[2, 3], [5, 6]]),
    Fails("give guards", body("return x[5:]"), (X,), "E0925"),
    Runs("an integer tensor gathers", body("return x[i]", given="x: Tensor[N, f32], i: Tensor[K, i32]"), (X, ints(2, 0)), [3, 1]),
    Runs("beside slices", body("return x[:, i]", given="x: Tensor[A, B, f32], i: Tensor[K, i32]"), (M, ints(2, 0)), [[3, 1], [6, 4]]),
    Runs("negative indices of a tensor", body("return x[i]", given="x: Tensor[N, f32], i: Tensor[K, i32]"), (X, ints(-1)), [3]),
    Fails("out of range is a status", body("return x[i]", given="x: Tensor[N, f32], i: Tensor[K, i32]"), (X, ints(3)), "E0927"),
    Runs("a run-time start", body("return slice(x, k, 2)", given="x: Tensor[N, f32], k: i32"), (X, 1), [2, 3]),
    Refused("masks do not index", body("return x[x > 1.0]"), "E0210", "where"),
    Refused("out of range is an error when known", body("return x[4]", given="x: Tensor[3, f32]"), "E0313"),
    Refused("too many indices", body("return x[0, 0]"), "E0311"),
    Runs("D//h is D/h under a fact", "def f(x: Tensor[D, f32], h: int) -> Tensor[h, D/h, f32] where D % h == 0:\n    return reshape(x, (h, D//h))\n", (floats(1, 2), 1), [[1, 2]]),
    Runs("loop variables index", body("s = zeros(A)", "for i in range(A): s[i] = x[i, A - 1 - i]", "return s", given="x: Tensor[A, A, f32]"), (floats([1, 2], [3, 4]),), [2, 3]),
]

TYPES = {"dims": DIMS, "scalars": SCALARS, "effects": EFFECTS, "indexing": INDEXING}
