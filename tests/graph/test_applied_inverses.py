"""Of inverses and solutions that is computed what is needed: systems for what they are multiplied with, for their rows,
columns and sums. All of one matrix are one elimination, whatever stands between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.ir.forms import tensor_type
from tesserac.types.dims import Dim
from tests.support.source_support import compile_to_forms

SIZE = 40
ARGS = (
    "a: Tensor[N, N, f64], b: Tensor[N, N, f64], c: Tensor[N, N, f64], v: Tensor[N, f64], w: Tensor[N, f64], "
    "u: Tensor[N, 3, f64]"
)
PROGRAMS: dict[str, tuple[str, int]] = {
    # what is computed of inverses that NumPy knows as `g` and `h`, and the eliminations that it takes
    "inv(a) @ inv(b) @ v": ("g @ h @ v", 2),
    "v @ inv(a) @ inv(b)": ("v @ g @ h", 2),
    "inv(a) @ c @ inv(b) @ v": ("g @ c @ h @ v", 2),
    "(inv(a) + inv(b)) @ v": ("(g + h) @ v", 2),
    "(c - inv(a)) @ v": ("(c - g) @ v", 1),
    "inv(a)[0]": ("g[0]", 1),
    "inv(a)[:, 1]": ("g[:, 1]", 1),
    "inv(a).T[1:3]": ("g.T[1:3]", 1),
    "inv(a).T[:, 2]": ("g.T[:, 2]", 1),
    "(c + inv(a).T)[2:5, 1:3]": ("(c + g.T)[2:5, 1:3]", 1),
    "inv(a)[1, 2]": ("g[1, 2]", 1),
    "inv(a)[1:4, :2]": ("g[1:4, :2]", 1),
    "(-2.0 * inv(a))[3]": ("-2 * g[3]", 1),
    "solve(a, c)[:, 1]": ("(g @ c)[:, 1]", 1),
    "solve(a, c)[2]": ("(g @ c)[2]", 1),
    "sum(inv(a))": ("g.sum()", 1),
    "sum(inv(a), axis=0)": ("g.sum(axis=0)", 1),
    "sum(solve(a, c), axis=1)": ("(g @ c).sum(axis=1)", 1),
    "(lambda x: (x @ v) * (x @ w))(inv(a))": ("(g @ v) * (g @ w)", 1),
    "(lambda x: v @ x @ v - w @ x @ w)(inv(a))": ("v @ g @ v - w @ g @ w", 1),
    "(lambda x: x @ v + x.T @ w)(inv(a))": ("g @ v + g.T @ w", 2),
    "inv(a)[0] + sum(inv(a), axis=0) + v @ inv(a)": ("g[0] + g.sum(axis=0) + v @ g", 1),
    "u.T @ inv(a) @ u + u.T @ inv(a) @ u * 2.0": ("3 * u.T @ g @ u", 1),
    "v @ inv(a) @ v + slogdet(a)[1]": ("v @ g @ v + np.linalg.slogdet(a)[1]", 1),
}


def values() -> dict[str, Any]:
    rng = np.random.default_rng(6)
    found: dict[str, Any] = {name: rng.standard_normal((SIZE, SIZE)) + 9 * np.eye(SIZE) for name in "abc"}
    return found | {name: rng.standard_normal(SIZE) for name in "vw"} | {"u": rng.standard_normal((SIZE, 3))}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("text", PROGRAMS)
def test_what_is_needed_of_an_inverse_is_a_system(text: str) -> None:
    reference, eliminations = PROGRAMS[text]
    source = f"def f({ARGS}): return {text}\n"
    module, one = compile_to_forms(source), compile_to_forms(f"def f({ARGS}): return solve(a, v)\n")
    n = Dim.sym("N")
    widths = {tensor_type(v).dims[1] for op in module.walk() for v in op.results if op.name == "form.loop" and
              len(tensor_type(v).dims) == 2 and tensor_type(v).dims[0] == n}  # fmt: skip
    assert n + n not in widths and any(width - n != n for width in widths)
    assert loops(module) == eliminations * loops(one)
    known = values()
    found = tessera.compile(source).f(*known.values())
    g, h = (np.linalg.inv(known[name]) for name in "ab")
    np.testing.assert_allclose(found, eval(reference, {"np": np, "g": g, "h": h, **known}), rtol=1e-9, atol=1e-12)


def loops(module: Any) -> int:
    return sum(op.name == "form.loop" for op in module.walk())


def test_an_inverse_that_others_need_is_made() -> None:
    """One matrix, and products with it."""
    for text in ("(lambda x: (x @ v, x))(inv(a))", "(lambda x: (x @ v, sin(x)))(inv(a))"):
        module = compile_to_forms(f"def f({ARGS}): return {text}\n")
        one = compile_to_forms(f"def f({ARGS}): return inv(a)\n")
        assert loops(module) == loops(one)


def test_a_singular_matrix_is_told_of_behind_another() -> None:
    module = tessera.compile(f"def f({ARGS}): return inv(a) @ inv(b) @ v + u[:, 0]\n")
    known = values()
    for name in ("a", "b"):
        wrong = {**known, name: np.zeros((SIZE, SIZE))}
        with pytest.raises(tessera.TesseraError, match="singular"):
            module.f(*wrong.values())


def test_nothing_moves_over_what_is_printed() -> None:
    """What is printed before a system fails is seen, as what is printed behind it is not."""
    text = f'def f({ARGS}):\n    g = inv(a)\n    print("made")\n    return g @ v\n'
    module = tessera.compile(text)
    known = {**values(), "a": np.zeros((SIZE, SIZE))}
    with pytest.raises(tessera.TesseraError, match="singular"):
        module.f(*known.values())
    assert loops(compile_to_forms(text)) == loops(compile_to_forms(f"def f({ARGS}): return inv(a)\n"))
