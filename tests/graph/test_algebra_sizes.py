"""What only the sizes of a call tell of operators: whether there are entries to differ in, and which are square."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera

SIZES = """
def same(x: Tensor[N, f32]): return op.eye(N) == op.zero(N), 2.0 * op.eye(N) == op.eye(N)
def known(x: Tensor[N, f32]) where N >= 1: return op.eye(N) == op.zero(N)
def unitary(m: Tensor[M, N, f32]): return op.dense(m).unitary
def flags(m: Tensor[N, N, f32]):
    A = op.dense(m)
    return A.self_adjoint, A.normal, A.psd, A.diagonal, A.lower, A.unitary
def nothing(x: Tensor[N, f32]): return (op.fft() - op.fft()) @ x, cond(op.zero(N, 2))
"""


@pytest.mark.one_in(48)
def test_what_sizes_decide_is_decided_by_a_call() -> None:
    m: Any = tessera.compile(SIZES)
    eye = np.eye(3, dtype="f4")
    assert m.same(eye[0]) == (False, False) and m.same(eye[0, :0]) == (True, True) and not m.known(eye[0])
    assert [bool(m.unitary(part)) for part in (eye, eye[:2], eye[:, :2])] == [True, False, False]
    assert all(m.flags(eye)) and all(m.flags(eye[:0, :0])) and not any(m.flags(np.triu(eye + 1) - eye.T))
    zeros, condition = m.nothing(eye[0])
    assert not zeros.any() and condition == np.inf


@pytest.mark.one_in(24)
def test_a_flag_of_squares_asks_for_equal_sizes() -> None:
    with pytest.raises(tessera.TesseraError, match="say so by `where N == M`"):
        tessera.compile("def f(m: Tensor[M, N, f32]): return op.dense(m).self_adjoint\n")
