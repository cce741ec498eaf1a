"""Updates where a mask says, and what is no such update."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

PROGRAM = """
def clear(x: Tensor[N, 2, f32], m: Tensor[N, bool], v: Tensor[f32]) -> Tensor[N, 2, f32]:
    y = x
    y[y > 5.0] = v
    y[m] -= array([1.0, 2.0], dtype=f32)
    return y

def slopes(x: Tensor[N, 2, f32], m: Tensor[N, bool], v: Tensor[f32]):
    return grad(lambda x, v: sum(clear(x, m, v) * x), wrt=(0, 1))(x, v)
"""
X, M = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([True, False, False, True])


@pytest.mark.one_in(2)
def test_all_places_of_a_mask_get_one_value() -> None:
    loaded = tessera.compile(PROGRAM)
    wanted = X.copy()
    wanted[X > 5] = 9
    wanted[M] -= [1, 2]
    assert np.array_equal(loaded.clear(X, M, np.float32(9)), wanted)
    by_x, by_v = loaded.slopes(X, M, np.float32(9))
    assert np.array_equal(by_x, wanted + np.where(X > 5, 0, X)) and by_v == X[X > 5].sum()


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("y[m] = x", "E0210", "one value"),
        ("y[m] %= 2.0", "E0210", "`x[mask] = v` with one v for all is allowed"),
        ("y[k] = 0.0", "E0311", "a mask of dims"),
        ("y[:, m] = 0.0", "E0210", "where(mask, x, y)"),
    ],
)
def test_what_is_no_such_update(statement: str, code: str, said: str) -> None:
    head = "def f(x: Tensor[N, 2, f32], m: Tensor[N, bool], k: Tensor[K, bool]):"
    text = f"{head}\n    y = x\n    {statement}\n    return y\n"
    with pytest.raises(tessera.TesseraError) as caught:
        tessera.compile(text).f(X, M, M)
    assert code in str(caught.value) and said in " ".join(str(caught.value).split())
