"""Operators on a GPU as objects of Python's: what is asked of one runs where its arrays lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tessera
from tessera import op, operator
from tessera.device_array import DeviceArray
from tests.support.fake_cuda import FakeCuda, emulated_cuda

PROGRAM = """
def made(d: Tensor[N, f32]): return op.diag(d)
def applied(A: Operator[D, D], x: Tensor[D, f32]): return A @ x
"""
D, X = np.array([1, 2, 3], "f4"), np.array([1, -1, 2], "f4")


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCuda]:
    kept = operator._function, op._module
    with emulated_cuda(tmp_path_factory.mktemp("code")) as made:
        yield made
    for functions in kept:  # those of this driver
        functions.cache_clear()


@pytest.mark.one_in(8)
def test_an_operator_of_a_gpu_is_asked_and_applied_there(fake: FakeCuda) -> None:
    m: Any = tessera.compile(PROGRAM, device="cuda")
    A = m.made(tessera.to_device(D))
    fake.launched.clear()
    assert A.device == "cuda:0" and A.shape == (3, 3) and A.dtype == np.float32 and "diagonal" in A.flags
    assert A.representation.name == "IMPLICIT" and (A.H @ A + A).shape == (3, 3) and not fake.launched
    y = A @ X
    assert isinstance(y, DeviceArray) and np.array_equal(y.numpy(), D * X) and fake.launched
    assert np.array_equal(((A + A) @ y).numpy(), 2 * D * D * X)
    assert np.array_equal(m.applied(A.H, X).numpy(), D * X)


@pytest.mark.one_in(8)
def test_operators_go_to_a_gpu_and_come_back(fake: FakeCuda) -> None:
    A: Any = op.diag(D)
    there: Any = tessera.to_device(A)
    assert A.device == "cpu" and there.device == "cuda:0" and (A + there).device == "cuda:0"
    assert np.array_equal((there @ X).numpy(), A @ X)
    back: Any = tessera.to_host(there)
    assert back.device == "cpu" and np.array_equal(back @ X, A @ X)
    made: Any = op.diag(tessera.to_device(D))
    assert made.device == "cuda:0" and (made + op.eye(3)).device == "cuda:0"
    with pytest.raises(tessera.TesseraError, match="not copied without being asked"):
        np.asarray(there.to_dense())
