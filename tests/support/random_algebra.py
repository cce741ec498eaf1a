"""Random linear algebra in tensor code: an expression that the language and NumPy both read.

Few values stand in many places, so that laws meet one matrix as several of their operands. All are of 3 rows or 9.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

SIZE = 3
PARAMETERS = {
    "a": "N, N", "b": "N, N", "v": "N", "w": "N", "u": "N, 2", "n": "N * N", "k": "N * N, 2",
}  # fmt: skip
"""The dims of each value; all are f64."""
_LEAVES = {
    "matrix": ("a", "a", "a", "b", "a.T", "diag(v)", "eye(N, dtype=f64)", "outer(v, w)", "(u @ u.T)", "tril(a)"),
    "regular": ("a", "b", "a.T", "diag(v)", "(diag(v) + u @ u.T)", "tril(a)", "triu(b)", "(a @ b)", "(2.0 * a)"),
    "vector": ("v", "v", "w"),
    "factor": ("a", "a", "b", "a.T", "diag(v)", "eye(N, dtype=f64)", "(a @ b)"),
    "grid": ("n",),
    "number": ("trace(a @ a)", "det(a @ b)", "trace(kron(a, a))"),
}
_KRON = "kron({factor}, {factor})"
_FORMS = {
    "matrix": (
        "({matrix} @ {matrix})", "({matrix} @ {matrix} @ {matrix})", "({matrix} + {matrix})", "({matrix} - {matrix})",
        "(2.0 * {matrix})", "({matrix}).T", "inv({regular})", "solve({regular}, {matrix})", "(-{matrix})",
        "(inv({regular}).T @ {matrix})", "(inv({regular}) @ {matrix} @ {matrix})",
        "(diag({vector}) @ {matrix})", "({matrix} @ diag({vector}))", "({matrix} / 2.0)", "outer({vector}, {vector})",
        "({matrix} @ outer({vector}, {vector}))", "({matrix} * eye(N, dtype=f64))",
    ),
    "vector": (
        "({matrix} @ {vector})", "({matrix} @ {vector})", "({vector} @ {matrix})", "({vector} + {vector})",
        "({vector} * {vector})", "diagonal({matrix})", "solve({regular}, {vector})", "sum({matrix}, axis=0)",
        "sum({matrix} @ {matrix}, axis=1)", "mean({matrix}, axis=1)", "({matrix} @ {matrix})[1]",
        "({matrix} @ {matrix})[:, 2]", "(inv({regular} @ {regular}) @ {vector})",
        "(outer({vector}, {vector}) @ {vector})",
    ),
    "grid": (
        f"({_KRON} @ {{grid}})", f"({{grid}} @ {_KRON})", f"({_KRON} @ k)[:, 0]", f"solve({_KRON}, {{grid}})",
        f"({_KRON}.T @ {{grid}})", f"diagonal({_KRON})", f"(({_KRON} @ {_KRON}) @ {{grid}})",
    ),
    "number": (
        "trace({matrix})", "trace({matrix} @ {matrix})", "({vector} @ {vector})", "sum({vector})", "det({regular})",
        "sum({matrix} @ {matrix})", "mean({matrix} @ {matrix})", "({matrix} @ {matrix})[1, 2]",
        "det({regular} @ {regular})",
    ),
}  # fmt: skip
KINDS = ("matrix", "vector", "grid", "number")


def expression(draw: random.Random, kind: str, depth: int) -> str:
    if depth == 0 or kind not in _FORMS:
        return draw.choice(_LEAVES[kind])
    form = draw.choice(_FORMS[kind])
    while "{" in form:
        before, _, rest = form.partition("{")
        name, _, after = rest.partition("}")
        form = before + expression(draw, name, depth - 1) + after
    return form


def values(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes = {"N": SIZE, "N * N": SIZE * SIZE, "2": 2}
    shapes = {name: [sizes[dim] for dim in dims.split(", ")] for name, dims in PARAMETERS.items()}
    found = {name: rng.random(shape) + 0.5 for name, shape in shapes.items()}
    return found | {name: found[name] + 2.0 * np.eye(SIZE) for name in "ab"}


def in_numpy(text: str, given: dict[str, Any]) -> Any:
    own = {"eye": lambda size, dtype: np.eye(size, dtype=dtype), "N": SIZE, "f64": np.float64}
    shared = ("kron", "trace", "diagonal", "diag", "outer", "tril", "triu", "sum", "mean")
    known = {name: getattr(np, name) for name in shared}
    systems = {name: getattr(np.linalg, name) for name in ("inv", "det", "solve")}
    return eval(text, own | known | systems | given)
